"""Threads: how many, what they share out, and BLAS kept to one thread meanwhile.

Products are split into blocks whose entries do not depend on the split, so results have the same bits
whatever the number of threads. Python threads suffice because NumPy and the kernels release the lock.
"""

from __future__ import annotations

import functools
import multiprocessing
import operator
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

import numpy as np

from ffrank.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

__all__ = ["Team", "default_threads", "one_blas_thread"]

_lock = threading.Lock()
_limited = False


@functools.cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread, and restore its state.

    The setting belongs to the whole process. Of several callers at a time the first one makes it and
    restores it, from the same thread, as threadpoolctl demands; should the others go on, BLAS may use more
    threads in them, which costs time but changes nothing.
    """
    global _limited  # noqa: PLW0603
    with _lock:
        first, _limited = not _limited, True
        limiter = _blas().limit(limits=1) if first else nullcontext()
        limiter.__enter__()
    try:
        yield
    finally:
        if first:
            with _lock:
                limiter.__exit__(None, None, None)
                _limited = False


def default_threads() -> int:
    """Return the number of usable cores, OMP_NUM_THREADS if smaller, and 1 inside a worker process."""
    if multiprocessing.parent_process() is not None:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return max(1, min(cores, int(wanted))) if wanted.isdigit() else cores


class Team:
    """Threads with their scratch memory, for one computation; use it as a context manager."""

    def __init__(self, threads: SupportsIndex | None, work: float) -> None:
        """Take ``threads``, or the default if ``work`` (in multiplications) is worth sharing."""
        if threads is None:
            count = default_threads() if work > _WORTH_SHARING else 1
        else:
            try:
                count = operator.index(threads)
            except TypeError:
                raise InputError(f"expected a number of threads, got {threads!r}") from None
            if count < 1:
                raise InputError(f"expected at least one thread, got {count}")
        self.threads = count
        self._pool: ThreadPoolExecutor | None = None
        self._scratch: dict[tuple[int, str], NDArray[Any]] = {}
        self._pinned: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        if self._pinned is not None:
            self._pinned.__exit__(None, None, None)

    def scratch(self, slot: int, name: str, size: int, dtype: type = np.float64) -> NDArray[Any]:
        """Return at least ``size`` entries of memory that belongs to thread ``slot``."""
        key = (slot, name)
        found = self._scratch.get(key)
        if found is None or found.size < size:
            found = self._scratch[key] = np.empty(size, dtype)
        return found

    def share(self, lo: int, hi: int, work: float, f: Callable[[int, int, int], None]) -> None:
        """Call ``f(slot, a, b)`` on intervals that make up ``lo .. hi``, one per thread."""
        if self._pinned is None and work > _WORTH_PINNING:
            self._pinned = one_blas_thread()
            self._pinned.__enter__()
        parts = min(self.threads, hi - lo) if work > _WORTH_SPLITTING else 1
        if parts <= 1:
            f(0, lo, hi)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads - 1)
        cuts = [lo + (hi - lo) * i // parts for i in range(parts + 1)]
        others = [self._pool.submit(f, i, cuts[i], cuts[i + 1]) for i in range(1, parts)]
        try:
            f(0, cuts[0], cuts[1])
        finally:
            for other in others:
                other.result()


_WORTH_PINNING = 2e5  # multiplications in one product; smaller ones BLAS leaves to one thread
_WORTH_SPLITTING = 2e6  # one product: waking a thread costs about 20 µs
_WORTH_SHARING = 5e8  # a whole computation; n = 800
