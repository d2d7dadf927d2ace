"""Values of an imported PyTorch graph: exact constants, scores with masked entries, and a builder that shares nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ffrank.errors import ProgramError
from ffrank.program.ir import Builder, Instruction
from ffrank.program.trace import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ffrank.program.ir import Named, Shape

__all__ = ["LOWEST", "Masked", "Refused", "SharingBuilder", "exact"]

LOWEST = -1e4
"""Constants that are added to or put in place of scores and lie at or below this count as -inf: exp of them is 0."""

_LONGEST = 10**24  # integers of a certificate have at most 25 digits
_LIMB = 2**64


class Refused(Exception):  # noqa: N818 -- never leaves the importer
    """An operator that has no exact meaning, with the reason."""


class SharingBuilder(Builder):
    """A builder that writes equal instructions once.

    So equal exponents have one exponential, hence one formal value: two independent values for exp(u) would make
    functions that are equal look different.
    """

    def __init__(self, parameters: Sequence[Named], inputs: Sequence[Named]) -> None:
        super().__init__(parameters, inputs)
        self._known: dict[tuple[str, tuple[int, ...], Any], int] = {}

    def _emit(self, op: str, operands: tuple[int, ...], shape: Shape, attribute: Any = None) -> int:
        key = (op, operands, attribute)
        if key not in self._known:
            self._known[key] = super()._emit(op, operands, shape, attribute)
        return self._known[key]

    def instruction(self, node: int) -> Instruction | None:
        """The instruction that defines a node; None for parameters and inputs."""
        at = node - len(self.parameters) - len(self.inputs)
        return self.instructions[at] if at >= 0 else None

    def exponential_of_negative(self, node: int) -> int | None:
        """The node of exp(-a) for the node a, if there is one already."""
        made = self.instruction(node)
        if made is not None and made.op == "neg":
            return self._known.get(("exp", made.operands, None))
        negative = self._known.get(("neg", (node,), None))
        return None if negative is None else self._known.get(("exp", (negative,), None))


@dataclass(frozen=True)
class Masked:
    """Scores that are -inf where ``keep``, a boolean torch tensor of the same shape, is False."""

    tensor: Tensor
    keep: Any

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""
        return self.tensor.shape


def exact(builder: Builder, shape: Sequence[int], values: Sequence[float | Fraction]) -> Tensor:
    """A constant without rounding: integers, divided by their common denominator.

    Every float is a fraction whose denominator is a power of 2, and is meant as exactly that.

    Raises
    ------
    ProgramError
        If a value is not finite.
    """
    if not all(math.isfinite(v) for v in values):
        found = next(v for v in values if not math.isfinite(v))
        raise ProgramError(
            f"expected finite constants, got {found}; an infinity is understood only as a mask of scores"
        )
    fractions = [Fraction(v) for v in values]
    denominator = math.lcm(*(f.denominator for f in fractions))
    numerators = _integers(builder, tuple(shape), [f.numerator * (denominator // f.denominator) for f in fractions])
    if denominator == 1:
        return numerators
    scale = _inverse(builder, denominator)
    # 1 in an integer array of shape () would only lengthen the program
    return scale if not shape and fractions[0].numerator == 1 else numerators * scale


def _integers(builder: Builder, shape: tuple[int, ...], values: list[int]) -> Tensor:
    """Integers of any length; long ones in base 2^64."""
    if max(map(abs, values)) < _LONGEST:
        return Tensor(builder, builder.const(shape, values))
    signs = [-1 if v < 0 else 1 for v in values]
    low = [s * (abs(v) % _LIMB) for s, v in zip(signs, values, strict=True)]
    high = [s * (abs(v) // _LIMB) for s, v in zip(signs, values, strict=True)]
    return _integers(builder, shape, high) * _LIMB + Tensor(builder, builder.const(shape, low))


def _inverse(builder: Builder, denominator: int) -> Tensor:
    """1/denominator; long powers of 2 as powers of 1/2."""
    if denominator < _LONGEST:
        return Tensor(builder, builder.recip(builder.const((), [denominator])))
    twos = (denominator & -denominator).bit_length() - 1
    if denominator >> twos >= _LONGEST:
        raise ProgramError(f"expected constants whose common denominator is short, got {denominator}")
    half = Tensor(builder, builder.pow(builder.recip(builder.const((), [2])), twos)) if twos else None
    odd = Tensor(builder, builder.recip(builder.const((), [denominator >> twos])))
    return odd if half is None else half if denominator >> twos == 1 else half * odd
