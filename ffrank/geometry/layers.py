"""What an attention layer sees of its weights: one pair (A, V) a head, over Q.

A = KᵀQ acts on keys (rows) and queries (columns); with biases of queries and keys a token x counts as (x, 1), so that
A has one more row and column. V is the value matrix, OU if it is factored.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from ffrank.errors import InputError
from ffrank.geometry.matrices import Field, first_entry
from ffrank.geometry.symmetry import rank_one_tokens
from ffrank.geometry.weights import read_target, read_weights, weights_dict
from ffrank.models.spec import AttentionSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Matrix = NDArray[Any]

__all__ = ["Head", "Q", "Sight", "layer_heads", "plain_attention", "plain_weights"]

#: The field of rational numbers.
Q = Field()


@dataclass(frozen=True)
class Head:
    """A head as the network sees it.

    Attributes
    ----------
    A, V
        Scores xᵀAy and values Vx.
    """

    A: Matrix
    V: Matrix


@dataclass(frozen=True)
class Sight:
    """How a layer looks at its heads.

    Attributes
    ----------
    score
        As in the spec.
    biased
        Whether A has a row and a column for the constant 1.
    rank_one
        Whether tokens are known to have rank ≤ 1.
    unseen
        Whether scores do not matter at all.
    """

    score: str
    biased: bool
    rank_one: bool
    unseen: bool

    @classmethod
    def of(cls, spec: AttentionSpec) -> list[Sight]:
        """One for each layer."""
        thin = rank_one_tokens(spec)
        one = spec.tokens == 1
        return [
            cls(
                spec.score, spec.qk_bias, rank_one,
                spec.score != "lightning" and (one or (spec.score == "normalized" and rank_one)),
            )
            for rank_one in thin
        ]  # fmt: skip

    def seen(self, A: Matrix) -> Matrix:
        """The part of A that matters: the symmetric one for tokens of rank one; no key bias under softmax."""
        if self.unseen:
            return Q.zeros(*A.shape)
        if self.score == "softmax":
            if self.biased:
                A = A.copy()
                A[-1] = Fraction(0)
            return A
        return (A + A.T) / 2 if self.rank_one else A

    def unit(self, A: Matrix) -> Any:
        """The factor that scaling A by a constant can remove: its first nonzero entry; 1 under softmax."""
        return Fraction(1) if self.score == "softmax" else first_entry(A) or Fraction(1)

    def through(self, S: Matrix) -> Matrix:
        """The map S of tokens, as A sees it."""
        if not self.biased:
            return S
        extended = Q.zeros(S.shape[0] + 1, S.shape[1] + 1)
        extended[:-1, :-1] = S
        extended[-1, -1] = Fraction(1)
        return extended


def plain_attention(spec: Any) -> AttentionSpec:
    """Read a spec of attention layers without norm and MLP.

    Raises
    ------
    InputError
        If it is anything else.
    """
    architecture = read_target(spec)[1]
    if not isinstance(architecture, AttentionSpec) or architecture.norm != "none" or architecture.mlp_width is not None:
        raise InputError("expected an attention network without norm and MLP: only for these is this made")
    return architecture


def plain_weights(spec: AttentionSpec, W: Any) -> dict[str, Matrix]:
    """Weights as arrays of fractions by name; see ``read_weights``."""
    program = read_target(spec)[0]
    return weights_dict(program, read_weights(program, W))


def layer_heads(spec: AttentionSpec, W: Mapping[str, Matrix], i: int) -> list[Head]:
    """The heads of layer i."""
    heads = []
    for h in range(1, spec.heads + 1):
        name = f"layer{i}.head{h}."
        queries, keys = W[name + "Q"], W[name + "K"]
        if spec.qk_bias:
            queries = np.hstack([queries, W[name + "b_q"][:, None]])
            keys = np.hstack([keys, W[name + "b_k"][:, None]])
        V = W[name + "V"] if spec.value_dim is None else Q.dot(W[name + "O"], W[name + "U"])
        heads.append(Head(Q.dot(keys.T, queries), V))
    return heads
