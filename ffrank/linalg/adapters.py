"""Input: from whatever holds a matrix to int64 residues, exactly or not at all.

Accepted: nested sequences of integers or fractions, NumPy arrays of every integer dtype or of objects
(booleans count as 0 and 1), galois arrays over prime fields, python-flint matrices, SciPy sparse matrices and
SymPy matrices. Floats are refused even where they look like integers.
"""

from __future__ import annotations

import operator
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from ffrank.errors import MatrixError, ModulusError, ShapeError
from ffrank.linalg.modulus import checked

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["Entries", "Matrix", "entries", "fraction", "read", "read_like", "residues"]

_INT64_MAX = 2**63 - 1


@dataclass(frozen=True)
class Entries:
    """The exact entries of a matrix: an array of integers, or of objects that are integers or fractions.

    ``modulus`` is the prime the matrix came with, if any; ``wrap`` turns a result back into the kind of
    array that came in.
    """

    values: NDArray[Any]
    modulus: int | None = None
    wrap: Callable[[NDArray[np.int64]], Any] | None = None


@dataclass(frozen=True)
class Matrix:
    """A matrix mod p: int64 integers congruent to its entries, not necessarily reduced."""

    values: NDArray[np.int64]
    p: int
    wrap: Callable[[NDArray[np.int64]], Any] | None = None

    def give(self, X: NDArray[np.int64]) -> Any:
        """Return X as the kind of array that came in."""
        return X if self.wrap is None else self.wrap(X)


def read(A: Any, p: SupportsIndex | None, *, name: str = "A", vector: bool = False) -> Matrix:
    """Return A mod p as int64; p may be omitted if A carries it. A C-contiguous int64 array is not copied.

    Raises
    ------
    MatrixError
        If A is not a matrix of integers, or of fractions with denominators prime to p.
    ShapeError
        If A is not two-dimensional (or one-dimensional, where ``vector`` allows it).
    ModulusError
        If p is not a prime below 2^61, is missing, or differs from the modulus of A.
    """
    if type(A) is np.ndarray and A.dtype == np.int64 and p is not None:
        _check_shape(A.shape, name, vector=vector)
        return Matrix(A, checked(p))
    if p is not None:
        p = checked(p)
    found = entries(A, name=name, vector=vector)
    if found.modulus is not None:
        if p is not None and p != found.modulus:
            raise ModulusError(f"expected {name} mod {p}, got a matrix mod {found.modulus}; convert one of them")
        p = checked(found.modulus)
    if p is None:
        raise ModulusError(f"expected a prime p for a matrix of integers, got none; pass p, say {2**31 - 1}")
    return Matrix(residues(found.values, p, name), p, found.wrap)


def read_like(B: Any, A: Matrix, *, name: str = "B") -> Matrix:
    """Read a second operand, a matrix or a vector, over the field of the first."""
    found = read(B, A.p, name=name, vector=True)
    return Matrix(found.values, A.p, A.wrap or found.wrap)


def entries(A: Any, *, name: str = "A", vector: bool = False) -> Entries:
    """Return the exact entries of A; see ``read`` for what is refused."""
    for reader in (_from_galois, _from_flint, _from_scipy):
        found = reader(A, name)
        if found is not None:
            _check_shape(found.values.shape, name, vector=vector)
            return found
    if isinstance(A, np.ma.MaskedArray):
        raise MatrixError(f"expected plain entries in {name}, got a masked array; fill it first")
    values = A if isinstance(A, np.ndarray) else _from_sequence(A, name)
    values = np.asarray(values)
    _check_shape(values.shape, name, vector=vector)
    kind = values.dtype.kind
    if kind == "O":
        for x in values.flat:
            _check_entry(x, name)
    elif kind == "b":
        values = values.astype(np.int64)
    elif kind not in "iu":
        raise MatrixError(f"expected exact integers in {name}, got dtype {values.dtype}; convert with astype(int) "
                          "only if every entry is an integer")  # fmt: skip
    return Entries(values)


def residues(values: NDArray[Any], p: int, name: str = "A") -> NDArray[np.int64]:
    """Return int64 integers congruent to ``values`` mod p."""
    if values.dtype == np.int64:
        return values
    if values.dtype.kind == "O":
        flat = [_residue(x, p, name) for x in values.flat]
        return np.array(flat, dtype=np.int64).reshape(values.shape)
    if values.dtype.kind == "u" and values.dtype.itemsize == 8 and values.size and values.max() > _INT64_MAX:
        return (values % np.uint64(p)).astype(np.int64)
    return values.astype(np.int64)


