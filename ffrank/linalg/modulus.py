"""The moduli of this package: primes below 2^61, checked once each."""

from __future__ import annotations

import functools
from typing import SupportsIndex

from ffrank.primes import check_prime

__all__ = ["LIMIT", "checked"]

LIMIT = 2**61


@functools.lru_cache(maxsize=256)
def _checked(p: int) -> int:
    return check_prime(p, above=1, below=LIMIT)


def checked(p: SupportsIndex) -> int:
    """Return p as an int if it is a prime below 2^61; ``ModulusError`` otherwise."""
    return _checked(p) if type(p) is int else check_prime(p, above=1, below=LIMIT)
