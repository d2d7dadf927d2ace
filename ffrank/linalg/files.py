"""Matrices in files: Matrix Market, SMS, .npy, .npz and plain text, compressed or not, and standard input.

The format is told by the first bytes, not by the name. All readers return exact integers, or fractions where the
format holds them.
"""

from __future__ import annotations

import gzip
import io
import re
import sys
import zipfile
import zlib
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ffrank.errors import InputError, MatrixError, ResourceError
from ffrank.linalg.memory import available_memory

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["read_matrix"]

_SMS = re.compile(rb"\s*(\d+)\s+(\d+)\s+[MmIiRrPpSs]\b[^\n]*\n")
_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}")
_PLAIN = re.compile(r"[-+0-9, \t\r\n]*")
_SEPARATOR = re.compile(r"\s*[,;]\s*|\s+")


def read_matrix(source: str | os.PathLike[str]) -> NDArray[Any]:
    """Read a matrix from a file, or from standard input for ``"-"``.

    Parameters
    ----------
    source
        A path. Recognised are NumPy's .npy and .npz (with one array, or with a sparse matrix as SciPy saves it), Matrix
        Market (``coordinate`` and ``array``; integer or pattern; general, symmetric or skew-symmetric), SMS
        (``m n M``, triples counted from 1, ``0 0 0``), and rows of numbers separated by blanks, commas or
        semicolons, with ``#`` or ``%`` starting a comment; each of them gzipped or not.

    Returns
    -------
    A
        A two-dimensional array: int64 where every entry fits, else of Python integers or fractions.

    Raises
    ------
    InputError
        If the file cannot be read.
    MatrixError
        If it does not hold a matrix of integers or fractions.
    ResourceError
        If the matrix would not fit into the memory.
    """
    name = "standard input" if str(source) == "-" else str(source)
    try:
        data = sys.stdin.buffer.read() if str(source) == "-" else Path(source).read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"expected a readable file, got {name}: {error}") from None
    try:
        return _parse(data)
    except MatrixError as error:
        raise MatrixError(f"{name}: {error}") from None


def _parse(data: bytes) -> NDArray[Any]:
    if data[:6] == b"\x93NUMPY":
        return _numpy(data)
    if data[:4] == b"PK\x03\x04":
        return _archive(data)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise MatrixError("expected text or a NumPy file, got other binary data") from None
    if text[:14].lower() == "%%matrixmarket":
        return _matrix_market(text)
    header = _SMS.match(data)
    if header:
        return _sms(text, int(header[1]), int(header[2]))
    return _table(text)


def _numpy(data: bytes) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise MatrixError(f"expected an array of numbers, got {error}") from None
    return array


def _archive(data: bytes) -> NDArray[Any]:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            found = {name: archive[name] for name in archive.files}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise MatrixError(f"expected an archive of arrays, got {error}") from None
    if "format" in found and "shape" in found:
        from scipy import sparse

        from ffrank.linalg.adapters import entries

        return entries(sparse.load_npz(io.BytesIO(data))).values
    if len(found) != 1:
        raise MatrixError(f"expected one array, got {len(found)}: {', '.join(sorted(found))[:80]}")
    return next(iter(found.values()))


def _matrix_market(text: str) -> NDArray[Any]:
    lines = iter(text.splitlines())
    banner = next(lines).lower().split()
    if len(banner) != 5 or banner[1] != "matrix":
        raise MatrixError("expected %%MatrixMarket matrix FORMAT FIELD SYMMETRY")
    layout, kind, symmetry = banner[2:]
    if layout not in ("coordinate", "array") or symmetry not in ("general", "symmetric", "skew-symmetric"):
        raise MatrixError(f"expected a general, symmetric or skew-symmetric matrix, got {layout} {symmetry}")
    if kind not in ("integer", "pattern"):
        raise MatrixError(f"expected integer or pattern entries, got {kind}")
    rows = (line for line in map(str.strip, lines) if line and not line.startswith("%"))
    size = [_integer(x) for x in next(rows, "").split()]
    if layout == "array":
        if len(size) != 2:
            raise MatrixError(f"expected the size m n, got {size}")
        triples = _columns(rows, size[0], size[1], symmetry)
    else:
        if len(size) != 3:
            raise MatrixError(f"expected the size m n entries, got {size}")
        triples = _triples(rows, size[2], pattern=kind == "pattern")
    return _assemble(size[0], size[1], triples, symmetry)


