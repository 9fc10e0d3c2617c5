"""The handle behind a traced array: which value of the tape it stands for now, and what it is a view of.

Writing binds the handle to an update op's result, so every name for the same array sees the write.  A view knows its
base and the path of ops that leads to it; a write goes through to the base, and a view is read again after its base has
changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from tracejit.frontend.concrete import concrete
from tracejit.frontend.indexing import fit
from tracejit.frontend.refusals import refuse_truncation, store_outside, unknown_layout
from tracejit.frontend.regions import Handle, active, born, touch, versions
from tracejit.frontend.registry import FUNCTIONS, operand
from tracejit.frontend.strides import copies, fits_any_layout, in_c_order
from tracejit.frontend.views import KeyStep, Path, follow, path_between, put
from tracejit.ir.tape import Atom, current
from tracejit.ops.broadcasting import convert
from tracejit.ops.linear import reshape

__all__ = ["ViewHandle"]


class ViewHandle(Handle):
    """A value of the tape, or a view of what another handle stands for."""

    __slots__ = ()

    def __init__(
        self,
        atom: Atom,
        base: Self | None = None,
        path: Path = (),
        *,
        writeable: bool = True,
        how: str = "shape",
        c_order: bool | None = None,
    ) -> None:
        self._atom, self._base, self._path = atom, base, path
        self._writeable = writeable and (base is None or base._writeable)
        self._first, self._how, self._c_order = atom, how, c_order
        self._version, self._born = 0, born()
        self._seen = base._current_version() if base is not None else 0
        self._under = None if base is None else base._atom.shape

    @property
    def atom(self) -> Atom:
        """The value that this handle stands for now."""
        if self._base is not None and self._seen != self._base._current_version():
            self._settle()
        if self._base is None or self._seen == self._base._current_version():
            return self._atom
        base = self._base.atom
        atom = follow(base, self._route())
        if current().owns(base):  # else this is a nested trace, which ends before the handle does
            touch(self, False)
            self._atom, self._seen = atom, self._base._current_version()
        return atom

    def _current_version(self) -> int:
        return self._version if self._base is None else self._base._current_version()

    def _rebind(self, atom: Atom) -> None:
        """Let this handle, its base and every view of it see ``atom`` as the new contents."""
        if not self._writeable:
            raise ValueError("assignment destination is read-only")
        self._settle()
        if self._base is None:
            if active() is None and not current().owns(self._atom):
                raise store_outside()
            touch(self, True)
            self._atom = atom
            self._version = next(versions)
        else:
            self._base._rebind(put(self._base.atom, self._route(), atom))
            touch(self, False)
            self._atom, self._seen = atom, self._base._current_version()

    def _present(self, atom: Atom) -> None:
        """Let this handle stand for ``atom`` in the body of a region."""
        touch(self, False)
        self._atom, self._version = atom, next(versions)

    def _view(self, path: Path) -> Self:
        return type(self)(follow(self.atom, path), self, path)

    def _view_by(self, function: Any, *args: Any, **kwargs: Any) -> Self:
        return self._view_from(lambda: FUNCTIONS[function](self, *args, **kwargs))

    def _view_from(self, compute: Callable[[], Atom], how: str = "shape") -> Self:
        """Return what ``compute`` makes of this array; a view of it if it only moved entries."""
        base = current().resolve(self.atom)
        return self._as_view(base, compute(), how=how)

    def _as_view(self, base: Atom, result: Atom, writeable: bool = True, how: str = "shape") -> Self:
        """Return ``result``, computed from ``base`` (the contents of this array), as a view if it is one."""
        path = path_between(base, result, current().makers)
        if path is None or self._is_scalar():
            return type(self)(result)
        return type(self)(result, self, path, writeable=writeable, how=how)

    def _is_scalar(self) -> bool:
        """Return whether this is a NumPy scalar: no axes, and no view of an array."""
        return self._base is None and not self.atom.shape and self._how != "array"

    def _root(self) -> tuple[Self, Path]:
        """Return the array that this is a view of in the end, and the path from there."""
        root, path = self, self._route()
        while root._base is not None:
            root = root._base
            path = (*root._route(), *path)
        return root, path

    def _route(self) -> Path:
        """Return the path from the base in its present shape, which may not be the one that it had."""
        if self._base is None or self._base._atom.shape == self._under:
            return self._path
        return ((reshape, {"shape": self._under}), *self._path)

    def _set_shape(self, shape: Any) -> None:
        """``self.shape = shape``: the same entries under other indices; views stay what they are."""
        old = current().resolve(self.atom)
        new = FUNCTIONS[np.reshape](self, shape)
        path = path_between(old, new, current().makers)
        touch(self, self._base is None)
        if self._base is None:
            self._first = new
        else:
            self._path, self._under = (*self._route(), *(path or ())), self._base._atom.shape
        self._atom = new

    def _settle(self) -> None:
        """Decide whether this is a view or a copy, where NumPy looks at strides: before either side changes."""
        if self._base is None:
            return
        self._base._settle()
        root, path = self._root()
        if any(isinstance(op, KeyStep) for op, _ in path):
            if self._how == "packed" or any(op is reshape for op, _ in path):
                raise unknown_layout()
            return
        if fits_any_layout(root._first.shape, path, self._how):
            return
        if root._c_order is None:
            builder = current()
            root._c_order = in_c_order(root._first, builder.makers, lambda var: concrete(var, builder))
        if not root._c_order:
            raise unknown_layout()
        if copies(root._first.shape, path, self._how):
            touch(self, False)
            self._base, self._path = None, ()

    def _assign(self, value: Any) -> None:
        """``self[...] = value`` with NumPy's casting."""
        new = operand(value)
        refuse_truncation(new, self.atom)
        self._rebind(fit(convert(new, dtype=self.atom.dtype), self.atom.shape))
