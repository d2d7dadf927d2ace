"""A real Dask cluster of two worker processes, one of which is killed."""

import os
import signal
import threading
import time

import pytest

import ffrank
import ffrank.batch
from tests.batch.tools import certificates, networks, results, write_lines
from tests.batch.tools import ffrank as command

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def cluster():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as found:
        yield found


def test_killed_worker_loses_nothing(tmp_path, cluster):
    specs = networks(400, seed=6)
    with distributed.Client(cluster) as client:
        pids = sorted(client.run(os.getpid).values())
        assert len(pids) == 2
        told = []

        def kill():
            while not told:
                time.sleep(0.02)
            os.kill(pids[0], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        executor = client.get_executor(pure=False)
        summary = ffrank.batch(
            specs, tmp_path / "dask", executor=executor, workers=2,
            watch=lambda progress, _: told.append(progress) if progress.done else None,
        )  # fmt: skip
        killer.join()
        assert told[0].done < 400
        assert pids[0] not in client.run(os.getpid).values()
    assert (summary.failed, summary.exact, summary.complete) == (0, 400, True)
    ffrank.batch(specs, tmp_path / "local", workers=2)
    assert results(tmp_path / "dask") == results(tmp_path / "local")
    assert certificates(tmp_path / "dask") == certificates(tmp_path / "local")


def test_command_line(tmp_path):
    jobs = write_lines(tmp_path / "jobs.jsonl", networks(20))
    done = command(tmp_path, "batch", jobs, "--out", tmp_path / "out", "--dask", "local", "--workers", 2)
    assert done.returncode == 0, done.stderr
    assert len(results(tmp_path / "out")) == 20
    refused = command(tmp_path, "batch", jobs, "--out", tmp_path / "out", "--dask", "tcp//nowhere")
    assert refused.returncode == 2
    assert "--dask tcp//nowhere: no scheduler" in refused.stderr