def _triples(rows: Iterator[str], count: int, *, pattern: bool) -> Iterator[tuple[int, int, Any]]:
    seen = 0
    for line in rows:
        fields = line.split()
        if len(fields) != (2 if pattern else 3):
            raise MatrixError(f"expected {'i j' if pattern else 'i j value'}, got {line[:60]!r}")
        seen += 1
        yield _integer(fields[0]), _integer(fields[1]), 1 if pattern else _integer(fields[2])
    if seen != count:
        raise MatrixError(f"expected {count} entries, got {seen}")


def _columns(rows: Iterator[str], m: int, n: int, symmetry: str) -> Iterator[tuple[int, int, Any]]:
    values = (_integer(x) for line in rows for x in line.split())
    skip = {"general": None, "symmetric": 0, "skew-symmetric": 1}[symmetry]
    for j in range(1, n + 1):
        for i in range(1 if skip is None else j + skip, m + 1):
            value = next(values, None)
            if value is None:
                raise MatrixError(f"expected an entry at ({i}, {j}), got the end of the file")
            yield i, j, value
    if next(values, None) is not None:
        raise MatrixError("expected the end of the file, got more entries")


def _sms(text: str, m: int, n: int) -> NDArray[Any]:
    def triples() -> Iterator[tuple[int, int, Any]]:
        for line in text.splitlines()[1:]:
            fields = line.split()
            if not fields:
                continue
            if len(fields) != 3:
                raise MatrixError(f"expected i j value, got {line[:60]!r}")
            i, j = _integer(fields[0]), _integer(fields[1])
            if i == j == 0:
                return
            yield i, j, _number(fields[2])
        raise MatrixError("expected 0 0 0 at the end, got the end of the file")

    return _assemble(m, n, triples(), "general")


def _assemble(m: int, n: int, triples: Iterator[tuple[int, int, Any]], symmetry: str) -> NDArray[Any]:
    """Add up triples counted from 1."""
    if m < 0 or n < 0:
        raise MatrixError(f"expected a size, got {m} {n}")
    _require(m, n)
    A = np.zeros((m, n), dtype=object)
    for i, j, value in triples:
        if not (1 <= i <= m and 1 <= j <= n):
            raise MatrixError(f"expected an index within ({m}, {n}), got ({i}, {j})")
        A[i - 1, j - 1] += value
        if symmetry != "general" and i != j:
            if max(i, j) > min(m, n):
                raise MatrixError(f"expected a square matrix for {symmetry}, got size ({m}, {n})")
            A[j - 1, i - 1] += value if symmetry == "symmetric" else -value
    return _shrunk(A)


def _table(text: str) -> NDArray[Any]:
    if _PLAIN.fullmatch(text) and text.strip():
        try:
            return np.loadtxt(text.splitlines(), np.int64, ndmin=2, delimiter="," if "," in text else None)
        except ValueError:
            pass  # a fault, which is named below, or an integer that needs more bits
    rows: list[list[int | Fraction]] = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = re.split("[#%]", line, maxsplit=1)[0].strip()
        if not bare:
            continue
        fields = _SEPARATOR.split(bare)
        try:
            rows.append([_number(x) for x in fields])
        except MatrixError as error:
            header = not rows and not any(map(_INTEGER.match, fields))
            raise MatrixError(f"line {number}: {error}{'; remove the header line' if header else ''}") from None
        if len(rows[-1]) != len(rows[0]):
            raise MatrixError(f"line {number}: expected {len(rows[0])} entries as in the first row, got {len(fields)}")
    if not rows:
        return np.zeros((0, 0), np.int64)
    A = np.empty((len(rows), len(rows[0])), dtype=object)
    A[:] = rows
    return _shrunk(A)


def _number(text: str) -> int | Fraction:
    top, slash, bottom = text.partition("/")
    if not _INTEGER.fullmatch(top) or (slash and not (_INTEGER.fullmatch(bottom) and int(bottom))):
        raise MatrixError(f"expected an integer or a fraction a/b, got {text[:40]!r}")
    return Fraction(int(top), int(bottom)) if slash else int(top)


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise MatrixError(f"expected an integer, got {text[:40]!r}")
    return int(text)


def _shrunk(A: NDArray[Any]) -> NDArray[Any]:
    """Return A as int64 if it fits."""
    try:
        if all(type(x) is int for x in A.flat):
            return A.astype(np.int64)
    except OverflowError:
        pass
    return A


def _require(m: int, n: int) -> None:
    free = available_memory()
    if free is not None and 16 * m * n > free:
        raise ResourceError(f"a matrix of size ({m}, {n}) needs {16 * m * n:,} bytes, but {free:,} are available")
