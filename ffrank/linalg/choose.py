"""Which representation and which panel width an elimination uses: decided here and nowhere else.

Reasons, with what was measured on a 2-core AMD EPYC (AVX-512, OpenBLAS 0.3.31, 52 GFLOP/s a core); the
harness ``bench/rank.py`` repeats it.

*One limb or two.* One product of float64 matrices is exact up to the inner length kmax: 512 at 2^23, 128 at 2^24,
32 at 2^25, 16 at 2^25.5. Every kmax terms the result is reduced, at the price of about 17 terms. Two limbs cost two
products, but are exact up to 255 at 2^31, and far longer below 2^26. One limb still wins at 2^25.5 (n = 1000: 46 ms
against 57).

*Above 2^33* two limbs leave kmax below 32. Montgomery residues with five products take over; they serve up to 2^61,
where three limbs of 21 bits hold a residue.

*Panels* of 32 columns, eliminated without BLAS, are the best or close to it from n = 100 to n = 1000 in all three.
A matrix of at most 80 rows is a single panel (n = 75: 91 µs instead of 125). Tall panels are eliminated by their top
256 rows if these hold all pivots; the rest then is one product, which threads share (``elimination.py``).

*Strassen-Winograd* levels pay from halves of 1000, 500 and 400 on for one, two and three limbs (see ``fields.py``):
4 %, 9 % and 9 % at n = 2000.

*Long matrices* (over 1.5 times as long as wide) are processed by chunks of columns of the wide one, which stops when
the rank is full and costs one product with an (m - r)×r matrix per chunk when it is not.

*Without compiled kernels.* Loading Numba takes 0.35 s when its cache is warm and 5 s when it is not. A process that has
not loaded it, such as the command line on one small matrix, works in NumPy alone until COLD_WORK multiplications
have been spent (n = 300: 15 ms), provided that p < 2^33.
"""

from __future__ import annotations

import functools
import sys

from ffrank.linalg.cold import ColdField
from ffrank.linalg.fields import Field, FloatField, MontgomeryField

__all__ = ["field_for", "panel_width", "worth_chunks"]

_ONE_LIMB_BELOW = 2**25.5
_TWO_LIMBS_BELOW = 2**33
_SINGLE_PANEL = 80
_COLD_WORK = 400.0**3

_cold_work = 0.0


def field_for(p: int, work: float) -> Field:
    """Return the arithmetic for the prime p < 2^61 and a computation of ``work`` multiplications.

    All answers for one p store residues in the same way.
    """
    global _cold_work  # noqa: PLW0603
    if p < _TWO_LIMBS_BELOW and "ffrank.linalg.kernels" not in sys.modules:
        _cold_work += work + 1e6  # the second part stands for what any call costs
        if _cold_work <= _COLD_WORK:
            return _cold(p)
    return _compiled(p)


@functools.lru_cache(maxsize=64)
def _cold(p: int) -> Field:
    return ColdField(p, 1 if p < _ONE_LIMB_BELOW else 2)


@functools.lru_cache(maxsize=64)
def _compiled(p: int) -> Field:
    if p < _ONE_LIMB_BELOW:
        return FloatField(p, 1)
    if p < _TWO_LIMBS_BELOW:
        return FloatField(p, 2)
    return MontgomeryField(p)


def panel_width(field: Field, m: int) -> int:
    """Return the panel width for m rows."""
    if m <= _SINGLE_PANEL and isinstance(field, FloatField):
        return min(_SINGLE_PANEL, field.kmax)
    return field.base


def worth_chunks(short: int, long: int) -> bool:
    """Tell whether a rank profile is to be found by chunks of columns."""
    return 2 * long > 3 * short
