"""What a function reads besides its arguments is seen, lifted or guarded; nothing of the caller's is
changed.
"""

import abc
import contextlib
import copy
import dataclasses
import enum
import functools
import gc
import inspect
import math
import sys
import threading
import traceback
import types
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pytest

from tracejit.frontend.environment import Environment, shadow
from tracejit.frontend.pytree import flatten
from tracejit.frontend.reads import Origin, Reads
from tracejit.frontend.values import MISSING, is_library, same

# Every value that a test's function reads is one of these; tests that change one put it back.
K = 3.0
W = np.array([1.0, 2.0])
N = 4
FLAG = True
SHAPE = (2, 3)
PARAMS = {"k": 2.0, "n": 3, "w": np.array([1.0, 10.0])}
COEFFICIENTS = [1.0, 2.0, 0.5]
NAMES = ["a", "b"]
NESTED = {"layers": [(np.ones(2), 0.5), (np.full(2, 2.0), 1.5)]}


class LiftedFloat(float):
    """A number that remembers where it was found."""

    path: str


class LiftedArray(np.ndarray):
    """An array that remembers where it was found."""

    path: str = ""


class Recorder:
    """A tracer's side of the environment, reduced to taking notes."""

    def __init__(self) -> None:
        self.lifted: list[str] = []

    def __call__(self, value: Any, path: str) -> Any:
        self.lifted.append(path)
        if isinstance(value, np.ndarray) and value.ndim:
            made: Any = value.copy().view(LiftedArray)
        else:
            made = LiftedFloat(value)
        made.path = path
        return made


class Run:
    """One run of a function in an environment of its own."""

    def __init__(
        self, function: Any, *args: Any, replace: dict[int, Any] | None = None, **kwargs: Any
    ) -> None:
        self.lift, self.reads = Recorder(), Reads()
        self.environment = Environment(self.lift, replace or {}, self.reads)
        self.shadow = self.environment.shadow(function)
        self.result = self.shadow(*args, **kwargs)

    @property
    def numbers(self) -> list[str]:
        return [read.path for read in self.reads.numeric]

    @property
    def guards(self) -> list[str]:
        return [read.path for read in self.reads.reads if read.kind == "static"]

    @property
    def fresh(self) -> list[Any]:
        found = self.reads.current()
        assert found is not None
        return found

    @property
    def written(self) -> dict[str, Any]:
        return {write.path: write.value for write in self.environment.written()}

    @property
    def valid(self) -> bool:
        valid = self.reads.still_valid()
        assert valid is (self.reads.first_changed() is None)
        return valid


def is_lifted(value: Any) -> bool:
    return isinstance(value, (LiftedFloat, LiftedArray))


# Globals


def test_globals_are_read_by_what_they_are() -> None:
    run = Run(lambda: (K, W, N, FLAG, SHAPE))
    k, w, n, flag, shape = run.result
    assert is_lifted(k)
    assert is_lifted(w)
    assert (n, flag, shape) == (4, True, (2, 3))
    assert run.numbers == run.lift.lifted == ["global K", "global W"]
    assert {"global N", "global FLAG", "global SHAPE"} <= set(run.guards)
    assert run.fresh[1] is W


def test_numbers_are_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(lambda: K * W)
    monkeypatch.setitem(globals(), "K", 5.0)
    assert run.valid
    assert run.fresh[0] == 5.0
    monkeypatch.setitem(globals(), "K", 5)  # an int is a size or an exponent: another trace
    assert not run.valid
    monkeypatch.setitem(globals(), "K", "text")
    assert not run.valid
    monkeypatch.delitem(globals(), "K")
    assert not run.valid


@pytest.mark.parametrize("other", [5, 4.0, True, "4", None, np.int64(4)])
def test_ints_are_guards(monkeypatch: pytest.MonkeyPatch, other: Any) -> None:
    run = Run(lambda: N)
    assert run.valid
    monkeypatch.setitem(globals(), "N", int("4"))
    assert run.valid
    monkeypatch.setitem(globals(), "N", other)
    assert not run.valid
    assert run.reads.first_changed().path == "global N"  # type: ignore[union-attr]


def test_equal_constants_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(lambda: (SHAPE, NAMES))
    monkeypatch.setitem(globals(), "SHAPE", (1 + 1, 3))
    assert run.valid
    monkeypatch.setitem(globals(), "SHAPE", (2, True))
    assert not run.valid


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, True, False),
        ((1, ("a", None)), (1, ("a", None)), True),
        ((1,), (1.0,), False),
        ([1], (1,), False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
        ({"a": 1}, {"a": True}, False),
        (slice(1, 2), slice(1, 2), True),
        (np.dtype(float), np.dtype("f8"), True),
    ],
)
def test_same(left: Any, right: Any, expected: bool) -> None:
    assert same(left, right) is expected


def test_one_read_per_name() -> None:
    def twice() -> bool:
        return K is K and W is W

    run = Run(twice)
    assert run.result
    assert run.numbers == ["global K", "global W"]


def test_one_array_on_two_paths_is_lifted_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ALIAS", W)
    run = Run(lambda: (W, ALIAS))  # type: ignore[name-defined]  # noqa: F821
    assert run.numbers == ["global W", "global ALIAS"]
    assert run.result[0] is not run.result[1]


