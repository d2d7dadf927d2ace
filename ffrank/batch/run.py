"""Run a batch: hand chunks of jobs to an executor, keep what comes back, say how far it is."""

from __future__ import annotations

import os
import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ffrank import __version__
from ffrank.batch.guard import Limits, LocalPool, run_chunk
from ffrank.batch.store import Store, certificate_path, failed
from ffrank.errors import ResourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ffrank.batch.jobs import Job, JobList

    Watch = Callable[["Progress", list[dict[str, Any]]], None]

__all__ = ["Progress", "Summary", "default_workers", "run_jobs"]

_CHUNK_SECONDS = 0.4  # estimated work of a chunk: short, for what is in it is lost with the executor
_CHUNK_JOBS = 64
_GROUP_SECONDS = 0.5  # results are kept at least so often
_GROUP_JOBS = 256
_AHEAD = 3  # chunks in flight for each worker
_ATTEMPTS = 3  # of a chunk that an executor has lost


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes
    ----------
    total, done, failed, exact : int
        Jobs of the file, those that have their result, and of these the failed ones and the ones whose dimension is
        known, with certainty or with the asked probability.
    rate : float
        Results a second in this run.
    left : float or None
        Estimated seconds to the end.
    """

    total: int
    done: int
    failed: int
    exact: int
    rate: float
    left: float | None


@dataclass(frozen=True)
class Summary:
    """What a batch has come to; the content of summary.json.

    Attributes
    ----------
    jobs : int
        Different jobs of the file.
    duplicates : int
        Entries of the file that ask for the same certificate as an earlier one.
    skipped : int
        Jobs that had their result before this run.
    made : int
        Results of this run.
    statuses : dict
        How many jobs of the file ended with each status.
    complete : bool
        Whether every job has its result.
    """

    jobs: int
    duplicates: int
    skipped: int
    made: int
    statuses: Mapping[str, int]
    complete: bool
    seconds: float
    source: str
    prime: int
    seed: int
    error: int | None
    versions: Mapping[str, str] = field(default_factory=lambda: {"ffrank": __version__})

    @property
    def failed(self) -> int:
        """Jobs without a certificate."""
        return self.statuses.get("failed", 0)

    @property
    def exact(self) -> int:
        """Jobs whose dimension is known."""
        return self.statuses.get("exact", 0) + self.statuses.get("exact-with-probability", 0)

    def to_json(self) -> dict[str, Any]:
        """As summary.json has it."""
        return asdict(self)


def default_workers() -> int:
    """The number of usable cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_jobs(
    listed: JobList,
    out: str | Path,
    *,
    limits: Limits,
    executor: Executor | None = None,
    slots: Callable[[], int] | None = None,
    retry: bool = False,
    watch: Watch | None = None,
) -> Summary:
    """Make every certificate that is not there yet.

    Parameters
    ----------
    listed : JobList
        See :func:`ffrank.batch.jobs.read_jobs`.
    out : path
        The folder of results; made if absent.
    limits : Limits
        Of one job.
    executor : Executor, optional
        Where chunks are run; it stays open. One worker a core of this machine, if absent.
    slots : callable, optional
        How many chunks the executor runs at a time, asked again and again.
    retry : bool
        Run failed jobs again.
    watch : callable, optional
        Told after every group of results how far the run is, and the results.

    Raises
    ------
    InputError
        If the folder cannot be written, or is in use.
    ResourceError
        If the executor breaks down.
    KeyboardInterrupt
        When interrupted; what is finished has been kept.
    """
    slots = slots or default_workers
    with Store(out) as store:
        if retry:
            wanted = {job.digest for job in listed.jobs}
            store.forget(lambda result: result["status"] == "failed" and result["digest"] in wanted)
        run = _Run(listed, store, limits, slots, watch)
        pool = executor or LocalPool(slots())
        orderly = False
        try:
            run.go(pool)
            orderly = True
        finally:
            try:
                if executor is None:
                    pool.shutdown(wait=True, cancel_futures=not orderly)
            finally:
                run.keep()
                summary = run.summary()
                store.summarize(summary.to_json())
    return summary


