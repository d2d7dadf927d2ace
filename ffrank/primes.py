"""Primes, and uniform points of F_p drawn from SHAKE-256.

Every random number of the project comes from :func:`stream`, so that any language can rebuild it from
the description in ``certificate/FORMAT.md``.
"""

from __future__ import annotations

import hashlib
import operator
from typing import TYPE_CHECKING, SupportsIndex

from ffrank.errors import ModulusError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["DEFAULT_PRIME", "check_prime", "is_prime", "residues", "trial_prime"]

DEFAULT_PRIME = 2**31 - 1

# Miller-Rabin with these bases decides primality below 3.3e24 (Sorenson and Webster, Strong pseudoprimes
# to twelve prime bases, Math. Comp. 86, 2017), far above the 2^64 that is ever asked here.
_BASES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
_LIMIT = 2**64


def is_prime(n: int) -> bool:
    """Decide whether ``n`` is prime; proven for n < 2^64.

    Raises
    ------
    ModulusError
        If n ≥ 2^64.
    """
    if n >= _LIMIT:
        raise ModulusError(f"expected an integer below 2^64, got one of {n.bit_length()} bits")
    if n < 2:
        return False
    for q in _BASES:
        if n % q == 0:
            return n == q
    odd = n - 1
    twos = (odd & -odd).bit_length() - 1
    odd >>= twos
    for base in _BASES:
        x = pow(base, odd, n)
        if x in (1, n - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


def check_prime(p: SupportsIndex, *, above: int = 1, below: int = 2**31) -> int:
    """Return ``p`` as an int if it is a prime with ``above < p < below``.

    Raises
    ------
    ModulusError
        If p is not an integer, out of range, or composite.
    """
    if isinstance(p, bool):
        raise ModulusError(f"expected a prime, got {p!r}")
    try:
        n = operator.index(p)
    except TypeError:
        raise ModulusError(f"expected a prime, got {type(p).__name__} {p!r}; pass an int") from None
    if not above < n < below:
        shown = str(n) if n.bit_length() <= 128 else f"an integer of {n.bit_length()} bits"
        raise ModulusError(f"expected a prime p with {above} < p < {_power(below)}, got {shown}")
    if not is_prime(n):
        raise ModulusError(f"expected a prime, got {n}, which is composite; try {_next_prime(n, below)}")
    return n


def _power(n: int) -> str:
    return f"2^{n.bit_length() - 1}" if n & (n - 1) == 0 else str(n)


def _next_prime(n: int, below: int) -> int:
    up = next((q for q in range(n + 1, min(below, n + 2000)) if is_prime(q)), None)
    return up if up is not None else next(q for q in range(n - 1, 1, -1) if is_prime(q))


def residues(message: str, p: int, count: int) -> NDArray[np.int64]:
    """Draw ``count`` uniform residues mod ``p`` from the stream of ``message``.

    The stream is SHAKE-256 of the message in 8-byte little-endian words; of each word the lowest
    ``p.bit_length()`` bits are kept, and values ≥ p are dropped. More than half of the values survive.
    """
    import numpy as np

    mask = np.uint64((1 << p.bit_length()) - 1)
    words = int(count * (1 << p.bit_length()) / p * 1.02) + 32
    while True:
        raw = hashlib.shake_256(message.encode()).digest(8 * words)
        values = np.frombuffer(raw, dtype="<u8") & mask
        values = values[values < np.uint64(p)]
        if len(values) >= count:
            return values[:count].astype(np.int64)
        words *= 2


def trial_prime(digest: str, seed: int, trial: int, earlier: frozenset[int]) -> int:
    """Draw a prime uniformly between 2^30 and 2^31, other than the ``earlier`` ones."""
    message = f"ffrank trial 1\n{digest}\n{seed}\n{trial}".encode()
    words = 256
    while True:
        raw = hashlib.shake_256(message).digest(8 * words)
        for at in range(0, len(raw), 8):
            n = (int.from_bytes(raw[at : at + 8], "little") & (2**30 - 1)) | 2**30
            if n not in earlier and is_prime(n):
                return n
        words *= 2
