"""What follows from the factors: echelon forms, kernels, solutions, determinants, inverses; and products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from ffrank.errors import InputError, MatrixError, ModulusError, ShapeError
from ffrank.linalg.adapters import Matrix, read, read_like
from ffrank.linalg.blocks import Block
from ffrank.linalg.choose import field_for
from ffrank.linalg.memory import require_memory
from ffrank.linalg.products import subtract_product
from ffrank.linalg.ranks import factor
from ffrank.linalg.results import Solution
from ffrank.linalg.threads import Team
from ffrank.linalg.triangles import solve_left

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["det", "inverse", "matmul", "nullspace", "rref", "solve"]


def rref(A: Any, p: SupportsIndex | None = None, *, threads: int | None = None) -> tuple[Any, NDArray[np.int64]]:
    """Return the reduced row echelon form of A mod p and its pivot columns.

    Parameters
    ----------
    A, p, threads
        As for ``rank_profile``.

    Returns
    -------
    R, pivots
        R of shape (m, n) with zero rows last, entries in [0, p), of the kind of A if that is a galois
        array; and the pivot columns, increasing. R is unique.

    Raises
    ------
    MatrixError, ShapeError, ModulusError
        If A or p cannot be used.
    """
    M = read(A, p)
    R, pivots = _rref(M, threads)
    full = np.zeros(M.values.shape, np.int64)
    full[: len(pivots)] = R
    return M.give(full), pivots


def _rref(M: Matrix, threads: int | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the nonzero rows of the reduced row echelon form, and the pivots."""
    F = factor(M, threads)
    r, n = F.rank, F.shape[1]
    work = float(r) * r * n
    field = field_for(M.p, work)
    W = F._work.part(0, r, 0, n)
    for k, j in enumerate(F.cols):
        W.a[k, :j] = 0  # where L was kept
    upper = Block.of(np.ascontiguousarray(W.a[:, F.cols]))  # a copy: W is overwritten
    with Team(threads, work) as team:
        solve_left(field, team, upper, W, unit=False, upper=True)
    R = field.store(W)
    R[:, F.cols] = np.eye(r, dtype=np.int64)
    return R, F.cols


def nullspace(A: Any, p: SupportsIndex | None = None, *, side: Literal["right", "left"] = "right",
              threads: int | None = None) -> Any:  # fmt: skip
    """Return a basis of the kernel of A mod p.

    Parameters
    ----------
    A, p, threads
        As for ``rank_profile``.
    side
        "right" for the columns x with A·x = 0, "left" for the rows y with y·A = 0.

    Returns
    -------
    N
        Shape (n, n - r) with A·N = 0, or (m - r, m) with N·A = 0; entries in [0, p). The basis is the
        canonical one, the identity on the positions outside the rank profile.

    Raises
    ------
    MatrixError, ShapeError, ModulusError, InputError
        If A, p or side cannot be used.
    """
    M = read(A, p)
    if side not in ("right", "left"):
        raise InputError(f'expected side "right" or "left", got {side!r}')
    if side == "left":
        M = Matrix(M.values.T, M.p, M.wrap)
    n = M.values.shape[1]
    R, pivots = _rref(M, threads)
    free = np.setdiff1d(np.arange(n), pivots)
    N = np.zeros((n, len(free)), np.int64)
    N[pivots] = np.where(R[:, free] == 0, 0, M.p - R[:, free])
    N[free, np.arange(len(free))] = 1
    return M.give(N.T.copy() if side == "left" else N)


def solve(A: Any, B: Any, p: SupportsIndex | None = None, *, threads: int | None = None) -> Solution:
    """Solve A·X = B mod p.

    Parameters
    ----------
    A, p, threads
        As for ``rank_profile``.
    B
        Right-hand sides, of shape (m, k) or (m,), in any of the same forms.

    Returns
    -------
    Solution
        ``X`` of shape (n, k) or (n,), or ``X = None`` and a ``witness`` of inconsistency.

    Raises
    ------
    MatrixError, ShapeError, ModulusError
        If A, B or p cannot be used, or their sizes or moduli do not fit.
    """
    M, b = _pair(A, B, p)
    if b.values.shape[0] != M.values.shape[0]:
        raise ShapeError(f"expected B with {M.values.shape[0]} rows, got shape {b.values.shape}")
    F = factor(M, threads)
    columns = b.values.ndim == 2
    right = b.values if columns else b.values[:, None]
    k = right.shape[1]
    X = np.zeros((F.shape[1], k), np.int64)
    X[F.cols] = F.solve_minor(right[F.rows])
    rest = F.perm[F.rank :]
    if len(rest) and k:
        # The other rows are combinations of the pivot rows; B must satisfy the same relations.
        gap = (_matmul(M.p, M.values[rest], X, threads) - right[rest] % M.p).any(axis=1)
        if gap.any():
            bad = rest[int(np.argmax(gap))]
            witness = np.zeros(F.shape[0], np.int64)
            witness[F.rows] = -F.solve_minor_transposed(M.values[bad, F.cols]) % M.p
            witness[bad] = 1
            return Solution(None, b.give(witness))
    return Solution(b.give(X if columns else X[:, 0]), None)


