"""Finding symmetries of a map whose symmetries are not known: vector fields g(θ) with J(θ, X)·g(θ) = 0.

An *ansatz* is a space of fields D(θ)·c with unknown coefficients c (:mod:`ffrank.geometry.ansatz`). The equations
J(θ, X)·D(θ)·c = 0 at random (θ, X) are linear in c; their solutions mod p are lifted to small fractions, and each
lifted field is then tested as an identity (:mod:`ffrank.geometry.identity`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, isqrt, lcm
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ffrank import linalg
from ffrank.errors import InputError, ProgramError
from ffrank.geometry.ansatz import (
    Ansatz,
    Block,
    Term,
    ansatz_blocks,
    ansatz_matrix,
    divisors_of,
    field_matrix,
    fields_norm,
    terms_of,
)
from ffrank.geometry.identity import FieldShape, check_identities
from ffrank.primes import DEFAULT_PRIME, check_prime
from ffrank.program.evaluate import Evaluator
from ffrank.program.points import draw_points, draw_theta

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ffrank.program.ir import Program

    Residues = NDArray[np.int64]

__all__ = ["FoundSymmetries", "check_symmetries", "find_symmetries"]

_MOST_REDRAWS = 1000
_FULL = 24  # parameters up to which the full ansatz is taken by itself


@dataclass(frozen=True)
class FoundSymmetries:
    """Vector fields along which a map does not change, and the bound that they give.

    Attributes
    ----------
    generators : tuple of tuple of Term
        Each is a field g with J·g = 0, up to ``error``: integer multiples of fractional solutions.
    rank : int
        Of all generators together at a random point mod ``prime``; the generic rank is at least this.
    parameters : int
        P.
    error : int or None
        Some generator is no symmetry with probability at most 2^error. None: the program has too many square roots;
        the generators passed all trials, but no bound is claimed. With any square roots at all, the bound supposes that
        no product of their radicands is a constant times a square (independence of roots, which is for the caller to
        certify): ``assumes_independent_roots``.
    primes : tuple of int
        Of the trials.
    degree, norm_bits : int or None
        Of the identities that were tested.
    rejected : int
        Candidates that did not lift or did not pass.
    ansatz : str
        The fields among which was searched.
    prime, seed : int
        Where the equations and the rank were computed.
    assumes_independent_roots : bool
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
    assumes_independent_roots: bool

    @property
    def upper(self) -> int:
        """P - rank, an upper bound of the dimension up to ``error``; too large where other symmetries exist."""
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
            "assumes_independent_roots": self.assumes_independent_roots,
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
    """Search vector fields along which f does not change.

    Parameters
    ----------
    ansatz : {"auto", "tensors", "coupled", "full"}
        ``tensors``: each parameter tensor moves by matrices that act on its axes, all tensors jointly:
        dW = L·W + W·R + S for a matrix, db = L·b + s + Σ W·u for a vector, with all matrices W that have as many rows
        (or columns). Where the map has square roots, also dW = u·(1/v)ᵀ and db = u·Σ(w/v), for vectors v and the w that
        come right behind them: a W behind a LayerNorm with gain v and shift w does not see them. ``coupled``: also by
        such matrices times other tensors, where shapes allow it. ``full``: dθ = M·θ + s with any P×P matrix M.
        ``auto``: full up to P = 24, else tensors.
    prime : int
        A prime with 2^16 < prime < 2^31.
    error : int
        The exponent of the probability with which any generator may be wrong, at most -1.

    Returns
    -------
    FoundSymmetries
        A basis of all solutions of the ansatz, unless the prime or the points were unlucky or the basis has fractions
        with terms beyond sqrt(p/2): then fewer. What is returned is right up to ``error``, whatever the luck.

    Raises
    ------
    ResourceError
        If the ansatz has more than 6,000 unknowns.
    ProgramError
        If the map has no parameters, no points with values are found, or degrees are too high for the error.

    Notes
    -----
    Exponentials are formal variables here, and this needs no hypothesis on them; see :mod:`ffrank.geometry.identity`.
    Other symmetries that are not affine in θ are not found.
    """
    p = check_prime(prime, above=2**16, below=2**31)
    if error > -1:
        raise InputError(f"error: expected an exponent of at most -1, got {error}")
    if not program.parameter_count:
        raise ProgramError("expected a map with parameters")
    if ansatz == "auto":
        ansatz = "full" if program.parameter_count <= _FULL else "tensors"
    blocks = ansatz_blocks(program, ansatz)
    solutions = _solutions(program, blocks, p, seed, threads)
    lifted = [c for c in (_lift(column, p) for column in solutions.T) if c is not None]
    generators = [terms_of(blocks, c) for c in lifted]
    found = check_symmetries(program, generators, prime=p, seed=seed, error=error, threads=threads)
    return replace(found, ansatz=ansatz, rejected=solutions.shape[1] - len(found.generators))


