"""Classical algorithms as tapes with loops, and the same in NumPy: name -> (tape, arguments, plain
function)."""

from collections.abc import Callable
from typing import Any

import numpy as np
from loop_tools import for_, get, if_, number, put, symbol, tape_of, whilst

from tracejit.ir.tape import Lit, Tape
from tracejit.ops.arithmetic import divide, floor, subtract
from tracejit.ops.base import as_atom
from tracejit.ops.broadcasting import convert, full, reduce_sum
from tracejit.ops.elementwise import add, mul
from tracejit.ops.indexing import gather, scatter_add, scatter_set
from tracejit.ops.logic import greater, less
from tracejit.ops.power import sqrt
from tracejit.ops.transcendental import exp, sin

Program = tuple[Tape, list[Any], Callable[..., Any]]
PROGRAMS: dict[str, Callable[[], Program]] = {}
RNG = np.random.default_rng(3)


def program(function: Callable[[], Program]) -> Callable[[], Program]:
    """Enter a program into the table, with the same arguments whenever it is made."""

    def make() -> Program:
        RNG.bit_generator.state = np.random.default_rng(3).bit_generator.state
        return function()

    PROGRAMS[function.__name__] = make
    return make


@program
def recurrence() -> Program:
    """``u[i] = sin(u[i-1]) * c`` in place, and the old entries as rows."""
    n = symbol("n", 6)

    def build(u: Any, c: Any) -> Any:
        def step(k: Any, u: Any) -> Any:
            return [put(u, mul(sin(get(u, k)), c), k + 1)], [get(u, k + 1)]

        (u,), (old,) = for_(n - 1, [u], step, stacked=True)
        return u, old

    def plain(u: Any, c: Any) -> Any:
        u, old = u.copy(), []
        for i in range(1, len(u)):
            old.append(u[i])
            u[i] = np.sin(u[i - 1]) * c
        return u, np.array(old)

    return tape_of(build, (n,), ()), [RNG.normal(size=6), np.array(0.7)], plain


@program
def gauss_seidel() -> Program:
    """Sweeps over a line, nonlinear, in place."""
    n, sweeps = symbol("n", 7), symbol("t", 3)

    def build(u: Any, f: Any, t: Any) -> Any:
        def sweep(_: Any, u: Any) -> Any:
            def point(k: Any, u: Any) -> Any:
                new = add(mul(get(u, k), get(u, k + 2)), mul(get(f, k + 1), sin(get(u, k + 1))))
                return [put(u, mul(new, 0.5), k + 1)]

            return for_(n - 2, [u], point)

        return for_(sweeps, [u], sweep)

    def plain(u: Any, f: Any, t: Any) -> Any:
        u = u.copy()
        for _ in range(len(t)):
            for i in range(1, len(u) - 1):
                u[i] = 0.5 * (u[i - 1] * u[i + 1] + f[i] * np.sin(u[i]))
        return u

    return tape_of(build, (n,), (n,), (sweeps,)), [RNG.normal(size=7), RNG.normal(size=7), np.zeros(3)], plain


def _spd(n: int) -> Any:
    m = RNG.normal(size=(n, n))
    return m @ m.T + n * np.eye(n)


@program
def cholesky() -> Program:
    """Scalar loops, in place, with the diagonal told apart by a branch."""
    n = symbol("n", 5)

    def build(a: Any) -> Any:
        def row(i: Any, a: Any) -> Any:
            def column(j: Any, a: Any) -> Any:
                def term(k: Any, s: Any) -> Any:
                    return [subtract(s, mul(get(a, i, k), get(a, j, k)))]

                (s,) = for_(j, [get(a, i, j)], term)

                def off_diagonal(a: Any, s: Any) -> Any:
                    return put(a, divide(s, get(a, j, j)), i, j)

                def diagonal(a: Any, s: Any) -> Any:
                    return put(a, sqrt(s), i, i)

                return if_(less(number(j), number(i)), off_diagonal, diagonal, a, s)

            return for_(i + 1, [a], column)

        return for_(n, [a], row)

    def plain(a: Any) -> Any:
        a = a.copy()
        for i in range(len(a)):
            for j in range(i + 1):
                s = a[i, j]
                for k in range(j):
                    s = s - a[i, k] * a[j, k]
                a[i, j] = s / a[j, j] if j < i else np.sqrt(s)
        return a

    return tape_of(build, (n, n)), [_spd(5)], plain


