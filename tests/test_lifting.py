"""Lifted functions do what the originals do: same results, same exceptions, same lines."""

import contextlib
import traceback
from types import FunctionType
from typing import Any

import pytest

from tracejit.frontend.control_flow import DOORS
from tracejit.frontend.lifting import lifted_code

# ruff: noqa: B007, B905, C416, F842, SIM201, B023, PLW0603, PERF401


def lift(function: Any) -> Any:
    """The function with doors, as it would run while traced, over the original's variables."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    code = lifted_code(function.__code__)
    assert code is not None, "not lifted"
    closure = tuple(cells[name] for name in code.co_freevars)
    made = FunctionType(code, {**function.__globals__, **DOORS}, function.__name__, None, closure)
    made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return made


def outcome(function: Any, *args: Any) -> Any:
    try:
        result = function(*args)
        return result if not hasattr(result, "__next__") else list(result)
    except NameError:
        return NameError  # inner functions say "free variable" where the original says "local variable"
    except Exception as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == __file__]
        return type(error), str(error), lines[-1]


def break_else(xs):
    for x in xs:
        if x == 3:
            found = "broke"
            break
        last = x
    else:
        found = "completed"
    return found, last


def continue_and_accumulate(xs):
    total = 0
    for i, x in enumerate(xs):
        if x % 2:
            continue
        total += x * i
    return total, i


def early_return(xs):
    for x in xs:
        for y in xs:
            if x + y == 7:
                return x, y
            if y > x:
                break
        else:
            return "inner completed"
    return None


def nested_conditions(xs):
    out = []
    for x in xs:
        if x > 4:
            if x > 6:
                out.append("big")
                if x > 8:
                    break
            elif x == 5:
                continue
            out.append("middle")
        else:
            out.append("small")
        out.append(x)
    return out


def while_with_else(xs):
    k = 0
    while k < len(xs):
        k += 1
        if xs[k - 1] < 0:
            break
    else:
        return "end", k
    return "negative", k


def while_walrus(xs):
    stack, seen = list(xs), []
    while (top := stack.pop() if stack else None) is not None:
        seen.append(top)
    return seen, top


def guards(xs):
    if not xs:
        return "empty"
    elif len(xs) == 1:
        return "one"
    first, *rest = xs
    if first > 3:
        kind = "large"
    else:
        kind = "small"
    return kind if rest else "never", kind


def try_inside(xs):
    log = []
    for x in xs:
        try:
            if x == 2:
                continue
            if x == 5:
                break
            log.append(10 // x)
        except ZeroDivisionError as error:
            log.append(str(error))
        else:
            log.append("fine")
        finally:
            log.append(("done", x))
    return log


def return_in_try(xs):
    for x in xs:
        try:
            if x == 4:
                return "four"
        finally:
            x = -1
    return x


def with_inside(xs):
    log = []
    for x in xs:
        with contextlib.suppress(ZeroDivisionError):
            if x == 7:
                return log, "seven"
            log.append(1 / (x - 1))
    return log


def unbound_after(xs):
    for x in xs:
        y = x
    return y


def conditionally_bound(xs):
    for x in xs:
        if x > 100:
            z = x
    return z


def closures(xs):
    functions = []
    count = 0
    for x in xs:

        def add(y):
            nonlocal count
            count += 1
            return x + y

        functions.append(add)
    return [f(1) for f in functions], count


COUNTER = 0


def global_counter(xs):
    for x in xs:
        global COUNTER
        COUNTER += x
    return COUNTER


def comprehension(xs):
    rows = []
    for x in xs:
        rows.append([x * y for y in xs if y != x and not y == 2])
    return rows, {x: y for x, y in zip(xs, reversed(xs))}


def short_circuit(xs):
    calls = []

    def note(value):
        calls.append(value)
        return value

    results = []
    for x in xs:
        results.append((note(x) and note(x - 1)) or note("none"))
        results.append(0 < note(x) < note(5) <= 5)
        results.append(note("a") if x > 2 else note("b"))
    return results, calls


def walrus_in_condition(xs):
    hits = []
    for x in xs:
        if (square := x * x) > 10 and square < 50:
            hits.append(square)
    return hits, square


def triangular(xs):
    total = 0
    for i in range(len(xs)):
        for j in range(i):
            for k in range(j, -1, -1):
                total += xs[i] * xs[j] - k
    return total


def augmented(xs):
    box = {"n": 0}
    values = [0]
    for x in xs:
        box["n"] += x
        values[0] -= x
        a, (b, *c) = x, (x, x, x)
    return box, values, a, b, c


def deletes(xs):
    for x in xs:
        y = x
        if x > 3:
            del y
    return y


def raises(xs):
    for x in xs:
        if x > 3:
            raise ValueError(f"at {x}")
    return "fine"


def matching(xs):
    out = []
    for x in xs:
        match x:
            case 0:
                continue
            case 9:
                break
            case int(n) if n > 4:
                out.append(n)
            case other:
                out.append(("other", other))
    return out


def recursion(xs):
    if len(xs) <= 1:
        return xs
    pivot = xs[0]
    low = recursion([x for x in xs[1:] if x < pivot])
    return [*low, pivot, *recursion([x for x in xs[1:] if x >= pivot])]


def defaults(xs, scale=3, *, shift=1):
    total = 0
    for x in xs:
        total += scale * x + shift
    return total


def annotated(xs):
    total: float = 0
    for x in xs:
        half: float = x / 2
        unused: int
        total += half
    return total


def imports(xs):
    for x in xs:
        import math as m

        total = m.floor(x)
    return total


FUNCTIONS = [
    break_else, continue_and_accumulate, early_return, nested_conditions, while_with_else, while_walrus,
    guards,
    try_inside, return_in_try, with_inside, unbound_after, conditionally_bound, closures, comprehension,
    short_circuit, walrus_in_condition, triangular, augmented, deletes, raises, matching, recursion, defaults,
    annotated, imports,
]  # fmt: skip
LISTS = [
    [],
    [0],
    [1],
    [3],
    [1, 2],
    [2, 4, 5],
    [9, 0, 3, 7],
    [1, -2, 3],
    [0, 5, 2],
    [7, 8, 9, 1],
    [4, 3, 101, 2],
    [6, 6],
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_lifted_is_original(function):
    new = lift(function)
    assert new.__code__ is not function.__code__
    for xs in LISTS:
        assert outcome(new, list(xs)) == outcome(function, list(xs)), xs


def test_global_is_the_modules():
    new = lift(global_counter)
    new.__globals__["COUNTER"] = 5
    assert new([1, 2]) == 8
    assert new.__globals__["COUNTER"] == 8
    assert COUNTER == 0


class Shape:
    """A class whose method needs ``super()`` and private names."""

    __side = 2

    def area(self, xs):
        return sum(xs)


class Square(Shape):
    __side = 3

    def area(self, xs):
        total = 0
        for x in xs:
            if x > 1:
                total += self.__side * x
            total += super().area([x])
        return total


def test_super_and_private_names():
    new = lift(Square.area)
    assert new(Square(), [1, 2, 3]) == Square().area([1, 2, 3])


def test_closure_cells_are_shared():
    total = 0

    def add(xs):
        nonlocal total
        for x in xs:
            if x > 1:
                total += x
        return total

    assert lift(add)([1, 2, 3]) == 5
    assert total == 5


def generator(xs):
    for x in xs:
        if x:
            yield x


def reads_locals(xs):
    for x in xs:
        y = locals()
    return y


async def coroutine(xs):
    for x in xs:
        pass


def nothing(xs):
    return xs


@pytest.mark.parametrize(
    "function", [generator, reads_locals, coroutine, nothing, eval("lambda xs: 1 if xs else 2")]
)
def test_left_alone(function):
    assert lifted_code(function.__code__) is None


def test_source_that_does_not_match_is_left_alone(tmp_path):
    file = tmp_path / "edited.py"
    file.write_text("def f(n):\n    for i in range(n):\n        pass\n    return 1\n")
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    file.write_text("def f(n):\n    for i in range(n):\n        pass\n    return 2\n")
    assert lifted_code(names["f"].__code__) is None


def test_traceback_names_the_users_function_and_lines():
    new = lift(raises)
    with pytest.raises(ValueError, match="at 5") as caught:
        new([1, 5])
    frames = [f for f in traceback.extract_tb(caught.value.__traceback__) if f.filename == __file__]
    assert {f.name for f in frames[1:]} == {"raises"}
    assert frames[-1].line == 'raise ValueError(f"at {x}")'
    assert frames[1].line == "for x in xs:"
