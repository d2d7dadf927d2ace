"""Batches: many certificates, resumable, on one machine or a cluster.

The package can be called: ``ffrank.batch(jobs, out)``.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Executor
    from pathlib import Path

    from ffrank.batch.run import Progress, Summary

__all__ = ["batch"]


def batch(  # noqa: PLR0913 - one keyword an option
    jobs: str | Path | Iterable[Any],
    out: str | Path,
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    prime: int = 2**31 - 1,
    seed: int = 0,
    error: str | float | None = "2^-40",
    timeout: float | None = None,
    memory: int = 4 * 2**30,
    retry: bool = False,
    watch: Callable[[Progress, list[dict[str, Any]]], None] | None = None,
) -> Summary:
    """Certify many architectures; run again after an interruption, it goes on where it was.

    Parameters
    ----------
    jobs : path or iterable
        A .toml, .jsonl or .csv file of jobs, or specs.
    out : path
        The folder of results.
    workers : int, optional
        Processes on this machine, or tasks that ``executor`` runs at a time; one a core if absent.
    executor : concurrent.futures.Executor, optional
        Where the jobs run instead of local processes. It is left open.
    prime, seed, error
        As for ``ffrank.certify``, for all jobs.
    timeout : float, optional
        Seconds that one job may take.
    memory : int
        Bytes that one job may take.
    retry : bool
        Run jobs again that have failed before.
    watch : callable, optional
        Called with the progress and the latest results, about twice a second.

    Returns
    -------
    Summary
        ``failed`` counts jobs without a certificate.

    Raises
    ------
    InputError
        If no job can be used, or the folder cannot be written or is in use.
    ResourceError
        If the executor breaks down.
    """
    from ffrank.batch.guard import Limits
    from ffrank.batch.jobs import Method, read_jobs
    from ffrank.batch.run import default_workers, run_jobs
    from ffrank.errors import InputError

    if workers is not None and (isinstance(workers, bool) or workers < 1):
        raise InputError(f"workers: expected at least 1, got {workers!r}")
    if timeout is not None and not timeout > 0:
        raise InputError(f"timeout: expected a positive number of seconds, got {timeout!r}")
    if memory < 1:
        raise InputError(f"memory: expected a positive number of bytes, got {memory!r}")
    listed = read_jobs(jobs, Method.checked(prime, seed, error))
    return run_jobs(
        listed, out, limits=Limits(memory, timeout), executor=executor,
        slots=lambda: workers or default_workers(), retry=retry, watch=watch,
    )  # fmt: skip


class _Callable(ModuleType):
    """A package that is also the function for which it is named."""

    function = staticmethod(batch)

    def __call__(self, *arguments: Any, **options: Any) -> Summary:
        return self.function(*arguments, **options)


if not TYPE_CHECKING:
    batch = sys.modules[__name__]
    batch.__class__ = _Callable
