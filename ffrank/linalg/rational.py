"""The rank over Q, proven from both sides.

A minor that is not zero mod p is not zero over Q, so the rank mod any prime is a lower bound. For the upper
bound the remaining columns are written as rational combinations of the pivot columns: a solution of the
pivot rows, lifted p-adically (Dixon, Numer. Math. 40, 1982), is reconstructed and then checked on *all*
rows in integer arithmetic. If the check fails although the solution must have been found, the prime was unlucky,
and another one is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from ffrank.errors import MatrixError
from ffrank.linalg.adapters import Entries, entries, fraction
from ffrank.linalg.ranks import ple
from ffrank.primes import trial_prime

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ffrank.linalg.results import PLE

__all__ = ["RationalRank", "rank_over_q"]


@dataclass(frozen=True, eq=False)
class RationalRank:
    """The rank over Q with what proves it.

    Attributes
    ----------
    rank
        The rank r.
    rows, cols
        Rank profiles mod ``prime``; the minor of A on them is not zero mod ``prime``, so the rank is at least r.
    numerators, denominators
        Integers N (r×k) and d (k) with A[:, cols]·N = A[:, others]·diag(d) and d ≠ 0, where ``others`` are
        the k = n - r columns not in ``cols``; so the rank is at most r. If ``transposed``, the same for
        the transpose, with ``rows`` for ``cols``. Both are empty if r = min(m, n), the upper bound.
    transposed
        Whether the relations are between rows.
    prime
        The prime of the lower bound.
    """

    rank: int
    rows: NDArray[np.int64]
    cols: NDArray[np.int64]
    numerators: NDArray[Any]
    denominators: NDArray[Any]
    transposed: bool
    prime: int


def rank_over_q(A: Any, *, threads: int | None = None) -> RationalRank:
    """Return the rank over Q of a matrix of integers or fractions, with a proof.

    Parameters
    ----------
    A
        An m×n matrix of integers or fractions, in any form that ``ffrank.linalg.adapters`` lists.
    threads
        As for ``rank_profile``.

    Raises
    ------
    MatrixError, ShapeError
        If A cannot be read exactly, or lives over a finite field.

    Notes
    -----
    Full rank costs one elimination. Otherwise the lifting takes O(r·log(r·max|A|)) steps of O(r²·k)
    operations each for k = n - r columns: suited to a few thousand rows of small integers and a small k.
    The relations are taken between rows if those are fewer, so k = min(m, n) - r.
    """
    return prove_rank(entries(A), threads)


def prove_rank(found: Entries, threads: int | None) -> RationalRank:
    if found.modulus is not None:
        raise MatrixError(f"expected integers or fractions, got a matrix mod {found.modulus}")
    # First turned, then scaled: factors of rows leave relations between columns as they are.
    transposed = found.values.shape[0] < found.values.shape[1]
    A, scales = _integers(found.values.T if transposed else found.values)
    n = A.shape[1]
    used: set[int] = set()
    while True:
        p = trial_prime("rank over Q", 0, len(used), frozenset(used))
        used.add(p)
        if any(scale % p == 0 for scale in scales):
            continue
        F = ple(A, p, threads=threads)
        if F.rank == n:
            relations = np.zeros((n, 0), dtype=object), np.zeros(0, dtype=object)
        else:
            lifted = _relations(A, F)
            if lifted is None:
                continue
            relations = lifted
        rows, cols = (F.cols, F.rows) if transposed else (F.rows, F.cols)
        return RationalRank(F.rank, rows, cols, *relations, transposed, p)


def _integers(values: NDArray[Any]) -> tuple[NDArray[Any], set[int]]:
    """Multiply rows of fractions by common denominators; return int64 integers, if they fit, and the factors."""
    if values.dtype.kind in "iu":
        return (values.astype(np.int64) if values.dtype.itemsize < 8 else _shrunk(values.astype(object))), set()
    rows, scales = [], set()
    for row in values:
        pairs = [_pair(x) for x in row]
        scale = math.lcm(*(d for _, d in pairs))
        scales.add(scale)
        rows.append([a * (scale // d) for a, d in pairs])
    out = np.empty(values.shape, dtype=object)
    if out.size:
        out[:] = rows
    return _shrunk(out), scales


def as_fraction(x: Any) -> Fraction:
    """Return an integer or a fraction of any kind as a Fraction."""
    return Fraction(*_pair(x))


def _pair(x: Any) -> tuple[int, int]:
    try:
        return x.__index__(), 1
    except AttributeError:
        return fraction(x)


def _shrunk(A: NDArray[Any]) -> NDArray[Any]:
    largest = max((abs(x) for x in A.flat), default=0)
    return A.astype(np.int64) if largest < 2**63 else A


def _relations(A: NDArray[Any], F: PLE) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return N and d with A[:, cols]·N = A[:, others]·diag(d), or None if the prime was unlucky."""
    p, r = F.p, F.rank
    others = np.setdiff1d(np.arange(A.shape[1]), F.cols)
    left, right = A[:, F.cols], A[:, others]
    minor, rest = left[F.rows], right[F.rows]
    if r == 0:
        return None if A.any() else (np.zeros((0, len(others)), dtype=object), np.full(len(others), 1, dtype=object))
    exact = _exact_product(minor, rest, p)
    limit = 2 * _hadamard_bits(minor, rest) + 2
    X, power = np.zeros(rest.shape, dtype=object), 1
    gap, steps, attempt = rest, 0, 4
    while True:
        digit = F.solve_minor(gap)
        X += digit.astype(object) * power
        power *= p
        steps += 1
        gap = (gap - exact(digit)) // p
        done = power.bit_length() > limit
        if steps >= attempt or done:
            attempt = steps + max(4, steps // 4)
            candidate = _reconstruct(X, power)
            if candidate is not None:
                N, d = candidate
                if (left.astype(object) @ N == right.astype(object) * d).all():
                    return N, d
            if done:
                return None


def _exact_product(minor: NDArray[Any], rest: NDArray[Any], p: int) -> Callable[[NDArray[np.int64]], NDArray[Any]]:
    """Return the map x → minor·x for 0 ≤ x < p, in int64 where nothing can overflow."""
    largest = max(abs(int(x)) for M in (minor, rest) for x in (M.max(), M.min()))
    # |minor·x| < r·largest·p, and the gap never exceeds r·largest.
    if minor.dtype == np.int64 and minor.shape[0] * largest * p < 2**62:
        return lambda x: minor @ x
    wide = minor.astype(object)
    return lambda x: wide @ x.astype(object)


def _hadamard_bits(minor: NDArray[Any], rest: NDArray[Any]) -> int:
    """Return a bound on the bits of every minor of [minor | rest] of this size."""
    both = np.concatenate([minor.astype(object), rest.astype(object)], axis=1)
    return sum((sum(int(x) ** 2 for x in row).bit_length() + 1) // 2 + 1 for row in both)


def _reconstruct(X: NDArray[Any], modulus: int) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return integers N and d with N = X·diag(d) mod ``modulus``, all below its root, if there are any."""
    bound = math.isqrt(modulus // 2)
    N, d = np.empty(X.shape, dtype=object), np.empty(X.shape[1], dtype=object)
    for j in range(X.shape[1]):
        scale = 1
        for x in X[:, j]:
            part = _denominator(x * scale % modulus, modulus, bound)
            scale *= part
            if scale > bound:
                return None
        d[j] = scale
        column = X[:, j] * scale % modulus
        N[:, j] = [x - modulus if 2 * x > modulus else x for x in column]
    return N, d


def _denominator(x: int, modulus: int, bound: int) -> int:
    """Return the d > 0 of the fraction n/d = x mod ``modulus`` with |n| ≤ bound (Wang's algorithm)."""
    r0, r1, t0, t1 = modulus, x, 0, 1
    while r1 > bound:
        q = r0 // r1
        r0, r1, t0, t1 = r1, r0 - q * r1, t1, t0 - q * t1
    return abs(t1)
