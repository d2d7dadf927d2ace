"""Normal forms of the weights of attention networks, over Q.

Two weights with equal normal forms give the same function, always. The converse holds for one lightning layer with
one head, without skip and biases (unique factorization of polynomials). For other networks it is claimed at generic
weights only, where the known symmetries explain the whole generic fiber, and it is not proven there: a discrete
symmetry beyond permutations of heads and swaps could exist, though none is known.

How it is made: hidden directions that nothing reaches or nothing sees are removed. Then, layer by layer, scores are
scaled so that A begins with 1 and the values inversely; a rank-one pair A = g hᵀ, V = e fᵀ has f and g in order; heads
are sorted by A, and added where A is equal, or brought to echelon form where they mix; and the hidden basis behind
the layer is the one in which [V_1 … V_H] has reduced echelon form.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from ffrank.geometry.fibers import fibers
from ffrank.geometry.layers import Head, Q, Sight, layer_heads, plain_attention, plain_weights
from ffrank.geometry.matrices import first_entry, listed
from ffrank.geometry.tangents import independent_rows
from ffrank.geometry.weights import read_target, read_weights, reduce_weights
from ffrank.primes import trial_prime

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ffrank.models.spec import AttentionSpec

    Matrix = NDArray[Any]
    Layers = list[list[Head]]

__all__ = ["CanonicalForm", "canonical_form"]


@dataclass(frozen=True, eq=False)
class CanonicalForm:
    """A normal form; two of them are equal if their blocks are.

    Attributes
    ----------
    blocks
        A and V of every head, by name: ``layer1.head1.A``. Empty for the zero function of a network without skip.
    complete
        Whether weights of the same function have the same form. A theorem if ``proven``, else a claim about generic
        weights.
    proven
        Whether that rests on theorems only.
    reason
        Why, or why not.
    """

    blocks: dict[str, Matrix]
    complete: bool
    proven: bool
    reason: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CanonicalForm) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return tuple((name, x.shape, tuple(x.flat)) for name, x in self.blocks.items())

    def to_json(self) -> str:
        """The form as JSON."""
        content = {name: getattr(self, name) for name in ("complete", "proven", "reason")}
        content["blocks"] = {name: listed(x) for name, x in self.blocks.items()}
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def canonical_form(spec: Any, W: Any) -> CanonicalForm:
    """Return the normal form of weights under rescalings, changes of basis and discrete symmetries.

    Parameters
    ----------
    spec : mapping, path, or spec
        An attention network without norm and MLP.
    W : mapping, or path
        Weights, as for ``read_weights``.

    Returns
    -------
    CanonicalForm
        Equal forms prove equal functions. Whether different forms prove different functions is said by ``complete``.

    Raises
    ------
    InputError
        If the architecture is another one.
    SpecError, ShapeError
        If spec or weights cannot be used.
    """
    architecture = plain_attention(spec)
    weights, sights = plain_weights(architecture, W), Sight.of(architecture)
    layers = [
        [Head(sight.seen(head.A), head.V) for head in layer_heads(architecture, weights, i)]
        for i, sight in enumerate(sights, 1)
    ]
    if not architecture.residual and not _reduce(layers, sights):
        return CanonicalForm({}, *_judged(architecture, W, zero=True))
    for i, sight in enumerate(sights):
        layers[i] = _normal(architecture, layers[i], sight, architecture.attention_dims[i])
        if not layers[i] and not architecture.residual:
            return CanonicalForm({}, *_judged(architecture, W, zero=True))
        if not architecture.residual and i + 1 < len(layers):
            _echelon(layers, i, sights[i + 1])
    blocks = {
        f"layer{i}.head{h}.{name}": matrix
        for i, layer in enumerate(layers, 1)
        for h, head in enumerate(layer, 1)
        for name, matrix in (("A", head.A), ("V", head.V))
    }
    return CanonicalForm(blocks, *_judged(architecture, W, zero=False))


# ----------------------------------------------------------------------------------------- hidden spaces


def _reduce(layers: Layers, sights: list[Sight]) -> bool:
    """Remove hidden directions that later layers do not see or that nothing reaches; False if the function is 0."""
    while True:
        before = [layer[0].V.shape for layer in layers]
        for i in reversed(range(1, len(layers))):
            n = layers[i][0].V.shape[1]
            seen, pivots = Q.rref(np.vstack([x for h in layers[i] for x in (h.A[:, :n], h.A.T[:, :n], h.V)]))
            if not pivots:
                return False
            if len(pivots) < n:
                kept = pivots + ([n] if sights[i].biased else [])
                layers[i] = [Head(h.A[np.ix_(kept, kept)], h.V[:, pivots]) for h in layers[i]]
                layers[i - 1] = [Head(h.A, Q.dot(seen, h.V)) for h in layers[i - 1]]
        for i in range(len(layers) - 1):
            reached = Q.rank(np.hstack([h.V for h in layers[i]]))
            if reached == 0:
                return False
            if reached < layers[i][0].V.shape[0]:
                _echelon(layers, i, sights[i + 1])
        if [layer[0].V.shape for layer in layers] == before:
            return True


def _echelon(layers: Layers, i: int, following: Sight) -> None:
    """Choose the basis behind layer i in which its values have reduced echelon form."""
    stack = np.hstack([h.V for h in layers[i]])
    R, pivots = Q.rref(stack)
    parts = np.split(R, len(layers[i]), axis=1)
    layers[i] = [Head(h.A, V) for h, V in zip(layers[i], parts, strict=True)]
    S = stack[:, pivots]
    T = following.through(S)
    layers[i + 1] = [Head(following.seen(Q.dot(T.T, h.A, T)), Q.dot(h.V, S)) for h in layers[i + 1]]


# ------------------------------------------------------------------------------------------ one layer


def _normal(spec: AttentionSpec, heads: list[Head], sight: Sight, a: int) -> list[Head]:
    """The heads of a layer, scaled and in order; heads that add nothing are left out."""
    if sight.unseen:
        total = sum((h.V for h in heads[1:]), heads[0].V)
        return [Head(heads[0].A, total)] if total.any() else []
    if _mix(spec, heads, sight, a):
        return _mixed(heads)
    merged: dict[tuple[Any, ...], Head] = {}
    for head in heads:
        ordered = _ordered(head, sight)
        c = sight.unit(ordered.A)
        V = ordered.V * c if sight.score == "lightning" else ordered.V
        key = tuple((ordered.A / c).flat)
        merged[key] = Head(ordered.A / c, V + merged[key].V if key in merged else V)
    kept = [merged[key] for key in sorted(merged)]
    return [h for h in kept if h.V.any() and (sight.score != "lightning" or h.A.any())]


def _mix(spec: AttentionSpec, heads: list[Head], sight: Sight, a: int) -> bool:
    """Whether every matrix can be the scores, and every one the values, of a head."""
    free = (2 * a if sight.rank_one else a) >= heads[0].A.shape[0]
    values = spec.value_dim is None or spec.value_dim >= min(heads[0].V.shape)
    return sight.score == "lightning" and len(heads) > 1 and free and values


def _mixed(heads: list[Head]) -> list[Head]:
    """Σ V_h ⊗ A_h with the A in reduced echelon form."""
    T = sum(np.outer(h.A.reshape(-1), h.V.reshape(-1)) for h in heads)
    R, pivots = Q.rref(np.asarray(T).T)
    V = np.asarray(T)[pivots]
    return [Head(x.reshape(heads[0].A.shape), v.reshape(heads[0].V.shape)) for x, v in zip(R, V, strict=True)]


def _ordered(head: Head, sight: Sight) -> Head:
    """Put the linear forms of a rank-one head in order."""
    if sight.score != "lightning" or sight.biased or Q.rank(head.V) != 1 or not head.A.any():
        return head
    f = Q.rref(head.V)[0][0]
    e = head.V[:, next(j for j, x in enumerate(f) if x)]
    if not sight.rank_one:
        if Q.rank(head.A) != 1:
            return head
        h = Q.rref(head.A)[0][0]
        g = head.A[:, next(j for j, x in enumerate(h) if x)]
        c = first_entry(g)
        low, high = sorted([tuple(f), tuple(g / c)])
        return Head(np.outer(np.array(high), h), np.outer(e * c, np.array(low)))
    forms = _linear_factors(head.A)
    if forms is None:
        return head
    c, g, h = forms
    first, second, third = (np.array(x) for x in sorted([tuple(f), tuple(g), tuple(h)]))
    return Head((np.outer(second, third) + np.outer(third, second)) / 2, np.outer(e * c, first))


def _linear_factors(A: Matrix) -> tuple[Any, Matrix, Matrix] | None:
    """The quadratic form xᵀAx of a symmetric A as c·(g·x)(h·x), g and h beginning with 1; None if it does not split."""
    if Q.rank(A) > 2:
        return None
    n = len(A)
    turn = Q.identity(n)
    if not any(A[k, k] for k in range(n)):  # then A_ij ≠ 0 for some i ≠ j, and (e_i + e_j) has a nonzero value
        i, j = next((i, j) for i, j in np.ndindex(n, n) if A[i, j])
        turn[j, i] = Fraction(1)
    B = Q.dot(turn.T, A, turn)
    i = next(k for k in range(n) if B[k, k])
    u = B[i] / B[i, i]
    rest = B - np.outer(u, u) * B[i, i]
    lead = next((k for k in range(n) if rest[k, k]), None)
    if lead is None:
        factors = [u, u]
    else:
        ratio = -rest[lead, lead] / B[i, i]  # B_ii (u² - ratio w²)
        root = _root(ratio)
        if root is None:
            return None
        w = rest[lead] / rest[lead, lead]
        factors = [u + root * w, u - root * w]
    back = Q.inverse(turn)
    g, h = (Q.dot(x[None], back)[0] for x in factors)
    return B[i, i] * first_entry(g) * first_entry(h), g / first_entry(g), h / first_entry(h)


def _root(x: Fraction) -> Fraction | None:
    if x < 0:
        return None
    n, d = isqrt(x.numerator), isqrt(x.denominator)
    return Fraction(n, d) if n * n == x.numerator and d * d == x.denominator else None


# --------------------------------------------------------------------------------------- what is claimed


def _judged(spec: AttentionSpec, W: Any, *, zero: bool) -> tuple[bool, bool, str]:
    """The fields complete, proven and reason."""
    if spec.layers == 1 and spec.heads == 1 and not (spec.qk_bias or spec.residual) and spec.score == "lightning":
        return True, True, "One layer, one head: products of linear forms factor in one way only."
    if zero:
        return False, True, "The function is 0: other weights of it can have another form."
    program = read_target(spec)[0]
    theta = read_weights(program, W)
    generic = fibers(spec)
    primes = (trial_prime(program.digest, 1, index, frozenset()) for index in count())
    p = next(p for p in primes if all(x.denominator % p for x in theta))
    here = independent_rows(program, p, 1, reduce_weights(theta, p), generic.dimension)
    if here.rank < generic.dimension:
        return False, False, (
            f"W is not generic: its Jacobian has rank {here.rank}, the generic one {generic.dimension}."
        )  # fmt: skip
    if not generic.explained:
        return False, False, (
            f"The generic fiber has dimension {generic.fiber}, the orbits of the known symmetries {generic.orbit}:"
            " weights of the same function can have different forms."
        )  # fmt: skip
    return True, False, "Generic weights: the known symmetries explain the whole fiber, up to finitely many points."
