"""Slow twins in pure Python: every entry a Python int, every step the textbook's."""

from __future__ import annotations

from typing import Any

Rows = list[list[int]]


def rows_of(A: Any, p: int) -> Rows:
    return [[int(x) % p for x in row] for row in A]


def rref(A: Any, p: int, n: int) -> tuple[Rows, list[int]]:
    """Gauss-Jordan, column by column."""
    R, pivots, r = rows_of(A, p), [], 0
    for j in range(n):
        i = next((i for i in range(r, len(R)) if R[i][j]), None)
        if i is None:
            continue
        R[r], R[i] = R[i], R[r]
        f = pow(R[r][j], -1, p)
        R[r] = [x * f % p for x in R[r]]
        for k, row in enumerate(R):
            if k != r and row[j]:
                R[k] = [(x - row[j] * y) % p for x, y in zip(row, R[r], strict=True)]
        pivots.append(j)
        r += 1
    return R, pivots


def transpose(A: Any, n: int) -> Rows:
    return [[int(row[j]) for row in A] for j in range(n)]


def rank_profiles(A: Any, p: int, m: int, n: int) -> tuple[list[int], list[int]]:
    """Row and column rank profile, each from its own elimination."""
    return rref(transpose(A, n), p, m)[1], rref(A, p, n)[1]


def det(A: Any, p: int) -> int:
    M, d = rows_of(A, p), 1
    n = len(M)
    for j in range(n):
        i = next((i for i in range(j, n) if M[i][j]), None)
        if i is None:
            return 0
        if i != j:
            M[i], M[j], d = M[j], M[i], -d
        d = d * M[j][j] % p
        f = pow(M[j][j], -1, p)
        for k in range(j + 1, n):
            c = M[k][j] * f % p
            M[k] = [(x - c * y) % p for x, y in zip(M[k], M[j], strict=True)]
    return d % p


def matmul(A: Any, B: Any, p: int) -> Rows:
    columns = list(zip(*[[int(x) for x in row] for row in B], strict=True))
    return [[sum(int(x) * y for x, y in zip(row, c, strict=True)) % p for c in columns] for row in A]
