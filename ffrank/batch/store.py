"""What a batch leaves behind: a folder that a crash at any moment cannot spoil.

    DIR/results.jsonl             one line a job, appended
    DIR/certificates/ab/abc….json.gz   named by the job's digest, in 256 folders
    DIR/summary.json              counts, written at the end of every run
    DIR/.lock                     held by the running process

Results are written in groups: first the certificates of the group reach the disk, then its lines. So every line whose
end is there names a certificate that is whole. A line that a crash has torn is cut off when the folder is opened.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ffrank.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

__all__ = ["Store", "certificate_path", "failed", "read_results"]


def certificate_path(digest: str) -> str:
    """Where a job's certificate is, relative to the folder of the batch."""
    return f"certificates/{digest[:2]}/{digest}.json.gz"


def read_results(folder: str | Path) -> Iterator[dict[str, Any]]:
    """Read the results of a batch that may be running: a torn last line is left out.

    Raises
    ------
    InputError
        If there are none, or a line is not a result.
    """
    path = Path(folder) / "results.jsonl"
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    return
                yield _parsed(path, number, line)
    except OSError as e:
        raise InputError(f"{path}: cannot be read: {e.strerror}") from None


class Store:
    """A batch's folder, opened for writing by one process; use it as a context manager.

    Attributes
    ----------
    finished : dict
        Digest to status of every job that has its line.
    torn : int
        Bytes of a torn last line that were cut off on opening.
    """

    def __init__(self, folder: str | Path) -> None:
        """Create or open the folder.

        Raises
        ------
        InputError
            If it cannot be written, another run uses it, or it holds something else.
        """
        self.folder = Path(folder)
        self.finished: dict[str, str] = {}
        self.torn = 0
        try:
            (self.folder / "certificates").mkdir(parents=True, exist_ok=True)
            self._lock = _Lock(self.folder / ".lock")
        except OSError as e:
            raise InputError(f"{self.folder}: cannot be written: {e.strerror}") from None
        try:
            self._open()
        except BaseException as e:
            self._lock.release()
            if isinstance(e, OSError):
                raise InputError(f"{self.folder}: cannot be written: {e.strerror}") from None
            raise

    def _open(self) -> None:
        path = self.folder / "results.jsonl"
        self._results = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._size = 0
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    self.torn = len(line)
                    break
                result = _parsed(path, number, line)
                self.finished[result["digest"]] = result["status"]
                self._size += len(line)
        if self.torn:
            os.ftruncate(self._results, self._size)
            os.fsync(self._results)
        _sync_folder(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let other runs in."""
        if self._results >= 0:
            os.close(self._results)
            self._results = -1
            self._lock.release()

    def forget(self, wanted: Callable[[Mapping[str, Any]], bool]) -> int:
        """Remove the lines of which ``wanted`` is true, so that their jobs are run again; their number."""
        path = self.folder / "results.jsonl"
        kept = [result for result in read_results(self.folder) if not wanted(result)]
        removed = len(self.finished) - len(kept)
        if removed:
            _write(path, b"".join(map(_line, kept)))
            _sync_folder(self.folder)
            os.close(self._results)
            self._results = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            self._size = os.fstat(self._results).st_size
            self.finished = {result["digest"]: result["status"] for result in kept}
        return removed

    def commit(self, group: Iterable[tuple[dict[str, Any], bytes | None]]) -> list[dict[str, Any]]:
        """Make results durable, certificates first.

        Parameters
        ----------
        group : iterable of (result, certificate)
            The certificate is the file's content, or None for a failed job.

        Returns
        -------
        list of dict
            The lines as written: a job whose certificate cannot be written has failed.

        Raises
        ------
        InputError
            If the lines themselves cannot be written; then none of them is.
        """
        found = [(result, content) for result, content in group if result["digest"] not in self.finished]
        try:
            written = [self._keep(*pair) for pair in found]
            _sync(self.folder, [self.folder / result["certificate"] for result in written if "certificate" in result])
            self._append(b"".join(map(_line, written)))
        except OSError as e:
            path = self.folder / "results.jsonl"
            raise InputError(f"{path}: cannot be written: {e.strerror}; the same command goes on from here") from None
        self.finished |= {result["digest"]: result["status"] for result in written}
        return written

    def _keep(self, result: dict[str, Any], content: bytes | None) -> dict[str, Any]:
        """Write one certificate; the job's line."""
        if content is None:
            return result
        path = self.folder / result["certificate"]
        try:
            path.parent.mkdir(exist_ok=True)
            _write(path, content, sync=False)
        except OSError as e:
            return failed(result, f"the certificate cannot be written: {e.strerror}")
        return result

    def _append(self, data: bytes) -> None:
        try:
            os.lseek(self._results, self._size, os.SEEK_SET)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._results, rest) :]
            os.fsync(self._results)
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(self._results, self._size)
            raise
        self._size += len(data)

    def summarize(self, summary: Mapping[str, Any]) -> None:
        """Write summary.json.

        Raises
        ------
        InputError
            If it cannot be written.
        """
        path = self.folder / "summary.json"
        try:
            _write(path, (json.dumps(summary, indent=1) + "\n").encode())
        except OSError as e:
            raise InputError(f"{path}: cannot be written: {e.strerror}") from None


