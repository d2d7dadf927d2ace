"""The command line as processes, as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

DATA = Path(__file__).parent.parent / "data"
SMALL = ["attention", "--widths", "3,3,3", "--attention-dims", "1,3", "--tokens", "2"]


def ffrank(*arguments, cwd=None, env=None):
    command = [sys.executable, "-m", "ffrank", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, timeout=300, check=False)


def test_a_certificate_is_made_shown_and_checked(tmp_path):
    made = ffrank("certify", *SMALL, "-o", tmp_path / "c.json")
    assert (made.returncode, made.stderr) == (0, "")
    lines = {line[:13].strip(): line[15:] for line in made.stdout.splitlines()}
    assert lines["dimension"] == "18  (exact)"
    assert lines["expected"].startswith("21: deep-bottleneck")
    assert "a hypothesis fails" in lines["expected"]
    assert made.stdout.isascii()
    assert "\x1b" not in made.stdout
    checked = ffrank("verify", tmp_path / "c.json")
    assert checked.returncode == 0
    assert "18" in checked.stdout


def test_json_prints_json_only(tmp_path):
    made = ffrank("certify", *SMALL, "--json", "-o", tmp_path / "c.json")
    assert json.loads(made.stdout) == json.loads((tmp_path / "c.json").read_text())
    assert made.stdout == (tmp_path / "c.json").read_text()
    checked = ffrank("verify", "--json", tmp_path / "c.json", tmp_path / "c.json")
    assert [r["verdict"] for r in json.loads(checked.stdout)] == ["valid", "valid"]


def test_the_worst_verdict_counts(tmp_path):
    assert ffrank("certify", *SMALL, "-o", tmp_path / "good.json").returncode == 0
    text = (tmp_path / "good.json").read_text()
    (tmp_path / "bad.json").write_text(text.replace('"lower": 18', '"lower": 17'))
    (tmp_path / "cut.json").write_text(text[:100])
    good, bad, cut = (tmp_path / f"{n}.json" for n in ("good", "bad", "cut"))
    assert ffrank("verify", good).returncode == 0
    assert ffrank("verify", bad, good).returncode == 1
    assert ffrank("verify", good, cut, bad).returncode == 2
    assert ffrank("verify", tmp_path / "missing.json").returncode == 2
    assert ffrank("verify").returncode == 2


def test_a_spec_in_a_file_and_on_the_command_line_are_the_same(tmp_path):
    (tmp_path / "s.toml").write_text('kind = "mlp"\nwidths = [2, 3, 1]\nactivation = { power = 5 }\nbias = true\n')
    from_file = ffrank("certify", "s.toml", "--json", cwd=tmp_path)
    typed = ffrank("certify", "mlp", "--widths", "2,3,1", "--activation", "power=5", "--bias", "--json")
    assert from_file.stdout == typed.stdout


def test_a_map_in_a_module(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import ffrank\n"
        "@ffrank.parametrization(parameters={'W': (2, 3)}, inputs={'x': (3,)})\n"
        "def net(W, x):\n    return (W @ x) ** 2\n"
        "broken = 3\n"
    )
    made = ffrank("certify", "mine:net", cwd=tmp_path)
    assert (made.returncode, made.stderr) == (0, "")
    assert "dimension      6  (exact)" in made.stdout
    assert ffrank("certify", "mine:broken", cwd=tmp_path).returncode == 2


BAD = {
    "nothing": [],
    "word": ["lightning"],
    "no such file": ["missing.toml"],
    "no such module": ["nowhere:net"],
    "no such object": ["json:net"],
    "no widths": ["attention"],
    "bad widths": ["mlp", "--widths", "3,x"],
    "negative width": ["mlp", "--widths=-3,2"],
    "unknown option": ["mlp", "--width", "3,2"],
    "option of another kind": ["mlp", "--widths", "3,2", "--tokens", "3"],
    "option with a file": [DATA / "one-layer.toml", "--tokens", "3"],
    "composite prime": [*SMALL, "--prime", "91"],
    "even prime": [*SMALL, "--prime", "2"],
    "large prime": [*SMALL, "--prime", "2147483659"],
    "prime in words": [*SMALL, "--prime", "seven"],
    "negative seed": [*SMALL, "--seed=-1"],
    "error": [*SMALL, "--error", "2"],
    "memory": [*SMALL, "--memory", "much"],
    "too much memory": ["mlp", "--widths", "1000000,1000000"],
    "over the budget": [*SMALL, "--memory", "1kB"],
    "threads": [*SMALL, "--threads", "0"],
    "output folder": [*SMALL, "-o", "missing/c.json"],
    "output is a folder": [*SMALL, "-o", "."],
    "softmax": [*SMALL, "--score", "softmin"],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_line_and_status_2(name, tmp_path):
    done = ffrank("certify", *BAD[name], cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("ffrank: error: ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder(tmp_path):
    tmp_path.chmod(0o500)
    done = ffrank("certify", *SMALL, "-o", tmp_path / "c.json")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_version_and_help():
    assert ffrank("--version").stdout.startswith("ffrank 0")
    for command in ([], ["certify"], ["verify"]):
        done = ffrank(*command, "--help")
        assert (done.returncode, done.stderr) == (0, "")


def test_imports_are_light():
    code = "import sys, ffrank; print(sorted({'numba', 'sympy', 'numpy', 'pydantic', 'galois'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    code = (
        "import sys, ffrank.cli as c; c._run(['verify', 'x']); print(sorted({'numpy', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("path", sorted(DATA.glob("*.toml")), ids=lambda p: p.name)
def test_every_example_is_certified(path):
    done = ffrank("certify", path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = {line[:13].strip(): line[15:] for line in done.stdout.splitlines()}
    assert lines["dimension"].split()[0].isdigit()
