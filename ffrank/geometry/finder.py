"""Finding symmetries of a map whose symmetries are not known: linear vector fields g(θ) with J(θ, X)·g(θ) = 0.

An *ansatz* is a space of fields g = Σ c_k A_k θ with fixed sparse matrices A_k. The equations J(θ, X)·Σ c_k A_k θ = 0 at
random (θ, X) are linear in c; their solutions mod p are lifted to small fractions, and each lifted field is then
tested as an identity (:mod:`ffrank.geometry.identity`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, isqrt, lcm, prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ffrank import linalg
from ffrank.errors import InputError, ResourceError
from ffrank.geometry.identity import check_identities
from ffrank.primes import DEFAULT_PRIME, check_prime
from ffrank.program.bounds import bits
from ffrank.program.evaluate import Evaluator
from ffrank.program.points import draw_points, draw_theta

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ffrank.program.ir import Program

    Residues = NDArray[np.int64]

__all__ = ["FoundSymmetries", "Term", "check_symmetries", "field_matrix", "find_symmetries"]

Ansatz = Literal["tensors", "coupled", "full"]
_FULL = 24  # parameters up to which the full ansatz is taken by itself
_MOST_UNKNOWNS = 6000


@dataclass(frozen=True, slots=True)
class Term:
    """One contribution to a field: d(target) += matrix acting on an axis of the source.

    Attributes
    ----------
    axis : int or None
        0 is W ↦ M·W for a matrix W, 1 is W ↦ W·Mᵀ, and so on for tensors. None: M acts on all entries, row-major.
    rows, columns : int
        Shape of M.
    entries : tuple of (row, column, value)
        The nonzero entries of M, integers.
    """

    target: str
    axis: int | None
    source: str
    rows: int
    columns: int
    entries: tuple[tuple[int, int, int], ...]

    @property
    def matrix(self) -> NDArray[np.object_]:
        """M as an array of Python integers."""
        M = np.zeros((self.rows, self.columns), dtype=object)
        for i, j, x in self.entries:
            M[i, j] = x
        return M

    def to_json(self) -> dict[str, Any]:
        """As certificates may list it."""
        shape, entries = [self.rows, self.columns], [list(e) for e in self.entries]
        return {"target": self.target, "axis": self.axis, "source": self.source, "shape": shape, "entries": entries}


@dataclass(frozen=True)
class FoundSymmetries:
    """Linear vector fields along which a map does not change, and the bound that they give.

    Attributes
    ----------
    generators : tuple of tuple of Term
        Each is a field g with J·g = 0, up to ``error``. Multiples of fractional solutions by their denominators.
    rank : int
        Of all generators together at a random point mod ``prime``; the generic rank is at least this.
    parameters : int
        P.
    error : int or None
        Some generator is none with probability at most 2^error. None: the program has square roots, the generators
        passed all trials, and no bound is claimed.
    primes : tuple of int
        Of the trials.
    degree, norm_bits : int or None
        Of the identities that were tested.
    rejected : int
        Solutions mod p that did not lift to an identity over Q.
    ansatz : str
        The fields among which was searched.
    prime, seed : int
        Where the equations and the rank were computed.
    """

    generators: tuple[tuple[Term, ...], ...]
    rank: int
    parameters: int
    error: int | None
    primes: tuple[int, ...]
    degree: int | None
    norm_bits: int | None
    rejected: int
    ansatz: str
    prime: int
    seed: int

    @property
    def upper(self) -> int:
        """P - rank, an upper bound of the dimension up to ``error``: it may be too large, as more symmetries may exist."""
        return self.parameters - self.rank

    def to_json(self) -> dict[str, Any]:
        """Integers and strings only; enough to test every claim again."""
        return {
            "kind": "found-symmetry",
            "value": self.upper,
            "parameters": self.parameters,
            "rank": self.rank,
            "ansatz": self.ansatz,
            "prime": self.prime,
            "seed": self.seed,
            "error": self.error,
            "degree": self.degree,
            "norm_bits": self.norm_bits,
            "trials": list(self.primes),
            "rejected": self.rejected,
            "generators": [[term.to_json() for term in g] for g in self.generators],
        }


def find_symmetries(
    program: Program,
    *,
    ansatz: Literal["auto"] | Ansatz = "auto",
    prime: int = DEFAULT_PRIME,
    seed: int = 0,
    error: int = -100,
    threads: int | None = None,
) -> FoundSymmetries:
    """Search linear vector fields that leave f unchanged.

    Parameters
    ----------
    ansatz : {"auto", "tensors", "coupled", "full"}
        ``tensors``: each parameter tensor moves by matrices that act on its axes, dW = L·W + W·R for a matrix and
        db = L·b for a vector, all tensors jointly. ``coupled``: also by such matrices times other tensors, where shapes
        allow it. ``full``: dθ = M·θ with any P×P matrix M. ``auto``: full up to P = 24, else tensors.
    prime : int
        A prime with 2^16 < prime < 2^31.
    error : int
        The exponent of the probability that any generator may be wrong, at most -1.

    Returns
    -------
    FoundSymmetries
        All solutions of the ansatz, unless the prime or the points were unlucky or a basis over Q needs fractions beyond
        sqrt(p/2): then fewer. What is returned is right up to ``error``, whatever the luck.

    Raises
    ------
    ResourceError
        If the ansatz has more than 6,000 unknowns.
    ProgramError
        If no points with values are found, or degrees are too high for the error.

    Notes
    -----
    Exponentials are formal variables here, and this needs no hypothesis on them; see :mod:`ffrank.geometry.identity`.
    A nonlinear symmetry, such as a translation of a bias that the next layer undoes, is not found.
    """
    p = check_prime(prime, above=2**16, below=2**31)
    if error > -1:
        raise InputError(f"error: expected an exponent of at most -1, got {error}")
    if ansatz == "auto":
        ansatz = "full" if program.parameter_count <= _FULL else "tensors"
    blocks = _blocks(program, ansatz)
    solutions = _solutions(program, blocks, p, seed, threads)
    generators = [_terms(blocks, c) for c in (_lift(column, p) for column in solutions.T) if c is not None]
    found = check_symmetries(program, generators, prime=p, seed=seed, error=error, ansatz=ansatz, threads=threads)
    return replace(found, rejected=solutions.shape[1] - len(found.generators))


def check_symmetries(
    program: Program,
    generators: Sequence[tuple[Term, ...]],
    *,
    prime: int = DEFAULT_PRIME,
    seed: int = 0,
    error: int = -100,
    ansatz: str = "given",
    threads: int | None = None,
) -> FoundSymmetries:
    """Keep those of the given fields that pass the test as identities, and compute the rank of what is kept.

    Parameters
    ----------
    generators : sequence of tuple of Term
        Chosen without regard to the points that ``seed`` gives; otherwise the error is not what it says.
    prime, seed, error, threads
        As for :func:`find_symmetries`.

    Returns
    -------
    FoundSymmetries
        A rejected field is certainly no symmetry of the formal function. A kept one is one up to ``error``.
    """
    p = check_prime(prime, above=2, below=2**31)
    shapes = dict(program.parameters)
    fields = [_actions(program, shapes, g) for g in generators]
    norm = bits(max((_largest_row(f) for f in fields), default=1))
    name = [[term.to_json() for term in g] for g in generators]
    tested = check_identities(
        program, lambda theta, q: _matrix(fields, theta, q), len(fields), norm, name, seed=seed, error=error
    )
    kept = [g for g, holds in zip(generators, tested.holds, strict=True) if holds]
    theta = draw_theta(program, p, seed, "symmetry rank")
    rank = linalg.rank(field_matrix(program, kept, theta, p), p, threads=threads) if kept else 0
    return FoundSymmetries(
        tuple(kept), rank, program.parameter_count, tested.error, tested.primes, tested.degree, tested.norm_bits,
        len(fields) - len(kept), ansatz, p, seed,
    )  # fmt: skip


def field_matrix(program: Program, generators: Sequence[tuple[Term, ...]], theta: Residues, p: int) -> Residues:
    """The matrix of some fields at θ.

    Returns
    -------
    ndarray of shape (P, number of generators)
        Residues 0 … p-1.
    """
    shapes = dict(program.parameters)
    return _matrix([_actions(program, shapes, g) for g in generators], theta, p)


# ------------------------------------------------------------------------------------ fields, entry by entry

_Actions = list[tuple[int, int, int]]  # (target entry, source entry, integer): dθ_target += integer·θ_source


def _actions(program: Program, shapes: dict[str, tuple[int, ...]], generator: tuple[Term, ...]) -> _Actions:
    """A field as the nonzero entries of its P×P matrix."""
    found: _Actions = []
    for term in generator:
        target, source = (_lines(program.offsets[n], shapes[n], term.axis) for n in (term.target, term.source))
        for i, j, x in term.entries:
            found += [(int(a), int(b), x) for a, b in zip(target[i], source[j], strict=True)]
    return found


def _lines(offset: int, shape: tuple[int, ...], axis: int | None) -> NDArray[np.int64]:
    """Positions in θ of a tensor's entries, as a matrix whose rows are its slices along an axis."""
    at = np.arange(offset, offset + prod(shape))
    return (
        at[:, None]
        if axis is None
        else np.moveaxis(at.reshape(shape or (1,)), axis, 0).reshape((shape or (1,))[axis], -1)
    )