def test_builtins_are_no_reads_and_can_be_replaced() -> None:
    substitute = object()
    run = Run(lambda: (abs, max([1, 2])), replace={id(abs): substitute})
    assert run.result == (substitute, 2)
    assert run.guards == ["<lambda>"]


def test_replacement_of_globals_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = types.SimpleNamespace(sin=lambda x: "traced sin")
    run = Run(lambda: np.sin(1.0), replace={id(np): fake})
    assert run.result == "traced sin"
    assert run.guards == ["<lambda>", "global np"]
    monkeypatch.setitem(globals(), "np", math)
    assert not run.valid


def test_unknown_names() -> None:
    with pytest.raises(NameError, match="name 'undefined_name' is not defined"):
        Run(lambda: undefined_name)  # type: ignore[name-defined]  # noqa: F821


def set_global() -> float:
    global K  # noqa: PLW0603
    before = K
    K = K + 1.0
    return before + K


def read_k() -> float:
    return K


def test_stores_win_over_the_module_and_stay_inside() -> None:
    def function() -> Any:
        return set_global(), read_k(), globals()["K"]

    run = Run(function)
    assert run.result == (7.0, 4.0, 4.0)
    assert K == 3.0
    assert run.written == {"global K": 4.0}


def test_globals_dict() -> None:
    run = Run(lambda: ("K" in globals(), "K2" in globals(), globals().get("K2", 7), globals().get("K")))
    assert run.result[:3] == (True, False, 7)
    assert is_lifted(run.result[3])
    assert run.valid
    globals()["K2"] = 1.0
    try:
        assert not run.valid
    finally:
        del globals()["K2"]


def test_code_defined_inside() -> None:
    def function(x: float) -> Any:
        class Local:
            k = K  # LOAD_NAME

            def value(self, y: float) -> float:
                return K * y + abs(-1)

        inner = lambda: [K * i for i in range(2)]  # noqa: E731

        def generator() -> Any:
            yield from (K for _ in range(2))

        return Local.k, Local().value(x), inner(), list(generator()), {W is W for _ in range(1)}

    run = Run(function, 2.0)
    assert is_lifted(run.result[0])
    assert run.result[1:] == (7.0, [0.0, 3.0], [3.0, 3.0], {True})
    assert run.numbers == ["global K", "global W"]


def test_imports_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    module = user_module(monkeypatch, "user_config", "K = 2.5\ndef f(x): return K * x")
    substitute = types.SimpleNamespace(sin="traced sin", zeros="traced zeros")

    def function() -> Any:
        import math as m

        import numpy as xp
        import user_config  # type: ignore[import-not-found]
        from numpy import zeros
        from user_config import K as k

        return m, xp.sin, zeros, k, user_config.f(1.0)

    run = Run(function, replace={id(np): substitute})
    m, sin, zeros, k, value = run.result
    assert m is math
    assert (sin, zeros, value) == ("traced sin", "traced zeros", 2.5)
    assert is_lifted(k)
    assert run.numbers == ["user_config.K"]
    module.K = 3.5  # type: ignore[attr-defined]
    assert run.fresh == [3.5]


# Closures


def test_closures() -> None:
    k, w, n = 2.0, np.ones(2), 3
    run = Run(lambda: (k, w, n))
    assert is_lifted(run.result[0])
    assert is_lifted(run.result[1])
    assert sorted(run.numbers) == ["closure k of <lambda>", "closure w of <lambda>"]
    k = 9.0
    w += 1
    assert run.valid
    assert sorted(map(np.sum, run.fresh)) == [4.0, 9.0]
    n = 4
    assert not run.valid


def test_recursion() -> None:
    scale = 2.0

    def factorial(n: int) -> Any:
        return scale if n == 0 else n * factorial(n - 1)

    def even(n: int) -> Any:
        return scale if n == 0 else odd(n - 1)

    def odd(n: int) -> Any:
        return 0 if n == 0 else even(n - 1)

    assert Run(factorial, 4).result == 48.0
    run = Run(even, 6)
    assert is_lifted(run.result)
    assert run.numbers == ["closure scale of even"]


def test_empty_cells() -> None:
    def function(use: bool) -> Any:
        return later if use else 1  # noqa: F821

    assert Run(function, False).result == 1
    with pytest.raises(NameError, match="later"):
        Run(function, True)
    later = 2.0
    assert Run(function, True).result == 2.0
    del later
    assert Run(function, False).valid


def test_nonlocal_stores_stay_inside() -> None:
    count = 0.0

    def bump() -> None:
        nonlocal count
        count += 1.0

    def function() -> float:
        bump()
        bump()
        return count

    run = Run(function)
    assert run.result == 2.0
    assert count == 0.0
    assert list(run.written.values()) == [2.0]


def test_helpers_are_shadowed_and_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(lambda: read_k() + 1)
    assert run.numbers == ["global K"]
    assert "global read_k" in run.guards
    assert run.valid
    monkeypatch.setattr(read_k, "__code__", (lambda: 1.0).__code__)  # as reloading tools do
    assert not run.valid
    monkeypatch.undo()
    assert run.valid
    monkeypatch.setitem(globals(), "read_k", lambda: K)
    assert not run.valid


