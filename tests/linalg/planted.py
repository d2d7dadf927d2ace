"""Matrices of known rank, from sparse to dense, for the tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PRIMES = [2, 3, 5, 257, 65537, 8388593, 33554393, 67108859, 2147483647, 4294967291, 8589934583, 2305843009213693951]


def mul(X: NDArray[np.int64], Y: NDArray[np.int64], p: int) -> NDArray[np.int64]:
    """Multiply exactly: float64 products of 21-bit limbs, below 2^53 for inner lengths up to 2048, then Python ints."""
    assert X.shape[1] == Y.shape[0] <= 2048
    left, right = ([(Z % p >> s & (1 << 21) - 1).astype(float) for s in (0, 21, 42)] for Z in (X, Y))
    total = np.zeros((X.shape[0], Y.shape[1]), dtype=object)
    for i, x in enumerate(left):
        for j, y in enumerate(right):
            if x.any() and y.any():
                total += (x @ y).astype(np.int64).astype(object) << 21 * (i + j)
    return (total % p).astype(np.int64)


def planted(rng: np.random.Generator, p: int, m: int, n: int, r: int, density: float = 1.0) -> NDArray[np.int64]:
    """Return an m×n matrix of rank r: a scattered diagonal, then random row and column additions."""
    A = np.zeros((m, n), np.int64)
    A[rng.permutation(m)[:r], rng.permutation(n)[:r]] = rng.integers(1, p, r)
    for _ in range(int(density * 2 * m)):
        i, k = rng.integers(m, size=2)
        if i != k:
            A[i] = (A[i] + A[k].astype(object) * int(rng.integers(p))) % p
    for _ in range(int(density * 2 * n)):
        i, k = rng.integers(n, size=2)
        if i != k:
            A[:, i] = (A[:, i] + A[:, k].astype(object) * int(rng.integers(p))) % p
    return A


def shapes(rng: np.random.Generator, p: int, *, large: bool = False):
    """Yield (name, A): shapes, ranks and patterns that have broken eliminations before."""

    def r(m, n):
        return rng.integers(0, p, (m, n), dtype=np.int64)

    small = (0, 5), (5, 0), (0, 0), (1, 1), (1, 70), (70, 1), (3, 200), (200, 3), (33, 33)
    for m, n in (*small, (64, 65), (97, 130), (150, 90), (130, 130)):
        yield f"random {m}x{n}", r(m, n)
        yield f"zero {m}x{n}", np.zeros((m, n), np.int64)
    square = (100, 100, 50), (120, 80, 1), (80, 150, 33), (130, 130, 129), (140, 70, 64)
    for m, n, k in (*square, (60, 200, 0), (40, 400, 39), (400, 40, 17)):
        yield f"rank {k} {m}x{n}", mul(r(m, k), r(k, n), p)
    A = r(120, 120)
    A[:40], A[:, 30:70] = 0, 0
    yield "zero blocks", A
    A = r(120, 125)
    A[:, 20:55] = 0
    yield "zero columns", A
    A = r(110, 130)
    A[:, 1::2] = A[:, ::2]
    yield "equal columns", A
    A = r(130, 110)
    A[1::2] = A[::2]
    yield "equal rows", A
    yield "permutation", np.eye(129, dtype=np.int64)[rng.permutation(129)]
    A = np.zeros((100, 140), np.int64)
    A[rng.integers(100, size=70), rng.integers(140, size=70)] = rng.integers(1, p, 70)
    yield "scattered", A
    yield "sparse", np.where(rng.random((120, 120)) < 0.03, r(120, 120), 0)
    yield "sparse wide", np.where(rng.random((50, 300)) < 0.02, r(50, 300), 0)
    yield "sparse tall", np.where(rng.random((300, 50)) < 0.02, r(300, 50), 0)
    A = np.zeros((120, 120), np.int64)
    A[:60, 60:], A[60:, :60] = r(60, 60), r(60, 60)
    yield "anti-blocks", A
    yield "anti-triangle", np.fliplr(np.triu(r(100, 100)))
    yield "all p-1", np.full((90, 95), p - 1, dtype=np.int64)
    h = (p - 1) // 2
    yield "balanced extremes", np.where(rng.random((140, 140)) < 0.5, h, p - h).astype(np.int64)
    A = np.tril(np.full((140, 140), h, dtype=np.int64))
    np.fill_diagonal(A, 1)
    yield "extreme factors", mul(A, A.T, p)
    yield "Vandermonde", np.array([[pow(i, j, p) for j in range(60)] for i in range(100)], dtype=np.int64)
    yield "negative", r(50, 50) - p
