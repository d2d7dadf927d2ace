"""What architectures share: activations and normalisations, instruction by instruction (FORMAT.md, 2.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ffrank.models.spec import Activation
    from ffrank.program.ir import Builder

__all__ = ["activate", "constant", "normalise"]


def constant(builder: Builder, value: int, like: int) -> int:
    """An integer in every entry of the shape of node ``like``."""
    return builder.broadcast(builder.const((), [value]), builder.shapes[like])


def activate(builder: Builder, x: int, activation: Activation, exponent: int | None) -> int:
    """σ(x) entrywise."""
    if exponent is not None:
        return x if exponent == 1 else builder.pow(x, exponent)
    if activation == "tanh":  # 1 - 2/(1 + exp(2x))
        e = builder.exp(builder.add(x, x))
        r = builder.recip(builder.add(constant(builder, 1, x), e))
        return builder.add(constant(builder, 1, x), builder.mul(constant(builder, -2, x), r))
    e = builder.exp(builder.neg(x))
    r = builder.recip(builder.add(constant(builder, 1, x), e))
    return r if activation == "sigmoid" else builder.mul(x, r)


def normalise(builder: Builder, z: int, norm: str) -> int:
    """Every column of z divided by its length; for "layer" its mean is subtracted first.

    The columns of "layer" are d·z - Σz, which is d times the centred column: the factor cancels.
    """
    shape = builder.shapes[z]
    if norm == "none":
        return z
    if norm == "layer":
        scaled = builder.mul(constant(builder, shape[0], z), z)
        z = builder.add(scaled, builder.broadcast(builder.neg(builder.sum(z, 0)), shape))
    length = builder.sqrt(builder.sum(builder.mul(z, z), 0))
    return builder.mul(z, builder.broadcast(builder.recip(length), shape))
