"""Runs: results, limits, deaths, interruptions."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

import ffrank
import ffrank.batch
from ffrank.batch.guard import Guard, Limits
from ffrank.batch.jobs import read_jobs
from ffrank.batch.store import read_results
from ffrank.errors import InputError
from tests.batch.tools import ROOT, certificates, networks, results, start, write_lines
from tests.batch.tools import ffrank as command

SLOW_JOB = {"kind": "mlp", "widths": [3, 10, 19, 46, 39, 20, 12, 1]}  # about two seconds


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Jobs, and the folder of a run that nothing has disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    jobs = write_lines(folder / "jobs.jsonl", [*networks(300), {"kind": "mlp"}])
    done = command(folder, "batch", jobs, "--out", folder / "out")
    assert done.returncode == 1, done.stderr
    assert ":301: widths: this key is missing" in done.stderr
    return jobs, folder / "out"


def test_results_are_those_of_certify(undisturbed):
    jobs, out = undisturbed
    found = results(out)
    listed = read_jobs(jobs)
    assert set(found) == {job.digest for job in listed.jobs}
    for job in listed.jobs[:20]:
        line, certificate = found[job.digest], ffrank.certify(job.spec, error="2^-40")
        assert (line["lower"], line["upper"], line["status"]) == (
            certificate.lower, certificate.upper, certificate.status,
        )  # fmt: skip
        assert line["spec"] == job.spec
        assert line["value"] == certificate.value
        assert line["defect"] == certificate.content["defect"]
        assert ffrank.verify(out / line["certificate"]).valid
    (bad,) = (line for line in found.values() if line["status"] == "failed")
    assert bad["failure"] == "widths: this key is missing"
    assert len(certificates(out)) == 300
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["jobs"], summary["made"], summary["complete"]) == (301, 301, True)
    assert summary["statuses"]["failed"] == 1


def test_finished_jobs_are_skipped(undisturbed):
    jobs, out = undisturbed
    before = (out / "results.jsonl").read_bytes()
    again = command(out.parent, "batch", jobs, "--out", out)
    assert again.returncode == 1
    assert "301 had their results before" in again.stdout
    assert (out / "results.jsonl").read_bytes() == before


def test_killed_at_random_moments(tmp_path):
    kill_repeatedly(tmp_path, jobs=1500, times=3)


@pytest.mark.slow
def test_killed_at_twenty_random_moments(tmp_path):
    kill_repeatedly(tmp_path, jobs=8000, times=20)


def kill_repeatedly(tmp_path, jobs, times):
    """Kill -9 the batch at random moments, every other time its workers before; then let it end."""
    specs = write_lines(tmp_path / "jobs.jsonl", [*networks(jobs, seed=2), {"kind": "mlp"}])
    expected, out, source = tmp_path / "undisturbed", tmp_path / "out", random.Random(4)
    assert command(tmp_path, "batch", specs, "--out", expected).returncode == 1
    killed, lines = 0, out / "results.jsonl"
    for turn in range(times):
        before = count_lines(lines)
        run = start(tmp_path, "batch", specs, "--out", out, "--workers", 2)
        if turn % 3:  # when it has begun to write; else at any moment, while it starts perhaps
            wait_until(lambda: count_lines(lines) > before or run.poll() is not None)  # noqa: B023
            time.sleep(source.uniform(0, 0.3))
        else:
            time.sleep(source.uniform(0, 2))
        for worker in workers_of(run.pid) if turn % 2 else ():
            os.kill(worker, signal.SIGKILL)
            time.sleep(source.uniform(0, 0.3))
        killed += run.poll() is None
        run.kill()
        run.communicate()
        assert count_lines(lines) >= before
    assert killed > times // 2
    done = count_lines(lines)
    assert done > 0
    last = command(tmp_path, "batch", specs, "--out", out)
    assert last.returncode == 1
    assert f"{done:,} had their results before" in last.stdout
    assert results(out) == results(expected)
    assert certificates(out) == certificates(expected)


def count_lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_until(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def workers_of(pid):
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(status.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(status.parent.name))
        except OSError:
            continue
    return found


def test_ctrl_c_stops_and_says_how_to_go_on(tmp_path):
    jobs = write_lines(
        tmp_path / "jobs.jsonl", [*networks(50), *(SLOW_JOB | {"activation": {"power": k}} for k in (2, 3, 4))]
    )
    run = start(tmp_path, "batch", jobs, "--out", tmp_path / "out", "--workers", 1)
    wait_until(lambda: count_lines(tmp_path / "out" / "results.jsonl") > 0)
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to the workers too
    said = run.communicate(timeout=30)[1]
    assert run.returncode == 130, said
    assert "jobs have their results" in said
    assert "the same command goes on from there" in said
    assert not json.loads((tmp_path / "out" / "summary.json").read_text())["complete"]
    results(tmp_path / "out")


def test_timeout_fails_the_job_and_nothing_else(tmp_path):
    summary = ffrank.batch([SLOW_JOB, *networks(20)], tmp_path / "out", workers=1, timeout=0.5)
    assert (summary.failed, summary.exact) == (1, 20)
    (line,) = (line for line in read_results(tmp_path / "out") if line["status"] == "failed")
    assert line["spec"] == SLOW_JOB
    assert line["failure"] == "timeout: it took longer than 0.5 s"
    again = ffrank.batch([SLOW_JOB], tmp_path / "out", workers=1)
    assert (again.made, again.failed) == (0, 1)
    retried = ffrank.batch([SLOW_JOB], tmp_path / "out", workers=1, retry=True)
    assert (retried.made, retried.failed) == (1, 0)
    assert len(results(tmp_path / "out")) == 21


def test_memory_fails_the_job_and_nothing_else(tmp_path):
    summary = ffrank.batch([SLOW_JOB, *networks(20)], tmp_path / "out", workers=1, memory=30 * 2**20)
    assert (summary.failed, summary.exact) == (1, 20)
    (line,) = (line for line in read_results(tmp_path / "out") if line["status"] == "failed")
    assert "memory" in line["failure"]


def request(spec):
    return {"spec": spec, "prime": 2**31 - 1, "seed": 0, "error": -40}


def test_guard_gives_a_killed_worker_its_job_again():
    guard, small = Guard(), request({"kind": "mlp", "widths": [2, 3, 1]})
    try:
        guard.run([small], Limits(2**30))
        os.kill(guard._process.pid, signal.SIGKILL)
        assert guard.run([small] * 3, Limits(2**30))[2]["fields"]["value"] == 3
    finally:
        guard.end()


def test_job_whose_workers_always_die_fails(monkeypatch):
    """The worker is replaced by one that dies of one spec."""
    code = """
