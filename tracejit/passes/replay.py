"""What the derivative and batching passes share: replaying a tape's equations into the current builder."""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.ir.tape import Atom, Builder, Eqn, Lit, Tape, ValueGuard, Var, current

__all__ = ["Environment", "replay", "replay_equation"]


class Environment:
    """The variables of one tape -> atoms of the tape being built."""

    def __init__(self, tape: Tape, args: Sequence[Atom]) -> None:
        builder = current()
        self._atoms: dict[Var, Atom] = dict(zip(tape.inputs, args, strict=True))
        for var, array in tape.consts:
            self._atoms[var] = builder.const(array)
        for guard in tape.sizes:
            builder.sizes.setdefault((guard.relation, guard.size), guard)

    def read(self, atom: Atom) -> Atom:
        return atom if isinstance(atom, Lit) else self._atoms[atom]

    def write(self, results: Sequence[Var], atoms: Sequence[Atom]) -> None:
        self._atoms.update(zip(results, atoms, strict=True))

    def copy_guards(self, tape: Tape, builder: Builder) -> None:
        builder.guards.extend(ValueGuard(self.read(g.var), g.expected, g.source) for g in tape.guards)


def replay_equation(eqn: Eqn, env: Environment, builder: Builder) -> tuple[Var, ...]:
    """Append ``eqn`` to the builder with its operands renamed; return the new results."""
    operands = [env.read(a) for a in eqn.operands]
    with builder.at(eqn.source):
        results = builder.append(eqn.op, operands, eqn.params, [v.aval for v in eqn.results])
    env.write(eqn.results, results)
    return results


def replay(tape: Tape, args: Sequence[Atom]) -> tuple[Atom, ...]:
    """Append the whole tape to the current builder; return its outputs there."""
    builder, env = current(), Environment(tape, args)
    for eqn in tape.eqns:
        replay_equation(eqn, env, builder)
    env.copy_guards(tape, builder)
    return tuple(env.read(a) for a in tape.outputs)
