"""Random points of a program over F_p, from SHAKE-256: θ, inputs, and formal values of exponentials (FORMAT.md, 3).

Where a square root or a reciprocal has no value, the latest source that it depends on is drawn anew: the formal
values of the last exponential before it, or the input. So roots of several layers do not multiply their
improbabilities: each layer's exponentials are drawn until the next layer's roots exist, and stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ffrank.errors import ProgramError
from ffrank.primes import residues
from ffrank.program.evaluate import Evaluator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ffrank.program.ir import Program

    Residues = NDArray[np.int64]

__all__ = ["Points", "draw_points", "draw_theta", "root_stages"]

_MOST_REDRAWS = 2**14  # of one source at one input
_TURN = 256  # after so many draws of an exponential's values in vain the input is drawn anew
_HOPELESS = 2**13  # draws without a single success
_DONE = -2


@dataclass(frozen=True)
class Points:
    """Inputs with the formal values of exponentials.

    Attributes
    ----------
    inputs : ndarray of shape (N, n)
    draws : tuple of ndarray of shape (N, size)
        One for every exponential of the program, in order.
    redraws : ndarray of shape (N, 1 + number of exponentials)
        How often the input and each exponential's values were drawn anew.
    """

    inputs: Residues
    draws: tuple[Residues, ...]
    redraws: NDArray[np.int64]


def _base(program: Program, p: int, seed: int, label: str | int) -> str:
    return f"ffrank point 1\n{program.digest}\n{p}\n{seed}\n{label}"


def draw_theta(program: Program, p: int, seed: int, label: str | int = 0) -> Residues:
    """θ uniform on F_p^P.

    Returns
    -------
    ndarray of shape (P,)
    """
    return residues(_base(program, p, seed, label), p, program.parameter_count)


def draw_points(
    program: Program,
    p: int,
    seed: int,
    theta: Residues,
    labels: Sequence[str | int],
    *,
    roots_of: Sequence[int] | None = None,
) -> Points:
    """One point for each label, at which all square roots and reciprocals of the program have values.

    ``theta`` is of shape (P,), or (N, P) with one θ for each label. With ``roots_of`` only the values of these nodes
    count: all that they need must exist, and they must not be 0.

    Raises
    ------
    ProgramError
        If a value is missing whatever the input, or 65,536 draws of one source did not find one.
    """
    search = _Search(program, p, theta, [_base(program, p, seed, label) for label in labels], roots_of)
    if any(i.op in ("sqrt", "recip") for i in program.instructions):
        search.run()
    return Points(search.values[0], tuple(search.values[1:]), search.redraws)


class _Search:
    """Draws for several points at once, and the redraws that make all their roots and reciprocals exist."""

    def __init__(
        self,
        program: Program,
        p: int,
        theta: Residues,
        bases: list[str],
        wanted: Sequence[int] | None,
    ) -> None:
        self.program, self.p, self.theta, self.bases, self.wanted = program, p, theta, bases, wanted
        exponentials = [node for node, instruction in program.steps() if instruction.op == "exp"]
        self.sizes = [program.input_count, *(program.sizes[node] for node in exponentials)]
        self.redraws = np.zeros((len(bases), len(self.sizes)), np.int64)
        self.values = [
            np.array([self.drawn(at, source, 0) for at in range(len(bases))], np.int64).reshape(len(bases), size)
            for source, size in enumerate(self.sizes)
        ]

    def drawn(self, at: int, source: int, again: int) -> Residues:
        """The values of a source of point ``at`` when it is drawn for the (again + 1)-th time."""
        if source:
            return _units(f"{self.bases[at]}\nexp {source}\n{again}", self.p, self.sizes[source])
        return residues(f"{self.bases[at]}\n{again}" if again else self.bases[at], self.p, self.sizes[0])

    def run(self) -> None:
        """Redraw, at every point, the latest source of the first node without a value, until all have one.

        Several draws are tried at once; the first that gets past every node of that source counts, as if they had
        been tried one by one.
        """
        latest = _latest_sources(self.program)
        open_, width = np.arange(len(self.bases)), 1
        source = np.full(len(self.bases), -1)  # what is being redrawn at each point
        furthest, tries = 0, 0
        while len(open_):
            lanes = np.repeat(open_, width)
            counts = self.redraws[lanes, source[lanes]] + 1 + np.tile(np.arange(width), len(open_))
            batch = [v[lanes] for v in self.values]
            for lane, (at, s, again) in enumerate(zip(lanes, source[lanes], counts, strict=True)):
                if s >= 0:
                    batch[s][lane] = self.drawn(int(at), int(s), int(again))
            evaluator = Evaluator(self.program, self.p, self.theta[lanes] if self.theta.ndim > 1 else self.theta)
            first = evaluator.undefined(batch[0], batch[1:], self.wanted).reshape(-1, width)
            reached = int(np.where(first < 0, len(latest), first).max())
            tries = tries + len(lanes) if reached <= furthest < len(latest) else 0
            furthest = max(furthest, reached)
            if tries > _HOPELESS:
                raise ProgramError(_missing(self.program, furthest, f"at any of {tries} points"))
            for row, at in enumerate(open_):
                self._settle(int(at), first[row], latest, source, [b[row * width : (row + 1) * width] for b in batch])
            open_ = np.flatnonzero(source != _DONE)
            width = max(1, 256 // max(1, len(open_)))

    def _settle(
        self,
        at: int,
        first: NDArray[np.int64],
        latest: list[int | None],
        source: NDArray[np.int64],
        batch: list[Residues],
    ) -> None:
        """Take the first draw that gets past the nodes of its source, and say what to redraw next at this point."""
        now = int(source[at])
        for lane, node in enumerate(first):
            failing = _DONE if node < 0 else latest[node]
            if failing is None:
                raise ProgramError(_missing(self.program, int(node), "at this θ; try another seed"))
            if now >= 0 and failing == now:
                count = int(self.redraws[at, now]) + lane + 1
                if now and count % _TURN == 0:  # perhaps this source does not matter: draw a new input as well
                    self.redraws[at, now] = count
                    self.values[now][at] = batch[now][lane]
                    source[at] = 0
                    self._give_up(at, now, int(node))
                    return
                continue
            if now >= 0:
                self.redraws[at, now] += lane + 1
                self.values[now][at] = batch[now][lane]
            source[at] = failing
            return
        self.redraws[at, now] += len(first)
        self._give_up(at, now, int(first[-1]))

    def _give_up(self, at: int, source: int, node: int) -> None:
        if self.redraws[at, source] > _MOST_REDRAWS:
            raise ProgramError(_missing(self.program, node, f"at any of {_MOST_REDRAWS} draws of one source"))


def _missing(program: Program, node: int, where: str) -> str:
    op = program.instructions[node - program.first_instruction].op
    reason = {"sqrt": "a square root has no value", "recip": "a denominator is 0"}.get(op, "an argument of a root is 0")
    return f"{reason} (node {node} of the program) {where}"


def _units(message: str, p: int, count: int) -> Residues:
    """Uniform on F_p^*: the stream of the message without its zeros."""
    wanted = count + 8 + 2 * count // p
    while True:
        drawn = residues(message, p, wanted)
        values: Residues = drawn[drawn != 0]
        if len(values) >= count:
            return values[:count]
        wanted *= 2


def root_stages(program: Program) -> list[list[int]]:
    """The arguments of all square roots, by the number of roots that are nested in them."""
    depth = [0] * program.first_instruction
    stages: dict[int, list[int]] = {}
    for instruction in program.instructions:
        inside = max((depth[a] for a in instruction.operands), default=0)
        if instruction.op == "sqrt":
            inside += 1
            arguments = stages.setdefault(inside, [])
            if instruction.operands[0] not in arguments:
                arguments.append(instruction.operands[0])
        depth.append(inside)
    return [stages[s] for s in sorted(stages)]


def _latest_sources(program: Program) -> list[int | None]:
    """For every node the last source that its value depends on: 0 the input, e the e-th exponential, or None."""
    latest: list[int | None] = [None] * program.first_input + [0] * len(program.inputs)
    exponentials = 0
    for instruction in program.instructions:
        if instruction.op == "exp":
            exponentials += 1
            latest.append(exponentials)
        else:
            found = [s for a in instruction.operands if (s := latest[a]) is not None]
            latest.append(max(found, default=None))
    return latest
