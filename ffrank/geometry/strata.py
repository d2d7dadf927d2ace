"""Ranks and verdicts behind the table of strata of one lightning layer.

For t ≥ 2 tokens the function of (A, V), A = KᵀQ, is determined by the products v_i·a_m of linear forms (v_i a row
of V, a_m a column of A). On the set of functions M, of dimension 2αd − α² + dd' − 1 with α = min(a, d):

* M is the image of a projective variety under a morphism (v_i·a_m ≠ 0 if both factors are), so over C it is Zariski
  closed, and it is the Zariski closure of its real points. *Singular* means: a singular point of that variety.
* The tangent directions that are *known* at a function are images of differentials at its preimages, derivatives of
  curves in {rank A ≤ a} that leave a point of lower rank, and limits of such directions from nearby functions (the
  pairs of a point and a Zariski tangent vector form a closed set). More than dim M independent ones prove a singular
  point.
* If rank(A)·rank(V) ≥ 2, unique factorization gives one preimage up to rescaling, and a differential whose kernel is
  the rescaling. If moreover {rank A ≤ a} is smooth at A, the projective parametrization is proper, injective over this
  function and unramified there, hence a closed embedding near it: the point is smooth.

Error direction: a rank mod p at an integer point is a lower bound over Q; here each one is compared with the upper
bound that the kernels prove, and a point or prime that falls short is drawn again, so the ranks are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ffrank import linalg
from ffrank.errors import ModulusError
from ffrank.primes import residues

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

__all__ = ["Layer", "Stratum", "coefficients", "differential", "every_stratum"]

_ATTEMPTS = 200
_SPREAD = 19  # entries of random factors lie in -9 … 9
Verdict = Literal["smooth", "singular"]


@dataclass(frozen=True)
class Layer:
    """One lightning layer V X Xᵀ A X with rank A ≤ a and at least two tokens."""

    d: int
    d_out: int
    a: int

    @property
    def bounded(self) -> bool:
        """Whether rank A ≤ a is a condition, a < d."""
        return self.a < self.d

    @property
    def dimension(self) -> int:
        """Dimension of the set of functions."""
        alpha = min(self.a, self.d)
        return 2 * alpha * self.d - alpha * alpha + self.d * self.d_out - 1

    @property
    def quadrics(self) -> int:
        """Dimension of the space of quadratic forms in d variables."""
        return self.d * (self.d + 1) // 2

    @property
    def ambient(self) -> int:
        """Dimension of the space of coefficients, which the functions span."""
        return self.d_out * self.d * self.quadrics

    @property
    def reducible(self) -> bool:
        """Whether d' = a = 1 < d: all functions are products f·g times h, and swapping f and g is a symmetry."""
        return self.d_out == 1 and self.a == 1 and self.d > 1


@dataclass(frozen=True)
class Stratum:
    """One row of the table; the ranks and the verdict are the same at all its points.

    Attributes
    ----------
    rank_a, rank_v
        Ranks of A and V.
    aligned
        For rank one, V = e fᵀ and A = g hᵀ: whether f and g are parallel. None for other ranks.
    A, V
        A random integer point of the stratum.
    directions
        Where the differential was taken: on all matrices A, or on those tangent to {rank A ≤ a}.
    differential
        Its rank.
    preimages
        Number of pairs (A, V) with this function up to rescaling, over C; None for infinitely many.
    span
        Rank of the span of the differentials' images over all preimages, for rank A < a < d on all matrices A: there
        every A + εB with B of rank one is a curve in {rank A ≤ a}.
    tangent
        Rank of all tangent directions that are known: ``span``, and limits of it from nearby functions.
    dimension
        Dimension of the set of functions.
    verdict
        ``"singular"`` if and only if ``tangent > dimension``.
    boundary
        Whether real functions of the Zariski closure that no real (A, V) has come arbitrarily close.
    reason
        What decides the verdict.
    """

    rank_a: int
    rank_v: int
    aligned: bool | None
    A: tuple[tuple[int, ...], ...]
    V: tuple[tuple[int, ...], ...]
    directions: Literal["all matrices", "tangent to {rank A <= a}"]
    differential: int
    preimages: int | None
    span: int
    tangent: int
    dimension: int
    verdict: Verdict
    boundary: bool
    reason: str

    def to_json(self) -> dict[str, Any]:
        """The row as plain data."""
        content = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return content | {"A": [list(row) for row in self.A], "V": [list(row) for row in self.V]}


# --------------------------------------------------------------------------------- coefficients and differential


def coefficients(A: Integers, V: Integers, p: int) -> Integers:
    """The coefficients of all v_i·a_m mod p, i and m in this order, then monomials x_k x_l with k ≤ l.

    Parameters
    ----------
    A : ndarray of shape (…, d, d)
    V : ndarray of shape (…, d', d)
        Residues, of an odd prime p < 2^31 or of their balanced kind.

    Returns
    -------
    ndarray of shape (…, d'·d·d(d+1)/2)
        Residues 0 … p-1: V_ik A_lm + V_il A_km for k < l, and V_ik A_km for k = l.
    """
    products = V[..., :, None, :, None] * np.swapaxes(A, -1, -2)[..., None, :, None, :] % p
    low, high = np.triu_indices(A.shape[-1])
    found = (products[..., low, high] + np.where(low < high, products[..., high, low], 0)) % p
    return found.reshape(*found.shape[:-3], -1)


