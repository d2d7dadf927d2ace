"""The corpus on disk, checked as files by the checker alone; ``python -m tests.certificate.make_corpus`` makes it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import ffrank
from tests.certificate import make_corpus

CORPUS = Path(make_corpus.__file__).parent / "corpus"
CHECKER = Path(ffrank.__file__).parent / "certificate" / "checker.py"
STATUS = {"valid": 0, "invalid": 1, "malformed": 2}
OF_MATRICES = b'"ffrank-rank/1"', b'"ffrank-rational-rank/1"'
PLANTED = CORPUS / "matrix" / "planted.csv"


def certificates(kind, *, of_matrices):
    """The files of a kind: of architectures and programs, or of the planted matrix."""
    paths = sorted((CORPUS / kind).iterdir())
    return [p for p in paths if any(x in p.read_bytes() for x in OF_MATRICES) == of_matrices]


def verdicts(paths, *options):
    """Exit status of one process for all files, and the verdict and reason of each."""
    command = [sys.executable, "-I", str(CHECKER), "--json", *options, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    return done.returncode, {Path(r["file"]).name: (r["verdict"], r["reason"]) for r in json.loads(done.stdout)}


@pytest.mark.parametrize("of_matrices", [False, True])
@pytest.mark.parametrize("kind", STATUS)
def test_the_corpus(kind, of_matrices):
    """Every verdict is right, and the exit status is the worst of all."""
    paths = certificates(kind, of_matrices=of_matrices)
    assert len(paths) >= (1 if of_matrices else 20)
    status, found = verdicts(paths, *(["--matrix", str(PLANTED)] if of_matrices else []))
    assert not {name: verdict for name, verdict in found.items() if verdict[0] != kind}
    assert status == STATUS[kind]


@pytest.mark.slow
def test_full_checks_agree_with_the_quick_ones_on_valid_certificates():
    """A sample of what --full computes."""
    status, found = verdicts(certificates("valid", of_matrices=False), "--full")
    assert status == 0, found