import os, sys
from ffrank.batch import worker
make = worker.make
def deadly(request, memory):
    if request["spec"]["widths"] == [6, 6, 6]:
        os.abort()
    return make(request, memory)
worker.make = deadly
worker.main(int(sys.argv[1]), int(sys.argv[2]))
"""
    popen = subprocess.Popen

    def replaced(argv, **options):
        return popen([sys.executable, "-c", code, *argv[-2:]], **options)

    monkeypatch.setattr("ffrank.batch.guard.subprocess.Popen", replaced)
    guard = Guard()
    specs = [[2, 2], [6, 6, 6], [2, 3]]
    try:
        first, second, third = guard.run([request({"kind": "mlp", "widths": w}) for w in specs], Limits(2**30))
    finally:
        guard.end()
    assert second["failure"] == "its worker process died 3 times: SIGABRT"
    assert first["fields"]["value"] == 4
    assert third["fields"]["value"] == 6


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_any_executor_serves(tmp_path, kind):
    import multiprocessing

    options = {"mp_context": multiprocessing.get_context("spawn")} if kind is ProcessPoolExecutor else {}
    specs = networks(30, seed=3)
    with kind(2, **options) as executor:
        summary = ffrank.batch(specs, tmp_path / "a", executor=executor, workers=2)
    assert summary.exact == 30
    ffrank.batch(specs, tmp_path / "b", workers=1)
    assert results(tmp_path / "a") == results(tmp_path / "b")
    assert certificates(tmp_path / "a") == certificates(tmp_path / "b")


def test_bad_specs_among_many_jobs(tmp_path):
    bad_among(tmp_path, good=396, bad=4)


@pytest.mark.slow
def test_hundred_bad_specs_among_ten_thousand(tmp_path):
    bad_among(tmp_path, good=9900, bad=100)


def bad_among(tmp_path, good, bad):
    kinds = [
        lambda i: {"kind": "mlp", "widths": [i]},
        lambda i: {"kind": "attention", "widths": [i, i], "attention_dims": [1, 1], "tokens": 2},
        lambda i: {"kind": "mlp", "widths": [2, 2], "colour": i},
        lambda i: f"{{not json {i}",
    ]
    specs = [*networks(good, seed=8, largest=200), *(kinds[i % 4](i + 2) for i in range(bad))]
    random.Random(1).shuffle(specs)
    jobs = write_lines(tmp_path / "jobs.jsonl", specs)
    done = command(tmp_path, "batch", jobs, "--out", tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.count("jobs.jsonl:") == bad
    found = results(tmp_path / "out").values()
    assert sum(line["status"] != "failed" for line in found) == good
    reasons = [line["failure"] for line in found if line["status"] == "failed"]
    assert len(reasons) == bad
    assert all(
        r.startswith(("widths:", "attention_dims:", "colour: unknown key", "not well-formed JSON")) for r in reasons
    )


def test_json_events_and_dry_run(tmp_path):
    jobs = write_lines(tmp_path / "jobs.jsonl", [*networks(10), {"kind": "x"}])
    dry = command(tmp_path, "batch", jobs, "--dry-run", "--json")
    assert dry.returncode == 1
    assert json.loads(dry.stdout)["jobs"] == 11
    assert not (tmp_path / "out").exists()
    done = command(tmp_path, "batch", jobs, "--out", tmp_path / "out", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[0]["event"] == "start"
    assert events[0]["faults"] == [{"line": 11, "reason": "kind: expected 'attention' or 'mlp', got 'x'"}]
    assert sum(event["event"] == "job" for event in events) == 11
    assert events[-1] | {"event": "end"} == events[-1]


def test_options_that_cannot_be_used(tmp_path):
    jobs = write_lines(tmp_path / "jobs.jsonl", networks(1))
    for options, reason in [
        ((), "--out"),
        (("--out", tmp_path / "out", "--workers", "0"), "--workers"),
        (("--out", tmp_path / "out", "--timeout", "-1"), "--timeout"),
        (("--out", tmp_path / "out", "--prime", "15"), "prime"),
        (("--out", jobs), "cannot be written"),
    ]:
        done = command(tmp_path, "batch", jobs, *options)
        assert done.returncode == 2
        assert reason in done.stderr
        assert done.stderr.count("\n") == 1
    with pytest.raises(InputError, match="workers"):
        ffrank.batch([], tmp_path, workers=0)


def test_importing_is_light():
    code = "import sys, ffrank.batch; assert not {'numpy', 'numba', 'sympy', 'pydantic'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_progress_is_told(tmp_path):
    told = []
    summary = ffrank.batch(networks(5), tmp_path / "out", workers=1, watch=lambda p, r: told.append((p, len(r))))
    assert told[-1][0].done == told[-1][0].total == summary.jobs == 5
    assert sum(count for _, count in told) == 5


def reference_dimensions(tmp_path, largest):
    """The public table's layout, and the dimensions in tests/reference."""
    cases = json.loads((ROOT / "tests" / "reference" / "polynomial_networks.json").read_text())
    cases = [case for case in cases if case["parameters"] <= largest]
    rows = (f'"{case["spec"]["widths"]}",{case["spec"]["activation"]["power"]}\n' for case in cases)
    jobs = tmp_path / "table.csv"
    jobs.write_text("architecture,exponent\n" + "".join(rows))
    assert ffrank.batch(jobs, tmp_path / "out").failed == 0
    found = {tuple(line["spec"]["widths"]): line for line in read_results(tmp_path / "out")}
    assert len(found) == len(cases)
    for case in cases:
        line = found[tuple(case["spec"]["widths"])]
        assert (line["parameters"], line["value"]) == (case["parameters"], case["dimension"])


def test_public_table_of_polynomial_networks(tmp_path):
    reference_dimensions(tmp_path, largest=500)


@pytest.mark.slow
def test_whole_public_table_of_polynomial_networks(tmp_path):
    reference_dimensions(tmp_path, largest=10**6)
