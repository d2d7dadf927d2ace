"""Upper bounds of polynomial networks by cutting them in two (FORMAT.md, section 7).

A polynomial multilayer perceptron is g∘σ∘h with h made of the layers before a hidden layer of width m and g of those
after it. Both range over irreducible sets of functions, and for every diagonal D the pair (D h, g∘D^-k) gives
the same network. Generic h has no zero coordinate, so these pairs are an m-dimensional part of the fiber and

    dim {g∘σ∘h} ≤ dim {h} + dim {g} - m.

Together with the ambient spaces of all consecutive layers, and the forms of bounded rank in the last two, this is
a theorem that needs no witness. It can be larger than the dimension, never smaller.
"""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ffrank.models.spec import Spec

__all__ = ["composition_bound"]

_MOST_LAYERS = 100  # the bounds of all consecutive layers take l^3/6 steps
_MOST_FACTORS = 64  # binomials beyond 2^64 exceed every number of parameters


def composition_bound(spec: Spec) -> int | None:
    """The bound for ``kind = "mlp"`` with a k-th power, k ≥ 2; None for any other spec, or more than 100 layers."""
    if spec.kind != "mlp" or spec.exponent is None or spec.exponent < 2 or spec.layers > _MOST_LAYERS:
        return None
    d, k, bias = spec.widths, spec.exponent, spec.bias
    best: dict[tuple[int, int], int] = {}
    for length in range(1, spec.layers + 1):
        for i in range(spec.layers + 1 - length):
            j = i + length
            found = [best[i, m] + best[m, j] - d[m] for m in range(i + 1, j)]
            found += (
                _linear(d[i], d[j], bias=bias) if length == 1 else _ambient(d[i], d[j], k ** (length - 1), bias=bias)
            )
            if length == 2 and k == 2 and d[j] == 1 and not bias:
                found.append(_bounded_rank(d[i], d[i + 1]))
            best[i, j] = min(found)
    return best[0, spec.layers]


def _linear(n: int, m: int, *, bias: bool) -> list[int]:
    """Affine or linear maps from n to m dimensions."""
    return [(n + bias) * m]


def _ambient(n: int, m: int, degree: int, *, bias: bool) -> list[int]:
    """Polynomials of at most this degree, forms of this degree without bias; empty if hopelessly many."""
    free = n if bias else n - 1
    return [m * comb(free + degree, free)] if min(free, degree) <= _MOST_FACTORS else []


def _bounded_rank(n: int, r: int) -> int:
    """Sums of r squares of linear forms in n variables, each with a coefficient: quadratic forms of rank ≤ r."""
    r = min(n, r)
    return n * r - r * (r - 1) // 2
