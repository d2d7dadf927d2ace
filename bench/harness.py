"""Interleaved timing: contenders take turns, so that a noisy minute hits all of them; medians and ratios are told."""

from __future__ import annotations

import os
import platform
import statistics
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def interleaved(
    contenders: Mapping[str, Callable[[], object]], repeat: int = 5, budget: float = 60.0
) -> dict[str, float]:
    """Return the median seconds of each contender over ``repeat`` rounds.

    Each turn begins with a run that is not counted, so that nobody pays for the caches and pages that another left
    behind. Processor time is taken, which other programs disturb less, but elapsed time for names with "threads".
    Short runs are repeated within a turn until 5 ms have passed. A contender that has used ``budget`` seconds leaves.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeat):
        for name, run in contenders.items():
            if sum(times[name]) > budget:
                continue
            clock = time.perf_counter if "threads" in name else time.process_time
            run()
            start, runs = clock(), 0
            while runs == 0 or clock() - start < 0.005:
                run()
                runs += 1
            times[name].append((clock() - start) / runs)
    return {name: statistics.median(found) for name, found in times.items()}


def shown(seconds: float) -> str:
    """Return a time with three digits, in µs, ms or s."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * scale >= 1 or unit == "µs":
            return f"{seconds * scale:.3g} {unit}"
    raise AssertionError


def row(label: str, medians: Mapping[str, float], base: str) -> str:
    """Return one line: the base's median, and for the others the median and its ratio to the base."""
    cells = [f"{base} {shown(medians[base])}"]
    cells += [f"{name} {shown(t)} ({t / medians[base]:.2f}x)" for name, t in medians.items() if name != base]
    return f"{label:<28} " + " | ".join(cells)


def machine() -> str:
    """Return the processor, the number of cores and the versions that matter."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    wide = any("avx512f" in line for line in lines if line.startswith("flags"))
    cpu = f"{names[0] if names else platform.processor()}{', AVX-512' if wide else ''}"
    versions = []
    for package in ("numpy", "numba", "python-flint", "galois", "sympy", "cypari"):
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    return f"{cpu}, {os.cpu_count()} cores; Python {platform.python_version()}, {', '.join(versions)}"
