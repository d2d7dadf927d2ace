"""Rank certificates of given matrices, made and checked."""

import gzip
import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import galois
import numpy as np
import pytest
import scipy.io
import scipy.sparse

import ffrank
from ffrank.certificate import checker
from ffrank.certificate.matrix import matrix_digest, matrix_text, rational_digest
from tests.certificate import naive_prover

CHECKER = Path(ffrank.__file__).parent / "certificate" / "checker.py"


def planted(m, n, r, p, seed):
    generator = np.random.default_rng(seed)
    left, right = generator.integers(0, p, (m, r)), generator.integers(0, p, (r, n))
    return np.array(ffrank.matmul(left, right, p)) if r else np.zeros((m, n), np.int64)


def checked(tmp_path, certificate, A):
    certificate.save(tmp_path / "c.json")
    np.savetxt(tmp_path / "a.csv", np.asarray(A), fmt="%d", delimiter=",")
    command = [sys.executable, "-I", str(CHECKER), str(tmp_path / "c.json"), "--matrix", str(tmp_path / "a.csv")]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120).returncode


@pytest.mark.parametrize("p", [2, 3, 257, 2**31 - 1, 2**61 - 1])
@pytest.mark.parametrize(("m", "n", "r"), [(1, 1, 1), (1, 4, 1), (5, 3, 0), (6, 9, 4), (9, 6, 6), (30, 20, 11)])
def test_certificates_are_accepted(tmp_path, m, n, r, p):
    A = planted(m, n, r, p, 7)
    certificate = ffrank.certify_rank(A, p)
    assert certificate.rank == ffrank.rank(A, p) <= r
    assert checked(tmp_path, certificate, A) == 0


def test_a_certificate_is_bound_to_its_matrix(tmp_path):
    A = planted(6, 5, 3, 101, 1)
    certificate = ffrank.certify_rank(A, 101)
    assert checked(tmp_path, certificate, A - 101) == 0  # the same residues
    B = A.copy()
    B[5, 4] = (B[5, 4] + 1) % 101
    assert checked(tmp_path, certificate, B) == 1
    assert checked(tmp_path, certificate, A.T) == 1


def test_the_digest_is_that_of_the_format():
    import hashlib
    import struct

    expected = hashlib.sha256(struct.pack("<7Q", 2, 2, 7, 1, 6, 6, 1)).hexdigest()
    assert matrix_digest(np.array([[1, 6], [6, 1]]), 7) == expected
    assert ffrank.certify_rank([[1, -1], [-1, 1]], 7).content["matrix"] == expected


def test_profiles_and_threads():
    A = planted(40, 50, 17, 65537, 3)
    texts = {ffrank.certify_rank(A, 65537, threads=n).to_json() for n in (1, 2)}
    assert len(texts) == 1
    content, profile = json.loads(texts.pop()), ffrank.rank_profile(A, 65537)
    assert content["rows"] == profile.rows.tolist()
    assert content["columns"] == profile.cols.tolist()


def planted_fractions(m, n, r, seed):
    """Of rank r over Q, for r at most 3 mod every prime: products of unimodular triangles and fractions."""
    generator = np.random.default_rng(seed)
    left, right = generator.integers(-5, 6, (m, r)), generator.integers(-5, 6, (r, n))
    left[:r], right[:, :r] = np.tril(left[:r], -1) + np.eye(r), np.triu(right[:, :r], 1) + np.eye(r)
    scales = generator.integers(1, 9, (2, max(m, n)))
    A = np.empty((m, n), dtype=object)
    for i, row in enumerate((left @ right).tolist()):
        A[i] = [Fraction(x * int(scales[0, i]), int(scales[1, j])) for j, x in enumerate(row)]
    return A


@pytest.mark.parametrize(
    ("m", "n", "r"), [(1, 1, 1), (1, 4, 0), (4, 1, 1), (5, 3, 0), (6, 9, 4), (9, 6, 4), (6, 6, 6), (3, 8, 3)]
)
def test_certificates_over_q(m, n, r):
    A = planted_fractions(m, n, r, 7)
    certificate = ffrank.certify_rank(A)
    assert (certificate.rank, certificate.over_q) == (r, True)
    source = matrix_text(A)
    for full in (False, True):
        assert checker.check(certificate.to_json(), full=full, matrix=source).dimension["value"] == r
    content = dict(certificate.content)
    if r < min(m, n):
        assert len(content["relations"]) == min(m, n) - r
    assert content == naive_prover.prove_rank_over_q(A.tolist(), content["prime"]) | {"versions": content["versions"]}
    B = A.copy()
    B[-1, -1] += Fraction(1, 2**40)
    assert not ffrank.verify(certificate, matrix=B)


