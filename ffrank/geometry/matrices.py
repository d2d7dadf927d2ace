"""Small exact matrices over Q or F_p: object arrays of Fractions, or of residues as Python integers.

Meant for weights of a few hundred entries; large matrices mod p belong to :mod:`ffrank.linalg`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ffrank.errors import MatrixError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[Any]

__all__ = ["Field", "first_entry", "listed"]


@dataclass(frozen=True)
class Field:
    """Q, or F_p for a prime p that the caller has checked.

    Attributes
    ----------
    p
        The prime, or None for Q.
    """

    p: int | None = None

    def read(self, A: Any) -> Matrix:
        """The entries as elements of the field; fractions need denominators that p does not divide."""
        values = np.asarray(A, dtype=object)
        out = np.empty(values.shape, dtype=object)
        for at in np.ndindex(values.shape):
            out[at] = self.element(values[at])
        return out

    def element(self, x: Any) -> Any:
        """One number as an element of the field."""
        number = Fraction(int(x.numerator), int(x.denominator))
        if self.p is None:
            return number
        return number.numerator * pow(number.denominator, -1, self.p) % self.p

    def inverse_of(self, x: Any) -> Any:
        """1/x for x ≠ 0."""
        return 1 / x if self.p is None else pow(x, -1, self.p)

    def reduce(self, A: Matrix) -> Matrix:
        """Bring sums and products of residues back to 0 … p-1; fractions stay."""
        return A if self.p is None else A % self.p

    def zeros(self, rows: int, columns: int) -> Matrix:
        """The zero matrix."""
        return self.read(np.zeros((rows, columns), dtype=object))

    def identity(self, n: int) -> Matrix:
        """The unit matrix."""
        return self.read(np.eye(n, dtype=int))

    def dot(self, *factors: Matrix) -> Matrix:
        """The product; inner dimensions may be 0."""
        product = factors[0]
        for factor in factors[1:]:
            if product.shape[1] == 0:
                product = self.zeros(product.shape[0], factor.shape[1])
            else:
                product = self.reduce(product @ factor)
        return product

    def rref(self, A: Matrix) -> tuple[Matrix, list[int]]:
        """The nonzero rows of the reduced row echelon form, and its pivot columns."""
        R, pivots, row = np.array(A, dtype=object), [], 0
        for column in range(R.shape[1]):
            at = next((i for i in range(row, len(R)) if R[i, column]), None)
            if at is None:
                continue
            if at != row:
                R[[row, at]] = R[[at, row]]
            R[row] = self.reduce(R[row] * self.inverse_of(R[row, column]))
            for i in range(len(R)):
                if i != row and R[i, column]:
                    R[i] = self.reduce(R[i] - R[row] * R[i, column])
            pivots.append(column)
            row += 1
        return R[:row], pivots

    def rank(self, A: Matrix) -> int:
        """The rank."""
        return len(self.rref(A)[1])

    def solve(self, A: Matrix, B: Matrix) -> Matrix | None:
        """One X with A·X = B, zero outside the pivot columns of A; None if there is none."""
        n = A.shape[1]
        R, pivots = self.rref(np.hstack([A, B]))
        if any(j >= n for j in pivots):
            return None
        X = self.zeros(n, B.shape[1])
        for row, j in enumerate(pivots):
            X[j] = R[row, n:]
        return X

    def inverse(self, A: Matrix) -> Matrix:
        """The inverse.

        Raises
        ------
        MatrixError
            If A is singular.
        """
        n = len(A)
        R, pivots = self.rref(np.hstack([A, self.identity(n)]))
        if pivots != list(range(n)):
            raise MatrixError(f"expected an invertible matrix, got one of rank {self.rank(A)} < {n}")
        return R[:, n:]

    def nullspace(self, A: Matrix) -> Matrix:
        """A basis of {x : A·x = 0}, as columns."""
        n = A.shape[1]
        R, pivots = self.rref(A)
        free = [j for j in range(n) if j not in set(pivots)]
        N = self.zeros(n, len(free))
        for k, j in enumerate(free):
            N[j, k] = self.element(1)
            for row, i in enumerate(pivots):
                N[i, k] = self.reduce(np.array([-R[row, j]], dtype=object))[0]
        return N


def first_entry(A: Matrix) -> Any:
    """The first nonzero entry, row by row; 0 if there is none."""
    return next((x for x in A.flat if x), 0)


def listed(A: Any) -> Any:
    """Nested lists with integers as they are and fractions as text, for JSON."""
    if isinstance(A, np.ndarray):
        return [listed(x) for x in A]
    return int(A) if A.denominator == 1 else str(A)