def test_defaults() -> None:
    def helper(x: float, w: Any = W, k: float = 0.5, *, names: Any = ("a",), more: Any = [1.0]) -> Any:  # noqa: B006
        return w, k, names, more

    run = Run(lambda: helper(1.0))
    w, k, names, more = run.result
    assert is_lifted(w)
    assert is_lifted(more[0])
    assert not is_lifted(k)  # a constant, since the function is guarded
    assert names == ("a",)
    assert run.numbers == ["default w of helper", "default more of helper[0]"]
    helper.__defaults__ = (W, 0.75)
    assert not run.valid
    top = Run(helper, 1.0)
    assert is_lifted(top.result[1])
    assert top.result[1] == 0.75


def test_function_attributes() -> None:
    def helper() -> Any:
        helper.calls += 1  # type: ignore[attr-defined]
        return helper.k  # type: ignore[attr-defined]

    helper.k, helper.calls = 2.0, 0  # type: ignore[attr-defined]
    run = Run(lambda: (helper(),)[0])
    assert is_lifted(run.result)
    assert helper.calls == 0  # type: ignore[attr-defined]
    assert run.written == {"helper.calls": 1}


def test_identity_of_functions_is_kept() -> None:
    table = {"f": read_k}
    run = Run(lambda: (table["f"] is read_k, np.sin is math.sin, read_k in [read_k]))
    assert run.result == (True, False, True)


# What can be called


def decorate(factor: float) -> Any:
    def decorator(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            return factor * function(*args)

        return wrapper

    return decorator


@decorate(2.0)
def decorated(x: float, y: int = 1) -> float:
    """Text."""
    return K * x * y


@functools.lru_cache(maxsize=8)
def cached(n: int) -> Any:
    CALLS.append(n)
    return K if n == 0 else cached(n - 1) + cached(n - 1)


CALLS: list[int] = []


@contextlib.contextmanager
def scaled() -> Any:
    yield K


@functools.singledispatch
def dispatched(value: Any) -> Any:
    return ("any", K)


@dispatched.register
def _(value: int) -> Any:
    return ("int", K)


def test_decorated() -> None:
    run = Run(decorated, 2.0)
    assert run.result == 12.0
    assert sorted(run.numbers) == ["closure factor of decorated", "global K"]
    for name in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "__wrapped__"):
        assert getattr(run.shadow, name) is getattr(decorated, name)
    assert inspect.signature(run.shadow) == inspect.signature(decorated)
    assert run.shadow.__code__ is decorated.__code__


def test_functools() -> None:
    run = Run(lambda: (cached(12), dispatched(1), dispatched("a")))
    assert run.result == (3.0 * 2**12, ("int", 3.0), ("any", 3.0))
    assert run.numbers == ["global K"]
    assert cached.cache_info().currsize == 0
    assert CALLS == []
    assert len(run.written) == 13  # the list of calls, in the environment


class Dispatching:
    @functools.singledispatchmethod
    def method(self, value: Any) -> Any:
        return "any", K

    @method.register
    def _(self, value: int) -> Any:
        return "int", K

    @functools.lru_cache  # noqa: B019
    def cached(self, n: int) -> Any:
        return n * K


def test_functools_in_classes() -> None:
    thing = Dispatching()
    run = Run(lambda: (thing.method("a"), thing.method(1), thing.cached(2)))
    assert run.result == (("any", 3.0), ("int", 3.0), 6.0)
    assert run.numbers == ["global K"]
    assert run.reads.opaque == {}


def test_context_managers_of_the_user() -> None:
    def function() -> Any:
        with scaled() as k:
            return k

    run = Run(function)
    assert is_lifted(run.result)


def test_partials() -> None:
    def function(w: Any, k: float, x: float) -> Any:
        return w, k, x

    run = Run(functools.partial(function, W, k=0.5), x=1.0)
    assert list(map(is_lifted, run.result)) == [True, True, False]
    assert run.numbers == ["partial.args[0]", "partial.keywords['k']"]
    inner = functools.partial(read_k)
    assert is_lifted(Run(lambda: (inner(),)).result[0])


class Model:
    """What simulation code keeps its state in."""

    order = 2
    scale = 10.0
    shared: Any = np.array([5.0])

    def __init__(self, dt: float) -> None:
        self.dt = dt
        self.u = np.zeros(3)
        self.name = "model"
        self.parts = [Part(1.0), Part(2.0)]

    def step(self, x: float) -> Any:
        return self.dt * x * self.scale * K

    def bump(self) -> float:
        self.dt += 1.0
        self.new = 7.0
        return self.dt

    @property
    def half(self) -> Any:
        return self.dt / 2

    @half.setter
    def half(self, value: float) -> None:
        self.dt = 2 * value

    @staticmethod
    def static() -> Any:
        return K

    @classmethod
    def named(cls) -> Any:
        return cls.__name__, cls.scale

    def __call__(self, x: float) -> Any:
        return self.step(x)

    def __mul__(self, other: float) -> Any:
        return self.dt * other


class Part:
    def __init__(self, weight: float) -> None:
        self.weight = weight


class Finer(Model):
    order = 4

    def step(self, x: float) -> Any:
        return super().step(x) / 2

    def bump(self) -> float:
        return super().bump() + self.order


def test_methods_and_callable_objects() -> None:
    model = Model(0.5)
    for function in (model.step, model):
        run = Run(function, 2.0)
        assert run.result == 30.0
        assert set(run.numbers) == {"self.dt", "Model.scale", "global K"}
    model.dt = 0.25
    assert run.valid
    assert 0.25 in run.fresh


