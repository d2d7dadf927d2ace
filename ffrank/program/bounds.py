"""Degree and norm bounds of a program, composed through its instructions (FORMAT.md, sections 7 and 8).

Every bound errs upwards: true degrees lie inside [low, high], true total degrees and coefficient norms
are at most what is returned. Tests compare them with SymPy expansions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import comb

from ffrank.program.ir import Instruction, Program, interpret

__all__ = ["Bounds", "ambient_dimension", "bits", "is_polynomial", "output_bounds"]


def bits(x: int) -> int:
    """The least b with x ≤ 2^b, for x ≥ 1; 0 for x = 0."""
    return (x - 1).bit_length() if x else 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is known of every entry of a node, as a polynomial in θ and X with integer coefficients.

    Attributes
    ----------
    low, high : int
        All monomials have degree in X between these.
    degree : int
        Total degree in θ and X, at most.
    norm : int
        The absolute values of the coefficients add up to at most 2^norm.
    """

    low: int
    high: int
    degree: int
    norm: int


def is_polynomial(program: Program) -> bool:
    """Whether the program has no exponential, root or reciprocal."""
    return not any(i.op in ("exp", "sqrt", "recip") for i in program.instructions)


def output_bounds(program: Program) -> Bounds:
    """The bounds of f(θ, X), for a polynomial program."""
    parameter, entry = Bounds(0, 0, 1, 0), Bounds(1, 1, 1, 0)
    leaves = [parameter] * len(program.parameters) + [entry] * len(program.inputs)

    return interpret(program, leaves, partial(_compose, program))[program.output]


def _compose(program: Program, instruction: Instruction, operands: list[Bounds]) -> Bounds:
    match instruction.op:
        case "const":
            _, values = instruction.attribute
            return Bounds(0, 0, 0, bits(max(1, *map(abs, values))))
        case "add":
            return _join(operands, extra=1)
        case "concat":
            return _join(operands, extra=0)
        case "mul":
            return _multiply(*operands, terms=1)
        case "matmul":
            return _multiply(*operands, terms=program.shapes[instruction.operands[0]][-1])
        case "pow":
            a, k = operands[0], instruction.attribute
            return Bounds(k * a.low, k * a.high, k * a.degree, k * a.norm)
        case "sum":
            a, size = operands[0], program.shapes[instruction.operands[0]][instruction.attribute]
            return Bounds(a.low, a.high, a.degree, a.norm + bits(size))
        case _:
            return operands[0]


def _join(operands: list[Bounds], *, extra: int) -> Bounds:
    return Bounds(
        min(b.low for b in operands),
        max(b.high for b in operands),
        max(b.degree for b in operands),
        max(b.norm for b in operands) + extra,
    )


def _multiply(a: Bounds, b: Bounds, *, terms: int) -> Bounds:
    return Bounds(a.low + b.low, a.high + b.high, a.degree + b.degree, a.norm + b.norm + bits(terms))


def ambient_dimension(program: Program) -> int | None:
    """Dimension of the space of all polynomial maps in X with the program's sizes and degrees.

    Every f(θ, ·) lies in this space, so the dimension of the neuromanifold is at most this. None stands
    for more than 2^1000, which no parameter count reaches, and for programs that are not polynomial.
    """
    if not is_polynomial(program):
        return None
    bounds, n = output_bounds(program), program.input_count
    if n == 0:
        return program.output_count
    if min(n - 1, bounds.high) > 1000:
        return None  # C(n - 1 + high, high) alone exceeds 2^1000
    below = comb(n + bounds.low - 1, n) if bounds.low else 0
    return program.output_count * (comb(n + bounds.high, n) - below)