class _Run:
    """The state of one run."""

    def __init__(
        self, listed: JobList, store: Store, limits: Limits, slots: Callable[[], int], watch: Watch | None
    ) -> None:
        self.listed, self.store, self.limits, self.slots, self.watch = listed, store, limits, slots, watch
        self.start = self.kept = time.monotonic()
        missing = [job for job in listed.jobs if job.digest not in store.finished]
        self.skipped = len(listed.jobs) - len(missing)
        self.statuses: dict[str, int] = {}
        for job in listed.jobs:
            self._count(store.finished.get(job.digest))
        self.group: list[tuple[dict[str, Any], bytes | None]] = [
            (_failure(job, job.fault), None) for job in missing if job.fault
        ]
        self.faulty = len(self.group)
        self.queue = deque(sorted((job for job in missing if not job.fault), key=lambda job: -job.cost))
        self.cost_left = sum(job.cost for job in self.queue)
        self.again: list[tuple[list[Job], int]] = []  # chunks that an executor has lost, and how often
        self.cost_done = self.seconds_done = 0.0
        self.made = 0

    def go(self, executor: Executor) -> None:
        """Run all that is missing."""
        flying: dict[Future[list[dict[str, Any]]], tuple[list[Job], int]] = {}
        self.keep()
        try:
            while self.queue or self.again or flying:
                workers = max(1, self.slots())
                while len(flying) < _AHEAD * workers and (self.queue or self.again):
                    jobs, tries = self.again.pop() if self.again else (self._chunk(workers), 0)
                    requests = [self._request(job) for job in jobs]
                    flying[executor.submit(run_chunk, requests, self.limits)] = (jobs, tries)
                finished, _ = wait(flying, timeout=_GROUP_SECONDS, return_when=FIRST_COMPLETED)
                for future in finished:
                    self._collect(future, *flying.pop(future))
                if len(self.group) >= _GROUP_JOBS or time.monotonic() - self.kept > _GROUP_SECONDS:
                    self.keep()
        finally:
            for future, (jobs, tries) in flying.items():
                if not future.cancel() and future.done() and future.exception() is None:
                    self._collect(future, jobs, tries)

    def _chunk(self, workers: int) -> list[Job]:
        """The next jobs: the longest ones alone, short ones together, fewer towards the end."""
        pace = self.seconds_done / self.cost_done if self.cost_done else 1.0
        most = max(1, min(_CHUNK_JOBS, len(self.queue) // (2 * workers)))
        jobs = [self.queue.popleft()]
        cost = jobs[0].cost
        while self.queue and len(jobs) < most and (cost + self.queue[0].cost) * pace <= _CHUNK_SECONDS:
            jobs.append(self.queue.popleft())
            cost += jobs[-1].cost
        return jobs

    def _request(self, job: Job) -> dict[str, Any]:
        method = self.listed.method
        return {"spec": job.spec, "prime": method.prime, "seed": method.seed, "error": method.error}

    def _collect(self, future: Future[list[dict[str, Any]]], jobs: list[Job], tries: int) -> None:
        try:
            outcomes = future.result()
        except (BrokenExecutor, ResourceError) as e:
            raise ResourceError(f"the executor has broken down: {e}; the same command goes on from here") from None
        except Exception as e:  # whatever an executor raises for a task that it has lost
            self._lost(jobs, tries + 1, f"{type(e).__name__}: {' '.join(str(e).split())}"[:500])
            return
        for job, outcome in zip(jobs, outcomes, strict=True):
            self._finish(job, outcome)

    def _lost(self, jobs: list[Job], tries: int, reason: str) -> None:
        """Run the jobs of a lost chunk again one at a time, a few times."""
        if len(jobs) > 1 or tries < _ATTEMPTS:
            self.again += [([job], tries if len(jobs) == 1 else 0) for job in jobs]
        else:
            self._finish(jobs[0], {"failure": f"its task was lost {tries} times: {reason}", "seconds": 0.0})

    def _finish(self, job: Job, outcome: dict[str, Any]) -> None:
        seconds = outcome["seconds"]
        self.cost_left -= job.cost
        if "failure" in outcome:
            self.group.append((_failure(job, outcome["failure"], seconds), None))
            return
        self.cost_done += job.cost
        self.seconds_done += seconds
        result = {"spec": job.spec, "digest": job.digest, **outcome["fields"], "seconds": seconds}
        self.group.append((result | {"certificate": certificate_path(job.digest)}, outcome["content"]))

    def keep(self) -> None:
        """Make the results so far durable, and tell of them."""
        written = self.store.commit(self.group) if self.group else []
        self.group = []
        self.kept = time.monotonic()
        for result in written:
            self._count(result["status"])
        self.made += len(written)
        if self.watch is not None:
            self.watch(self.progress(), written)

    def _count(self, status: str | None) -> None:
        if status is not None:
            self.statuses[status] = self.statuses.get(status, 0) + 1

    def progress(self) -> Progress:
        """How far it is."""
        elapsed = time.monotonic() - self.start
        exact = self.statuses.get("exact", 0) + self.statuses.get("exact-with-probability", 0)
        left: float | None = None
        if self.cost_done:
            left = max(0.0, self.cost_left) * self.seconds_done / self.cost_done / max(1, self.slots())
        rate = (self.made - self.faulty) / elapsed if self.made > self.faulty else 0.0
        done, failures = sum(self.statuses.values()), self.statuses.get("failed", 0)
        return Progress(len(self.listed.jobs), done, failures, exact, rate, left)

    def summary(self) -> Summary:
        """What it has come to."""
        listed, method = self.listed, self.listed.method
        return Summary(
            jobs=len(listed.jobs),
            duplicates=listed.duplicates,
            skipped=self.skipped,
            made=self.made,
            statuses=dict(sorted(self.statuses.items())),
            complete=sum(self.statuses.values()) == len(listed.jobs),
            seconds=round(time.monotonic() - self.start, 2),
            source=listed.name,
            prime=method.prime,
            seed=method.seed,
            error=method.error,
        )


def _failure(job: Job, reason: str, seconds: float = 0.0) -> dict[str, Any]:
    return failed(
        {"spec": job.spec, "digest": job.digest, "parameters": job.parameters or None, "seconds": seconds}, reason
    )