def test_builtin_callables_are_returned_as_they_are() -> None:
    reads = Reads()
    for function in (np.sin, math.sin, len, np.linalg.norm):
        assert shadow(function, Recorder(), {}, reads) is function
    assert shadow(math.sin, Recorder(), {id(math.sin): np.sin}, reads) is np.sin
    assert reads.opaque == {}


# Objects


def test_attributes() -> None:
    m = Model(0.5)
    run = Run(lambda: (m.dt, m.u, m.name, m.order, m.half, m.parts[1].weight, m * 2.0, m.shared))
    assert run.result[0] == 0.5
    assert list(map(is_lifted, run.result)) == [True, True, False, False, False, True, False, True]
    assert run.numbers == ["m.dt", "m.u", "m.parts[1].weight", "Model.shared"]
    assert {"m.name", "Model.order"} <= set(run.guards)
    m.u[:] = 1.0
    m.dt = 1.5
    m.parts[1].weight = 4.0
    assert run.valid
    assert [np.sum(value) for value in run.fresh] == [1.5, 3.0, 4.0, 5.0]
    m.name = "other"
    assert run.reads.first_changed().path == "m.name"  # type: ignore[union-attr]


def test_an_object_of_the_same_class_may_take_the_place() -> None:
    m = Model(0.5)
    run = Run(lambda: m.step(1.0))
    m = Model(0.75)
    assert run.valid
    assert 0.75 in run.fresh
    m = Finer(0.75)
    assert not run.valid
    m = None  # type: ignore[assignment]
    assert not run.valid


def test_aliases_are_guarded() -> None:
    a, b = Part(1.0), Part(2.0)

    def function() -> Any:
        a.weight = 5.0
        return b.weight

    run = Run(function)
    assert run.result == 2.0
    assert run.valid
    keep, b = b, a
    assert not run.valid
    aliased = Run(function)
    assert aliased.result == 5.0
    assert aliased.valid
    b = keep
    assert not aliased.valid


def test_an_attribute_that_hides_one_of_the_class() -> None:
    m = Model(0.5)
    run = Run(lambda: m.scale * m.order)
    assert run.numbers == ["Model.scale"]
    assert run.valid
    m.scale = 2.0
    assert not run.valid
    again = Run(lambda: m.scale)
    assert again.numbers == ["m.scale"]
    assert again.valid
    del m.scale
    assert not again.valid


def test_missing_attributes_are_guarded() -> None:
    p = Part(1.0)
    run = Run(lambda: (hasattr(p, "extra"), getattr(p, "extra", None)))
    assert run.result == (False, None)
    p.extra = 1.0  # type: ignore[attr-defined]
    assert not run.valid


def test_class_attributes_are_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(lambda: (Model.scale, Model.named(), Model.static()))
    assert is_lifted(run.result[0])
    assert run.result[1:] == (("Model", 10.0), 3.0)
    monkeypatch.setattr(Model, "scale", 20.0)
    assert run.valid
    assert 20.0 in run.fresh
    monkeypatch.setattr(Model, "static", lambda: 1.0)
    assert not run.valid


def test_methods_are_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    m = Model(0.5)
    run = Run(lambda: m.step(1.0))
    with monkeypatch.context() as patch:
        patch.setattr(Model, "step", lambda self, x: x)
        assert not run.valid
    assert run.valid
    with monkeypatch.context() as patch:
        patch.setattr(Model, "added", 1, raising=False)
        assert not run.valid
    assert run.valid


def test_stores_into_objects_stay_inside() -> None:
    m = Finer(0.5)
    m.half
    before = dict(vars(m))

    def function() -> Any:
        result = m.bump() + m.bump()
        m.half = 8.0
        m.parts.append(Part(3.0))
        m.u = m.u + 1
        del m.name
        return result, m.dt, len(m.parts), hasattr(m, "name"), m.new

    run = Run(function)
    assert run.result == (1.5 + 2.5 + 8, 16.0, 3, False, 7.0)
    assert vars(m) == before
    assert len(m.parts) == 2
    written = run.written
    assert written.pop("m.u").tolist() == [1.0] * 3
    assert type(written.pop("m.parts[2]")).__name__ == "Part"
    assert written == {"m.dt": 16.0, "m.new": 7.0, "m.name": MISSING}
    owners = {write.path: write.owner for write in run.environment.written()}
    assert owners["m.dt"] is m


def test_a_store_before_the_first_read_wins() -> None:
    p = Part(1.0)

    def function() -> Any:
        p.weight = 3.0
        return p.weight, vars(p)

    run = Run(function)
    assert run.result == (3.0, {"weight": 3.0})
    assert run.numbers == []


def test_class_stores_stay_inside() -> None:
    def function() -> Any:
        Model.order += 1
        return Model.order, Finer.order, Model(1.0).order

    run = Run(function)
    assert run.result == (3, 4, 3)
    assert Model.order == 2
    assert run.written == {"Model.order": 3}


