"""Ranks over Q, and the relations that prove them."""

from __future__ import annotations

from fractions import Fraction

import galois
import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

import ffrank.linalg as la
from ffrank.errors import MatrixError
from ffrank.linalg import rational


def verify(A, got):
    """Check the answer against the integers themselves."""
    A = np.array(A, dtype=object)
    m, n = A.shape
    if got.transposed:
        A, cols, n = A.T, got.rows, m
    else:
        cols = got.cols
    assert got.rank == len(got.rows) == len(got.cols)
    if got.rank == min(m, n):
        return
    others = [j for j in range(n) if j not in set(cols.tolist())]
    assert all(got.denominators)
    assert (A[:, cols] @ got.numerators == A[:, others] * got.denominators).all()


@pytest.mark.parametrize(("m", "n", "r"), [(6, 6, 4), (30, 20, 19), (20, 30, 11), (10, 10, 0), (40, 40, 39), (1, 8, 1)])
@pytest.mark.parametrize("size", [3, 10**6, 10**25])
def test_planted(m, n, r, size):
    rng = np.random.default_rng(m * n + r)
    small = rng.integers(-3, 4, (m, r)).astype(object)
    A = small @ (rng.integers(-2, 3, (r, n)).astype(object) * (size - 1) + 1) if r else np.zeros((m, n), dtype=object)
    got = la.rank_over_q(A)
    verify(A, got)
    assert got.rank == la.rank(A) == la.rank(A, 2**61 - 1)


@given(st.lists(st.lists(st.integers(-3, 3), min_size=4, max_size=4), min_size=1, max_size=6))
@settings(max_examples=50, deadline=None)
def test_against_sympy(rows):
    got = la.rank_over_q(rows)
    verify(rows, got)
    assert got.rank == sympy.Matrix(rows).rank()


def test_fractions():
    assert la.rank([[Fraction(1, 2), Fraction(1, 3)], [3, 2]]) == 1
    assert la.rank([[Fraction(1, 2), Fraction(1, 3)], [3, 5]]) == 2


@pytest.mark.parametrize("shape", [(9, 4), (4, 9)])
def test_fractions_of_every_shape(shape):
    """Denominators differ from row to row and from column to column, so neither side can be scaled away."""
    rng = np.random.default_rng(5)
    A = rng.integers(-9, 10, shape).astype(object)
    A *= np.array([[Fraction(1, int(y)) for y in row] for row in rng.integers(1, 9, shape)])
    if shape == (9, 4):
        A[:, 3] = A[:, 0] / 7 - A[:, 1] / 3
    else:
        A[3] = A[0] / 7 - A[1] / 3
    got = la.rank_over_q(A)
    verify(A, got)
    assert got.rank == 3 == sympy.Matrix(A).rank()


def test_denominators_that_vanish_mod_the_first_prime():
    first = la.rank_over_q([[1]]).prime
    got = la.rank_over_q([[Fraction(1, first), 1], [1, first]])
    verify([[Fraction(1, first), 1], [1, first]], got)
    assert got.rank == 1
    assert got.prime != first


def test_unlucky_primes(monkeypatch):
    """Primes at which the rank drops are noticed, because the relations found there do not hold."""
    primes = iter([2, 3, 5, 2**31 - 1])
    monkeypatch.setattr(rational, "trial_prime", lambda *_: next(primes))
    A = np.array([[30, 0, 0], [0, 30, 0], [0, 0, 0]])
    got = la.rank_over_q(A)
    assert (got.rank, got.prime) == (2, 2**31 - 1)


def test_empty():
    assert la.rank([]) == la.rank(np.zeros((3, 0), int)) == la.rank(np.zeros((3, 4), int)) == 0


def test_finite_fields_are_refused():
    with pytest.raises(MatrixError, match="mod 7"):
        la.rank_over_q(galois.GF(7)([[1, 2]]))
