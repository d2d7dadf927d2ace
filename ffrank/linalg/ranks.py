"""Ranks, rank profiles and factors of dense matrices mod a prime p < 2^61."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from ffrank.linalg.adapters import Matrix, entries, read
from ffrank.linalg.blocks import Block, empty_block
from ffrank.linalg.choose import field_for, panel_width, worth_chunks
from ffrank.linalg.elimination import Elimination, profile_in_chunks
from ffrank.linalg.memory import require_memory
from ffrank.linalg.results import PLE, RankProfile
from ffrank.linalg.threads import Team

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ffrank.linalg.fields import Field

__all__ = ["col_rank_profile", "factor", "ple", "rank", "rank_profile", "row_rank_profile"]


def rank(A: Any, p: SupportsIndex | None = None, *, threads: int | None = None, overwrite: bool = False) -> int:
    """Return the rank of A mod p, or over Q.

    Parameters
    ----------
    A, p, threads, overwrite
        As for ``rank_profile``. Without p, and for an A that carries none, the rank over Q is meant: it is
        proven, see ``rank_over_q``.

    Raises
    ------
    MatrixError, ShapeError, ModulusError
        If A or p cannot be used.
    ResourceError
        If the memory does not suffice.
    """
    if p is None:
        found = entries(A)
        if found.modulus is None:
            from ffrank.linalg.rational import prove_rank

            return prove_rank(found, threads).rank
    return rank_profile(A, p, threads=threads, overwrite=overwrite).rank


def row_rank_profile(A: Any, p: SupportsIndex | None = None, *, threads: int | None = None,
                     overwrite: bool = False) -> NDArray[np.int64]:  # fmt: skip
    """Return the first independent rows of A mod p, increasing; see ``rank_profile``."""
    return rank_profile(A, p, threads=threads, overwrite=overwrite).rows


def col_rank_profile(A: Any, p: SupportsIndex | None = None, *, threads: int | None = None,
                     overwrite: bool = False) -> NDArray[np.int64]:  # fmt: skip
    """Return the first independent columns of A mod p, increasing; see ``rank_profile``."""
    return rank_profile(A, p, threads=threads, overwrite=overwrite).cols


def rank_profile(A: Any, p: SupportsIndex | None = None, *, threads: int | None = None,
                 overwrite: bool = False) -> RankProfile:  # fmt: skip
    """Return the rank of A mod p with its row and column rank profiles.

    Parameters
    ----------
    A
        An m×n matrix in any form that ``ffrank.linalg.adapters`` lists. A C-contiguous int64 array is
        used where it is.
    p
        A prime below 2^61; may be omitted if A carries one.
    threads
        Number of threads; by default all usable cores for large matrices, one for small ones and inside
        worker processes. The result does not depend on it.
    overwrite
        Allow A to be destroyed, if it is a writeable C-contiguous int64 array.

    Returns
    -------
    RankProfile
        ``rank``, ``rows``, ``cols``.

    Raises
    ------
    MatrixError, ShapeError, ModulusError
        If A or p cannot be used.
    ResourceError
        If the memory does not suffice.

    Notes
    -----
    Exact and deterministic, O(m·n·r) operations. Beside A, a working copy of 8·m·n bytes is made, or none
    with ``overwrite``. If one side is over 1.5 times the other, s, then A stays as it is and
    8·s·(s + 2·max(s, 1024)) bytes suffice. Scratch: for sides above 1000, up to a quarter of the copy; and
    4 kilobytes (p < 2^33) or 30 (above) per column and thread.
    """
    M = read(A, p)
    values = M.values
    m, n = values.shape
    short, long = (m, n) if m <= n else (n, m)
    work = float(short) ** 2 * long
    field = field_for(M.p, work)
    if short == 0:
        return RankProfile(0, np.empty(0, np.int64), np.empty(0, np.int64))
    chunks = worth_chunks(short, long)
    # A transposed elimination needs a copy, which ``overwrite`` is there to save.
    transposed = m > n and (chunks or not overwrite)
    width = panel_width(field, n if transposed else m)
    with Team(threads, work) as team:
        if chunks:
            require_memory(8 * short * (short + 2 * max(short, 1024)), f"the rank of a {m}×{n} matrix")
            rows, cols = profile_in_chunks(field, values, team, width=width, transposed=transposed)
        else:
            W = _working_copy(field, values, team, overwrite=overwrite, transposed=transposed)
            done = Elimination(field, W, team, width=width, factors=False)
            rows, cols = done.rows[: done.rank], done.cols
    if transposed:
        rows, cols = cols, rows
    return RankProfile(len(rows), np.sort(rows), np.sort(cols))


def ple(A: Any, p: SupportsIndex | None = None, *, threads: int | None = None, overwrite: bool = False) -> PLE:
    """Factor A = P·L·E mod p.

    Parameters
    ----------
    A, p, threads, overwrite
        As for ``rank_profile``.

    Returns
    -------
    PLE
        Rank, profiles, permutation, and the factors on demand; solves with the pivot minor.

    Raises
    ------
    MatrixError, ShapeError, ModulusError
        If A or p cannot be used.
    ResourceError
        If the memory does not suffice.

    Notes
    -----
    The factors occupy 8·m·n bytes, which are those of A with ``overwrite``; scratch as for ``rank_profile``.
    """
    return factor(read(A, p), threads, overwrite=overwrite)


def factor(M: Matrix, threads: int | None, *, overwrite: bool = False) -> PLE:
    """Factor a matrix that has been read; see ``ple``."""
    m, n = M.values.shape
    work = float(min(m, n)) * m * n
    field = field_for(M.p, work)
    with Team(threads, work) as team:
        W = _working_copy(field, M.values, team, overwrite=overwrite)
        done = Elimination(field, W, team, width=panel_width(field, m), factors=True)
    return PLE(M.p, (m, n), done.rank, np.sort(done.rows[: done.rank]), done.cols, done.rows, W, threads)


def _working_copy(field: Field, A: NDArray[np.int64], team: Team, *, overwrite: bool = False,
                  transposed: bool = False) -> Block:  # fmt: skip
    """Return the stored residues of A (or of its transpose), in the memory of A if allowed and possible."""
    m, n = A.shape
    if overwrite and not transposed and A.flags.c_contiguous and A.flags.writeable:
        W = Block.of(A.view(field.dtype))
    else:
        require_memory(8 * m * n, f"a working copy of a {m}×{n} matrix")
        W = empty_block(*((n, m) if transposed else (m, n)), field.dtype)
    field.load(A, W, team, transposed=transposed)
    return W