def _residue(x: Any, p: int, name: str) -> int:
    try:
        return operator.index(x) % p
    except TypeError:
        numerator, denominator = fraction(x)
    if denominator % p == 0:
        raise MatrixError(f"expected denominators prime to p = {p} in {name}, got {x}; choose another prime")
    return numerator * pow(denominator, -1, p) % p


def fraction(x: Any) -> tuple[int, int]:
    """Return numerator and denominator of a Fraction, a SymPy rational or a FLINT fmpq."""
    if hasattr(x, "numerator") and hasattr(x, "denominator"):
        return operator.index(x.numerator), operator.index(x.denominator)
    return int(x.p), int(x.q)


def _check_entry(x: Any, name: str) -> None:
    if isinstance(x, int):
        return
    try:
        operator.index(x)
    except TypeError:
        try:
            if not isinstance(x, (float, np.floating, str)):
                fraction(x)
                return
        except (AttributeError, TypeError, ValueError):
            pass
        raise MatrixError(f"expected integers or fractions in {name}, got {type(x).__name__} {x!r:.40}") from None


def _check_shape(shape: tuple[int, ...], name: str, *, vector: bool) -> None:
    if len(shape) == 2 or (vector and len(shape) == 1):
        return
    wanted = "a matrix or a vector" if vector else "a matrix (two dimensions)"
    raise ShapeError(f"expected {name} to be {wanted}, got shape {shape}")


def _from_sequence(A: Any, name: str) -> NDArray[Any]:
    if hasattr(A, "__array__") and not hasattr(A, "tolist"):
        return np.asarray(A)
    if hasattr(A, "shape") and hasattr(A, "tolist"):  # SymPy, and other array libraries
        shape, A = tuple(A.shape), A.tolist()
        if 0 in shape:
            return np.zeros(shape, np.int64)
    elif not isinstance(A, (list, tuple)):
        raise MatrixError(f"expected a matrix for {name}, got {type(A).__name__}")
    try:
        array = np.array(A)
        if array.dtype.kind not in "iub":
            array = np.array(A, dtype=object)
    except (ValueError, OverflowError) as error:
        what = "ragged rows" if "inhomogeneous" in str(error) else error
        raise MatrixError(f"expected rows of equal length in {name}, got {what}") from None
    if array.size == 0:
        return np.zeros(array.shape if array.ndim >= 2 else (0, 0), np.int64)
    return array


def _from_galois(A: Any, name: str) -> Entries | None:
    galois = sys.modules.get("galois")
    if galois is None or not isinstance(A, galois.FieldArray):
        return None
    field = type(A)
    if field.degree != 1:
        raise MatrixError(f"expected entries of a prime field in {name}, got {field.name}; extension fields are not "
                          "supported")  # fmt: skip
    return Entries(A.view(np.ndarray), int(field.characteristic), field)


def _from_flint(A: Any, name: str) -> Entries | None:
    flint = sys.modules.get("flint")
    if flint is None or not type(A).__module__.startswith("flint"):
        return None
    if not hasattr(A, "nrows") or not hasattr(A, "entries"):
        raise MatrixError(f"expected a matrix for {name}, got {type(A).__name__}")
    shape = A.nrows(), A.ncols()
    modular = isinstance(A, (flint.nmod_mat, flint.fmpz_mod_mat))
    if not modular and not isinstance(A, (flint.fmpz_mat, flint.fmpq_mat)):
        raise MatrixError(f"expected a matrix of integers, fractions or residues for {name}, got {type(A).__name__}")
    listed = [int(x) for x in A.entries()] if modular else A.entries()
    values = np.array(listed, dtype=np.uint64 if isinstance(A, flint.nmod_mat) else object)
    return Entries(values.reshape(shape), int(A.modulus()) if modular else None)


def _from_scipy(A: Any, name: str) -> Entries | None:
    sparse = sys.modules.get("scipy.sparse")
    if sparse is None or not sparse.issparse(A):
        return None
    triples = A.tocoo()
    if triples.dtype.kind not in "iub":
        raise MatrixError(f"expected exact integers in {name}, got dtype {triples.dtype} in a sparse matrix")
    if len(triples.shape) != 2:
        raise ShapeError(f"expected {name} to be a matrix (two dimensions), got shape {triples.shape}")
    m, n = triples.shape
    at = triples.row.astype(np.int64) * n + triples.col
    if len(np.unique(at)) == len(at):
        dense = np.zeros(m * n, np.int64 if triples.dtype.kind == "b" else triples.dtype)
        dense[at] = triples.data
        return Entries(dense.reshape(m, n))
    exact = np.zeros(m * n, dtype=object)
    np.add.at(exact, at, triples.data.astype(object))
    return Entries(exact.reshape(m, n))
