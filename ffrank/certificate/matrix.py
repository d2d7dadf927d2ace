"""A certificate for the rank of one given matrix, mod p or over Q (FORMAT.md, section 10)."""

from __future__ import annotations

import hashlib
import sys
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from ffrank import __version__, linalg
from ffrank.certificate.certificate import RankCertificate
from ffrank.certificate.witness import SECURITY, power_count
from ffrank.errors import MatrixError
from ffrank.linalg.adapters import entries, read
from ffrank.linalg.adapters import residues as residues_of
from ffrank.linalg.rational import as_fraction, prove_rank
from ffrank.primes import residues
from ffrank.program.ir import digest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ffrank.linalg.adapters import Entries, Matrix
    from ffrank.linalg.results import PLE

__all__ = ["certify_rank", "matrix_digest", "matrix_text", "rational_digest"]

_SCHEMA = "ffrank-rank/1"
_SCHEMA_OVER_Q = "ffrank-rational-rank/1"


def matrix_digest(A: NDArray[Any], p: int) -> str:
    """SHA-256 of the shape, p and the residues of integers or fractions, row-major, 8 bytes little-endian each."""
    head = np.array([*A.shape, p], dtype="<u8").tobytes()
    return hashlib.sha256(head + np.remainder(residues_of(A, p), p).astype("<u8").tobytes()).hexdigest()


def rational_digest(A: NDArray[Any]) -> str:
    """SHA-256 of the shape on a line, then a line for each row: integers or fractions in lowest terms, blanks between.

    Raises
    ------
    MatrixError
        If an entry has more digits than Python writes.
    """
    m, n = A.shape
    return hashlib.sha256(f"{m} {n}\n".encode() + matrix_text(A)).hexdigest()


def matrix_text(A: NDArray[Any]) -> bytes:
    """A line for each row of a matrix of integers or fractions, blanks between the entries: a file for the checker."""
    rows = A.tolist() if A.dtype.kind in "iu" else [[as_fraction(x) for x in row] for row in A]
    try:
        return "".join(" ".join(map(str, row)) + "\n" for row in rows).encode("ascii")
    except ValueError:
        limit = sys.get_int_max_str_digits()
        raise MatrixError(f"expected entries of at most {limit} digits for a certificate, got a longer one") from None


def certify_rank(A: Any, p: SupportsIndex | None = None, *, threads: int | None = None) -> RankCertificate:
    """Certify the rank of a matrix, mod p or over Q, from both sides.

    Parameters
    ----------
    A : matrix
        Whatever ``ffrank.rank`` takes.
    p : int, optional
        A prime below 2^61; not needed if A carries one. Without it the rank over Q is certified.
    threads : int, optional
        The result does not depend on it.

    Returns
    -------
    RankCertificate
        Bound to the matrix, the prime and the rank profile. Mod p a checker needs O(mn) operations; over Q, if the
        rank is not full, it multiplies the relations out, which needs O(mr) for each of min(m, n) - r of them. A false
        lower bound, or a false upper bound mod p, passes with probability at most 2^-120.

    Raises
    ------
    MatrixError, ShapeError, ModulusError
        If A or p cannot be used.
    ResourceError
        If the memory does not suffice.
    """
    found = entries(A)
    if p is None and found.modulus is None:
        return _over_q(found, threads)
    return _mod_p(read(A, p), threads)


def _mod_p(given: Matrix, threads: int | None) -> RankCertificate:
    p = given.p
    values = np.remainder(given.values, p)
    found = linalg.ple(values, p, threads=threads)
    content = _facts(_SCHEMA, p, values.shape, matrix_digest(values, p), found.rows, found.cols)
    name = _claim(content)
    m, n = values.shape
    random = _challenges("upper", name, p, n)
    images = linalg.matmul(values, random, p) if n and m else np.zeros((m, random.shape[1]), np.int64)
    lower = _solved(found, _challenges("lower", name, p, found.rank))
    return _sealed(content | {"lower": lower, "upper": _solved(found, images[found.rows])})


def _over_q(given: Entries, threads: int | None) -> RankCertificate:
    found = prove_rank(given, threads)
    p = found.prime
    values = given.values
    content = _facts(_SCHEMA_OVER_Q, p, values.shape, rational_digest(values), found.rows, found.cols)
    minor = linalg.ple(residues_of(values[np.ix_(found.rows, found.cols)], p), p, threads=threads)
    pairs = zip(found.denominators, found.numerators.T, strict=True)
    relations = [[f"{scale:x}", *(f"{x:x}" for x in column)] for scale, column in pairs]
    lower = _solved(minor, _challenges("lower", _claim(content), p, found.rank))
    return _sealed(content | {"lower": lower, "relations": relations})


def _facts(schema: str, p: int, shape: tuple[int, ...], name: str, rows: NDArray[np.int64],
           columns: NDArray[np.int64]) -> dict[str, Any]:  # fmt: skip
    content = {"schema": schema, "prime": p, "shape": list(shape), "matrix": name, "rank": len(rows)}
    return content | {"rows": rows.tolist(), "columns": columns.tolist()}


def _claim(content: dict[str, Any]) -> str:
    return digest({"claim": "rank"} | {k: content[k] for k in ("matrix", "prime", "shape", "rows", "columns")})


def _challenges(side: str, name: str, p: int, size: int) -> NDArray[np.int64]:
    count = power_count(p, SECURITY)
    return np.stack([residues(f"ffrank rank {side} 1\n{name}\n{j}", p, size) for j in range(count)], axis=1)


def _solved(found: PLE, right: NDArray[np.int64]) -> list[list[int]]:
    if not found.rank:
        return [[] for _ in range(right.shape[1])]
    solutions: list[list[int]] = found.solve_minor(right).T.tolist()
    return solutions


def _sealed(content: dict[str, Any]) -> RankCertificate:
    return RankCertificate(content | {"digest": digest(content), "versions": {"ffrank": __version__}})
