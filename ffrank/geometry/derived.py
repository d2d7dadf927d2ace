"""Matrices that some symmetry rules compute from θ: rational functions of it, with values at a point of F_p.

Where a matrix to be inverted is singular at the point, the value is the zero matrix: the rule then adds nothing
there, and the upper bound that rests on it can only be larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ffrank import linalg

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ffrank.models.spec import AttentionSpec

    Residues: TypeAlias = NDArray[np.int64]
    Weights: TypeAlias = Callable[[str], Residues]

__all__ = ["Derived", "Kernel", "Reach", "Transfer", "Where"]


@dataclass(frozen=True, slots=True)
class Reach:
    """A matrix whose columns span all tokens of a hidden space, whatever the input: a sum of products of parameters.

    Attributes
    ----------
    products : tuple of tuple of str
        Parameters to multiply; the results stand side by side.
    rest : Reach or None
        What every product is applied to.
    columns : int
        Fewer than the dimension of the space.
    """

    products: tuple[tuple[str, ...], ...]
    rest: Reach | None
    columns: int

    @classmethod
    def after_attention(cls, before: Reach | None, spec: AttentionSpec, i: int) -> Reach | None:
        """The reach of layer i's attention, given that of its tokens; None if it may be everything."""
        d, e, v = spec.widths[i - 1], spec.widths[i], spec.value_dim
        if spec.residual or spec.norm == "layer":
            return None
        inner = d if before is None else before.columns
        products: tuple[str, ...]
        if v is None:
            products, columns, rest = ("V",), inner, before
        elif v <= inner:
            products, columns, rest = ("O",), v, None
        else:
            products, columns, rest = ("O", "U"), inner, before
        if spec.heads * columns >= e:
            return None
        heads = (f"layer{i}.head{h}." for h in range(1, spec.heads + 1))
        return cls(tuple(tuple(head + x for x in products) for head in heads), rest, spec.heads * columns)

    @classmethod
    def after_mlp(cls, before: Reach | None, spec: AttentionSpec, i: int) -> Reach | None:
        """The same behind the MLP of layer i."""
        e, w = spec.widths[i], spec.mlp_width or 0
        if spec.residual or spec.norm == "layer":
            return None
        if spec.exponent == 1 and before is not None and before.columns < min(w, e):
            return cls(((f"layer{i}.W2", f"layer{i}.W1"),), before, before.columns)
        return cls(((f"layer{i}.W2",),), None, w) if w < e else None

    def value(self, weights: Weights, p: int) -> Residues:
        """The matrix at θ, of shape (n, columns)."""
        rest = None if self.rest is None else self.rest.value(weights, p)
        parts = []
        for names in self.products:
            factors = [weights(name) for name in names] + ([] if rest is None else [rest])
            product = factors[-1]
            for factor in reversed(factors[:-1]):
                product = linalg.matmul(factor, product, p)
            parts.append(product)
        return np.hstack(parts)


@dataclass(frozen=True, slots=True)
class Kernel:
    """ν = [-R_2 R_1^-1, 1] with νR = 0, where R_1 is the square on top of a reach R and R_2 the rest."""

    reach: Reach

    def value(self, weights: Weights, p: int) -> Residues:
        """The matrix at θ, of shape (n - columns, n)."""
        R = self.reach.value(weights, p)
        n, c = R.shape
        nu = np.zeros((n - c, n), np.int64)
        if linalg.rank(R[:c], p) == c:
            nu[:, c:] = np.eye(n - c, dtype=np.int64)
            nu[:, :c] = -linalg.matmul(R[c:], linalg.inverse(R[:c], p), p) % p
        return nu


def _gram(K: Residues, p: int) -> Residues | None:
    """(KᵀK)^-1, or None if KᵀK is singular mod p."""
    gram = linalg.matmul(K.T, K, p)
    return linalg.inverse(gram, p) if linalg.rank(gram, p) == len(gram) else None


@dataclass(frozen=True, slots=True)
class Transfer:
    """K (KᵀK)^-1 K'ᵀQ', the D with KᵀD = K'ᵀQ', for a K of at least as many rows as columns."""

    key: str
    other_key: str
    other_query: str

    def value(self, weights: Weights, p: int) -> Residues:
        """The matrix at θ, of the shape of K; 0 if KᵀK is singular."""
        K = weights(self.key)
        gram = _gram(K, p)
        if gram is None:
            return np.zeros_like(K)
        product = linalg.matmul(weights(self.other_key).T, weights(self.other_query), p)
        result: Residues = linalg.matmul(linalg.matmul(K, gram, p), product, p)
        return result


@dataclass(frozen=True, slots=True)
class Where:
    """A parameter where a :class:`Transfer` through ``key`` exists, else 0: a generator vanishes as a whole."""

    name: str
    key: str

    def value(self, weights: Weights, p: int) -> Residues:
        """The matrix at θ, of the shape of the parameter."""
        weight = weights(self.name)
        return np.zeros_like(weight) if _gram(weights(self.key), p) is None else weight


Derived: TypeAlias = Kernel | Transfer | Where
