"""The process in which certificates are made: ``python -m ffrank.batch.worker HANDLE MEMORY``.

It reads requests from a pipe and answers each with one outcome, in order. It ends when the pipe does, that is when
its parent ends, however that happens. Signals of the keyboard are the parent's business.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import queue
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ffrank.errors import FfrankError

__all__ = ["READY", "main", "make"]

READY = "ready"
_IDLE = 300.0  # seconds without work after which a worker ends; it is started again when there is some
_WARM_UP: tuple[dict[str, Any], ...] = (
    {"kind": "mlp", "widths": [2, 2, 2]},
    {"kind": "mlp", "widths": [2, 4, 8, 10, 7, 4, 6, 2, 1], "activation": {"power": 2}},
    {"kind": "attention", "widths": [3, 3, 3], "attention_dims": [2, 2], "tokens": 3},
)


def make(request: dict[str, Any], memory: int) -> dict[str, Any]:
    """Make one certificate.

    Parameters
    ----------
    request : dict
        ``spec``, ``prime``, ``seed`` and ``error`` (an exponent, or None).
    memory : int
        Bytes that it may take.

    Returns
    -------
    dict
        ``fields`` of the result, ``content`` (the certificate, compressed) and ``seconds``; or ``failure``.
    """
    from ffrank.certificate.prover import certify

    error = None if request["error"] is None else f"2^{request['error']}"
    start = time.perf_counter()
    outcome: dict[str, Any]
    try:
        certificate = certify(
            request["spec"], prime=request["prime"], seed=request["seed"], error=error, threads=1, memory=memory
        )
        content = gzip.compress(certificate.to_json().encode("ascii"), 6, mtime=0)
        outcome = {"fields": _fields(certificate.content), "content": content}
    except FfrankError as e:
        outcome = {"failure": " ".join(str(e).split())}
    except MemoryError:
        outcome = {"failure": f"out of memory: it took more than {memory / 2**20:,.0f} MiB", "spoiled": True}
    except Exception as e:  # an error of ffrank itself must not end the batch
        outcome = {"failure": f"{type(e).__name__}: {e}"[:500]}
    return outcome | {"seconds": round(time.perf_counter() - start, 4)}


def _fields(content: Any) -> dict[str, Any]:
    """What a line of results says of a certificate."""
    dimension, expected, upper = content["dimension"], content["expected"], content["upper_bound"]
    why: dict[str, Any] = {"prime": content["prime"], "inputs": content["lower_bound"]["inputs"], "kind": upper["kind"]}
    theorem = upper.get("theorem", upper)
    if upper["kind"] == "monte-carlo":
        why |= {"trials": len(upper["trials"]), "error": upper["error"], "theorem": theorem["kind"]}
        why |= {"theorem_value": theorem["value"]}
    if theorem["kind"] == "symmetry":
        why["rules"] = sorted({generator["rule"] for generator in theorem["generators"]})
    failing = [h["statement"] for h in expected["hypotheses"] if not h["holds"]] if expected else []
    return {
        "parameters": content["parameters"],
        **{key: dimension[key] for key in ("lower", "upper", "value", "status")},
        "expected": expected and expected["value"],
        "defect": content["defect"],
        "formula": expected and expected["formula"],
        "claim": expected and expected["status"],
        "holds": expected and expected["holds"],
        **({"failing": failing} if failing else {}),
        "why": why,
    }


def main(handle: int, memory: int) -> None:
    """Answer requests until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):  # if memory runs out, the system shall end a worker and not the batch
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")
    connection = Connection(handle)
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, requests), daemon=True).start()
    _warm_up()
    _limit_memory(memory)
    connection.send(READY)
    while True:
        try:
            request = requests.get(timeout=_IDLE)
        except queue.Empty:
            return
        connection.send(make(request, memory))


def _listen(connection: Connection, requests: queue.SimpleQueue[dict[str, Any]]) -> None:
    try:
        while True:
            for request in connection.recv():
                requests.put(request)
    except (EOFError, OSError):
        os._exit(0)


def _warm_up() -> None:
    """Load the compiled kernels, or compile them: none of that is to be counted as a job's time."""
    import ffrank.linalg.kernels
    import ffrank.program.kernels  # noqa: F401

    for spec in _WARM_UP:
        make({"spec": spec, "prime": 2**31 - 1, "seed": 0, "error": -40}, 2**30)


def _limit_memory(memory: int) -> None:
    """Let the process grow by ``memory`` bytes and no further."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    except (ImportError, OSError, ValueError):
        return  # then the prover's own estimate must do


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