def test_the_rank_over_q_may_be_larger_than_mod_p(tmp_path):
    A = [[1, 1, 0], [0, 1, 1], [1, 0, 1]]
    assert [ffrank.certify_rank(A).rank, ffrank.certify_rank(A, 2).rank] == [3, 2]
    A = [[naive_prover.prove_rank_over_q([[1]], 7)["prime"], 1], [0, 1]]
    assert checked(tmp_path, ffrank.certify_rank(A), A) == 0


def test_a_false_relation_is_refused_whatever_the_prime():
    """Mod p the third column is the sum of the others; over Q it is not."""
    p = 101
    A = [[1, 0, 1], [0, 1, 1], [1, 1, 2 + p], [0, 0, p]]
    forged = naive_prover.prove_rank_over_q([[1, 0, 1], [0, 1, 1], [1, 1, 2], [0, 0, 0]], p)
    forged = naive_prover.seal(forged | {"matrix": rational_digest(np.array(A))})
    with pytest.raises(checker.Invalid):
        checker.check(forged, matrix=matrix_text(np.array(A)))
    assert ffrank.certify_rank(A).rank == 3


def test_the_digest_over_q_is_that_of_the_format():
    import hashlib

    A = np.array([[Fraction(2, 4), 3], [-1, True]], dtype=object)
    assert rational_digest(A) == hashlib.sha256(b"2 2\n1/2 3\n-1 1\n").hexdigest()


def test_entries_too_long_for_a_certificate():
    with pytest.raises(ffrank.errors.MatrixError, match="4300 digits"):
        ffrank.certify_rank([[10**5000]])


def test_every_file_format_verifies(tmp_path):
    A = planted(7, 5, 3, 101, 2)
    certificate = ffrank.certify_rank(A, 101)
    np.save(tmp_path / "a.npy", A)
    np.savez(tmp_path / "a.npz", A)
    scipy.io.mmwrite(tmp_path / "a.mtx", scipy.sparse.coo_array(A))
    text = "# a comment\n" + "\n".join("; ".join(map(str, row)) for row in A.tolist())
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("a.npy", "a.npz", "a.mtx", "a.txt.gz"):
        assert ffrank.verify(certificate, matrix=tmp_path / name)
    assert ffrank.verify(certificate, matrix=galois.GF(101)(A))
    assert not ffrank.verify(certificate, matrix=A.T)
    certificate.save(tmp_path / "c.json")
    run = [sys.executable, "-m", "ffrank", "verify", str(tmp_path / "c.json"), "--matrix", str(tmp_path / "a.mtx")]
    assert subprocess.run(run, capture_output=True, check=False, timeout=60).returncode == 0


def test_the_command_line(tmp_path):
    (tmp_path / "a.sms").write_text("2 2 M\n1 1 1\n1 2 6\n2 1 6\n2 2 1\n0 0 0\n")
    run = [sys.executable, "-m", "ffrank", "rank", str(tmp_path / "a.sms")]

    def output(*options):
        done = subprocess.run([*run, *options], capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stdout, done.stderr

    assert output("--prime", "7") == (0, "1\n", "")
    assert output() == (0, "2\n", "")
    assert json.loads(output("--prime", "7", "--profile", "--json")[1])["rows"] == [0]
    assert output("--prime", "7", "-o", str(tmp_path / "c.json"))[0] == 0
    command = [sys.executable, "-I", str(CHECKER), str(tmp_path / "c.json"), "--matrix", str(tmp_path / "a.sms")]
    assert subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0
    assert output("-o", str(tmp_path / "q.json"))[0] == 0
    command = [sys.executable, "-I", str(CHECKER), str(tmp_path / "q.json"), "--matrix", str(tmp_path / "a.sms")]
    assert subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0
    for bad in (["--prime", "8"], ["--prime", "x"], ["-o", str(tmp_path / "none" / "d.json")]):
        code, out, err = output(*bad)
        assert (code, out, err.count("\n")) == (2, "", 1)
