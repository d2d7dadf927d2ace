"""What may be passed as a matrix, and the errors for what may not."""

from __future__ import annotations

from fractions import Fraction

import flint
import galois
import numpy as np
import pytest
import scipy.sparse
import sympy

import ffrank.linalg as la
from ffrank.errors import InputError, MatrixError, ModulusError, ShapeError
from ffrank.linalg.adapters import read

P = 2**31 - 1
A = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]])


def residues(X, p=P):
    got = read(X, p)
    return (got.values % got.p).tolist()


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "O", ">i4", ">i8"])
def test_integer_dtypes(dtype):
    assert residues(A.astype(dtype)) == A.tolist()
    assert la.rank(A.astype(dtype), P) == 2


@pytest.mark.parametrize("p", [2, P, 2**61 - 1])
def test_layouts(p):
    rng = np.random.default_rng(0)
    big = rng.integers(-(2**63), 2**63 - 1, (90, 120))
    expected = la.rank_profile(big.copy(), p)
    frozen = big.copy()
    frozen.flags.writeable = False
    wide = np.zeros((180, 240), np.int64)
    wide[::2, ::2] = big
    for X in (frozen, wide[::2, ::2], np.asfortranarray(big), big[::-1].copy()[::-1], big.astype(">i8")):
        for overwrite in (False, True):
            got = la.rank_profile(X, p, overwrite=overwrite)
            assert got.rows.tolist() == expected.rows.tolist()
            assert got.cols.tolist() == expected.cols.tolist()
            assert (big == X).all()


def test_extremes_of_the_dtypes():
    X = np.array([[-(2**63), 2**63 - 1]])
    assert residues(X, 7) == [[-(2**63) % 7, (2**63 - 1) % 7]]
    X = np.array([[2**63, 2**64 - 1, 3]], dtype=np.uint64)
    assert residues(X, 7) == [[2**63 % 7, (2**64 - 1) % 7, 3]]
    assert residues([[10**40, -(10**40)]]) == [[10**40 % P, -(10**40) % P]]
    assert residues(np.array([[10**40, 1]], dtype=object)) == [[10**40 % P, 1]]
    assert residues([[2**63, -1]]) == [[2**63 % P, P - 1]]


def test_booleans_count_as_zero_and_one():
    assert residues([[True, False]]) == [[1, 0]]
    assert residues(np.array([[True, False]])) == [[1, 0]]


def test_fractions():
    half = (P + 1) // 2
    assert residues([[Fraction(1, 2), 3]]) == [[half, 3]]
    assert residues(sympy.Matrix([[sympy.Rational(1, 2), 3]])) == [[half, 3]]
    assert residues([[flint.fmpq(1, 2), flint.fmpz(3)]]) == [[half, 3]]
    assert residues(flint.fmpq_mat(1, 2, [flint.fmpq(1, 2), 3])) == [[half, 3]]
    with pytest.raises(MatrixError, match="denominators prime to p = 3"):
        la.rank([[Fraction(1, 3)]], 3)


def test_lists_and_tuples():
    assert la.rank(((1, 2), (2, 4)), 5) == 1
    assert la.rank([], 5) == la.rank([[]], 5) == la.rank([[], []], 5) == 0


@pytest.mark.parametrize("p", [2, 3, 31, P, 2**31 + 11])
def test_galois_in_galois_out(p):
    GF = galois.GF(p, primitive_element=sympy.primitive_root(p), verify=False) if p > 100 else galois.GF(p)
    rng = np.random.default_rng(1)
    X = GF(rng.integers(0, p, (4, 4)))
    Y = GF(rng.integers(0, p, (4, 2)))
    assert la.rank(X) == la.rank(X, p) == np.linalg.matrix_rank(X)
    R, _ = la.rref(X)
    assert isinstance(R, GF)
    assert (X.row_reduce() == R).all()
    assert isinstance(la.nullspace(X), GF)
    assert isinstance(la.matmul(X, Y), GF)
    assert (la.matmul(X, Y) == X @ Y).all()
    assert isinstance(la.matmul(X.view(np.ndarray), Y), GF)
    if la.det(X):
        assert (la.inverse(X) == np.linalg.inv(X)).all()
        S = la.solve(X, Y)
        assert isinstance(S.X, GF)
        assert (X @ S.X == Y).all()
    S = la.solve(GF([[1, 1], [1, 1]]), GF([0, 1]))
    assert isinstance(S.witness, GF)
    with pytest.raises(ModulusError, match="mod 5"):
        la.rank(X, 5)
    with pytest.raises(ModulusError, match="mod"):
        la.matmul(X, galois.GF(5)([[1]] * 4))


def test_extension_fields_are_refused():
    with pytest.raises(MatrixError, match=r"GF\(2\^3\).*extension fields"):
        la.rank(galois.GF(8)([[1, 2]]))


