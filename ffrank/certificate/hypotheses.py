"""What makes ranks at formal exponentials and square roots true ranks: two independence checks (FORMAT.md, section 3).

Both are properties of the map, decided at random points of F_p. They can fail by bad luck, never pass wrongly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ffrank import linalg
from ffrank.certificate.witness import power_count, rank_witness
from ffrank.errors import ProgramError
from ffrank.program.evaluate import Evaluator
from ffrank.program.points import draw_points, draw_theta, root_stages

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ffrank.program.ir import Program

    Residues: TypeAlias = NDArray[np.int64]

__all__ = ["hypotheses", "listed_redraws"]

_PATIENCE = 60


def hypotheses(program: Program, p: int, seed: int) -> dict[str, Any]:
    """Certify the hypotheses of exponentials and of roots, each None if the program has none.

    Raises
    ------
    ProgramError
        If a check fails: then the rank at formal values says nothing.
    """
    ops = {i.op for i in program.instructions}
    _refuse_fixed(program)
    return {
        "exponents": _exponents(program, p, seed) if "exp" in ops else None,
        "roots": _roots(program, p, seed) if "sqrt" in ops else None,
    }


def listed_redraws(redraws: NDArray[np.int64]) -> list[list[int]]:
    """How often each source was drawn anew, for every point; empty if nothing was."""
    return redraws.tolist() if redraws.any() else []


def _refuse_fixed(program: Program) -> None:
    """Exponentials and roots of parameters alone have no place in the theory that is used here."""
    varies = [False] * program.first_input + [True] * len(program.inputs)
    for instruction in program.instructions:
        moving = any(varies[a] for a in instruction.operands)
        if instruction.op in ("exp", "sqrt") and not moving:
            raise ProgramError(
                f"{instruction.op} of parameters alone cannot be certified; make its value a parameter instead"
            )
        varies.append(moving)


def _exponents(program: Program, p: int, seed: int) -> dict[str, Any]:
    """Differences of all exponents of one input at two inputs, θ varying, have full column rank."""
    nodes = [i.operands[0] for i in program.instructions if i.op == "exp"]
    count = sum(program.sizes[n] for n in nodes)
    rows = count + power_count(p, _PATIENCE)
    thetas = np.array([draw_theta(program, p, seed, f"exponents {row}") for row in range(rows)])
    labels = [f"exponents {row} {side}" for row in range(rows) for side in (1, 2)]
    thetas = np.repeat(thetas, 2, axis=0)
    points = draw_points(program, p, seed, thetas, labels)
    evaluator = Evaluator(program, p, thetas)
    values = np.hstack([evaluator.values(points.inputs, points.draws, n) for n in nodes])
    table = np.ascontiguousarray(values[::2] - values[1::2]) % p
    found = linalg.ple(table, p)
    if found.rank < count:
        dependent = sorted(set(range(count)) - set(found.cols.tolist()))
        raise ProgramError(
            f"the {count} exponents of one input satisfy linear relations: {_listed(dependent)} depend on others, as "
            "behind a width 1, where the scores of (key, query) and (query, key) are equal. So their exponentials are "
            "dependent, and the rank at formal values proves nothing"
        )
    redraws = [listed_redraws(points.redraws[2 * row : 2 * row + 2]) for row in found.rows]
    redraws = redraws if any(redraws) else []
    claim = {"claim": "exponents", "program": program.digest, "prime": p, "seed": seed, "inputs": 0}
    return {
        "count": count,
        **rank_witness(claim, found.rows, found.cols, found.solve_minor, redraws),
        "redraws": redraws,
    }


def _listed(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:5]))
    return f"numbers {shown}{', …' if len(numbers) > 5 else ''}"


def _roots(program: Program, p: int, seed: int) -> list[dict[str, Any]]:
    """At each stage of roots, quadratic characters and a constant column have full column rank over F_2."""
    theta = draw_theta(program, p, seed)
    evaluator = Evaluator(program, p, theta)
    found = []
    earlier: list[int] = []  # the roots of the stages before: all of them must exist at the points of a stage
    for stage, nodes in enumerate(root_stages(program), 1):
        count = 1 + sum(program.sizes[n] for n in nodes)
        candidates = count + _PATIENCE
        labels = [f"roots {stage} {row}" for row in range(candidates)]
        points = draw_points(program, p, seed, theta, labels, roots_of=[*earlier, *nodes])
        arguments = np.hstack([evaluator.values(points.inputs, points.draws, n) for n in nodes])
        basis: dict[int, int] = {}
        rows = []
        for row in range(candidates):
            bits = 1
            for q in arguments[row]:
                bits = bits << 1 | (pow(int(q), (p - 1) // 2, p) != 1)
            if _adds(basis, bits):
                rows.append(row)
        if len(rows) < count:
            raise ProgramError(
                f"a product of the {count - 1} arguments of square roots at stage {stage} is a constant times a "
                "square, so these roots are not independent and the rank at a point proves nothing"
            )
        earlier += [n for n, i in program.steps() if i.op == "sqrt" and i.operands[0] in nodes]
        found.append({"count": count - 1, "rows": rows, "redraws": listed_redraws(points.redraws[rows])})
    return found


def _adds(basis: dict[int, int], bits: int) -> bool:
    """Whether a vector over F_2 is independent of a basis, which is then extended."""
    while bits:
        lead = bits.bit_length()
        if lead not in basis:
            basis[lead] = bits
            return True
        bits ^= basis[lead]
    return False