def failed(result: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """The line of a job that has failed."""
    kept = {key: result[key] for key in ("spec", "digest", "parameters")}
    empty = dict.fromkeys(("lower", "upper", "value"))
    last = {"expected": None, "defect": None, "seconds": result.get("seconds", 0.0), "failure": reason}
    return {**kept, **empty, "status": "failed", **last}


def _line(result: Mapping[str, Any]) -> bytes:
    return json.dumps(result, separators=(",", ":")).encode() + b"\n"


def _parsed(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        result = json.loads(line)
        if isinstance(result, dict) and isinstance(result.get("digest"), str) and isinstance(result.get("status"), str):
            return result
    except ValueError:
        pass
    raise InputError(f"{path}:{number}: this line is not a result of ffrank batch")


def _write(path: Path, content: bytes, *, sync: bool = True) -> None:
    """The file, whole or not at all; after a power failure that holds only if it has been brought to the disk."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as out:
            out.write(content)
            out.flush()
            if sync:
                os.fsync(out.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _sync(folder: Path, paths: list[Path]) -> None:
    """Bring files that have been written to the disk.

    One call for the whole file system where Linux has it: a tenth of the work of one call a file.
    """
    if not paths:
        return
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is not None:
        handle = os.open(folder, os.O_RDONLY)
        try:
            if syncfs(handle):
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code))
        finally:
            os.close(handle)
        return
    for path in (*paths, *{path.parent for path in paths}, folder / "certificates"):
        _sync_folder(path)


def _sync_folder(folder: Path) -> None:
    """Bring a folder's list of names, or a file, to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class _Lock:
    """An advisory lock of the operating system: it ends with its process, however that ends."""

    _held: set[int] = set()  # noqa: RUF012 - of the whole process

    def __init__(self, path: Path) -> None:
        import fcntl

        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._handle, 200, 0).decode(errors="replace").strip()
            os.close(self._handle)
            who = f" ({holder})" if holder else ""
            raise InputError(
                f"{path.parent}: another run is writing there{who}; wait until it ends, or take another folder"
            ) from None
        except OSError:
            os.close(self._handle)
            raise
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        _Lock._held.add(self._handle)

    def release(self) -> None:
        if self._handle in _Lock._held:
            _Lock._held.discard(self._handle)
            os.close(self._handle)

    @classmethod
    def in_child(cls) -> None:
        """A forked child would hold the lock beyond its parent's death."""
        for handle in cls._held:
            with contextlib.suppress(OSError):
                os.close(handle)
        cls._held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Lock.in_child)
