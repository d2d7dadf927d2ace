"""Memory: refuse early, with the number of bytes, what would not fit."""

from __future__ import annotations

import os
from pathlib import Path

from ffrank.errors import ResourceError

__all__ = ["available_memory", "require_memory"]

_NEGLIGIBLE = 2**26  # bytes; below, looking is not worth the time


def available_memory() -> int | None:
    """Return the bytes that can be allocated now, or None where the system does not tell."""
    free = None
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
    except OSError:
        try:
            free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, OSError, ValueError):
            return None
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
    except (OSError, ValueError):
        return free
    if limit.isdigit() and free is not None:
        free = min(free, max(0, int(limit) - used))
    return free


def require_memory(size: int, what: str) -> None:
    """Check that ``size`` bytes can be allocated.

    Raises
    ------
    ResourceError
        If they exceed the memory available.
    """
    if size < _NEGLIGIBLE:
        return
    free = available_memory()
    if free is not None and size > free:
        raise ResourceError(f"{what} needs {size:,} bytes, but {free:,} are available; use a smaller matrix")
