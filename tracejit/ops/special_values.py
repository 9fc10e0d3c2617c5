"""Functions of scipy whose derivatives are not known in closed form (or wanted by nobody): values only.

Differentiating one raises an error; it never counts as constant.  Spheroidal, Mathieu and parabolic cylinder functions
are missing: scipy's allocate memory, and raise or crash on NaN.
"""

from __future__ import annotations

from tracejit.ops.special import OPEN, Special

__all__ = ["PARTS"]

_NAMES = {
    1: "ber bei ker kei berp beip kerp keip it2struve0 itstruve0 itmodstruve0 kolmogi kolmogorov",
    2: (
        "agm chdtri chdtriv elliprc eval_chebyc eval_chebys eval_sh_chebyt eval_sh_chebyu eval_sh_legendre "
        "pdtri pdtrik smirnov smirnovi stdtridf tklmbda"
    ),
    3: (
        "bdtr bdtrc bdtri bdtrik bdtrin besselpoly btdtria btdtrib chndtr chndtridf chndtrinc chndtrix elliprd "
        "elliprf elliprg fdtr fdtrc fdtri fdtridfd gdtria gdtrib gdtrix log_wright_bessel lpmv nbdtr nbdtrc "
        "nbdtri nbdtrik nbdtrin nctdtr nctdtridf nctdtrinc nctdtrit nrdtrimn nrdtrisd voigt_profile wright_bessel"
    ),
    4: "elliprj eval_sh_jacobi ncfdtr ncfdtri ncfdtridfd ncfdtridfn ncfdtrinc",
}
_SEVERAL = {
    "airye": (1, 4),
    "it2i0k0": (1, 2),
    "it2j0y0": (1, 2),
    "itairy": (1, 4),
    "iti0k0": (1, 2),
    "itj0y0": (1, 2),
    "pbwa": (2, 2),
}

for _arity, _names in _NAMES.items():
    for _name in _names.split():
        Special(_name, *(OPEN,) * _arity)

PARTS: dict[str, tuple[Special, ...]] = {
    name: tuple(Special(f"{name}_{part}", *(OPEN,) * arity, ufunc=name, part=part) for part in range(count))
    for name, (arity, count) in _SEVERAL.items()
}
"""scipy's name -> one op per result."""