def _largest_row(actions: _Actions) -> int:
    """The largest sum of absolute values of coefficients of one entry of a field."""
    sums: dict[int, int] = {}
    for target, _, x in actions:
        sums[target] = sums.get(target, 0) + abs(x)
    return max(sums.values(), default=1)


def _matrix(fields: Sequence[_Actions], theta: Residues, p: int) -> Residues:
    G = np.zeros((len(theta), len(fields)), np.int64)
    for column, actions in enumerate(fields):
        targets, sources = (np.array([a[i] for a in actions], np.int64) for i in (0, 1))
        values = np.array([a[2] % p for a in actions], np.int64) * theta[sources] % p
        np.add.at(G[:, column], targets, values)
    return G % p


# ------------------------------------------------------------------------------------------- the ansatz


@dataclass(frozen=True)
class _Block:
    """A free matrix of the ansatz: ``unknowns`` numbers its entries, -1 for those left out."""

    target: str
    axis: int | None
    source: str
    unknowns: NDArray[np.int64]
    targets: NDArray[np.int64]
    sources: NDArray[np.int64]


def _blocks(program: Program, ansatz: Ansatz) -> list[_Block]:
    """All free matrices.

    Acting by multiples of 1 is the same on every axis of a tensor, so the last diagonal entry is left out on all axes but
    the first: without this the ansatz would hold fields that are 0.
    """
    blocks: list[_Block] = []
    count = 0
    for target, shape in program.parameters:
        for source, other in program.parameters:
            if source != target and ansatz == "tensors":
                continue
            for axis in _axes(shape or (1,), other or (1,), ansatz):
                to = _lines(program.offsets[target], shape, axis)
                of = _lines(program.offsets[source], other, axis)
                free = np.ones((len(to), len(of)), bool)
                if axis and shape == other:
                    free[-1, -1] = False
                unknowns = np.full(free.shape, -1)
                unknowns[free] = np.arange(count, count + int(free.sum()))
                count += int(free.sum())
                if count > _MOST_UNKNOWNS:
                    raise ResourceError(
                        f"the ansatz {ansatz!r} has more than {_MOST_UNKNOWNS} unknowns; take a smaller map or ansatz"
                    )
                if free.any():
                    blocks.append(_Block(target, axis, source, unknowns, to, of))
    return blocks


