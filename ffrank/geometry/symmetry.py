"""Symmetry rules: vector fields on θ along which a network's function does not change.

A *family* is a linear map from a vector ξ to tangent vectors at θ; its entries of ξ are its generators. The
list of families of an architecture, and the order of their generators, are those of FORMAT.md, section 6.
Each rule is proven for symbolic sizes in :mod:`ffrank.geometry.proofs` and tested by J·T = 0 at random points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ffrank.geometry.derived import Derived, Kernel, Reach, Transfer, Where

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ffrank.models.spec import AttentionSpec, MlpSpec, Spec

__all__ = ["Action", "Block", "Family", "families", "rank_one_tokens"]

Side = Literal["left", "left-transposed", "right", "itself", "row-sums", "column-sums"]
Kind = Literal["full", "skew", "centred-skew", "diagonal", "scalar"]
Entries = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Action:
    """One contribution to the tangent vector of a parameter ``target``, with W the ``source``.

    ``left`` adds factor·ξW, ``left-transposed`` factor·ξᵀW, ``right`` factor·Wξ, ``itself`` factor·ξ, and for a
    column ξ ``row-sums`` adds factor·ξ1ᵀ and ``column-sums`` factor·1ξᵀ.
    """

    target: str
    side: Side
    source: str | Derived
    factor: int = 1


@dataclass(frozen=True, slots=True)
class Block:
    """A matrix ξ of a given kind with all its actions; n rows and, for kind full, m columns."""

    kind: Kind
    n: int
    actions: tuple[Action, ...]
    m: int = 0

    @property
    def dimension(self) -> int:
        """Number of free entries of ξ."""
        n = self.n
        match self.kind:
            case "full":
                return n * (self.m or n)
            case "skew":
                return n * (n - 1) // 2
            case "centred-skew":
                return (n - 1) * (n - 2) // 2
            case "diagonal":
                return n
            case _:
                return 1

    def basis(self) -> Iterator[Entries]:
        """For each free entry the nonzero entries (row, column, value) of its ξ; not for kind scalar."""
        n = self.n
        match self.kind:
            case "full":
                yield from (((i, j, 1),) for i in range(n) for j in range(self.m or n))
            case "skew":
                yield from (((i, j, 1), (j, i, -1)) for i in range(n) for j in range(i + 1, n))
            case "centred-skew":  # u∧v for u = e_i - e_{i+1}, v = e_j - e_{j+1}
                yield from (_wedge(i, j) for i in range(n - 1) for j in range(i + 1, n - 1))
            case "diagonal":
                yield from (((i, i, 1),) for i in range(n))


def _wedge(i: int, j: int) -> Entries:
    u, v = ((i, 1), (i + 1, -1)), ((j, 1), (j + 1, -1))
    return tuple(e for a, x in u for b, y in v for e in ((a, b, x * y), (b, a, -x * y)))


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
    found = _mlp_families(spec) if spec.kind == "mlp" else _attention_families(spec)
    return [f for f in found if f.dimension]


def rank_one_tokens(spec: AttentionSpec) -> list[bool]:
    """For each layer: does its token matrix have rank ≤ 1 for all θ and X? False where that is not known."""
    if spec.tokens == 1:
        return [True] * spec.layers
    if spec.qk_bias:
        return [False] * spec.layers
    known = [spec.widths[0] == 1]
    for i in range(1, spec.layers):
        thin = spec.widths[i] == 1
        polynomial = spec.mlp_width is None or spec.exponent is not None
        if not spec.residual and spec.score != "softmax" and spec.norm == "none" and polynomial:
            # The layer keeps rank one, or has an inner size 1 that every entry passes through.
            scores = spec.attention_dims[i - 1] == 1 and not spec.causal
            thin = thin or known[-1] or spec.mlp_width == 1
            thin = thin or (spec.heads == 1 and (scores or spec.value_dim == 1))
        known.append(thin)
    return known


# ------------------------------------------------------------------------------------------- attention


def _attention_families(spec: AttentionSpec) -> list[Family]:
    found: list[Family] = []
    thin = rank_one_tokens(spec)
    outer, inner = ("V", "V") if spec.value_dim is None else ("O", "U")
    reach: Reach | None = None
    for i in range(1, spec.layers + 1):
        d, e, v = spec.widths[i - 1], spec.widths[i], spec.value_dim
        heads = [f"layer{i}.head{h}." for h in range(1, spec.heads + 1)]
        for h, head in enumerate(heads, 1):
            found += _score_families(spec, i, h, rank_one=thin[i - 1])
            if v is not None:
                found.append(_basis_family("value-basis", i, h, v, [head + "U"], [head + "O"]))
            if spec.norm == "layer":
                a = spec.attention_dims[i - 1]
                consumers = [(head + "Q", a), (head + "K", a), (head + inner, v or e)]
                found.append(_mean_family(i, h, consumers))
        if spec.score == "lightning" and v is None and not spec.qk_bias and spec.attention_dims[i - 1] >= d:
            found.append(_mixing_family(i, heads))
        outputs = [(head + outer, v or d) for head in heads]
        reach = Reach.after_attention(reach, spec, i)
        if spec.mlp_width is not None:
            w1, w2 = f"layer{i}.W1", f"layer{i}.W2"
            if spec.norm == "layer":
                found.append(_mean_family(i, None, [(w1, spec.mlp_width)]))
            if not spec.residual:
                found += _hidden_families(spec, i, "attention", e, outputs, [(w1, spec.mlp_width)], reach)
            found += _neuron_families("neuron-basis", i, spec.mlp_width, spec.exponent, [w1], w2)
            outputs = [(w2, spec.mlp_width)]
            reach = Reach.after_mlp(reach, spec, i)
        if not spec.residual and i < spec.layers:
            rows = {"Q": spec.attention_dims[i], "K": spec.attention_dims[i], inner: v or spec.widths[i + 1]}
            following = [(f"layer{i + 1}.head{h}.{x}", n) for h in range(1, spec.heads + 1) for x, n in rows.items()]
            found += _hidden_families(spec, i, "layer", e, outputs, following, reach)
    return found


def _score_families(spec: AttentionSpec, i: int, h: int, *, rank_one: bool) -> list[Family]:
    """What leaves the weights that scores give unchanged, and the scaling between scores and values."""
    head, a, d = f"layer{i}.head{h}.", spec.attention_dims[i - 1], spec.widths[i - 1]
    pairs = [("Q", "K"), ("b_q", "b_k")] if spec.qk_bias else [("Q", "K")]
    named = [(head + q, head + k) for q, k in pairs]
    if spec.score != "lightning" and (spec.tokens == 1 or (spec.score == "normalized" and rank_one)):
        blocks = [_free(head + x, a, d) for x in ("Q", "K")]
        blocks += [_free(head + x, a, 1) for x in ("b_q", "b_k")] if spec.qk_bias else []
        return [Family("unseen-scores", i, h, tuple(blocks))]
    found = [_split_orthogonal(i, h, a, named) if rank_one else _general_linear(i, h, a, named)]
    scaled = [Action(q, "left", q) for q, _ in named]
    if spec.score == "lightning":
        value = head + ("V" if spec.value_dim is None else "O")
        found.append(Family("rescaling", i, h, (Block("scalar", 1, (*scaled, Action(value, "left", value, -1))),)))
    elif spec.score == "normalized":
        found.append(Family("score-scaling", i, h, (Block("scalar", 1, tuple(scaled)),)))
    elif spec.qk_bias:
        found.append(Family("key-bias", i, h, (_free(head + "b_k", a, 1),)))
    return found


def _free(name: str, n: int, m: int) -> Block:
    """Any change of a parameter whatever."""
    return Block("full", n, (Action(name, "itself", name),), m)


def _general_linear(i: int, h: int, a: int, named: list[tuple[str, str]]) -> Family:
    """GL_a on (Q, K)."""
    actions = [Action(q, "left", q) for q, _ in named]
    actions += [Action(k, "left-transposed", k, -1) for _, k in named]
    return Family("general-linear", i, h, (Block("full", a, tuple(actions)),))


def _split_orthogonal(i: int, h: int, a: int, named: list[tuple[str, str]]) -> Family:
    """The larger group O(a, a) on (K, Q) where only KᵀQ + QᵀK matters."""
    full = [Action(k, "left", k) for _, k in named]
    full += [Action(q, "left-transposed", q, -1) for q, _ in named]
    skew_k = tuple(Action(k, "left", q) for q, k in named)
    skew_q = tuple(Action(q, "left", k) for q, k in named)
    blocks = (Block("full", a, tuple(full)), Block("skew", a, skew_k), Block("skew", a, skew_q))
    return Family("split-orthogonal", i, h, blocks)


def _mean_family(i: int, h: int | None, consumers: list[tuple[str, int]]) -> Family:
    """A centred token is orthogonal to 1, so dW = u1ᵀ is not seen."""
    blocks = (Block("full", n, (Action(w, "row-sums", w),), 1) for w, n in consumers)
    return Family("layer-norm-input", i, h, tuple(blocks))


def _mixing_family(i: int, heads: list[str]) -> Family:
    """For a ≥ d heads mix: dV_h = c V_j and dA_j = -c A_h leave Σ V_h ⊗ A_h unchanged."""
    blocks = []
    for to in heads:
        for of in heads:
            if to != of:
                value = Action(to + "V", "left", Where(of + "V", of + "K"))
                score = Action(of + "Q", "left", Transfer(of + "K", to + "K", to + "Q"), -1)
                blocks.append(Block("scalar", 1, (value, score)))
    return Family("head-mixing", i, None, tuple(blocks))


def _hidden_families(
    spec: AttentionSpec,
    i: int,
    place: str,
    n: int,
    incoming: list[tuple[str, int]],
    outgoing: list[tuple[str, int]],
    reach: Reach | None,
) -> list[Family]:
    """Changes of basis of an n-dimensional hidden space that no skip fixes, and directions that nothing reaches."""
    targets, consumers = [w for w, _ in incoming], [w for w, _ in outgoing]
    if spec.norm == "none":
        found = [_basis_family(f"{place}-basis", i, None, n, targets, consumers)]
    else:
        kind: Kind = "skew" if spec.norm == "rms" else "centred-skew"
        rotation = Block(kind, n, _conjugation(targets, consumers))
        scaling = Block("scalar", 1, tuple(Action(w, "left", w) for w in targets))
        found = [
            Family(f"{place}-rotation", i, None, (rotation,)),
            Family(f"{place}-norm-scaling", i, None, (scaling,)),
        ]
        if spec.norm == "layer":
            blocks = (Block("full", m, (Action(w, "column-sums", w),), 1) for w, m in incoming)
            found.append(Family(f"{place}-mean", i, None, tuple(blocks)))
    if spec.norm != "layer" and reach is not None:
        kernel = Kernel(reach)
        unseen = (Block("full", m, (Action(w, "left", kernel),), n - reach.columns) for w, m in outgoing)
        found.append(Family(f"{place}-unreached", i, None, tuple(unseen)))
    return found


# ------------------------------------------------------------------------------------------- perceptrons


def _mlp_families(spec: MlpSpec) -> list[Family]:
    found: list[Family] = []
    for i in range(1, spec.layers):
        n, bias = spec.widths[i], f"layer{i}.b"
        incoming = [f"layer{i}.W"] + ([bias] if spec.bias else [])
        found += _neuron_families("layer-basis", i, n, spec.exponent, incoming, f"layer{i + 1}.W")
        if spec.exponent == 1 and spec.bias:
            shift = (Action(bias, "itself", bias), Action(f"layer{i + 1}.b", "right", f"layer{i + 1}.W", -1))
            found.append(Family("translation", i, None, (Block("full", n, shift, 1),)))
    return found


def _conjugation(incoming: list[str], outgoing: list[str]) -> tuple[Action, ...]:
    return (*(Action(w, "left", w) for w in incoming), *(Action(w, "right", w, -1) for w in outgoing))


def _basis_family(rule: str, layer: int, head: int | None, n: int, incoming: list[str], outgoing: list[str]) -> Family:
    """A change of basis between maps into and out of an n-dimensional space."""
    return Family(rule, layer, head, (Block("full", n, _conjugation(incoming, outgoing)),))


def _neuron_families(
    linear_rule: str, layer: int, n: int, exponent: int | None, incoming: list[str], outgoing: str
) -> list[Family]:
    """A change of basis around identity activations; scalings around a k-th power; nothing around others."""
    if exponent is None:
        return []
    if exponent == 1:
        return [_basis_family(linear_rule, layer, None, n, incoming, [outgoing])]
    actions = [Action(w, "left", w) for w in incoming] + [Action(outgoing, "right", outgoing, -exponent)]
    return [Family("neuron-scaling", layer, None, (Block("diagonal", n, tuple(actions)),))]
