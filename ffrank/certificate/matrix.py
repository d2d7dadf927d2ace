"""A certificate for the rank mod p of one given matrix (FORMAT.md, section 10)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from ffrank import __version__, linalg
from ffrank.certificate.certificate import RankCertificate
from ffrank.certificate.witness import SECURITY, power_count
from ffrank.linalg.adapters import read
from ffrank.primes import residues
from ffrank.program.ir import digest

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["certify_rank", "matrix_digest"]

_SCHEMA = "ffrank-rank/1"


def matrix_digest(A: NDArray[np.int64], p: int) -> str:
    """SHA-256 of the shape, p and the residues, row-major, 8 bytes little-endian each."""
    head = np.array([*A.shape, p], dtype="<u8").tobytes()
    return hashlib.sha256(head + np.ascontiguousarray(A, dtype="<u8").tobytes()).hexdigest()


def certify_rank(A: Any, p: SupportsIndex | None = None, *, threads: int | None = None) -> RankCertificate:
    """Certify the rank of a matrix mod p, from both sides, for a checker that needs O(mn) operations.

    Parameters
    ----------
    A : matrix
        Whatever ``ffrank.rank`` takes.
    p : int, optional
        A prime below 2^61; not needed if A carries one.
    threads : int, optional
        The result does not depend on it.

    Returns
    -------
    RankCertificate
        Bound to the matrix, the prime and the rank profile. A false certificate passes with probability at most 2^-120.

    Raises
    ------
    MatrixError, ShapeError, ModulusError
        If A or p cannot be used.
    ResourceError
        If the memory does not suffice.
    """
    given = read(A, p)
    p = given.p
    values = np.remainder(given.values, p)
    found = linalg.ple(values, p, threads=threads)
    rows, columns = found.rows.tolist(), found.cols.tolist()
    content = {
        "schema": _SCHEMA,
        "prime": p,
        "shape": list(values.shape),
        "matrix": matrix_digest(values, p),
        "rank": found.rank,
        "rows": rows,
        "columns": columns,
    }
    claim = {"claim": "rank"} | {k: content[k] for k in ("matrix", "prime", "shape", "rows", "columns")}
    name, count = digest(claim), power_count(p, SECURITY)
    m, n = values.shape

    def challenges(side: str, size: int) -> NDArray[np.int64]:
        drawn = [residues(f"ffrank rank {side} 1\n{name}\n{j}", p, size) for j in range(count)]
        return np.stack(drawn, axis=1)

    def solved(right: NDArray[np.int64]) -> list[list[int]]:
        if not found.rank:
            return [[] for _ in range(count)]
        solutions: list[list[int]] = found.solve_minor(right).T.tolist()
        return solutions

    images = linalg.matmul(values, challenges("upper", n), p) if n and m else np.zeros((m, count), np.int64)
    content |= {"lower": solved(challenges("lower", found.rank)), "upper": solved(images[found.rows])}
    return RankCertificate(content | {"digest": digest(content), "versions": {"ffrank": __version__}})
