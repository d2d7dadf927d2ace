"""Guards: each has one worker process, times its jobs, and replaces it when it dies.

Whatever executor a batch uses, its tasks are calls of :func:`run_chunk`, and each thread that runs tasks has a guard
of its own. So a job that takes too long or too much memory ends its worker and nothing else, and it is known which
job that was. A worker that dies without such a reason, because somebody or the system killed it, gets its job again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ffrank.batch.worker import READY
from ffrank.errors import ResourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Guard", "Limits", "LocalPool", "run_chunk"]

P = ParamSpec("P")
T = TypeVar("T")

_ATTEMPTS = 3
_START = 300.0  # seconds that a worker may take to load or compile
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Limits:
    """What one job may take.

    Attributes
    ----------
    memory : int
        Bytes.
    timeout : float or None
        Seconds.
    """

    memory: int
    timeout: float | None = None


class Stopped(Exception):  # noqa: N818 - not an error
    """The guard was told to stop."""


class _Died(Exception):  # noqa: N818 - an event
    """The worker has ended by itself."""


class Guard:
    """One worker process at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._memory = 0
        self._stopped = False
        self._starting = threading.Lock()

    def run(self, requests: Sequence[dict[str, Any]], limits: Limits) -> list[dict[str, Any]]:
        """Make certificates one after the other.

        Returns
        -------
        list of dict
            One outcome a request, in order; see :func:`ffrank.batch.worker.make`.

        Raises
        ------
        ResourceError
            If no worker can be started.
        """
        outcomes: list[dict[str, Any]] = []
        attempts = 0
        while len(outcomes) < len(requests):
            rest = requests[len(outcomes) :]
            before = len(outcomes)
            try:
                self._serve(rest, limits, outcomes)
            except _Died as e:
                attempts = attempts + 1 if len(outcomes) == before else 1
                if attempts >= _ATTEMPTS:
                    outcomes.append({"failure": f"its worker process died {attempts} times: {e}", "seconds": 0.0})
                    attempts = 0
        return outcomes

    def _serve(self, requests: Sequence[dict[str, Any]], limits: Limits, outcomes: list[dict[str, Any]]) -> None:
        """Add outcomes until all are there or the worker must be replaced."""
        connection = self._worker(limits.memory)
        start = time.monotonic()
        try:
            connection.send(requests)
            for _ in requests:
                start = time.monotonic()
                if not connection.poll(limits.timeout):
                    self.end()
                    seconds = time.monotonic() - start
                    reason = f"timeout: it took longer than {limits.timeout:g} s"
                    outcomes.append({"failure": reason, "seconds": round(seconds, 4)})
                    return
                outcome = connection.recv()
                spoiled = outcome.pop("spoiled", False)
                outcomes.append(outcome)
                if spoiled:
                    self.end()
                    return
        except (EOFError, OSError):
            reason = self._epitaph()
            self.end()
            raise _Died(reason) from None

    def _worker(self, memory: int) -> Connection:
        """The pipe to a worker that is ready."""
        alive = self._process is not None and self._process.poll() is None
        if self._connection is not None and alive and memory == self._memory:
            return self._connection
        reason = ""
        for _ in range(_ATTEMPTS):
            self.end()
            with self._starting:
                if self._stopped:
                    raise Stopped
                connection = self._connection = self._start(memory)
            try:
                if connection.poll(_START) and connection.recv() == READY:
                    return connection
                reason = "it was not ready in time"
            except (EOFError, OSError):
                reason = self._epitaph()
        self.end()
        raise ResourceError(f"no worker process can be started: {reason}")

    def _start(self, memory: int) -> Connection:
        ours, theirs = socket.socketpair()
        environment = os.environ | dict.fromkeys(_THREADS, "1")
        root = str(Path(__file__).parents[2])
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH")]))
        self._memory = memory
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        with theirs:
            command = [sys.executable, "-P", "-m", "ffrank.batch.worker", str(theirs.fileno()), str(memory)]
            self._process = subprocess.Popen(
                command, env=environment, pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._errors,
            )  # fmt: skip
        return Connection(ours.detach())

    def _epitaph(self) -> str:
        """How the worker has ended."""
        process = self._process
        if process is None:
            return "it was ended"
        try:
            code = process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "it closed its pipe"
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            return f"{name}{' (killed; the system may be out of memory)' if -code == signal.SIGKILL else ''}"
        self._errors.seek(0)
        last = self._errors.read()[-2000:].decode(errors="replace").strip().split("\n")[-1]
        return f"exit status {code}" + (f": {last[:300]}" if last else "")

    def end(self) -> None:
        """End the worker, if there is one."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if process is not None:
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()
            self._errors.close()
        if connection is not None:
            connection.close()

    def __del__(self) -> None:
        self.end()

    def stop(self) -> None:
        """End the worker from another thread, for good."""
        with self._starting:
            self._stopped = True
            process = self._process
            if process is not None:
                with contextlib.suppress(OSError):
                    process.kill()


_here = threading.local()


def run_chunk(requests: Sequence[dict[str, Any]], limits: Limits) -> list[dict[str, Any]]:
    """The task that executors run: a few jobs, by the guard of the current thread."""
    guard: Guard | None = getattr(_here, "guard", None)
    if guard is None:
        guard = _here.guard = Guard()
    return guard.run(requests, limits)


class LocalPool(Executor):
    """Workers on this machine: threads that only wait, each with the guard of one process."""

    def __init__(self, workers: int) -> None:
        """Start nothing yet."""
        self._guards: list[Guard] = []
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="ffrank-guard", initializer=self._adopt)

    def _adopt(self) -> None:
        _here.guard = Guard()
        self._guards.append(_here.guard)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """See ``concurrent.futures.Executor``."""
        return self._threads.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """See ``concurrent.futures.Executor``; ``cancel_futures`` also ends what is running."""
        if cancel_futures:
            self._threads.shutdown(wait=False, cancel_futures=True)
            for guard in list(self._guards):
                guard.stop()
        self._threads.shutdown(wait=wait)
        for guard in self._guards if wait else ():
            guard.end()
