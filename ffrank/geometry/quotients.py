"""Degree and norm bounds of a rational program at fixed rational weights, as a function of its input alone.

Every entry of a node is written N / (L^e·D): L the common denominator of the weights, N and D polynomials in X with
integer coefficients. D comes from reciprocals only. All bounds err upwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ffrank.program.bounds import bits
from ffrank.program.ir import interpret

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from ffrank.program.ir import Instruction, Program

__all__ = ["Quotient", "denominators", "output_quotient"]


@dataclass(frozen=True, slots=True)
class Quotient:
    """Bounds for every entry N / (L^e·D) of a node.

    Attributes
    ----------
    power
        e.
    degree, norm
        Degree of N, and log2 of the sum of its absolute coefficients, at most.
    low_degree, low_norm
        The same of D.
    has_denominator
        Whether D can be anything but 1.
    """

    power: int
    degree: int
    norm: int
    low_degree: int = 0
    low_norm: int = 0
    has_denominator: bool = False

    def times(self, other: Quotient) -> Quotient:
        """Bounds of a product."""
        return Quotient(
            self.power + other.power, self.degree + other.degree, self.norm + other.norm,
            self.low_degree + other.low_degree, self.low_norm + other.low_norm,
            self.has_denominator or other.has_denominator,
        )  # fmt: skip

    def raised(self, k: int) -> Quotient:
        """Bounds of a k-th power."""
        return Quotient(
            k * self.power, k * self.degree, k * self.norm, k * self.low_degree, k * self.low_norm, self.has_denominator
        )

    def summed(self, count: int) -> Quotient:
        """Bounds of a sum of ``count`` entries, whose D may all be different."""
        others = (count - 1) if self.has_denominator else 0
        return Quotient(
            self.power, self.degree + others * self.low_degree, self.norm + others * self.low_norm + bits(count),
            (others + 1) * self.low_degree, (others + 1) * self.low_norm, self.has_denominator,
        )  # fmt: skip

    def joined(self, other: Quotient, largest: int) -> Quotient:
        """Bounds that hold for both, with one power of L; ``largest`` is L."""
        e, step = max(self.power, other.power), bits(largest)
        return Quotient(
            e, max(self.degree, other.degree),
            max(self.norm + (e - self.power) * step, other.norm + (e - other.power) * step),
            max(self.low_degree, other.low_degree), max(self.low_norm, other.low_norm),
            self.has_denominator or other.has_denominator,
        )  # fmt: skip

    def minus(self, other: Quotient, largest: int) -> Quotient:
        """Bounds of a difference, or of a sum."""
        return self.joined(other, largest).summed(2)

    def inverse(self, largest: int) -> Quotient:
        """Bounds of 1 divided by it."""
        return Quotient(0, self.low_degree, self.low_norm + self.power * bits(largest), self.degree, self.norm, True)


def _bounds(program: Program, theta: Sequence[Fraction], L: int) -> list[Quotient]:
    """The bounds of every node."""
    largest = max([1, *(abs(x.numerator) * (L // x.denominator) for x in theta)])
    parameter, entry = Quotient(1, 0, bits(largest)), Quotient(0, 1, 0)

    def size(node: int, axis: int) -> int:
        return program.shapes[node][axis]

    def meaning(instruction: Instruction, operands: list[Quotient]) -> Quotient:
        match instruction.op:
            case "const":
                _, values = instruction.attribute
                return Quotient(0, 0, bits(max(1, *map(abs, values))))
            case "add":
                return operands[0].minus(operands[1], L)
            case "concat":
                found = operands[0]
                for other in operands[1:]:
                    found = found.joined(other, L)
                return found
            case "mul":
                return operands[0].times(operands[1])
            case "matmul":
                return operands[0].times(operands[1]).summed(size(instruction.operands[0], -1))
            case "sum":
                return operands[0].summed(size(instruction.operands[0], instruction.attribute))
            case "pow":
                return operands[0].raised(instruction.attribute)
            case "recip":
                return operands[0].inverse(L)
            case _:
                return operands[0]

    leaves = [parameter] * len(program.parameters) + [entry] * len(program.inputs)
    return interpret(program, leaves, meaning)


def output_quotient(program: Program, theta: Sequence[Fraction], L: int) -> Quotient:
    """The bounds of the output; L is a common denominator of θ."""
    return _bounds(program, theta, L)[program.output]


def denominators(program: Program, theta: Sequence[Fraction], L: int) -> list[tuple[int, int, int]]:
    """For every reciprocal: its number of entries, and degree and norm of what must not vanish."""
    found = _bounds(program, theta, L)
    return [
        (program.sizes[node], found[i.operands[0]].degree, found[i.operands[0]].norm)
        for node, i in program.steps()
        if i.op == "recip"
    ]