def differential(A: Integers, V: Integers, p: int, *, factors: tuple[Integers, Integers] | None = None) -> Integers:
    """Images of basis directions under the differential of (A, V) ↦ v_i·a_m, one row a direction.

    Parameters
    ----------
    factors : pair of ndarrays, optional
        G and H with A = G·H of inner size rank A: then only the directions dG·H + G·dH tangent to matrices of this
        rank are taken for A. All directions if absent.

    Returns
    -------
    ndarray
        Rows for V first, row-major, then rows for A.
    """
    (d_out, d), A, V = V.shape, A % p, V % p
    units = np.eye(d_out * d, dtype=np.int64).reshape(-1, d_out, d)
    values = coefficients(np.broadcast_to(A, (len(units), d, d)), units, p)
    squares = np.eye(d * d, dtype=np.int64).reshape(-1, d, d)
    scores = coefficients(squares, np.broadcast_to(V, (len(squares), d_out, d)), p)
    if factors is not None:
        G, H = factors
        r = H.shape[0]
        one = np.eye(d * r, dtype=np.int64)
        left = np.einsum("nik,kj->nij", one.reshape(-1, d, r), H)
        right = np.einsum("ik,nkj->nij", G, one.reshape(-1, r, d))
        along = np.concatenate([left, right]).reshape(-1, d * d)
        scores = linalg.matmul(along % p, scores, p)
    return np.concatenate([values, scores])


# ------------------------------------------------------------------------------------------------- the strata


def every_stratum(layer: Layer, p: int, seed: int) -> Iterator[Stratum]:
    """All strata, by rank of A, then of V; at rank one the unaligned points before the aligned."""
    for r in range(min(layer.a, layer.d) + 1):
        for s in range(min(layer.d, layer.d_out) + 1):
            if r == s == 1:
                cases: tuple[bool | None, ...] = (False, True) if layer.d > 1 else (True,)
            else:
                cases = (None,)
            for aligned in cases:
                yield _stratum(layer, r, s, aligned, p, seed)


def _stratum(layer: Layer, r: int, s: int, aligned: bool | None, p: int, seed: int) -> Stratum:
    """Draw points until all ranks mod p are those that the theory bounds them by."""
    label = {None: "", True: "aligned", False: "unaligned"}[aligned]
    heading = f"ffrank strata 1\n{layer.d}\n{layer.d_out}\n{layer.a}\n{p}\n{seed}\n{r}\n{s}\n{label}"
    expected = _expected(layer, r, s, aligned)
    for attempt in range(_ATTEMPTS):
        point = _Point.draw(layer, r, s, aligned, f"{heading}\n{attempt}")
        if point.generic(p, r, s, aligned) and point.ranks(layer, p, aligned) == expected:
            break
    else:
        raise ModulusError(f"expected a larger prime: no point of rank A = {r}, rank V = {s} mod {p} shows all ranks")
    found, span, tangent = expected
    singular = tangent > layer.dimension
    tight = layer.bounded and r == layer.a
    return Stratum(
        r, s, aligned, _listed(point.A), _listed(point.V),
        "tangent to {rank A <= a}" if tight else "all matrices",
        found, None if r * s == 0 else 2 if aligned is False else 1, span, tangent, layer.dimension,
        "singular" if singular else "smooth", layer.d > 1 and (r * s == 0 or aligned is True),
        _reason(layer, r, s, aligned, singular=singular),
    )  # fmt: skip


def _expected(layer: Layer, r: int, s: int, aligned: bool | None) -> tuple[int, int, int]:
    """Upper bounds, by theorems, of the ranks of differential, span and known tangent directions."""
    d, e = layer.d, layer.d_out
    tight = layer.bounded and r == layer.a
    scores = 2 * r * d - r * r if tight else d * d
    if r * s == 0:
        return (d * e if r else 0) + (scores if s else 0), layer.ambient, layer.ambient
    if aligned is None:
        rank = scores + d * e - 1  # the kernel is the rescaling
        return rank, rank, rank
    forms = 2 * d - 1  # quadratic forms in the ideal of f and g

    def both(quadrics: int) -> int:
        """Dimension of e⊗q⊗anything plus anything⊗q⊗h; on rank one, of e⊗fg⊗anything plus anything⊗q⊗h."""
        return quadrics * e + d - 1 if tight else quadrics * (d + e - 1)

    if aligned:
        rank = scores + d * e - d  # the kernel is W = e uᵀ, B = -u hᵀ for all u
        return rank, rank, both(layer.quadrics)
    return scores + d * e - 1, both(forms), both(forms)


