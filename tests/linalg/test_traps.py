"""Small matrices on which other libraries have been wrong, and the edges of the index arithmetic."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

import ffrank.linalg as la
from ffrank.linalg.blocks import Block
from ffrank.linalg.fields import FloatField, MontgomeryField, Pivots
from ffrank.linalg.products import subtract_product
from ffrank.linalg.threads import Team

P31, P61 = 2**31 - 1, 2**61 - 1


@pytest.mark.parametrize("p", [7, 2147483659, P61])
def test_minus_one_squared(p):
    assert la.rank(np.array([[1, p - 1], [p - 1, 1]]), p) == 1


@pytest.mark.parametrize("p", [P31, 4294967291, P61])
def test_dot_product_of_minus_ones(p):
    A = np.full((1, 3), p - 1)
    assert la.matmul(A, A.T, p).tolist() == [[3]]


def test_uint64_meets_int64():
    """NumPy adds them in float64, where 2^63 + 1 is lost."""
    big = np.array([[2**63 + 1, 5], [7, 2**64 - 1]], dtype=np.uint64)
    small = np.array([[-1, 2], [3, -4]], dtype=np.int64)
    expected = [[(sum(int(big[i, k]) * int(small[k, j]) for k in range(2))) % P61 for j in range(2)] for i in range(2)]
    assert la.matmul(big, small, P61).tolist() == expected
    assert la.det([[np.uint64(2**63 + 1), np.int64(-1)], [1, 1]], P61) == (2**63 + 2) % P61


def test_rank_depends_on_the_field():
    A = [[1, 1, 0], [0, 1, 1], [1, 0, 1]]
    assert la.rank(A) == 3
    assert la.rank(A, 2) == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_reduced_form_is_ordered(threads):
    A = [[1, 0, 1, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]]
    R, pivots = la.rref(A, 3, threads=threads)
    assert R.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    assert pivots.tolist() == [0, 1, 2]


def test_profiles_take_the_first_rows_whatever_the_swaps():
    """The second pivot row must be row 1, which a swap has moved behind row 2."""
    A = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0]])
    got = la.rank_profile(A, 7)
    assert got.rows.tolist() == [0, 1, 2]
    B = np.array([[0, 1], [0, 2], [1, 0], [0, 0]])
    assert la.row_rank_profile(B, 7).tolist() == [0, 2]
    assert la.col_rank_profile(B.T, 7).tolist() == [0, 2]


@pytest.mark.parametrize("p", [2, 3, 8388593, P31, P61])
@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0)])
def test_empty(shape, p):
    m, n = shape
    A = np.zeros(shape, np.int64)
    assert la.rank(A, p) == 0
    F = la.ple(A, p)
    assert (F.rank, F.L.shape, F.E.shape, F.P.shape) == (0, (m, 0), (0, n), (m, m))
    assert F.solve_minor(np.zeros((0, 3), np.int64)).shape == (0, 3)
    assert F.solve_minor_transposed(np.zeros(0, np.int64)).shape == (0,)
    assert la.rref(A, p)[0].shape == shape
    assert la.nullspace(A, p).shape == (n, n)
    assert la.nullspace(A, p, side="left").shape == (m, m)
    assert la.solve(A, np.zeros((m, 2), np.int64), p).X.shape == (n, 2)
    assert la.matmul(A, np.zeros((n, 4), np.int64), p).tolist() == [[0] * 4] * m
    if m == n:
        assert la.det(A, p) == 1
        assert la.inverse(A, p).shape == (0, 0)


def test_inconsistent_with_an_empty_matrix():
    S = la.solve(np.zeros((2, 0), np.int64), [0, 1], 5)
    assert S.X is None
    assert S.witness.tolist() == [0, 1]


@pytest.mark.parametrize(("field", "dtype"), [(FloatField(P31, 2), float), (MontgomeryField(P61), np.int64)])
def test_offsets_past_32_bits(field, dtype):
    """The far corner of a 70000×70000 matrix, whose memory is reserved but never touched."""
    n = 70000
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    try:
        memory = mmap.mmap(-1, 8 * n * n, flags=flags)
    except OSError:
        pytest.skip("this system does not reserve 39 GB of address space")
    W = Block.of(np.frombuffer(memory, dtype=dtype).reshape(n, n))
    assert W.f.size > 2**32
    rng = np.random.default_rng(0)
    A = rng.integers(0, field.p, (6, 12))
    A[3] = A[2]
    corner = W.part(n - 6, n, n - 12, n)
    with Team(1, 0) as team:
        field.load(A, corner, team)
        assert (field.store(corner) == A).all()
        pivots = Pivots(np.arange(n), np.zeros(n, np.int64), np.array([1, 0]), np.zeros(12, np.int64))
        assert field.panel(W, n - 6, n - 12, n - 6, pivots, team) == 5
        assert pivots.cols[n - 6 : n - 1].tolist() == list(range(n - 12, n - 7))
        expected = (A[:, 6:] - A[:, :6].astype(object) @ A[:, 6:].astype(object)) % field.p
        field.load(A, corner, team)
        left, right = corner.part(0, 6, 0, 6), corner.part(0, 6, 6, 12)
        subtract_product(field, team, right, left, right)
        assert (field.store(right) == expected).all()
