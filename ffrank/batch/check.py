"""Check every certificate of a batch with the independent checker, and every line of results against its certificate.

The checker runs as its own file in processes of its own, exactly as a reader of a certificate would run it.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ffrank.batch.jobs import Method
from ffrank.batch.run import default_workers
from ffrank.batch.store import read_results
from ffrank.errors import CertificateError, InputError, SpecError
from ffrank.models.spec import parse_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["BatchCheck", "check_batch"]

_CHUNK = 32


@dataclass(frozen=True)
class BatchCheck:
    """What was found; the content of verification.json.

    Attributes
    ----------
    certificates : int
        Lines of results that name a certificate.
    valid : int
        Certificates that the checker accepts and that say what their line says.
    failed : int
        Lines of failed jobs, which have none.
    full : bool
        Whether what is otherwise taken on trust was computed again.
    faults : tuple of dict
        ``certificate`` and ``reason`` of every other one.
    unnamed : tuple of str
        Files under certificates/ that no line names; a crash may leave some, and they harm nothing.
    """

    certificates: int
    valid: int
    failed: int
    full: bool
    faults: tuple[dict[str, str], ...]
    unnamed: tuple[str, ...]

    def __bool__(self) -> bool:
        return not self.faults


def check_batch(
    folder: str | Path,
    *,
    workers: int | None = None,
    full: bool = False,
    watch: Callable[[int, int], None] | None = None,
) -> BatchCheck:
    """Check all certificates in parallel, and write what was found to verification.json.

    Parameters
    ----------
    folder : path
        Of a batch.
    workers : int, optional
        Checkers at a time; one a core if absent.
    full : bool
        Compute again what is otherwise taken on trust; slow.
    watch : callable, optional
        Told the numbers of certificates checked and of all.

    Raises
    ------
    InputError
        If there are no results, or verification.json cannot be written.
    """
    folder = Path(folder)
    lines = list(read_results(folder))
    made = [line for line in lines if line.get("certificate")]
    chunks = [made[i : i + _CHUNK] for i in range(0, len(made), _CHUNK)]
    faults: list[dict[str, str]] = []
    done = 0
    with ThreadPoolExecutor(workers or default_workers()) as pool:
        for chunk, reasons in zip(chunks, pool.map(lambda c: _check_chunk(folder, c, full=full), chunks), strict=True):
            pairs = zip(chunk, reasons, strict=True)
            faults += [{"certificate": line["certificate"], "reason": reason} for line, reason in pairs if reason]
            done += len(chunk)
            if watch is not None:
                watch(done, len(made))
    named = {line["certificate"] for line in made}
    present = (path.relative_to(folder).as_posix() for path in folder.glob("certificates/*/*.json.gz"))
    found = BatchCheck(
        certificates=len(made),
        valid=len(made) - len(faults),
        failed=len(lines) - len(made),
        full=full,
        faults=tuple(faults),
        unnamed=tuple(sorted(path for path in present if path not in named)),
    )
    path = folder / "verification.json"
    try:
        path.write_text(json.dumps(asdict(found), indent=1) + "\n", encoding="ascii")
    except OSError as e:
        raise InputError(f"{path}: cannot be written: {e.strerror}") from None
    return found


def _check_chunk(folder: Path, lines: Sequence[dict[str, Any]], *, full: bool) -> list[str]:
    """Why each certificate is no good; empty if it is."""
    from ffrank.certificate import checker

    paths = [str(folder / line["certificate"]) for line in lines]
    command = [sys.executable, "-I", checker.__file__, "--json", *(["--full"] if full else []), "--", *paths]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    try:
        verdicts = json.loads(ended.stdout)
    except ValueError:
        said = ended.stderr.strip().split("\n")[-1][:300]
        return [f"the checker ended with status {ended.returncode}: {said}"] * len(lines)
    return [
        f"{verdict['verdict']}: {verdict['reason']}" if verdict["verdict"] != "valid" else _difference(line, Path(path))
        for line, path, verdict in zip(lines, paths, verdicts, strict=True)
    ]


def _difference(line: dict[str, Any], path: Path) -> str:
    """Where a line says something else than its valid certificate."""
    try:
        content = json.loads(gzip.decompress(path.read_bytes()))
        architecture = parse_spec(line["spec"]).architecture()
    except (OSError, ValueError, EOFError, zlib.error, SpecError, CertificateError) as e:
        return f"cannot be compared with its line: {e}"
    method = Method(content["prime"], content["seed"], content["method"]["error"])
    said = {
        "spec": architecture,
        "digest": line["digest"],
        **{key: line.get(key) for key in ("parameters", "lower", "upper", "value", "status", "expected", "defect")},
    }
    true = {
        "spec": content.get("architecture"),
        "digest": method.digest({"architecture": content.get("architecture")}),
        "parameters": content["parameters"],
        **{key: content["dimension"][key] for key in ("lower", "upper", "value", "status")},
        "expected": content["expected"] and content["expected"]["value"],
        "defect": content["defect"],
    }
    for key, value in said.items():
        if value != true[key]:
            return f"its line says {key} {value!r}, the certificate {true[key]!r}"
    return ""