@dataclass(frozen=True)
class _Point:
    """A = G·H and V = E·F with random small integer factors."""

    G: Integers
    H: Integers
    E: Integers
    F: Integers

    @classmethod
    def draw(cls, layer: Layer, r: int, s: int, aligned: bool | None, message: str) -> _Point:
        d, e = layer.d, layer.d_out
        sizes = ((d, r), (r, d), (e, s), (s, d))
        values = residues(message, _SPREAD, sum(m * n for m, n in sizes)) - _SPREAD // 2
        parts = np.split(values, np.cumsum([m * n for m, n in sizes])[:-1])
        G, H, E, F = (part.reshape(size) for part, size in zip(parts, sizes, strict=True))
        return cls(G, H, E, G.T.copy() if aligned else F)

    @property
    def A(self) -> Integers:
        return self.G @ self.H

    @property
    def V(self) -> Integers:
        return self.E @ self.F

    def generic(self, p: int, r: int, s: int, aligned: bool | None) -> bool:
        """Whether the ranks of A and V, and the position of f and g, are as they should be even mod p."""
        right = _rank(self.A, p) == r and _rank(self.V, p) == s
        return right and (aligned is not False or _rank(np.concatenate([self.F, self.G.T]), p) == 2)

    def ranks(self, layer: Layer, p: int, aligned: bool | None) -> tuple[int, int, int]:
        """Ranks mod p of the differential, the span over all preimages, and all known tangent directions."""
        r, s = self.G.shape[1], self.E.shape[1]
        tight = layer.bounded and r == layer.a

        def image(f: Integers, g: Integers) -> Integers:
            """The differential at V = E·f, A = g·H."""
            return differential(g @ self.H, self.E @ f, p, factors=(g, self.H) if tight else None)

        here = image(self.F, self.G)
        rank = _rank(here, p)
        if r * s == 0:
            return rank, _zero_span(layer, p), layer.ambient
        if aligned is None:
            return rank, rank, rank
        if not aligned:
            swapped = self.G.T, self.F.T
            same = np.array_equal(
                coefficients(self.A % p, self.V % p, p),
                coefficients(swapped[1] @ self.H % p, self.E @ swapped[0] % p, p),
            )
            span = _rank(np.concatenate([here, image(*swapped)]), p) if same else -1
            return rank, span, span
        # Nearby, V = e fᵀ and A = (f + εu) hᵀ: both branches differ by ε times these directions. On rank one only
        # those for V are limits.
        limits = [here]
        for u in np.eye(layer.d, dtype=np.int64):
            turned = image(u[None], u[:, None])
            limits.append(turned[: self.E.shape[0] * layer.d] if tight else turned)
        return rank, rank, _rank(np.concatenate(limits), p)


@cache
def _zero_span(layer: Layer, p: int) -> int:
    """Rank of all v_i·a_m with a single 1 in V and in A: these are images of the differential at V = 0 or A = 0."""
    d, e = layer.d, layer.d_out
    reached = np.zeros(layer.ambient, bool)
    units = np.eye(e * d, dtype=np.int64).reshape(-1, e, d)
    for A in np.eye(d * d, dtype=np.int64).reshape(-1, d, d):
        rows = coefficients(np.broadcast_to(A, (len(units), d, d)), units, p)
        reached |= rows.any(axis=0)  # every row is a multiple of a unit vector
    return int(np.count_nonzero(reached))


def _rank(rows: Integers, p: int) -> int:
    return linalg.rank(np.ascontiguousarray(rows % p), p) if rows.size else 0


def _listed(matrix: Integers) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(x) for x in row) for row in matrix)


def _reason(layer: Layer, r: int, s: int, aligned: bool | None, *, singular: bool) -> str:
    if layer.d == 1:
        return "For d = 1 the functions fill a linear space."
    if r * s == 0:
        return "The zero function: a cone is smooth at its vertex only if it is a linear space, and this one is not."
    if aligned is None and singular:
        return "rank A < a < d: A + εB with B of rank one stays in {rank A <= a}; these directions exceed dim M."
    if aligned is None:
        where = "rank A = a" if layer.bounded else "a >= d"
        return (
            f"{where} and rank(A)·rank(V) >= 2: one preimage (unique factorization) and a differential whose kernel is "
            "the rescaling; the projective parametrization is proper, so it is a closed embedding near this point."
        )
    if layer.reducible:
        return _reducible_reason(layer, aligned=aligned)
    if aligned:
        return (
            "f is parallel to g and the differential drops; this is a limit of points where two branches meet, and the "
            "limits of their tangent directions exceed dim M."
        )
    more = ", and A + εB with B of rank one stays in {rank A <= a}" if layer.bounded and r < layer.a else ""
    return (
        "Two branches meet: V = e fᵀ, A = g hᵀ and V = e gᵀ, A = f hᵀ are one function"
        f"{more}; together their tangent directions exceed dim M."
    )


def _reducible_reason(layer: Layer, *, aligned: bool) -> str:
    forms = "d' = a = 1: the functions are f·g ⊗ h, quadratic forms of rank <= 2 times a vector"
    if not aligned:
        return f"{forms}; swapping f and g is a symmetry, both branches are one, and forms of rank 2 are smooth points."
    if layer.d == 2:
        return f"{forms}; for d = 2 these are all forms: the closure is smooth, and f² bounds the real functions in it."
    return f"{forms}; forms of rank 1 are singular: the limits of tangent directions exceed dim M."
