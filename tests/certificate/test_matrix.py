"""Rank certificates of given matrices, made and checked."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ffrank
from ffrank.certificate.matrix import matrix_digest

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
    for bad in (["--prime", "8"], ["--prime", "x"], ["-o", str(tmp_path / "d.json")]):
        code, out, err = output(*bad)
        assert (code, out, err.count("\n")) == (2, "", 1)
