"""Linear maps over Q that carry given vectors into given others: bases, dual pairs, isometries."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from ffrank.geometry.layers import Q

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[Any]

__all__ = ["carry_factors", "carry_isometry", "carry_span"]


def carry_span(S1: Matrix, S2: Matrix) -> Matrix | None:
    """An invertible C with C·S1 = S2, for independent columns; None if those of either side are not.

    The orthogonal complement of the span goes to the other one.
    """
    if Q.rank(S1) < S1.shape[1] or Q.rank(S2) < S2.shape[1]:
        return None
    first, second = (np.hstack([S, Q.nullspace(S.T)]) for S in (S1, S2))
    return Q.dot(second, Q.inverse(first))


def carry_factors(Q1: Matrix, K1: Matrix, Q2: Matrix, K2: Matrix) -> Matrix | None:
    """An invertible g with g·Q1 = Q2 and g^-T·K1 = K2, where K1ᵀQ1 = K2ᵀQ2; None if the factors are not generic.

    Generic is: the product has the largest rank that its sizes allow, or Q or K has full row rank.
    """
    a = len(Q1)
    for (X1, Y1), (X2, Y2), transposed in (((Q1, K1), (Q2, K2), False), ((K1, Q1), (K2, Q2), True)):
        pivots = Q.rref(X1)[1]
        sides = []
        for X, Y in ((X1, Y1), (X2, Y2)):
            basis = X[:, pivots] if len(pivots) == a else np.hstack([X[:, pivots], Q.nullspace(Y.T)])
            if basis.shape != (a, a) or Q.rank(basis) < a:
                break
            sides.append(basis)
        if len(sides) < 2:
            continue
        g = Q.dot(sides[1], Q.inverse(sides[0]))
        if (Q.dot(g, X1) == X2).all() and (Q.dot(g.T, Y2) == Y1).all():
            return Q.inverse(g).T if transposed else g
    return None


def carry_isometry(S1: Matrix, S2: Matrix) -> Matrix | None:
    """An o with o·S1 = S2 that preserves the form 2kᵀq of vectors (k; q); None if none is found.

    By Witt's theorem there is one if both sides have the same Gram matrix and equal ranks. It is found as a product
    of reflections where the form is not degenerate on the span, or by solving where the columns span everything.
    """
    n, a = len(S1), len(S1) // 2
    J = Q.zeros(n, n)
    for i in range(a):
        J[i, a + i] = J[a + i, i] = Fraction(1)
    pivots = Q.rref(S1)[1]
    X, Y = S1[:, pivots], S2[:, pivots]
    G = Q.dot(X.T, J, X)
    if (Q.dot(Y.T, J, Y) != G).any() or (Q.dot(S1.T, J, S1) != Q.dot(S2.T, J, S2)).any() or Q.rank(Y) < len(pivots):
        return None
    if len(pivots) == n:
        o = Q.dot(Y, Q.inverse(X))
        return o if (Q.dot(o, S1) == S2).all() else None
    turn = _diagonalise(G)
    if turn is None:
        return None
    o = Q.identity(n)
    for x, y in zip(Q.dot(X, turn).T, Q.dot(Y, turn).T, strict=True):
        here = Q.dot(o, x[:, None])[:, 0]
        if (here == y).all():
            continue
        if _form(J, here - y, here - y):
            o = Q.dot(_reflection(J, here - y), o)
        else:
            o = Q.dot(_reflection(J, y), _reflection(J, here + y), o)
    return o if (Q.dot(o, S1) == S2).all() else None


def _form(J: Matrix, x: Matrix, y: Matrix) -> Any:
    return (x @ J) @ y


def _reflection(J: Matrix, v: Matrix) -> Matrix:
    """X → x - 2 (x, v)/(v, v) v."""
    reflected: Matrix = Q.identity(len(J)) - np.outer(v, v @ J) * (2 / _form(J, v, v))
    return reflected


def _diagonalise(G: Matrix) -> Matrix | None:
    """An invertible T with TᵀGT diagonal and no zero on the diagonal; None if G is singular."""
    n = len(G)
    T = Q.identity(n)
    for k in range(n):
        H = Q.dot(T.T, G, T)
        at = next((i for i in range(k, n) if H[i, i]), None)
        if at is None:
            pair = next(((i, j) for i in range(k, n) for j in range(k, n) if H[i, j]), None)
            if pair is None:
                return None
            at = pair[0]
            T[:, at] = T[:, at] + T[:, pair[1]]
        T[:, [k, at]] = T[:, [at, k]]
        H = Q.dot(T.T, G, T)
        for i in range(k + 1, n):
            T[:, i] = T[:, i] - T[:, k] * (H[k, i] / H[k, k])
    return T