def test_classes_keep_their_relations() -> None:
    m = Finer(0.5)

    def function() -> Any:
        made = Finer(1.0)
        return (
            [isinstance(x, c) for x in (m, made) for c in (Model, Finer, object)],
            [type(x) is Finer for x in (m, made)],
            m.__class__ is Finer,
            issubclass(Finer, Model),
            made.step(1.0) / m.step(1.0),
            type(m).__name__,
            [base.__name__ for base in type(m).__mro__[:3]],
        )

    run = Run(function)
    assert run.result == ([True] * 6, [True, True], True, True, 2.0, "Finer", ["Finer", "Model", "object"])
    made = run.environment.present(m, Origin.constant("m", m))
    assert isinstance(made, Finer)
    assert run.environment.original(made) is m
    assert run.environment.original(type(made)) is Finer
    assert run.environment.original(made.step) == m.step
    assert run.environment.original(run.shadow) is function
    assert run.environment.original(1.5) == 1.5
    assert Model.__subclasses__() == [Finer]


class Shape(abc.ABC):
    registered: list[str] = []  # noqa: RUF012

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__()
        cls.registered.append(cls.__name__)

    @abc.abstractmethod
    def area(self) -> Any: ...


class Mixin:
    def describe(self) -> Any:
        return ("mixin", K)


class Square(Mixin, Shape):
    def __init__(self, a: float) -> None:
        self.a = a

    def area(self) -> Any:
        return self.a**2 * K

    def describe(self) -> Any:
        return ("square", *super().describe())


def test_abstract_classes_and_hooks() -> None:
    square = Square(2.0)

    def function() -> Any:
        with contextlib.suppress(TypeError):
            Shape()  # type: ignore[abstract]
            raise AssertionError("made an abstract object")

        class Local(Square):
            pass

        return (
            isinstance(square, Shape),
            square.area(),
            square.describe(),
            Local(1.0).area(),
            Shape.registered,
        )

    run = Run(function)
    assert run.result == (True, 12.0, ("square", "mixin", 3.0), 3.0, ["Square", "Local"])
    assert Shape.registered == ["Square"]
    assert isinstance(square, Shape)
    assert not isinstance(1, Shape)


@Shape.register
class Virtual:
    pass


def test_virtual_subclasses() -> None:
    thing, other = Virtual(), Part(1.0)
    run = Run(lambda: (isinstance(thing, Shape), isinstance(other, Shape), issubclass(Virtual, Shape)))
    assert run.result == (True, False, True)
    assert issubclass(Virtual, Shape)


class Registry(type):
    made: list[str] = []  # noqa: RUF012

    def __new__(cls, name: str, bases: Any, namespace: Any) -> Any:
        cls.made.append(name)
        return super().__new__(cls, name, bases, namespace)


class Registered(metaclass=Registry):
    def value(self) -> Any:
        return K


class Derived(Registered, Generic[TypeVar("T")]):
    pass


def test_metaclasses_of_the_user() -> None:
    thing = Derived()  # type: ignore[var-annotated]
    run = Run(lambda: (thing.value(), Registered().value()))
    assert list(map(is_lifted, run.result)) == [True, True]
    assert Registry.made == ["Registered", "Derived"]
    assert run.reads.opaque == {"class of global Registered": "Registry"}


class Quantity:
    """A descriptor of the user's."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __set_name__(self, owner: type, name: str) -> None:
        self.owners = [*getattr(self, "owners", []), owner.__name__]
        self.name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else instance.__dict__[self.name] * self.factor

    def __set__(self, instance: Any, value: float) -> None:
        instance.__dict__[self.name] = value


class Measured:
    length = Quantity(100.0)
    _sin = math.sin

    def __init__(self, length: float) -> None:
        self.length = length

    @functools.cached_property
    def double(self) -> Any:
        return 2 * self.length

    def _scaled(self, k: float) -> Any:
        return k * self.length

    thrice = functools.partialmethod(_scaled, 3.0)

    def sine(self) -> Any:
        return self._sin(0.0)  # type: ignore[call-arg,arg-type]


def test_descriptors() -> None:
    m = Measured(2.0)

    def function() -> Any:
        fresh = Measured(1.0)
        return m.length, m.double, m.double, m.thrice(), fresh.length, fresh.double, m.sine()

    run = Run(function, replace={id(math.sin): lambda x: "traced sin"})
    assert run.result == (200.0, 400.0, 400.0, 600.0, 100.0, 200.0, "traced sin")
    assert "Measured.length.factor" in run.numbers
    assert "m.length" in run.numbers
    assert vars(m) == {"length": 2.0}
    assert vars(Measured)["length"].owners == ["Measured"]
    assert run.valid


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: float) -> None:
        self.a = a

    def value(self) -> Any:
        return self.a * K


class Slotted2(Slotted):
    __slots__ = ("c",)

    def value(self) -> Any:
        self.c = 1
        return super().value() + self.a


def test_slots() -> None:
    s = Slotted2(2.0)
    run = Run(lambda: (s.value(), isinstance(s, Slotted), hasattr(s, "b"), Slotted(1.0).value()))
    assert run.result == (8.0, True, False, 3.0)
    assert "s.a" in run.numbers
    assert not hasattr(s, "c")
    assert run.written == {"s.c": 1}
    s.a = 5.0
    assert run.valid
    assert 5.0 in run.fresh
    s.b = 1
    assert not run.valid


@dataclass(frozen=True, slots=True)
class Config:
    k: float
    names: tuple[str, ...] = ("a",)
    w: Any = field(default_factory=lambda: np.ones(2))

    def scaled(self) -> Any:
        return self.k * K


@dataclass
class State:
    u: Any
    t: float = 0.0

    def advance(self, dt: float) -> "State":
        return State(self.u + dt, self.t + dt)


def test_dataclasses() -> None:
    config, state = Config(2.0), State(np.zeros(2))

    def function() -> Any:
        changed = dataclasses.replace(config, k=config.k + 1)
        state.t += 1.0
        with contextlib.suppress(dataclasses.FrozenInstanceError):
            config.k = 1.0  # type: ignore[misc]
            raise AssertionError("stored into a frozen object")
        return (
            config.scaled(),
            changed.scaled(),
            state.advance(0.5),
            state.t,
            State(1.0) == State(1.0),
            config.w,
        )

    run = Run(function)
    scaled, changed, advanced, t, equal, w = run.result
    assert (scaled, changed, t, equal) == (6.0, 9.0, 1.0, True)
    assert is_lifted(w)
    assert state.t == 0.0
    # A result of the user's class has to leave as one.
    leaves, structure = flatten(advanced)
    assert type(structure.unflatten(leaves)) is State
    assert structure == flatten(State(np.zeros(2)))[1]
    config = Config(4.0)
    assert run.valid
    assert 4.0 in run.fresh


def test_copies_of_captured_objects() -> None:
    m = Model(0.5)

    def function() -> Any:
        shallow, deep = copy.copy(m), copy.deepcopy(m)
        shallow.dt = 2.0
        deep.parts[0].weight = 9.0
        return m.dt, shallow.dt, shallow.name, deep.parts[0].weight, m.parts[0].weight, deep.step(1.0)

    assert Run(function).result == (0.5, 2.0, "model", 9.0, 1.0, 15.0)
    assert m.parts[0].weight == 1.0


class Attributes(dict):
    """The usual dict with attribute access."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Borg:
    def __init__(self) -> None:
        object.__setattr__(self, "_data", {"k": 2.0})

    def __getattribute__(self, name: str) -> Any:
        data = object.__getattribute__(self, "_data")
        return data[name] if name in data else object.__getattribute__(self, name)