@program
def cholesky_rows() -> Program:
    """With slices whose extent depends on the loops: ``A[i, :j] @ A[j, :j]``."""
    n = symbol("n", 5)

    def build(a: Any) -> Any:
        def row(i: Any, a: Any) -> Any:
            def column(j: Any, a: Any) -> Any:
                dot = reduce_sum(mul(get(a, i, (0, j)), get(a, j, (0, j))), axes=(0,))
                return [put(a, divide(subtract(get(a, i, j), dot), get(a, j, j)), i, j)]

            (a,) = for_(i, [a], column)
            left = get(a, i, (0, i))
            rest = subtract(get(a, i, i), reduce_sum(mul(left, left), axes=(0,)))
            return [put(a, sqrt(rest), i, i)]

        return for_(n, [a], row)

    def plain(a: Any) -> Any:
        a = a.copy()
        for i in range(len(a)):
            for j in range(i):
                a[i, j] = (a[i, j] - a[i, :j] @ a[j, :j]) / a[j, j]
            a[i, i] = np.sqrt(a[i, i] - a[i, :i] @ a[i, :i])
        return a

    return tape_of(build, (n, n)), [_spd(5)], plain


@program
def thomas() -> Program:
    """A tridiagonal system: one sweep forward that overwrites, one backward."""
    n = symbol("n", 6)

    def build(low: Any, mid: Any, up: Any, rhs: Any) -> Any:
        def forward(k: Any, mid: Any, rhs: Any) -> Any:
            w = divide(get(low, k), get(mid, k))
            new = subtract(get(mid, k + 1), mul(w, get(up, k)))
            return [put(mid, new, k + 1), put(rhs, subtract(get(rhs, k + 1), mul(w, get(rhs, k))), k + 1)]

        mid, rhs = for_(n - 1, [mid, rhs], forward)
        x = put(full(0, (n,), np.float64), divide(get(rhs, n - 1), get(mid, n - 1)), n - 1)

        def back(k: Any, x: Any) -> Any:
            i = n - 2 - k
            return [put(x, divide(subtract(get(rhs, i), mul(get(up, i), get(x, i + 1))), get(mid, i)), i)]

        return for_(n - 1, [x], back)

    def plain(low: Any, mid: Any, up: Any, rhs: Any) -> Any:
        size = len(mid)
        matrix = np.diag(mid) + np.diag(low, -1) + np.diag(up, 1)
        assert matrix.shape == (size, size)
        return np.linalg.solve(matrix, rhs)

    args = [RNG.normal(size=5), RNG.normal(size=6) + 5, RNG.normal(size=5), RNG.normal(size=6)]
    return tape_of(build, (n - 1,), (n,), (n - 1,), (n,)), args, plain


@program
def double_buffer() -> Program:
    """Two arrays that change places after each step."""
    n = symbol("n", 6)

    def build(u: Any, c: Any) -> Any:
        def step(_: Any, u: Any, new: Any) -> Any:
            def point(k: Any, new: Any) -> Any:
                value = add(get(u, k + 1), mul(c, mul(get(u, k), get(u, k + 2))))
                return [put(new, value, k + 1)]

            (new,) = for_(n - 2, [new], point)
            return [new, u]

        return for_(3, [u, u], step)[0]

    def plain(u: Any, c: Any) -> Any:
        u, new = u.copy(), u.copy()
        for _ in range(3):
            for i in range(1, len(u) - 1):
                new[i] = u[i] + c * u[i - 1] * u[i + 1]
            u, new = new, u
        return u

    return tape_of(build, (n,), ()), [RNG.normal(size=6), np.array(0.3)], plain


@program
def whole_arrays() -> Program:
    """Carries replaced whole: leapfrog with a nonlinear force."""
    n = symbol("n", 4)

    def build(x: Any, v: Any, h: Any) -> Any:
        def step(_: Any, x: Any, v: Any) -> Any:
            v = subtract(v, mul(h, sin(x)))
            return [add(x, mul(h, v)), v]

        return for_(5, [x, v], step)

    def plain(x: Any, v: Any, h: Any) -> Any:
        for _ in range(5):
            v = v - h * np.sin(x)
            x = x + h * v
        return x, v

    return tape_of(build, (n,), (n,), ()), [RNG.normal(size=4), RNG.normal(size=4), np.array(0.1)], plain


