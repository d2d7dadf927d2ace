"""Checking a whole batch: what is altered anywhere is found."""

import gzip
import json

import pytest

import ffrank.batch
from ffrank.batch.check import check_batch
from ffrank.errors import InputError
from tests.batch.tools import networks


def alter(path, change):
    content = json.loads(gzip.decompress(path.read_bytes()))
    change(content)
    path.write_bytes(gzip.compress(json.dumps(content).encode()))


def test_everything_altered_is_found(tmp_path):
    ffrank.batch([*networks(40), {"kind": "mlp"}], tmp_path, workers=1)
    told = []
    found = check_batch(tmp_path, workers=2, watch=lambda *counts: told.append(counts))
    assert found
    assert (found.certificates, found.valid, found.failed, found.unnamed) == (40, 40, 1, ())
    assert told[-1] == (40, 40)
    assert json.loads((tmp_path / "verification.json").read_text())["valid"] == 40

    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    good = [line for line in lines if "certificate" in line]
    alter(tmp_path / good[0]["certificate"], lambda content: content.update(parameters=1))
    (tmp_path / good[1]["certificate"]).unlink()
    (tmp_path / good[2]["certificate"]).write_bytes(b"no")
    (tmp_path / good[3]["certificate"]).write_bytes((tmp_path / good[4]["certificate"]).read_bytes())
    good[5]["lower"] += 1
    (tmp_path / "certificates" / "00").mkdir(exist_ok=True)
    (tmp_path / "certificates" / "00" / "extra.json.gz").write_bytes(b"")
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = check_batch(tmp_path)
    assert not found
    assert [fault["certificate"] for fault in found.faults] == [good[i]["certificate"] for i in (0, 1, 2, 3, 5)]
    assert "its line says spec" in found.faults[3]["reason"]
    assert "its line says lower" in found.faults[4]["reason"]
    assert found.unnamed == ("certificates/00/extra.json.gz",)


def test_a_folder_without_results(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        check_batch(tmp_path)
