"""Matrices in files of every format, good and bad."""

from __future__ import annotations

import gzip
import io
import sys
from fractions import Fraction

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import ffrank.linalg as la
from ffrank.errors import InputError, MatrixError, ResourceError
from ffrank.linalg import files
from ffrank.linalg.files import read_matrix

A = np.array([[1, 0, -3], [0, 5, 0]])


@pytest.fixture
def write(tmp_path):
    def put(content):
        path = tmp_path / "matrix"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return put


GOOD = {
    "blanks": "1 0 -3\n0 5 0\n",
    "commas": "1,0,-3\r\n0,5,0",
    "aligned": "  1,  0, -3\n\n  0 ,5,\t0 \n",
    "semicolons, comments": "# a matrix\n1; 0; -3\n0; +5; 0 % done\n",
    "tabs": "1\t0\t-3\n0\t5\t0\n",
    "sms": "2 3 M\n1 1 1\n1 3 -3\n2 2 5\n0 0 0\n",
    "sms, repeated": "2 3 I\n1 1 1\n1 3 -1\n1 3 -2\n2 2 5\n0 0 0\nanything\n",
    "matrix market": "%%MatrixMarket matrix coordinate integer general\n% hello\n2 3 3\n1 1 1\n1 3 -3\n2 2 5\n",
    "matrix market array": "%%MatrixMarket matrix array integer general\n2 3\n1\n0\n0\n5\n-3\n0\n",
}


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("zipped", [False, True])
def test_text(write, name, zipped):
    data = GOOD[name].encode()
    got = read_matrix(write(gzip.compress(data) if zipped else data))
    assert got.dtype == np.int64
    assert (got == A).all()
    assert la.rank(got, 7) == 2


def test_numpy_and_scipy(tmp_path):
    np.save(tmp_path / "a.npy", A)
    np.savez(tmp_path / "b.npz", A=A)
    np.savez_compressed(tmp_path / "c.npz", A.astype(np.uint8) * 0 + 255)
    scipy.sparse.save_npz(tmp_path / "d.npz", scipy.sparse.csr_array(A))
    scipy.io.mmwrite(tmp_path / "e.mtx", scipy.sparse.coo_array(A))
    scipy.io.mmwrite(tmp_path / "f.mtx", A)
    for name in ("a.npy", "b.npz", "d.npz", "e.mtx", "f.mtx"):
        assert (read_matrix(tmp_path / name) == A).all()
    assert (read_matrix(str(tmp_path / "c.npz")) == 255).all()


def test_symmetries(write):
    head = "%%MatrixMarket matrix coordinate integer"
    assert read_matrix(write(f"{head} symmetric\n2 2 2\n1 1 4\n2 1 7\n")).tolist() == [[4, 7], [7, 0]]
    assert read_matrix(write(f"{head} skew-symmetric\n2 2 1\n2 1 7\n")).tolist() == [[0, -7], [7, 0]]
    head = "%%MatrixMarket matrix array integer"
    assert read_matrix(write(f"{head} symmetric\n2 2\n4 7 9\n")).tolist() == [[4, 7], [7, 9]]
    assert read_matrix(write(f"{head} skew-symmetric\n2 2\n7\n")).tolist() == [[0, -7], [7, 0]]
    pattern = "%%MatrixMarket matrix coordinate pattern general\n1 2 1\n1 2\n"
    assert read_matrix(write(pattern)).tolist() == [[0, 1]]


def test_large_numbers_and_fractions(write):
    got = read_matrix(write(f"{10**30} 1/2\n-1/3 4\n"))
    assert got.tolist() == [[10**30, Fraction(1, 2)], [Fraction(-1, 3), 4]]
    assert la.rank(got, 2**31 - 1) == 2
    assert read_matrix(write("1 1 M\n1 1 2/4\n0 0 0")).tolist() == [[Fraction(1, 2)]]


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(b"1 2\n3 4\n"))))
    assert read_matrix("-").tolist() == [[1, 2], [3, 4]]


def test_empty(write):
    assert read_matrix(write("")).shape == (0, 0)
    assert read_matrix(write("0 5 M\n0 0 0\n")).shape == (0, 5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 2\n3\n", "line 2: expected 2 entries as in the first row, got 1"),
        ("1 2.5\n", "expected an integer or a fraction a/b, got '2.5'"),
        ("1 nan\n", "expected an integer or a fraction a/b, got 'nan'"),
        ("1 1e3\n", "1e3"),
        ("1_0 2\n", "1_0"),
        ("1,,2\n3,4,5\n", "expected an integer or a fraction a/b, got ''"),
        ("1,2,\n", "expected an integer or a fraction a/b, got ''"),
        (",1,2\n", "expected an integer or a fraction a/b, got ''"),
        ("1/0 2\n", "denominator"),
        ("i j\n1 2\n", "line 1: expected an integer or a fraction a/b, got 'i'; remove the header line"),
        (b"\xff\xfe\x00\x01", "binary"),
        (b"\x93NUMPY\x01", "array of numbers"),
        (b"PK\x03\x04nonsense", "archive"),
        ("2 2 M\n1 1 1\n", "0 0 0"),
        ("2 2 M\n3 1 1\n0 0 0\n", r"index within \(2, 2\), got \(3, 1\)"),
        ("2 2 M\n0 1 1\n0 0 0\n", "index within"),
        ("2 2 M\n1 1\n0 0 0\n", "i j value"),
        ("%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1.0\n", "integer or pattern entries, got real"),
        ("%%MatrixMarket matrix coordinate complex hermitian\n1 1 0\n", "hermitian"),
        ("%%MatrixMarket vector\n", "MatrixMarket matrix"),
        ("%%MatrixMarket matrix coordinate integer general\n1 1 2\n1 1 1\n", "expected 2 entries, got 1"),
        ("%%MatrixMarket matrix coordinate integer general\n1 1\n", "m n entries"),
        ("%%MatrixMarket matrix coordinate integer symmetric\n1 2 1\n1 2 1\n", "square"),
        ("%%MatrixMarket matrix array integer general\n2 2\n1\n", r"\(2, 1\), got the end"),
        ("%%MatrixMarket matrix array integer general\n1 1\n1\n2\n", "more entries"),
        ("%%MatrixMarket matrix array integer general\n", "size"),
    ],
)
def test_bad(write, content, message):
    with pytest.raises(MatrixError, match=message) as error:
        read_matrix(write(content))
    assert "\n" not in str(error.value)


def test_unreadable(tmp_path, write):
    for path in (tmp_path / "none", tmp_path, write(gzip.compress(b"1 2\n")[:-3]), write(b"\x1f\x8b\x08nonsense")):
        with pytest.raises(InputError, match="readable"):
            read_matrix(path)


def test_objects_are_not_unpickled(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[object()]]), allow_pickle=True)
    with pytest.raises(MatrixError):
        read_matrix(tmp_path / "a.npy")
    np.savez(tmp_path / "b.npz", a=A, b=A)
    with pytest.raises(MatrixError, match="one array, got 2: a, b"):
        read_matrix(tmp_path / "b.npz")


def test_too_large(monkeypatch, write):
    monkeypatch.setattr(files, "available_memory", lambda: 1000)
    with pytest.raises(ResourceError, match="needs 1,600 bytes, but 1,000"):
        read_matrix(write("10 10 M\n0 0 0\n"))
