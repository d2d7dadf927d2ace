"""``ffrank batch`` and ``ffrank report``."""

from __future__ import annotations

import json as json_module
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ffrank.cli.certify import check_writable, parse_size
from ffrank.cli.show import show_pairs
from ffrank.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor

    from ffrank.batch.jobs import JobList
    from ffrank.batch.run import Progress, Summary

    Watch = Callable[[Progress, list[dict[str, Any]]], None]

__all__ = ["batch", "report"]

_Switch = Parameter(negative="")
_LINE_EVERY = 10.0  # seconds, where nobody sees a bar
_INTERRUPTED = 130


def batch(
    jobs: str,
    /,
    *,
    out: Annotated[str | None, Parameter(name=["--out", "-o"])] = None,
    workers: int | None = None,
    dask: str | None = None,
    mpi: Annotated[bool, _Switch] = False,
    prime: int = 2147483647,
    seed: int = 0,
    error: str = "2^-40",
    timeout: float | None = None,
    memory: str = "4GiB",
    retry: Annotated[bool, _Switch] = False,
    dry_run: Annotated[bool, _Switch] = False,
    json: Annotated[bool, _Switch] = False,
) -> int:
    """Certify many architectures; after an interruption the same command goes on.

    Parameters
    ----------
    jobs
        A .toml file with a grid, a .jsonl file of specs, or a .csv file with a column of widths.
    out
        The folder of results; made if absent.
    workers
        Processes on this machine; one a core if absent.
    dask
        Address of a Dask scheduler, or the word local.
    mpi
        Use the processes of mpiexec -n N python -m mpi4py.futures -m ffrank batch ...
    prime
        Odd prime below 2^31, the field of the lower bounds.
    seed
        Chooses the random points.
    error
        Largest probability of error of a Monte-Carlo upper bound, such as 2^-40; none for theorems only.
    timeout
        Seconds that one job may take.
    memory
        Memory that one job may take, such as 4GiB.
    retry
        Run jobs again that have failed before.
    dry_run
        Count and validate the jobs, and estimate the time.
    json
        Print one JSON object an event.
    """
    from ffrank.batch.jobs import Method, read_jobs

    if workers is not None and workers < 1:
        raise InputError(f"--workers: expected at least 1, got {workers}")
    if timeout is not None and not timeout > 0:
        raise InputError(f"--timeout: expected a positive number of seconds, got {timeout:g}")
    if dask is not None and mpi:
        raise InputError("--dask and --mpi: expected one of them")
    if out is None and not dry_run:
        raise InputError("--out: a folder for the results is missing")
    size = parse_size(memory)
    listed = read_jobs(jobs, Method.checked(prime, seed, error))
    for line in [*listed.notes, *listed.fault_lines()]:
        sys.stderr.write(f"ffrank: {line}\n")
    if dry_run:
        return _estimate(listed, workers, json=json)
    folder = str(out)
    with ExitStack() as stack:
        executor: Executor | None = None
        slots: Callable[[], int] | None = (lambda: workers) if workers else None
        if dask is not None or mpi:
            from ffrank.batch.executors import dask_executor, mpi_executor

            chosen = mpi_executor(workers) if dask is None else dask_executor(dask, workers)
            executor, slots = stack.enter_context(chosen)
        return _run(listed, folder, executor, slots, size, timeout, retry=retry, json=json)


def report(
    folder: str,
    /,
    *,
    output: Annotated[str | None, Parameter(name=["--output", "-o"])] = None,
    csv: Annotated[bool, _Switch] = False,
    latex: Annotated[bool, _Switch] = False,
    markdown: Annotated[bool, _Switch] = False,
) -> int:
    """Draw a batch's results: one HTML page, or a table.

    Parameters
    ----------
    folder
        The folder of a batch.
    output
        The file to write; FOLDER/report.html if absent. Tables then go to standard output.
    csv
        A CSV file instead of the page.
    latex
        A LaTeX longtable instead of the page.
    markdown
        A Markdown table instead of the page.
    """
    from ffrank.report.page import page
    from ffrank.report.rows import read_rows
    from ffrank.report.tables import to_csv, to_latex, to_markdown

    tables = [make for asked, make in ((csv, to_csv), (latex, to_latex), (markdown, to_markdown)) if asked]
    if len(tables) > 1:
        raise InputError("--csv, --latex and --markdown: expected at most one of them")
    path = None if output is None else Path(output)
    if path is None and not tables:
        path = Path(folder) / "report.html"
    if path is not None:
        check_writable(path)
    rows = read_rows(folder)
    text = tables[0](rows) if tables else page(rows, folder, path or Path())
    if path is None:
        sys.stdout.write(text)
        return 0
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as e:
        raise InputError(f"{path}: cannot be written: {e.strerror}") from None
    sys.stdout.write(f"{path}: {len(rows):,} results\n")
    return 0


