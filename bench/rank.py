"""Exact ranks against the peers: ``python bench/rank.py [--quick] [--write]``.

Prints a line per matrix: ffrank's median, and the peers' with their ratios to it (2.00x: takes twice as long).
``--write`` puts the table into ``bench/README.md``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import rank_peers as peers
from harness import interleaved, machine, row, shown

import ffrank.linalg as la

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P23, P31, P61 = 8388593, 2**31 - 1, 2**61 - 1
HEADING = "## Exact ranks: `python bench/rank.py --write`"
NAMES = {P23: "p < 2^23", P31: "2^31-1", P61: "2^61-1", 2: "2", 3: "3", 257: "257"}


def matrices(*, quick: bool) -> Iterator[tuple[str, np.ndarray, int, int]]:
    """Yield (label, matrix, prime, rank)."""
    rng = np.random.default_rng(11)

    def product(p: int, m: int, n: int, r: int) -> np.ndarray:
        return la.matmul(rng.integers(0, p, (m, r)), rng.integers(0, p, (r, n)), p)

    sizes = (10, 50, 100, 250, 1000) if quick else (10, 50, 100, 250, 500, 1000, 2000, 4000, 6000)
    for n in sizes:
        for p in (P23, P31, P61):
            if p == P61 and n > 2000:
                continue
            yield f"{n}x{n} {NAMES[p]}", rng.integers(0, p, (n, n)), p, n
    middle = 500 if quick else 2000
    for p in (P23, P31):
        yield f"{middle}x{middle} half {NAMES[p]}", product(p, middle, middle, middle // 2), p, middle // 2
        yield f"{middle}x{middle} rank 10 {NAMES[p]}", product(p, middle, middle, 10), p, 10
    long = 4000 if quick else 20000
    for m, n in ((long, 500), (500, long)):
        yield f"{m}x{n} {NAMES[P31]}", rng.integers(0, P31, (m, n)), P31, 500
        yield f"{m}x{n} rank 490 {NAMES[P31]}", product(P31, m, n, 490), P31, 490
    for p in (2, 3, 257):
        A = product(p, middle, middle, middle // 2)
        yield f"{middle}x{middle} about half mod {NAMES[p]}", A, p, la.rank(A, p)


def contenders(A: np.ndarray, p: int) -> dict[str, Callable[[], int]]:
    m, n = A.shape
    size = min(m, n)
    found: dict[str, Callable[[], int] | None] = {"ffrank": lambda: la.rank(A, p, threads=1)}
    if size >= 500:
        found["ffrank, 2 threads"] = lambda: la.rank(A, p, threads=2)
    found["FLINT"] = peers.flint(A, p)
    if size <= 250:
        found["FLINT from NumPy"] = peers.flint_converting(A, p)
        if p != P61:
            found["galois"] = peers.galois(A, p)
    if size <= 50:
        found["SymPy"] = peers.sympy(A, p)
        found["PARI"] = peers.pari(A, p)
    if p < 2**26 and p > 2:
        found["FFLAS balanced"] = peers.foreign("fflas", 0, A, p)
        found["FFLAS modular"] = peers.foreign("fflas", 1, A, p)
    elif P31 >= p > 2 and m * n <= 4e6:
        found["FFLAS int64"] = peers.foreign("fflas", 2, A, p)
    if p < 2**60 and m * n <= 4e6:
        found["NTL"] = peers.foreign("ntl", 0, A, p)
    if size <= 1000:
        found["float64"] = peers.numpy_float(A, p)
    return {name: run for name, run in found.items() if run is not None}


def cold_start() -> Iterator[str]:
    """Time whole processes: what a caller pays before the first rank."""
    script = "import numpy as np; A = np.arange({0}**2).reshape({0}, {0}) ** 2 % 101; {1}"
    for label, code in {
        "import numpy": "pass",
        "import ffrank.linalg": "import ffrank.linalg",
        "rank of 300x300": "import ffrank.linalg as la; la.rank(A, 2**31 - 1)",
        "rank of 600x600": "import ffrank.linalg as la; la.rank(A, 2**31 - 1)",
    }.items():
        command = [sys.executable, "-c", script.format(600 if "600" in label else 300, code)]
        times = []
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run(command, check=True)
            times.append(time.perf_counter() - start)
        yield f"{label:<28} {shown(sorted(times)[2])}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="small sizes only")
    options.add_argument("--write", action="store_true", help="put the table into bench/README.md")
    chosen = options.parse_args()
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        # Every copy of OpenBLAS in this process reads it when it is loaded, NumPy's own before this line.
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    lines = []
    import_module("ffrank.linalg.kernels")  # or the first small matrices would be done without

    def tell(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    tell("Whole processes, compiled kernels in the cache:")
    for line in cold_start():
        tell(line)
    X = np.random.default_rng(0).random((2000, 2000))
    speed = 2 * 2000**3 / interleaved({"dgemm": lambda: X @ X})["dgemm"]
    tell(f"\nMatrices, one thread unless said otherwise; dgemm runs at {speed / 1e9:.0f} GFLOP/s:")
    for label, A, p, rank in matrices(quick=chosen.quick):
        runs = contenders(A, p)
        assert runs["ffrank"]() == rank
        medians = interleaved(runs, repeat=5 if A.size <= 2e6 else 3, budget=15)
        line = row(label, medians, "ffrank")
        if rank == A.shape[0] == A.shape[1] >= 1000:
            line += f" | peak {2 / 3 * rank**3 / medians['ffrank'] / speed:.0%}"
        tell(line)
    if chosen.write:
        write(lines)


def write(lines: list[str]) -> None:
    """Replace the section of ``bench/README.md`` that this script makes, up to the next heading."""
    text = [
        f"{HEADING}\n",
        "Medians of interleaved runs, in processor time where one thread works; each run follows one of the same",
        "contender that is not counted. A ratio is the peer's time over ffrank's. FFLAS-FFPACK and NTL include the",
        "copy of the matrix into their own type, a few percent; FLINT does not unless it says so. *float64* is",
        "`numpy.linalg.matrix_rank`, which answers another question. *peak* is (2/3)n³ over the time and the dgemm",
        "rate.\n",
        f"Machine: {machine()}.\n",
        "```",
        *lines,
        "```\n",
    ]
    path = Path(__file__).parent / "README.md"
    before, _, rest = path.read_text(encoding="utf-8").partition(HEADING)
    _, mark, after = rest.partition("\n## ")
    path.write_text(before + "\n".join(text) + mark + after, encoding="utf-8")


if __name__ == "__main__":
    main()