@program
def scalar_ode() -> Program:
    """RK4 of a scalar equation over a runtime number of steps."""
    m = symbol("m", 5)

    def build(y: Any, h: Any, grid: Any) -> Any:
        def slope(y: Any) -> Any:
            return subtract(sin(y), mul(y, y))

        def step(k: Any, y: Any) -> Any:
            a = slope(y)
            b = slope(add(y, mul(mul(h, 0.5), a)))
            c = slope(add(y, mul(mul(h, 0.5), b)))
            d = slope(add(y, mul(h, c)))
            total = add(add(a, mul(b, 2.0)), add(mul(c, 2.0), d))
            return [add(y, mul(divide(h, 6.0), total))], [y]

        (y,), (path,) = for_(m, [y], step, stacked=True)
        return y, path

    def plain(y: Any, h: Any, grid: Any) -> Any:
        def slope(y: Any) -> Any:
            return np.sin(y) - y * y

        path = []
        for _ in grid:
            path.append(y)
            a = slope(y)
            b = slope(y + h / 2 * a)
            c = slope(y + h / 2 * b)
            d = slope(y + h * c)
            y = y + h / 6 * (a + 2 * b + 2 * c + d)
        return y, np.array(path)

    return tape_of(build, (), (), (m,)), [np.array(0.4), np.array(0.1), np.zeros(5)], plain


@program
def rows() -> Program:
    """A cell over the rows of an input, backwards, with a stacked output."""
    n = symbol("n", 4)

    def build(x: Any, w: Any) -> Any:
        def step(_: Any, state: Any, row: Any) -> Any:
            state = sin(add(mul(state, w), row))
            return [state], [mul(state, row)]

        (state,), (out,) = for_(n, [full(0.5, (3,), np.float64)], step, xs=[x], stacked=True, reverse=True)
        return state, out

    def plain(x: Any, w: Any) -> Any:
        state, out = np.full(3, 0.5), np.zeros_like(x)
        for k in reversed(range(len(x))):
            state = np.sin(state * w + x[k])
            out[k] = state * x[k]
        return state, out

    return tape_of(build, (n, 3), (3,)), [RNG.normal(size=(4, 3)), RNG.normal(size=3)], plain


@program
def branches() -> Program:
    """A branch per entry, with an update in place on one side only and a scalar carry."""
    n = symbol("n", 6)

    def build(u: Any, c: Any) -> Any:
        def step(k: Any, u: Any, s: Any) -> Any:
            x = get(u, k)

            def big(u: Any, s: Any, x: Any) -> Any:
                return [put(u, mul(mul(x, x), c), k), add(s, mul(x, s))]

            def small(u: Any, s: Any, x: Any) -> Any:
                return [u, add(s, exp(x))]

            return if_(greater(x, 0.2), big, small, u, s, x)

        return for_(n, [u, 1.0], step)

    def plain(u: Any, c: Any) -> Any:
        u, s = u.copy(), np.float64(1.0)
        for i in range(len(u)):
            x = u[i]
            if x > 0.2:
                u[i] = x * x * c
                s = s + x * s
            else:
                s = s + np.exp(x)
        return u, s

    return tape_of(build, (n,), ()), [np.array([0.5, -0.3, 1.2, 0.1, 0.7, -1.0]), np.array(1.3)], plain


@program
def newton() -> Program:
    """A loop of unknown length."""

    def build(a: Any, x: Any) -> Any:
        def test(x: Any) -> Any:
            return greater(mul(subtract(mul(x, x), a), subtract(mul(x, x), a)), 1e-20)

        def step(x: Any) -> Any:
            return [mul(add(x, divide(a, x)), 0.5)]

        (x,), _ = whilst(test, step, [x])
        return [x]

    def plain(a: Any, x: Any) -> Any:
        while (x * x - a) ** 2 > 1e-20:
            x = 0.5 * (x + a / x)
        return x

    return tape_of(build, (), ()), [np.array(2.3), np.array(5.0)], plain


@program
def newton_in_loop() -> Program:
    """A loop of unknown length in the body of another, in place on an array, which it starts from."""
    n = symbol("n", 4)

    def build(u: Any, a: Any) -> Any:
        def step(k: Any, u: Any) -> Any:
            def test(x: Any, u: Any) -> Any:
                miss = subtract(mul(x, x), get(a, k))
                return greater(mul(miss, miss), 1e-20)

            def improve(x: Any, u: Any) -> Any:
                x = mul(add(x, divide(get(a, k), x)), 0.5)
                return [x, put(u, mul(x, get(u, k)), k)]

            (x, u), _ = whilst(test, improve, [get(u, k), u])
            return [put(u, add(get(u, k), mul(x, x)), k + 1)]

        return for_(n - 1, [u], step)

    def plain(u: Any, a: Any) -> Any:
        u = u.copy()
        for k in range(len(u) - 1):
            x = u[k]
            while (x * x - a[k]) ** 2 > 1e-20:
                x = 0.5 * (x + a[k] / x)
                u[k] = x * u[k]
            u[k + 1] = u[k] + x * x
        return u

    return tape_of(build, (n,), (n,)), [np.array([1.5, 0.2, 0.4, 0.3]), np.array([2.0, 3.0, 1.5, 1.0])], plain


