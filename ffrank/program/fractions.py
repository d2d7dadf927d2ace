"""Degree and norm bounds of derivatives of rational programs; formal exponentials are variables (FORMAT.md, 8.1).

Every bound errs upwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ffrank.program.bounds import bits
from ffrank.program.ir import interpret

if TYPE_CHECKING:
    from ffrank.program.ir import Instruction, Program

__all__ = ["Quotient", "derivative_bounds"]


@dataclass(frozen=True, slots=True)
class Quotient:
    """All entries are N/D with one D for all: degrees, and log2 of the sums of absolute coefficients, at most these."""

    top: int
    bottom: int
    top_norm: int
    bottom_norm: int

    def times(self, other: Quotient, terms: int = 1) -> Quotient:
        """Sums of this many products."""
        return Quotient(
            self.top + other.top,
            self.bottom + other.bottom,
            self.top_norm + other.top_norm + bits(terms),
            self.bottom_norm + other.bottom_norm,
        )

    def beside(self, other: Quotient, extra: int = 0) -> Quotient:
        """Both over one denominator; ``extra`` is 1 if they are added."""
        return Quotient(
            max(self.top + other.bottom, other.top + self.bottom),
            self.bottom + other.bottom,
            max(self.top_norm + other.bottom_norm, other.top_norm + self.bottom_norm) + extra,
            self.bottom_norm + other.bottom_norm,
        )

    def power(self, k: int) -> Quotient:
        """The k-th power."""
        return Quotient(k * self.top, k * self.bottom, k * self.top_norm, k * self.bottom_norm)

    def inverse(self, size: int) -> Quotient:
        """1/(N_i/D) of ``size`` entries, over the product of all N_i."""
        return Quotient(
            self.bottom + (size - 1) * self.top,
            size * self.top,
            self.bottom_norm + (size - 1) * self.top_norm,
            size * self.top_norm,
        )


Bound = tuple[Quotient, Quotient | None]  # of the value, and of its derivatives by parameters; None for 0
_VARIABLE = Quotient(1, 0, 0, 0)
_ONE = Quotient(0, 0, 0, 0)


def derivative_bounds(program: Program) -> Quotient:
    """The bound of all derivatives of f by parameters, for a program without square roots."""
    leaves: list[Bound] = [(_VARIABLE, _ONE)] * len(program.parameters) + [(_VARIABLE, None)] * len(program.inputs)
    return interpret(program, leaves, partial(_compose, program))[program.output][1] or _ONE


def _compose(program: Program, instruction: Instruction, operands: list[Bound]) -> Bound:
    attribute = instruction.attribute
    if instruction.op == "const":
        return Quotient(0, 0, bits(max(1, *map(abs, attribute[1]))), 0), None
    (a, da), *others = operands
    match instruction.op:
        case "add":
            (b, db), *_ = others
            return a.beside(b, 1), _beside(da, db, 1)
        case "concat":
            for b, db in others:
                a, da = a.beside(b), _beside(da, db, 0)
            return a, da
        case "mul" | "matmul":
            (b, db), *_ = others
            terms = program.shapes[instruction.operands[0]][-1] if instruction.op == "matmul" else 1
            left = da.times(b, terms) if da is not None else None
            right = a.times(db, terms) if db is not None else None
            return a.times(b, terms), _beside(left, right, 1)
        case "pow":
            slope = a.power(attribute - 1).times(Quotient(0, 0, bits(attribute), 0))
            return a.power(attribute), _times(slope, da)
        case "exp":
            return _VARIABLE, _times(_VARIABLE, da)
        case "recip":
            inverse = a.inverse(program.sizes[instruction.operands[0]])
            return inverse, _times(inverse.power(2), da)
        case "sum":
            terms = program.shapes[instruction.operands[0]][attribute]
            many = Quotient(0, 0, bits(terms), 0)
            return a.times(many), _times(many, da)
        case _:
            return a, da


def _times(a: Quotient, b: Quotient | None) -> Quotient | None:
    return None if b is None else a.times(b)


def _beside(a: Quotient | None, b: Quotient | None, extra: int) -> Quotient | None:
    if a is None or b is None:
        return b if a is None else a
    return a.beside(b, extra)