def test_flint():
    M = flint.nmod_mat(3, 3, A.ravel().tolist(), 101)
    assert la.rank(M) == la.rank(M, 101) == 2
    with pytest.raises(ModulusError, match="got a matrix mod 101"):
        la.rank(M, 103)
    with pytest.raises(ModulusError, match="composite"):
        la.rank(flint.nmod_mat(1, 1, [1], 15))
    ring = flint.fmpz_mod_ctx(2**61 - 1)
    assert la.rank(flint.fmpz_mod_mat(2, 2, [1, 2, 2, 4 + 2**61 - 1], ring)) == 1
    with pytest.raises(ModulusError, match="got a matrix mod 2305843009213693951"):
        la.rank(flint.fmpz_mod_mat(1, 1, [1], ring), 101)
    assert residues(flint.fmpz_mat(1, 2, [10**30, -1])) == [[10**30 % P, P - 1]]
    assert la.rank(flint.fmpz_mat(3, 3, A.ravel().tolist())) == 2
    for odd in (flint.nmod_poly([1], 5), flint.fmpz(3), flint.arb_mat(1, 1, [1])):
        with pytest.raises(MatrixError, match=r"expected .* for A, got"):
            la.rank(odd, 5)


def test_scipy():
    for make in (scipy.sparse.csr_matrix, scipy.sparse.coo_array, scipy.sparse.csc_array):
        assert residues(make(A.astype(np.int32))) == A.tolist()
    many = scipy.sparse.coo_array((np.full(5, 127, np.int8), ([0] * 5, [0] * 5)), shape=(1, 2))
    assert residues(many) == [[635, 0]]
    assert residues(scipy.sparse.coo_array(np.array([[True, False]]))) == [[1, 0]]
    with pytest.raises(MatrixError, match="float64"):
        la.rank(scipy.sparse.csr_array(A.astype(float)), P)


@pytest.mark.parametrize(
    "bad",
    [
        A.astype(float),
        A.astype(np.float32),
        np.array([[np.nan]]),
        np.array([[1 + 2j]]),
        [[1.0, 2.0]],
        [[1, 2.5]],
        [["1", "2"]],
        [[1, None]],
        [[1, 2], [3]],
        [[1, [2]], [3, 4]],
        np.array([["a"]]),
        np.array([[np.datetime64("2020-01-01")]]),
        np.array([[1, 2.0]], dtype=object),
        np.array([[np.float64(1)]], dtype=object),
        np.ma.masked_array(A, mask=A > 5),
        "matrix",
        {1: 2},
        None,
        sympy.Matrix([[sympy.Symbol("x")]]),
        sympy.Matrix([[sympy.Float(1.5)]]),
        sympy.Matrix([[sympy.sqrt(2)]]),
    ],
)
def test_not_a_matrix_of_integers(bad):
    with pytest.raises(MatrixError, match=r"^expected .*, got") as error:
        la.rank(bad, P)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("bad", [np.arange(3), np.zeros((2, 2, 2), int), np.int64(3), [1, 2], [[[1]]]])
def test_not_two_dimensional(bad):
    with pytest.raises((ShapeError, MatrixError), match="expected"):
        la.rank(bad, P)


@pytest.mark.parametrize(
    "p", [0, 1, -7, 4, 6, 561, 1729, 3215031751, P - 2, 2**61 + 15, 2**64, 7.0, "7", True, 2**61 - 3]
)
def test_moduli(p):
    for f in (la.rank, la.rank_profile, la.ple, la.rref, la.nullspace, la.det, la.inverse):
        with pytest.raises(ModulusError, match="expected a prime"):
            f(A, p)
    with pytest.raises(ModulusError, match="expected a prime"):
        la.solve(A, A, p)
    with pytest.raises(ModulusError, match="expected a prime"):
        la.matmul(A, A, p)


def test_modulus_missing():
    with pytest.raises(ModulusError, match="pass p"):
        la.rank_profile(A)
    with pytest.raises(ModulusError, match="pass p"):
        la.matmul(A, A)
    assert la.rank(A, np.int64(7)) == 2


def test_shapes_that_do_not_fit():
    for f in (la.det, la.inverse):
        with pytest.raises(ShapeError, match=r"square matrix, got shape \(2, 3\)"):
            f(A[:2], P)
    with pytest.raises(ShapeError, match="3 rows"):
        la.solve(A, [1, 2], P)
    with pytest.raises(ShapeError, match="3 rows"):
        la.matmul(A, A[:2], P)
    with pytest.raises(ShapeError, match="2 rows, one per pivot"):
        la.ple(A, P).solve_minor(A)
    with pytest.raises(MatrixError, match="rank 2 < 3"):
        la.inverse(A, P)
    with pytest.raises(InputError, match="side"):
        la.nullspace(A, P, side="up")