def _run(
    listed: JobList,
    folder: str,
    executor: Executor | None,
    slots: Callable[[], int] | None,
    memory: int,
    timeout: float | None,
    *,
    retry: bool,
    json: bool,
) -> int:
    from ffrank.batch.guard import Limits
    from ffrank.batch.run import run_jobs

    latest: list[Progress] = []
    try:
        with _events(listed, folder) if json else _watching(len(listed.jobs)) as show:

            def watch(progress: Progress, results: list[dict[str, Any]]) -> None:
                latest[:] = [progress]
                show(progress, results)

            summary = run_jobs(
                listed, folder, limits=Limits(memory, timeout), executor=executor, slots=slots, retry=retry, watch=watch
            )
    except KeyboardInterrupt:
        done = latest[-1].done if latest else 0
        sys.stderr.write(
            f"ffrank: interrupted; {done:,} of {len(listed.jobs):,} jobs have their results in {folder}; "
            "the same command goes on from there\n"
        )
        return _INTERRUPTED
    if json:
        _event("end", **summary.to_json())
    else:
        _show_summary(summary, folder)
    return 1 if summary.failed else 0


def _estimate(listed: JobList, workers: int | None, *, json: bool) -> int:
    """What ``--dry-run`` prints."""
    from ffrank.batch.run import default_workers

    count = workers or default_workers()
    good = [job for job in listed.jobs if not job.fault]
    seconds = max(listed.cost / count, *(job.cost for job in good))
    largest = max(job.parameters for job in good)
    if json:
        _event(
            "estimate", jobs=len(listed.jobs), duplicates=listed.duplicates, faults=len(listed.faults),
            workers=count, seconds=round(seconds, 1), largest=largest,
        )  # fmt: skip
    else:
        show_pairs(
            [
                ("jobs", f"{len(listed.jobs):,}, without {listed.duplicates:,} duplicates"),
                ("faults", f"{len(listed.faults):,}"),
                ("parameters", f"up to {largest:,}"),
                ("time", f"about {_duration(seconds)} with {count} workers; an estimate within a factor of a few"),
            ]
        )
    return 1 if listed.faults else 0


# ------------------------------------------------------------------------------------------------ watching


def _event(name: str, **facts: Any) -> None:
    sys.stdout.write(json_module.dumps({"event": name, **facts}) + "\n")
    sys.stdout.flush()


@contextmanager
def _events(listed: JobList, folder: str) -> Iterator[Watch]:
    """One JSON object an event on standard output."""

    def watch(progress: Progress, results: list[dict[str, Any]]) -> None:
        for result in results:
            _event("job", **result)
        if results:
            left = None if progress.left is None else round(progress.left, 1)
            counts = {"done": progress.done, "failed": progress.failed, "exact": progress.exact}
            _event("progress", total=progress.total, **counts, rate=round(progress.rate, 2), left=left)

    _event(
        "start", source=listed.name, out=folder, jobs=len(listed.jobs), duplicates=listed.duplicates,
        faults=[{"line": job.line, "reason": job.fault} for job in listed.faults],
    )  # fmt: skip
    yield watch


@contextmanager
def _watching(total: int) -> Iterator[Watch]:
    """A bar on a terminal, a line now and then elsewhere."""
    if not sys.stderr.isatty():
        yield _lines(total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("starting", total=total)

        def watch(progress: Progress, _: list[dict[str, Any]]) -> None:
            bar.update(task, completed=progress.done, description=_counts(progress))

        yield watch


def _lines(total: int) -> Watch:
    last = time.monotonic()

    def watch(progress: Progress, _: list[dict[str, Any]]) -> None:
        nonlocal last
        if time.monotonic() - last >= _LINE_EVERY:
            last = time.monotonic()
            sys.stderr.write(f"{progress.done}/{total} {_counts(progress)}\n")
            sys.stderr.flush()

    return watch


def _counts(progress: Progress) -> str:
    left = "" if progress.left is None else f", {_duration(progress.left)} left"
    return f"{progress.exact:,} exact, {progress.failed:,} failed, {progress.rate:.1f}/s{left}"


def _duration(seconds: float) -> str:
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes / 60:.1f} h"


def _show_summary(summary: Summary, folder: str) -> None:
    counts = ", ".join(f"{count:,} {status}" for status, count in summary.statuses.items())
    again = f"; {summary.skipped:,} had their results before" if summary.skipped else ""
    lines = [
        ("jobs", f"{summary.jobs:,}" + (f", without {summary.duplicates:,} duplicates" if summary.duplicates else "")),
        ("results", counts),
        ("this run", f"{summary.made:,} results in {_duration(summary.seconds)}{again}"),
        ("written to", f"{folder}; look at it with: ffrank report {folder}"),
    ]
    if summary.failed:
        lines.append(("failed", 'the reasons are in results.jsonl, under "failure"; --retry runs these jobs again'))
    show_pairs(lines)