def _axes(shape: tuple[int, ...], other: tuple[int, ...], ansatz: Ansatz) -> list[int | None]:
    """Axes along which a matrix can lead from one tensor to the other: all other axes have equal sizes."""
    if ansatz == "full":
        return [None]
    if len(shape) != len(other):
        return []
    return [k for k in range(len(shape)) if shape[:k] + shape[k + 1 :] == other[:k] + other[k + 1 :]]


def _ansatz_matrix(blocks: list[_Block], theta: Residues, p: int) -> Residues:
    """The matrix D(θ), of shape (P, unknowns): c ↦ Σ c_k A_k θ = D(θ)·c."""
    count = max((int(b.unknowns.max()) + 1 for b in blocks), default=0)
    D = np.zeros((len(theta), count), np.int64)
    for b in blocks:
        rows, columns = np.nonzero(b.unknowns >= 0)
        numbers = np.broadcast_to(b.unknowns[rows, columns][:, None], b.targets[rows].shape)
        np.add.at(D, (b.targets[rows], numbers), theta[b.sources[columns]])
    return D % p


def _solutions(program: Program, blocks: list[_Block], p: int, seed: int, threads: int | None) -> Residues:
    """A basis, in reduced echelon form, of the c with J(θ, X)·D(θ)·c = 0 at random points.

    Points are added until those at a whole new θ add no equation: if generic ones do not, none does.
    """
    P, m = program.parameter_count, program.output_count
    inputs = -(-P // m) if program.inputs else 1
    kept: Residues | None = None
    used, batch = 0, 1
    while True:
        parts = [] if kept is None else [kept]
        for at in range(used, used + batch):
            theta = draw_theta(program, p, seed, f"symmetry {at}")
            points = draw_points(program, p, seed, theta, [f"symmetry {at} {i}" for i in range(inputs)])
            J = Evaluator(program, p, theta).jacobian(points.inputs, points.draws)
            parts.append(linalg.matmul(J, _ansatz_matrix(blocks, theta, p), p, threads=threads))
        used += batch
        rows = np.concatenate(parts)
        before = 0 if kept is None else len(kept)
        kept = rows[linalg.row_rank_profile(rows, p, threads=threads)]
        gained, unknowns = len(kept) - before, rows.shape[1]
        if len(kept) == unknowns or gained == 0:
            basis: Residues = linalg.nullspace(kept, p, threads=threads)
            return basis
        # as many more θ as the missing equations could need at this rate, but at least one
        batch = max(1, min(8, (unknowns - len(kept)) * batch // (2 * gained)))


def _lift(column: Residues, p: int) -> list[int] | None:
    """Integers that are proportional mod p to a solution, from fractions with terms up to sqrt(p/2); None if there are none.

    Any column mod p has such fractions with a fair chance: that they mean something is for the test to find.
    """
    fractions = {x: _fraction(int(x), p) for x in np.unique(column)}
    if any(f is None for f in fractions.values()):
        return None
    known = {x: f for x, f in fractions.items() if f is not None}
    scale = lcm(*(d for _, d in known.values()))
    values = [known[x][0] * (scale // known[x][1]) for x in column]
    common = gcd(*values)
    return [v // common for v in values] if common else None


def _fraction(x: int, p: int) -> tuple[int, int] | None:
    """The (n, d) with n = d·x mod p and |n|, d ≤ sqrt(p/2) (Wang's algorithm)."""
    bound = isqrt(p // 2)
    r0, r1, t0, t1 = p, x, 0, 1
    while r1 > bound:
        q = r0 // r1
        r0, r1, t0, t1 = r1, r0 - q * r1, t1, t0 - q * t1
    if abs(t1) > bound:
        return None
    return (r1, t1) if t1 > 0 else (-r1, -t1)


def _terms(blocks: list[_Block], c: list[int]) -> tuple[Term, ...]:
    """The field with the coefficients c."""
    terms = []
    for b in blocks:
        rows, columns = b.unknowns.shape
        entries = tuple(
            (i, j, c[b.unknowns[i, j]])
            for i in range(rows)
            for j in range(columns)
            if b.unknowns[i, j] >= 0 and c[b.unknowns[i, j]]
        )
        if entries:
            terms.append(Term(b.target, b.axis, b.source, rows, columns, entries))
    return tuple(terms)