def check_symmetries(
    program: Program,
    generators: Sequence[tuple[Term, ...]],
    *,
    prime: int = DEFAULT_PRIME,
    seed: int = 0,
    error: int = -100,
    threads: int | None = None,
) -> FoundSymmetries:
    """Keep those of the given fields that pass the test as identities, and compute the rank of what is kept.

    Parameters
    ----------
    generators : sequence of tuple of Term
        Chosen without regard to the points that ``seed`` gives for them; otherwise the error is not what it says.
    prime, seed, error
        As for :func:`find_symmetries`.

    Returns
    -------
    FoundSymmetries
        A rejected field is certainly no symmetry of the formal function. A kept one is a symmetry up to ``error``.
    """
    p = check_prime(prime, above=2, below=2**31)
    name = [[term.to_json() for term in g] for g in generators]

    def fields(theta: Residues, q: int) -> Residues:
        return field_matrix(program, generators, theta, q)

    shape = FieldShape(len(generators), fields_norm(program, generators), divisors_of(generators))
    tested = check_identities(program, fields, shape, name, seed=seed, error=error)
    kept = [g for g, holds in zip(generators, tested.holds, strict=True) if holds]
    rank = linalg.rank(fields_at(program, kept, p, seed), p, threads=threads) if kept else 0
    return FoundSymmetries(
        tuple(kept), rank, program.parameter_count, tested.error, tested.primes, tested.degree, tested.norm_bits,
        len(generators) - len(kept), "given", p, seed, any(i.op == "sqrt" for i in program.instructions),
    )  # fmt: skip


def fields_at(program: Program, generators: Sequence[tuple[Term, ...]], p: int, seed: int) -> Residues:
    """The matrix of the fields at a random θ without zeros, where their quotients exist.

    Returns
    -------
    ndarray of shape (P, number of generators)
    """
    again = 0
    while True:
        theta = draw_theta(program, p, seed, f"symmetry rank {again}")
        if theta.all() or again > _MOST_REDRAWS:
            return field_matrix(program, generators, theta, p)
        again += 1


def _solutions(program: Program, blocks: list[Block], p: int, seed: int, threads: int | None) -> Residues:
    """A basis, one column a vector, of the c with J(θ, X)·D(θ)·c = 0 at random points.

    Points are added until those at a whole new θ add no equation: if generic ones do not, none does.
    """
    inputs = -(-program.parameter_count // program.output_count) if program.inputs else 1
    rows: list[Residues] = []
    used, known, batch = 0, 0, 1
    while True:
        for at in range(used, used + batch):
            theta = draw_theta(program, p, seed, f"symmetry {at}")
            points = draw_points(program, p, seed, theta, [f"symmetry {at} {i}" for i in range(inputs)])
            J = Evaluator(program, p, theta).jacobian(points.inputs, points.draws)
            rows.append(linalg.matmul(J, ansatz_matrix(program, blocks, theta, p), p, threads=threads))
        used += batch
        stacked = np.concatenate(rows)
        kept = stacked[linalg.row_rank_profile(stacked, p, threads=threads)]
        gained, unknowns = len(kept) - known, stacked.shape[1]
        if len(kept) == unknowns or gained == 0:
            basis: Residues = linalg.nullspace(kept, p, threads=threads)
            return basis
        rows, known = [kept], len(kept)
        # half as many further θ as the missing equations would take at this rate
        batch = max(1, min(8, (unknowns - known) * batch // (2 * gained)))


def _lift(column: Residues, p: int) -> list[int] | None:
    """Integers that are proportional mod p to a solution, from fractions with terms up to sqrt(p/2), or None.

    Any column mod p has such fractions with a fair chance: whether they mean something is for the test to find.
    """
    fractions = {int(x): _fraction(int(x), p) for x in np.unique(column)}
    known = {x: f for x, f in fractions.items() if f is not None}
    if len(known) < len(fractions):
        return None
    scale = lcm(*(d for _, d in known.values()))
    values = [known[x][0] * (scale // known[x][1]) for x in column.tolist()]
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