def det(A: Any, p: SupportsIndex | None = None, *, threads: int | None = None) -> int:
    """Return the determinant of a square matrix mod p, in [0, p); that of a 0×0 matrix is 1.

    Raises
    ------
    ShapeError
        If A is not square.
    MatrixError, ModulusError
        If A or p cannot be used.
    """
    M = _square(read(A, p))
    F = factor(M, threads)
    n = F.shape[0]
    if F.rank < n:
        return 0
    value = _sign(F.perm)
    for x in np.diagonal(field_for(M.p, 0).store(F._work)).tolist():
        value = value * x % M.p
    return value % M.p


def inverse(A: Any, p: SupportsIndex | None = None, *, threads: int | None = None) -> Any:
    """Return the inverse of a square matrix mod p, entries in [0, p).

    Raises
    ------
    ShapeError
        If A is not square.
    MatrixError
        If A is singular mod p or cannot be read.
    ModulusError
        If p cannot be used.
    """
    M = _square(read(A, p))
    F = factor(M, threads)
    if F.rank < F.shape[0]:
        raise MatrixError(f"expected an invertible matrix, got one of rank {F.rank} < {F.shape[0]} mod {M.p}")
    return M.give(F.solve_minor(np.eye(F.shape[0], dtype=np.int64)))


def matmul(A: Any, B: Any, p: SupportsIndex | None = None, *, threads: int | None = None) -> Any:
    """Return A·B mod p for an m×n matrix A and an n×k matrix B or a vector B of length n.

    Raises
    ------
    MatrixError, ShapeError, ModulusError
        If A, B or p cannot be used, or their sizes or moduli do not fit.
    """
    M, b = _pair(A, B, p)
    if M.values.shape[1] != b.values.shape[0]:
        raise ShapeError(f"expected B with {M.values.shape[1]} rows, got shape {b.values.shape}")
    right = b.values if b.values.ndim == 2 else b.values[:, None]
    C = _matmul(M.p, M.values, right, threads)
    return b.give(C if b.values.ndim == 2 else C[:, 0])


def _matmul(p: int, A: NDArray[np.int64], B: NDArray[np.int64], threads: int | None) -> NDArray[np.int64]:
    (m, n), k = A.shape, B.shape[1]
    work = float(m) * n * k
    field = field_for(p, work)
    require_memory(8 * (m * n + n * k + 2 * m * k), f"a product of {m}×{n} and {n}×{k} matrices")
    left, right, C = (Block.of(np.zeros(shape, field.dtype)) for shape in ((m, n), (n, k), (m, k)))
    with Team(threads, work) as team:
        field.load(A, left, team)
        field.load(B, right, team)
        np.negative(left.a, out=left.a)
        subtract_product(field, team, C, left, right)
    return field.store(C)


def _pair(A: Any, B: Any, p: SupportsIndex | None) -> tuple[Matrix, Matrix]:
    """Read two operands over one field; either may bring the modulus."""
    if p is None:
        try:
            M = read(A, None)
        except ModulusError:
            p = read(B, None, name="B", vector=True).p
            M = read(A, p)
    else:
        M = read(A, p)
    return M, read_like(B, M)


def _square(M: Matrix) -> Matrix:
    m, n = M.values.shape
    if m != n:
        raise ShapeError(f"expected a square matrix, got shape ({m}, {n})")
    return M


def _sign(perm: NDArray[np.int64]) -> int:
    """Return the sign of a permutation."""
    sign, seen = 1, np.zeros(len(perm), bool)
    for i in range(len(perm)):
        j, length = i, 0
        while not seen[j]:
            seen[j] = True
            j = perm[j]
            length += 1
        if length and length % 2 == 0:
            sign = -sign
    return sign
