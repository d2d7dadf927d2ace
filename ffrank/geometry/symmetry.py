"""Symmetry rules: vector fields on θ along which a network's function does not change.

A *family* is a linear map from a vector ξ to tangent vectors at θ; its entries of ξ are its generators. The
list of families of an architecture, and the order of their generators, are those of FORMAT.md, section 6.
Each rule is proven for symbolic sizes in :mod:`ffrank.geometry.proofs` and tested by J·T = 0 at random points.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ffrank.models.spec import AttentionSpec, MlpSpec, Spec
    from ffrank.program.ir import Program

__all__ = ["Family", "families", "generator_matrix", "rank_one_tokens"]

Side = Literal["left", "left-transposed", "right", "itself"]
Kind = Literal["full", "skew", "diagonal", "scalar", "column"]


@dataclass(frozen=True, slots=True)
class Action:
    """One contribution to the tangent vector: dW += factor·ξW', factor·ξᵀW' or factor·W'ξ; or factor·ξ itself."""

    target: str
    side: Side
    source: str
    factor: int = 1


@dataclass(frozen=True, slots=True)
class Block:
    """A matrix ξ of a given kind and size n with all its actions."""

    kind: Kind
    n: int
    actions: tuple[Action, ...]

    @property
    def dimension(self) -> int:
        """Number of free entries of ξ."""
        n = self.n
        return {"full": n * n, "skew": n * (n - 1) // 2, "diagonal": n, "scalar": 1, "column": n}[self.kind]

    def basis(self) -> Iterator[tuple[tuple[int, int, int], ...]]:
        """For each free entry the nonzero entries (row, column, ±1) of its ξ; not for kind scalar."""
        n = self.n
        match self.kind:
            case "full":
                yield from (((i, j, 1),) for i in range(n) for j in range(n))
            case "skew":
                yield from (((i, j, 1), (j, i, -1)) for i in range(n) for j in range(i + 1, n))
            case "diagonal":
                yield from (((i, i, 1),) for i in range(n))
            case "column":
                yield from (((i, 0, 1),) for i in range(n))


@dataclass(frozen=True, slots=True)
class Family:
    """Generators that one rule gives at one place of the network."""

    rule: str
    layer: int
    head: int | None
    blocks: tuple[Block, ...]

    @property
    def dimension(self) -> int:
        """Number of generators."""
        return sum(b.dimension for b in self.blocks)

    def to_json(self) -> dict[str, Any]:
        """As certificates list it."""
        return {"rule": self.rule, "layer": self.layer, "head": self.head, "dimension": self.dimension}


def families(spec: Spec) -> list[Family]:
    """All families of an architecture, in the order of FORMAT.md."""
    return _mlp_families(spec) if spec.kind == "mlp" else _attention_families(spec)


def rank_one_tokens(spec: AttentionSpec) -> list[bool]:
    """For each layer: does its token matrix have rank ≤ 1 for all θ and X? False where that is not known."""
    if spec.tokens == 1:
        return [True] * spec.layers
    if spec.qk_bias:
        return [False] * spec.layers
    known = [spec.widths[0] == 1]
    for i in range(1, spec.layers):
        thin = spec.widths[i] == 1
        if not spec.residual:
            # The layer keeps rank one, or has an inner size 1 that every entry passes through.
            scores = spec.attention_dims[i - 1] == 1 and not spec.causal
            thin = thin or known[-1] or spec.mlp_width == 1
            thin = thin or (spec.heads == 1 and (scores or spec.value_dim == 1))
        known.append(thin)
    return known


# ------------------------------------------------------------------------------------------- the families


def _attention_families(spec: AttentionSpec) -> list[Family]:
    found: list[Family] = []
    thin = rank_one_tokens(spec)
    outer, inner = ("V", "V") if spec.value_dim is None else ("O", "U")
    for i, a in enumerate(spec.attention_dims, 1):
        heads = [f"layer{i}.head{h}." for h in range(1, spec.heads + 1)]
        for h, head in enumerate(heads, 1):
            found.append(_score_family(spec, i, h, a, rank_one=thin[i - 1]))
            scaled = ["Q", "b_q"] if spec.qk_bias else ["Q"]
            actions = [Action(head + x, "left", head + x) for x in scaled]
            actions.append(Action(head + outer, "left", head + outer, -1))
            found.append(Family("rescaling", i, h, (Block("scalar", 1, tuple(actions)),)))
            if spec.value_dim is not None:
                found.append(_basis_family("value-basis", i, h, spec.value_dim, [head + "U"], [head + "O"]))
        outputs = [head + outer for head in heads]
        if spec.mlp_width is not None:
            w1, w2 = f"layer{i}.W1", f"layer{i}.W2"
            if not spec.residual:
                found.append(_basis_family("attention-basis", i, None, spec.widths[i], outputs, [w1]))
            found.append(_neuron_family("neuron-basis", i, spec.mlp_width, spec.exponent, [w1], w2))
            outputs = [w2]
        if not spec.residual and i < spec.layers:
            following = [f"layer{i + 1}.head{h}.{x}" for h in range(1, spec.heads + 1) for x in ("Q", "K", inner)]
            found.append(_basis_family("layer-basis", i, None, spec.widths[i], outputs, following))
    return found


def _score_family(spec: AttentionSpec, i: int, h: int, a: int, *, rank_one: bool) -> Family:
    """GL_a on (Q, K), or the larger split orthogonal group where only KᵀQ + QᵀK matters."""
    head = f"layer{i}.head{h}."
    pairs = [("Q", "K"), ("b_q", "b_k")] if spec.qk_bias else [("Q", "K")]
    named = [(head + q, head + k) for q, k in pairs]
    if not rank_one:
        full = [Action(q, "left", q) for q, _ in named]
        full += [Action(k, "left-transposed", k, -1) for _, k in named]
        return Family("general-linear", i, h, (Block("full", a, tuple(full)),))
    full = [Action(k, "left", k) for _, k in named]
    full += [Action(q, "left-transposed", q, -1) for q, _ in named]
    skew_k = tuple(Action(k, "left", q) for q, k in named)
    skew_q = tuple(Action(q, "left", k) for q, k in named)
    blocks = (Block("full", a, tuple(full)), Block("skew", a, skew_k), Block("skew", a, skew_q))
    return Family("split-orthogonal", i, h, blocks)


def _mlp_families(spec: MlpSpec) -> list[Family]:
    found: list[Family] = []
    for i in range(1, spec.layers):
        n, bias = spec.widths[i], f"layer{i}.b"
        incoming = [f"layer{i}.W"] + ([bias] if spec.bias else [])
        found.append(_neuron_family("layer-basis", i, n, spec.exponent, incoming, f"layer{i + 1}.W"))
        if spec.exponent == 1 and spec.bias:
            shift = (Action(bias, "itself", bias), Action(f"layer{i + 1}.b", "right", f"layer{i + 1}.W", -1))
            found.append(Family("translation", i, None, (Block("column", n, shift),)))
    return found


def _basis_family(rule: str, layer: int, head: int | None, n: int, incoming: list[str], outgoing: list[str]) -> Family:
    """A change of basis between maps into and out of an n-dimensional space."""
    actions = [Action(w, "left", w) for w in incoming] + [Action(w, "right", w, -1) for w in outgoing]
    return Family(rule, layer, head, (Block("full", n, tuple(actions)),))


def _neuron_family(linear_rule: str, layer: int, n: int, exponent: int, incoming: list[str], outgoing: str) -> Family:
    """A change of basis around identity activations; scalings around a k-th power."""
    if exponent == 1:
        return _basis_family(linear_rule, layer, None, n, incoming, [outgoing])
    actions = [Action(w, "left", w) for w in incoming] + [Action(outgoing, "right", outgoing, -exponent)]
    return Family("neuron-scaling", layer, None, (Block("diagonal", n, tuple(actions)),))


# --------------------------------------------------------------------------------------------- the matrix


def generator_matrix(program: Program, found: list[Family], theta: NDArray[np.int64], p: int) -> NDArray[np.int64]:
    """The matrix T of all generators at θ.

    Parameters
    ----------
    theta : ndarray of shape (P,)
        Residues mod p.

    Returns
    -------
    ndarray of shape (P, M)
        Residues 0 … p-1; one column a generator.
    """
    shapes = dict(program.parameters)
    columns = sum(f.dimension for f in found)
    T = np.zeros((program.parameter_count, columns), np.int64)

    def matrix(name: str, source: NDArray[np.int64]) -> NDArray[np.int64]:
        """A parameter's entries as a matrix, vectors as columns, with what follows the first axis of ``source``."""
        shape, at = shapes[name], program.offsets[name]
        rows = shape[0]
        size = prod(shape)
        return source[at : at + size].reshape(rows, size // rows, *source.shape[1:])

    column = 0
    for block in (b for f in found for b in f.blocks):
        for action in block.actions:
            into = matrix(action.target, T)
            weights = matrix(action.source, theta) * (action.factor % p) % p
            if block.kind == "scalar":
                into[:, :, column] += weights
                continue
            for g, entries in enumerate(block.basis(), column):
                for i, j, sign in entries:
                    _act(into[:, :, g], action.side, i, j, weights if sign == 1 else -weights)
        column += block.dimension
    return np.remainder(T, p, out=T)


def _act(into: NDArray[np.int64], side: Side, i: int, j: int, weights: NDArray[np.int64]) -> None:
    """Add the action of the ξ that has a single 1, at (i, j)."""
    match side:
        case "left":
            into[i] += weights[j]
        case "left-transposed":
            into[j] += weights[i]
        case "right":
            into[:, j] += weights[:, i]
        case "itself":
            into[i, 0] += 1