class Stack(list):
    limit = 3.0

    def top(self) -> Any:
        return self[-1] * K


def test_classes_with_their_own_attribute_access() -> None:
    a, b, s = Attributes(k=2.0, n=3), Borg(), Stack([1.0, 2.0])
    run = Run(lambda: (a.k, a["k"], a.n, b.k, s.top(), s.limit, len(s), a.get("z"), list(a)))
    assert run.result == (2.0, 2.0, 3, 2.0, 6.0, 3.0, 2, None, ["k", "n"])
    assert {"a['k']", "b._data['k']", "s[1]", "Stack.limit"} <= set(run.numbers)
    assert run.valid
    a["k"] = 5.0
    assert run.valid
    assert 5.0 in run.fresh
    s.append(1.0)
    assert not run.valid


def test_namespaces() -> None:
    p = types.SimpleNamespace(k=2.0, n=3, inner=types.SimpleNamespace(w=W))
    run = Run(lambda: (p.k, p.n, p.inner.w, vars(p)["k"]))
    assert is_lifted(run.result[0])
    assert is_lifted(run.result[2])
    assert run.numbers == ["p.k", "p.inner.w"]
    p = types.SimpleNamespace(k=3.0, n=3, inner=p.inner)
    assert run.valid
    assert run.fresh[0] == 3.0


class Color(enum.Enum):
    RED = 1


