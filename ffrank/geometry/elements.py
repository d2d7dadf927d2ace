"""Elements of the symmetry group of an attention network, step by step, and what they do to weights over Q."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ffrank.errors import InputError
from ffrank.geometry.layers import Q
from ffrank.geometry.matrices import listed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ffrank.models.spec import AttentionSpec

    Matrix = NDArray[Any]
    Weights = dict[str, Matrix]

__all__ = ["Rule", "Step", "apply_steps"]

Rule = Literal[
    "general-linear",
    "split-orthogonal",
    "rescaling",
    "score-scaling",
    "value-basis",
    "layer-basis",
    "head-mixing",
    "head-permutation",
    "swap",
    "shift",
]


@dataclass(frozen=True, eq=False)
class Step:
    """One element of one factor of the group.

    Attributes
    ----------
    rule
        ``general-linear``: Q → gQ, K → g^-T K, likewise biases. ``split-orthogonal``: [K; Q] → o [K; Q], biases too.
        ``rescaling``: Q → cQ, V → V/c. ``score-scaling``: Q → cQ. ``value-basis``: U → gU, O → O g^-1.
        ``layer-basis``: V → CV, and Q', K', V' of the next layer times C^-1 on the right. ``head-mixing``: A_j becomes
        Σ_h m_jh A_h with K_j kept, V → m^-T V. ``head-permutation``: head j becomes the old head π_j. ``swap``: for
        A = g hᵀ and V = e fᵀ, a = 1, f and g change places. ``shift``: blocks are added that nothing sees.
    layer, head
        Where; head None for the whole layer.
    matrix
        g, o, C, m, or c as a 1×1 matrix; None for the last three rules.
    order
        π, counted from 1.
    blocks
        What a shift adds, by parameter.
    """

    rule: Rule
    layer: int
    head: int | None = None
    matrix: Matrix | None = None
    order: tuple[int, ...] = ()
    blocks: tuple[tuple[str, Matrix], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The step as nested lists."""
        return {
            "rule": self.rule,
            "layer": self.layer,
            "head": self.head,
            "matrix": None if self.matrix is None else listed(self.matrix),
            "order": list(self.order),
            "blocks": {name: listed(x) for name, x in self.blocks},
        }

    def text(self) -> str:
        """The step on a few lines."""
        place = f"layer {self.layer}" + ("" if self.head is None else f" head {self.head}")
        if self.order:
            return f"{self.rule}, {place}: {' '.join(map(str, self.order))}"
        if self.matrix is None:
            return f"{self.rule}, {place}" + (f": {', '.join(name for name, _ in self.blocks)}" if self.blocks else "")
        rows = ["[" + " ".join(str(x) for x in row) + "]" for row in self.matrix]
        return f"{self.rule}, {place}: " + " ".join(rows)


def apply_steps(spec: AttentionSpec, W: Weights, steps: tuple[Step, ...] | list[Step]) -> Weights:
    """The weights that the steps, in order, make of W.

    Raises
    ------
    MatrixError
        If a matrix of a step is not invertible.
    InputError
        If a swap meets a head whose A or V does not have rank 1, or a is not 1.
    """
    out = dict(W)
    for step in steps:
        _apply(spec, out, step)
    return out


def _apply(spec: AttentionSpec, W: Weights, step: Step) -> None:
    """Change W by one step."""
    heads = [f"layer{step.layer}.head{h}." for h in range(1, spec.heads + 1)]
    if step.rule == "shift":
        for block, change in step.blocks:
            W[block] = W[block] + change
    elif step.rule == "head-permutation":
        old = dict(W)
        for head, source in zip(heads, step.order, strict=True):
            for x in [n.removeprefix(head) for n in old if n.startswith(head)]:
                W[head + x] = old[heads[source - 1] + x]
    elif step.head is not None:
        _apply_in_head(spec, W, step, heads[step.head - 1])
    elif step.matrix is not None:
        if step.rule == "head-mixing":
            _mix_heads(W, heads, step.matrix)
        else:
            _change_basis(spec, W, step.layer, step.matrix)


def _apply_in_head(spec: AttentionSpec, W: Weights, step: Step, head: str) -> None:
    queries, keys = ([head + x for x in names] for names in (("Q", "b_q"), ("K", "b_k")))
    if not spec.qk_bias:
        queries, keys = queries[:1], keys[:1]
    m = Q.identity(1) if step.matrix is None else step.matrix
    match step.rule:
        case "general-linear":
            for names, g in ((queries, m), (keys, Q.inverse(m).T)):
                for x in names:
                    W[x] = g @ W[x]
        case "split-orthogonal":
            for q, k in zip(queries, keys, strict=True):
                W[k], W[q] = np.split(m @ np.concatenate([W[k], W[q]]), 2)
        case "rescaling" | "score-scaling":
            for x in queries:
                W[x] = W[x] * m[0, 0]
            if step.rule == "rescaling":
                outer = head + ("V" if spec.value_dim is None else "O")
                W[outer] = W[outer] / m[0, 0]
        case "value-basis":
            W[head + "U"], W[head + "O"] = m @ W[head + "U"], W[head + "O"] @ Q.inverse(m)
        case "swap":
            _swap(spec, W, head)


def _change_basis(spec: AttentionSpec, W: Weights, i: int, C: Matrix) -> None:
    outer, inner = ("V", "V") if spec.value_dim is None else ("O", "U")
    back = Q.inverse(C)
    for h in range(1, spec.heads + 1):
        W[f"layer{i}.head{h}.{outer}"] = C @ W[f"layer{i}.head{h}.{outer}"]
        for x in ("Q", "K", inner):
            following = f"layer{i + 1}.head{h}.{x}"
            W[following] = W[following] @ back


def _mix_heads(W: Weights, heads: list[str], m: Matrix) -> None:
    A = [Q.dot(W[h + "K"].T, W[h + "Q"]) for h in heads]
    V = [W[h + "V"] for h in heads]
    back = Q.inverse(m)
    for j, head in enumerate(heads):
        wanted = sum(m[j, h] * A[h] for h in range(len(heads)))
        K = W[head + "K"]
        W[head + "Q"] = Q.dot(K, Q.inverse(Q.dot(K.T, K)), wanted)
        W[head + "V"] = sum(back[h, j] * V[h] for h in range(len(heads)))


def _swap(spec: AttentionSpec, W: Weights, head: str) -> None:
    K = W[head + "K"]
    if spec.value_dim == 1 and len(K) == 1:
        W[head + "K"], W[head + "U"] = W[head + "U"], K
        return
    V = W[head + "V"] if spec.value_dim is None else Q.zeros(0, 0)
    f, pivots = Q.rref(V)
    if len(K) != 1 or len(f) != 1:
        raise InputError("swap: expected a head with a = 1 and values of rank 1 (value_dim 1, if there is one)")
    W[head + "K"], W[head + "V"] = f, np.outer(V[:, pivots[0]], K[0])