@program
def scattered() -> Program:
    """Reads and writes at computed places: ``u[j[k]] = u[i[k]] * u[j[k]]``, then ``v[i[k]] += ...``."""
    n = 6
    i, j = np.array([0, 3, 3, 5]), np.array([1, 3, 2, 0])

    def build(u: Any, v: Any) -> Any:
        def step(_: Any, u: Any, v: Any, i: Any, j: Any) -> Any:
            a, b = gather(u, i, axes=(0,)), gather(u, j, axes=(0,))
            u = scatter_set(u, mul(a, b), j, axes=(0,), unique=False)
            return [u, scatter_add(v, mul(gather(v, j, axes=(0,)), a), i, axes=(0,))]

        return for_(4, [u, v], step, xs=[as_atom(i), as_atom(j)])

    def plain(u: Any, v: Any) -> Any:
        u, v = u.copy(), v.copy()
        for a, b in zip(i, j, strict=True):
            x = u[a]
            u[b] = u[a] * u[b]
            v[a] += v[b] * x
        return u, v

    return tape_of(build, (n,), (n,)), [RNG.normal(size=6), RNG.normal(size=6)], plain


@program
def powers() -> Program:
    """Triangular slices that are kept: ``y[:k+1] = y[:k+1] * sin(y[:k+1])`` on a local copy per step."""
    n = symbol("n", 5)

    def build(x: Any) -> Any:
        def step(k: Any, x: Any, s: Any) -> Any:
            head = exp(mul(get(x, (0, k + 1)), 0.3))
            total = reduce_sum(mul(head, sin(head)), axes=(0,))
            return [mul(x, add(sin(total), 0.5)), add(sin(s), total)]

        return for_(n, [x, 0.1], step)

    def plain(x: Any) -> Any:
        s = 0.1
        for k in range(len(x)):
            head = np.exp(0.3 * x[: k + 1])
            total = np.sum(head * np.sin(head))
            x = x * (np.sin(total) + 0.5)
            s = np.sin(s) + total
        return x, s

    return tape_of(build, (n,)), [RNG.normal(size=5) * 0.3], plain


@program
def linked() -> Program:
    """A list in arrays: an integer carry steers what is read and overwritten."""
    following = np.array([3, 0, 4, 2, 1])
    n = 5

    def build(u: Any, c: Any) -> Any:
        def step(k: Any, u: Any, p: Any) -> Any:
            to = gather(as_atom(following), p, axes=(0,))
            new = mul(sin(gather(u, p, axes=(0,))), add(gather(u, to, axes=(0,)), c))
            return [scatter_set(u, new, to, axes=(0,), unique=True), to]

        return for_(7, [u, Lit(np.int64(2))], step)[0]

    def plain(u: Any, c: Any) -> Any:
        u, p = u.copy(), 2
        for _ in range(7):
            to = following[p]
            u[to] = np.sin(u[p]) * (u[to] + c)
            p = to
        return u

    return tape_of(build, (n,), ()), [RNG.normal(size=5), np.array(0.4)], plain


@program
def deposit() -> Program:
    """Particles on a grid: places computed from positions that the loop changes."""
    n, m = symbol("n", 4), symbol("m", 5)

    def build(x: Any, rho: Any) -> Any:
        def particle(k: Any, x: Any, rho: Any) -> Any:
            at = get(x, k)
            cell = convert(floor(at), dtype=np.int64)
            rho = scatter_add(rho, mul(at, at), cell, axes=(0,))
            return [put(x, mul(at, add(sin(gather(rho, cell, axes=(0,))), 1.5)), k), rho]

        def sweep(_: Any, x: Any, rho: Any) -> Any:
            return for_(n, [x, rho], particle)

        return for_(2, [x, rho], sweep)

    def plain(x: Any, rho: Any) -> Any:
        x, rho = x.copy(), rho.copy()
        for _ in range(2):
            for k in range(len(x)):
                at = x[k]
                cell = int(np.floor(at))
                rho[cell] += at * at
                x[k] = at * (np.sin(rho[cell]) + 1.5)
        return x, rho

    return tape_of(build, (n,), (m,)), [np.array([0.3, 1.2, 0.7, 0.45]), RNG.normal(size=5)], plain
