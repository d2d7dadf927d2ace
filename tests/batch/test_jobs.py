"""Job files: what they make, and what is said of those that are wrong."""

import json

import pytest

from ffrank.batch.jobs import Method, read_jobs
from ffrank.errors import InputError
from ffrank.models.spec import parse_spec
from tests.batch.tools import ROOT


def make(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    return path


def widths(listed):
    return [job.spec["widths"] for job in listed.jobs]


def test_grid_multiplies_out(tmp_path):
    text = """
    kind = "attention"
    [spec]
    score = "lightning"
    [grid]
    widths = [[2, 2], [3, 3]]
    attention_dims = [[1], [2]]
    tokens = [1, 2, 3]
    causal = false
    """
    listed = read_jobs(make(tmp_path, "jobs.toml", text))
    assert len(listed.jobs) == 12
    assert not listed.faults
    assert listed.jobs[0].spec == {
        "kind": "attention", "score": "lightning", "widths": [2, 2], "attention_dims": [1], "tokens": 1,
        "causal": False,
    }  # fmt: skip


def test_each_place_has_its_choices(tmp_path):
    text = '[spec]\nkind = "mlp"\n[[grid]]\nwidths = {each = [[1, 2], [3], [1, 2]]}\n[[grid]]\nwidths = [[9, 9]]\n'
    listed = read_jobs(make(tmp_path, "jobs.toml", text))
    assert widths(listed) == [[1, 3, 1], [1, 3, 2], [2, 3, 1], [2, 3, 2], [9, 9]]


def test_sample_is_seeded(tmp_path):
    grid = '[spec]\nkind = "mlp"\n[grid]\nwidths = {each = [[1,2,3,4],[1,2,3,4],[1,2,3,4]]}\n'
    drawn = [
        widths(read_jobs(make(tmp_path, "jobs.toml", f"{grid}[sample]\ncount = 10\nseed = {seed}\n")))
        for seed in (1, 1, 2)
    ]
    assert len(drawn[0]) == 10
    assert drawn[0] == drawn[1] != drawn[2]


def test_public_table_of_polynomial_networks(tmp_path):
    text = 'architecture,exponent,dimension,comment\n"[2, 3, 1]",2,3,"two\nlines"\n"(2,2,2)",3.0,,\n2 4 1,2,,\n'
    listed = read_jobs(make(tmp_path, "jobs.csv", text))
    assert [job.spec for job in listed.jobs] == [
        {"kind": "mlp", "widths": [2, 3, 1], "activation": {"power": 2}},
        {"kind": "mlp", "widths": [2, 2, 2], "activation": {"power": 3}},
        {"kind": "mlp", "widths": [2, 4, 1], "activation": {"power": 2}},
    ]
    assert [job.line for job in listed.jobs] == [2, 4, 5]
    assert "dimension, comment" in listed.notes[0]


def test_csv_of_attention(tmp_path):
    text = 'widths,attention_dims,tokens,causal\n"3,3",2,3,true\n'
    (job,) = read_jobs(make(tmp_path, "jobs.csv", text)).jobs
    assert job.spec == {"kind": "attention", "widths": [3, 3], "attention_dims": [2], "tokens": 3, "causal": True}


def test_all_faults_at_once_with_their_lines(tmp_path):
    lines = [
        '{"kind": "mlp", "widths": [2, 2]}',
        '{"kind": "mlp"}',
        "",
        "{oops",
        '{"kind": "mlp", "widths": [2, 0]}',
        "7",
    ]
    listed = read_jobs(make(tmp_path, "jobs.jsonl", "\n".join(lines)))
    assert [job.line for job in listed.faults] == [2, 4, 5, 6]
    said = listed.fault_lines()
    assert "jobs.jsonl:2: widths: this key is missing" in said[0]
    assert "jobs.jsonl:4: not well-formed JSON" in said[1]
    assert "jobs.jsonl:5: widths[1]: expected at least 1, got 0" in said[2]
    assert "jobs.jsonl:6: expected a table of keys" in said[3]


def test_faults_of_csv(tmp_path):
    text = 'architecture,exponent\n"[2, x]",2\n"[2, 2]"\n"[2, 2]",-1\n"[2, 2]",2\n'
    listed = read_jobs(make(tmp_path, "jobs.csv", text))
    assert [line.split("jobs.csv:")[1] for line in listed.fault_lines()] == [
        "2: architecture: expected integers such as [2, 3, 1], got '[2, x]'",
        "3: expected 2 cells, got 1",
        "4: exponent: expected a positive integer, got '-1'",
    ]


def test_faults_of_a_grid_name_the_line_of_the_key(tmp_path):
    head = '[spec]\nkind = "attention"\n\n[grid]\nwidths = [[2, 2], [3, 3]]\n'
    text = f"{head}attention_dims = [[1], [1, 1]]\ntokens = [0, 1]\n"
    listed = read_jobs(make(tmp_path, "jobs.toml", text))
    said = listed.fault_lines()
    assert len(listed.faults) == 6
    assert "jobs.toml:6: attention_dims: expected 1 entries for 2 widths, got 2 (2 combinations)" in said[0]
    assert "jobs.toml:7: tokens: expected at least 1, got 0 (4 combinations)" in said[1]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("jobs.toml", "[grid\n", "not well-formed TOML"),
        ("jobs.toml", "[grid]\nwidths = []\n", "jobs.toml:2: widths: an empty array"),
        ("jobs.toml", "[grid]\nwidths = {each = 3}\n", "expected each ="),
        ("jobs.toml", "grid = 3\n", "expected a table of arrays"),
        ("jobs.toml", '[spec]\nkind="mlp"\n[grid]\nwidths=[[1,1]]\n[sample]\nseed=1\n', "count is missing"),
        ("jobs.csv", "size,exponent\n3,2\n", "expected a column named architecture or widths"),
        ("jobs.csv", "widths,widths\n3,2\n", "each column once"),
        ("jobs.csv", "widths\n", "there is no job"),
        ("jobs.jsonl", "", "there is no job"),
        ("jobs.jsonl", "{}\n[]\n", "no job can be used"),
        ("jobs.txt", "", "ends in .toml, .jsonl or .csv"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, name, text, reason):
    with pytest.raises(InputError, match="jobs") as caught:
        read_jobs(make(tmp_path, name, text))
    assert reason in str(caught.value)


def test_a_grid_that_is_too_large_is_refused(tmp_path):
    choices = list(range(1, 101))
    text = f"[grid]\nwidths = {{each = [{choices}, {choices}, {choices}, {choices}]}}\n"
    with pytest.raises(InputError, match="combinations"):
        read_jobs(make(tmp_path, "jobs.toml", text))


def test_digest_names_architecture_prime_seed_and_method():
    given = {"kind": "mlp", "widths": [2, 3, 1]}
    same = [given, given | {"activation": {"power": 2}}, given | {"bias": False}, parse_spec(given)]
    listed = read_jobs(same)
    assert (len(listed.jobs), listed.duplicates) == (1, 3)
    assert listed.jobs[0].spec == given
    methods = [Method(), Method(prime=257), Method(seed=1), Method(error=None)]
    digests = {read_jobs([given], method).jobs[0].digest for method in methods}
    assert len(digests) == 4
    assert read_jobs([given | {"bias": True}]).jobs[0].digest not in digests


def test_costs_put_long_jobs_before_short_ones():
    from ffrank.batch.costs import estimate

    small, wide, large = (
        estimate(parse_spec({"kind": "mlp", "widths": widths}))
        for widths in ([2, 3, 1], [2, 2, 100, 100, 4, 1], [3, 10, 19, 46, 39, 20, 12, 1])
    )
    assert small < wide < large


def test_json_lines_may_be_results(tmp_path):
    spec = {"kind": "mlp", "widths": [2, 2]}
    listed = read_jobs(make(tmp_path, "jobs.jsonl", json.dumps({"spec": spec, "dimension": 4})))
    assert listed.jobs[0].spec == spec


@pytest.mark.parametrize("path", sorted((ROOT / "data" / "jobs").glob("*.toml")), ids=lambda path: path.stem)
def test_job_files_of_the_atlas_have_no_faults(path):
    listed = read_jobs(path)
    assert not listed.faults
    assert not listed.duplicates