class Trouble(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__(value)


def test_enumerations_and_exceptions_stay_what_they_are() -> None:
    def function(fail: bool) -> Any:
        if fail:
            raise Trouble(N)
        return Color.RED, Color, Trouble

    run = Run(function, False)
    assert run.result == (Color.RED, Color, Trouble)
    assert run.reads.opaque == {}
    with pytest.raises(Trouble) as caught:
        Run(function, True)
    assert type(caught.value) is Trouble


def test_library_objects_with_contents_are_reported() -> None:
    polynomial, vectorized, ufunc, norm = np.poly1d([1.0]), np.vectorize(abs), np.sin, np.linalg.norm
    run = Run(lambda: (polynomial, vectorized, ufunc, norm, math.sin, Vector(1.0, 2.0).x))
    assert sorted(run.reads.opaque.values()) == ["poly1d", "vectorize"]


def test_what_is_not_seen_is_reported() -> None:
    rng, lock, view, row = np.random.default_rng(0), threading.Lock(), memoryview(b"ab"), W.sum
    run = Run(lambda: (rng, lock, view, row))
    assert run.result == (rng, lock, view, row)
    assert set(run.reads.opaque) == {f"closure {name} of <lambda>" for name in ("rng", "lock", "view", "row")}
    assert run.reads.opaque["closure rng of <lambda>"] == "Generator"
    assert run.valid
    rng = np.random.default_rng(0)
    assert not run.valid


# Containers


def test_containers_are_presented_as_copies() -> None:
    run = Run(lambda: (PARAMS, COEFFICIENTS, NAMES, NESTED))
    params, coefficients, names, nested = run.result
    assert is_lifted(params["k"])
    assert is_lifted(params["w"])
    assert params["n"] == 3
    assert all(map(is_lifted, coefficients))
    assert coefficients == COEFFICIENTS
    assert names == NAMES
    assert names is not NAMES
    assert is_lifted(nested["layers"][1][1])
    assert "NESTED['layers'][1][0]" in run.numbers
    assert "PARAMS['k']" in run.numbers
    assert "COEFFICIENTS[2]" in run.numbers
    assert run.valid


@pytest.mark.parametrize(
    "change",
    [
        lambda: PARAMS.update(n=4),
        lambda: PARAMS.update(z=1.0),
        lambda: PARAMS.update(k="text"),
        lambda: PARAMS.pop("k"),
        lambda: COEFFICIENTS.append(1.0),
        lambda: NAMES.append("c"),
        lambda: NAMES.reverse(),  # noqa: PLW0108
        lambda: NESTED["layers"].pop(),  # noqa: PLW0108
        lambda: NESTED["layers"].__setitem__(0, (np.ones(2), 0.5, 1)),
        lambda: NESTED["layers"].__setitem__(0, [np.ones(2), 0.5]),
    ],
)
def test_structures_are_guards(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    for name in ("PARAMS", "COEFFICIENTS", "NAMES", "NESTED"):
        monkeypatch.setitem(globals(), name, copy.deepcopy(globals()[name]))
    run = Run(lambda: (PARAMS, COEFFICIENTS, NAMES, NESTED))
    COEFFICIENTS[0] = 9.0
    NESTED["layers"][0] = (np.full(2, 7.0), 0.25)
    assert run.valid
    fresh = dict(zip(run.numbers, run.fresh, strict=True))
    assert fresh["COEFFICIENTS[0]"] == 9.0
    assert fresh["NESTED['layers'][0][0]"].tolist() == [7.0, 7.0]
    change()
    assert not run.valid


def test_stores_into_containers_stay_inside() -> None:
    def function() -> Any:
        PARAMS["k"] = 7.0
        COEFFICIENTS.append(4.0)
        NAMES[0] = "z"
        return PARAMS["k"], len(COEFFICIENTS), NAMES[0]

    run = Run(function)
    assert run.result == (7.0, 4, "z")
    assert run.written == {"PARAMS['k']": 7.0, "COEFFICIENTS[3]": 4.0, "NAMES[0]": "z"}
    assert (PARAMS["k"], len(COEFFICIENTS), NAMES[0]) == (2.0, 3, "a")


Pair = namedtuple("Pair", "a b")


class Vector(NamedTuple):
    x: float
    y: float

    def norm(self) -> Any:
        return (self.x**2 + self.y**2) * K


def test_every_kind_of_container() -> None:
    thing = {
        "pair": Pair(1.0, "b"),
        "vector": Vector(3.0, 4.0),
        "ordered": OrderedDict(z=1.0, a=2.0),
        "default": defaultdict(list, k=[1.0]),
        "deque": deque([1.0, 2.0], maxlen=2),
        "set": {1, 2},
        "frozen": frozenset({"a"}),
        "empty": [],
        Part: {Color.RED: 1.5},
    }

    def function() -> Any:
        thing["deque"].append(3.0)
        thing["default"]["new"].append(1)
        thing["set"].add(3)
        return thing, thing["vector"].norm(), Vector(1.0, 0.0).norm(), thing[Part][Color.RED]

    run = Run(function)
    shown, norm, made, red = run.result
    assert (norm, made) == (75.0, 3.0)
    assert is_lifted(red)
    assert type(shown["pair"]) is Pair
    assert is_lifted(shown["pair"].a)
    assert isinstance(shown["vector"], Vector)
    assert list(shown["ordered"]) == ["z", "a"]
    assert type(shown["ordered"]) is OrderedDict
    assert list(shown["deque"]) == [2.0, 3.0]
    assert shown["default"]["new"] == [1]
    assert list(thing["deque"]) == [1.0, 2.0]
    assert "new" not in thing["default"]
    assert thing["set"] == {1, 2}
    assert run.valid
    thing["set"].add(5)
    assert not run.valid
    leaves, structure = flatten(shown["vector"])
    assert type(structure.unflatten(leaves)) is Vector


def test_immutable_containers_are_guarded_on_each_path() -> None:
    first = second = frozenset({0.5, 1.5})
    run = Run(lambda: (first, second))
    assert run.valid
    second = frozenset({0.5})
    assert not run.valid


def test_containers_that_contain_themselves() -> None:
    loop: list[Any] = [1.0]
    loop.append(loop)
    run = Run(lambda: loop)
    assert run.result[1] is run.result
    assert run.valid
    loop[1] = [1.0, None]
    assert not run.valid


def test_objects_that_know_each_other() -> None:
    parent, child = Part(1.0), Part(2.0)
    parent.child, child.parent = child, parent  # type: ignore[attr-defined]
    run = Run(lambda: (parent.child.parent is parent, parent.child.parent.weight))  # type: ignore[attr-defined]
    assert run.result == (True, 1.0)
    assert run.valid
    child.parent = Part(1.0)  # type: ignore[attr-defined]
    assert not run.valid


# Modules


def user_module(monkeypatch: pytest.MonkeyPatch, name: str, source: str) -> types.ModuleType:
    module = types.ModuleType(name, "Text.")
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def test_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
K = 2.0
FLAG = "on"
def scale(x):
    return K * x
def store():
    global K  # noqa: PLW0603
    K = 8.0
class Thing:
    def value(self):
        return K
"""
    config = user_module(monkeypatch, "user_config", source)
    real_len = len(vars(config))

    def function() -> Any:
        before = config.K, config.scale(1.0), config.Thing().value(), config.FLAG, hasattr(config, "Z")
        config.store()
        config.new = 1
        return before, config.K, config.scale(1.0), config.new, isinstance(config, types.ModuleType)

    run = Run(function)
    assert run.result == ((2.0, 2.0, 2.0, "on", False), 8.0, 8.0, 1, True)
    assert run.numbers == ["user_config.K"]
    assert {"user_config.FLAG", "user_config.scale"} <= set(run.guards)
    assert config.K == 2.0
    assert len(vars(config)) == real_len
    assert run.written == {"global K": 8.0, "global new": 1}
    assert run.valid
    config.Z = 1  # type: ignore[attr-defined]
    assert not run.valid


def test_modules_with_getattr(monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = user_module(
        monkeypatch,
        "user_lazy",
        "def __getattr__(name):\n    if name == 'k': return 2.0\n    raise AttributeError",
    )
    run = Run(lambda: (lazy.k, lazy.__name__, lazy.__doc__))
    assert is_lifted(run.result[0])
    assert run.result[1:] == ("user_lazy", "Text.")
    with pytest.raises(AttributeError, match="user_lazy"):
        Run(lambda: lazy.other)


def test_what_is_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(
        map(is_library, ["numpy.linalg", "math", "functools", "tracejit.api", "numba", "collections.abc"])
    )
    assert not any(map(is_library, ["__main__", __name__, "simulation.core", "mathematics"]))
    own = user_module(monkeypatch, "colorsys", "K = 1.0")
    own.__file__ = "/home/user/colorsys.py"
    is_library.cache_clear()
    assert not is_library("colorsys")
    is_library.cache_clear()


# Nothing is left behind


def failing(model: Any) -> None:
    model.dt = K
    COEFFICIENTS.append(1.0)
    globals()["LEFT"] = 1
    raise Trouble("on purpose")


def test_exceptions_show_the_users_lines_and_change_nothing() -> None:
    m = Model(0.5)
    cell = 1.0

    def function() -> None:
        nonlocal cell
        cell = 2.0
        failing(m)

    before = dict(globals()), dict(vars(m)), list(COEFFICIENTS), dict(vars(Model)), failing.__globals__
    with pytest.raises(Trouble, match="on purpose") as caught:
        Run(function)
    assert (
        dict(globals()),
        dict(vars(m)),
        list(COEFFICIENTS),
        dict(vars(Model)),
        failing.__globals__,
    ) == before
    assert cell == 1.0
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].line == 'raise Trouble("on purpose")'
    assert frames[-1].filename == __file__
    assert frames[-2].line == "failing(m)"


def test_nothing_is_kept_alive() -> None:
    class Big:
        def value(self) -> Any:
            return self.k * K  # type: ignore[attr-defined]

    thing = Big()
    thing.k = 1.0  # type: ignore[attr-defined]
    run = Run(lambda: (thing.value(),))
    probe = run.environment.present(thing, Origin.constant("thing", thing))
    kind = type(probe)
    count = sum(issubclass(cls, Big) for cls in object.__subclasses__())
    assert count == 2
    del run, probe, kind
    gc.collect()
    assert sum(issubclass(cls, Big) for cls in object.__subclasses__()) == 1


def test_reading_again_does_not_keep_the_trace() -> None:
    m = Model(0.5)
    run = Run(lambda: m.step(1.0) + PARAMS["k"])
    reads = run.reads
    environment = run.environment
    del run
    gc.collect()
    assert not any(isinstance(found, Reads) for found in gc.get_referrers(environment))
    assert reads.still_valid()


def test_threads() -> None:
    m = Model(0.5)
    barrier = threading.Barrier(4, timeout=20)
    failures: list[BaseException] = []

    def function(x: float) -> Any:
        m.dt = x
        first = m.step(1.0)
        barrier.wait()  # all threads are in the middle of the function
        COEFFICIENTS.append(x)
        set_global()
        return first, m.dt, COEFFICIENTS[-1], read_k()

    def work(x: float) -> None:
        try:
            for _ in range(20):
                run = Run(function, x)
                assert run.result == (30.0 * x, x, x, 4.0)
        except BaseException as error:
            failures.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(float(number),)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert m.dt == 0.5
    assert K == 3.0
    assert len(COEFFICIENTS) == 3


# One environment for a trace and the traces inside it


def test_functions_made_by_traced_code_are_traced_as_they_are() -> None:
    reads = Reads()
    environment = Environment(Recorder(), {}, reads)

    def function() -> Any:
        k = K

        class Local:
            def __call__(self) -> Any:
                return k

            def method(self) -> Any:
                return K

        inner = lambda: k * K  # noqa: E731
        made = [inner, Local().method, functools.partial(inner), Local()]
        return [environment.shadow(f) is f for f in made], environment.shadow(read_k)()

    run, value = environment.shadow(function)()
    assert run == [True] * 4
    assert is_lifted(value)
    assert [read.path for read in reads.numeric] == ["global K"]
    assert environment.shadow(environment.shadow(read_k)) is environment.shadow(read_k)


def test_traced_values_pass() -> None:
    class Traced:
        _tracejit_traced = True

    value = Traced()
    run = Run(lambda: value)
    assert run.result is value
    assert run.lift.lifted == []
