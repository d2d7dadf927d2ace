"""What makes ranks at formal exponentials and square roots true ranks: two independence checks (FORMAT.md, section 3).

Both are properties of the map, decided at random points of F_p. They can fail by bad luck, never pass wrongly.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    from ffrank.program.points import Relations

    Residues: TypeAlias = NDArray[np.int64]

__all__ = ["Hypotheses", "hypotheses", "listed_redraws"]

_PATIENCE = 60
_LARGEST_COEFFICIENT = 1000


@dataclass(frozen=True)
class Hypotheses:
    """What was certified, and the relations between exponents that all points have to respect."""

    content: dict[str, Any]
    relations: Relations


def hypotheses(program: Program, p: int, seed: int) -> Hypotheses:
    """Certify the hypotheses of exponentials and of roots, each None if the program has none.

    Raises
    ------
    ProgramError
        If a check fails: then the rank at formal values says nothing.
    """
    ops = {i.op for i in program.instructions}
    _refuse_fixed(program)
    exponents, relations = _exponents(program, p, seed) if "exp" in ops else (None, ())
    roots = _roots(program, p, seed, relations) if "sqrt" in ops else None
    return Hypotheses({"exponents": exponents, "roots": roots}, relations)


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


def _exponents(program: Program, p: int, seed: int) -> tuple[dict[str, Any], Relations]:
    """Differences of all exponents of one input at two inputs, θ varying, are independent but for known relations.

    Relations show as dependent columns. Those of a later layer may need those of an earlier one to hold at formal
    values, so the table is made anew until no new relation appears.
    """
    relations: Relations = ()
    while True:
        sides, redraws = _exponent_table(program, p, seed, relations)
        table = (sides[0] - sides[1]) % p
        found = linalg.ple(table, p)
        if not found.rank:
            raise ProgramError("every exponent is the same at all inputs, so exponentials cannot be certified")
        if found.rank + len(relations) == table.shape[1]:
            break
        relations = _relations(table, sides, found.cols.tolist(), p)
    claim = {"claim": "exponents", "program": program.digest, "prime": p, "seed": seed, "inputs": 0}
    kept = [redraws[row] for row in found.rows]
    kept = kept if any(kept) else []
    content = {
        "count": table.shape[1],
        **rank_witness(claim, found.rows, found.cols, found.solve_minor, kept),
        "redraws": kept,
    }
    if relations:
        content["relations"] = [[j, [list(term) for term in combination]] for j, combination in relations]
    return content, relations


def _exponent_table(
    program: Program, p: int, seed: int, relations: Relations
) -> tuple[tuple[Residues, Residues], list[list[list[int]]]]:
    """All exponents at pairs of inputs, one θ a row, without the columns of related ones; and the redraws."""
    nodes = [i.operands[0] for i in program.instructions if i.op == "exp"]
    rows = sum(program.sizes[n] for n in nodes) + power_count(p, _PATIENCE)
    thetas = np.array([draw_theta(program, p, seed, f"exponents {row}") for row in range(rows)])
    labels = [f"exponents {row} {side}" for row in range(rows) for side in (1, 2)]
    thetas = np.repeat(thetas, 2, axis=0)
    points = draw_points(program, p, seed, thetas, labels, relations=relations)
    evaluator = Evaluator(program, p, thetas)
    values = np.hstack([evaluator.values(points.inputs, points.draws, n) for n in nodes])
    redraws = [listed_redraws(points.redraws[2 * row : 2 * row + 2]) for row in range(rows)]
    return (values[::2], values[1::2]), redraws


def _relations(table: Residues, sides: tuple[Residues, Residues], basis: list[int], p: int) -> Relations:
    """Every column outside the basis as an integer combination of it, exactly, not only in differences."""
    found = []
    for j in sorted(set(range(table.shape[1])) - set(basis)):
        solution = linalg.solve(table[:, basis], table[:, j], p).X
        if solution is None:
            raise AssertionError("a dependent column is a combination of the basis")
        terms = [(b, c - p if c > p // 2 else c) for b, c in zip(basis, solution.tolist(), strict=True) if c]
        exact = all(not ((side[:, j] - sum(c * side[:, b] for b, c in terms)) % p).any() for side in sides)
        if not exact or any(abs(c) > _LARGEST_COEFFICIENT for _, c in terms):
            raise ProgramError(
                f"the {table.shape[1]} exponents of one input satisfy a linear relation that is not a sum of exponents "
                f"with small integer coefficients (exponent {j}), so the rank at formal values proves nothing"
            )
        found.append((j, tuple(terms)))
    return tuple(found)


def _roots(program: Program, p: int, seed: int, relations: Relations) -> list[dict[str, Any]]:
    """At each stage of roots, quadratic characters and a constant column have full column rank over F_2."""
    theta = draw_theta(program, p, seed)
    evaluator = Evaluator(program, p, theta)
    found = []
    for stage, nodes in enumerate(root_stages(program), 1):
        count = 1 + sum(program.sizes[n] for n in nodes)
        candidates = count + _PATIENCE
        labels = [f"roots {stage} {row}" for row in range(candidates)]
        points = draw_points(program, p, seed, theta, labels, roots_of=nodes, relations=relations)
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
