"""Triangular systems by halving; at the bottom a small inverse turns a solve into a product."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ffrank.linalg.products import subtract_product

if TYPE_CHECKING:
    from ffrank.linalg.blocks import Block
    from ffrank.linalg.fields import Field
    from ffrank.linalg.threads import Team

__all__ = ["solve_left", "solve_right"]


def solve_left(field: Field, team: Team, T: Block, X: Block, *, unit: bool, upper: bool) -> None:
    """X ← T^-1·X for a triangular block T; only the triangle is read, and a ``unit`` diagonal is implied."""
    n = T.m
    if n == 0 or X.n == 0:
        return
    if n <= field.base:
        field.subtract_product(X, field.triangle(T, unit=unit, upper=upper), X, team)
        return
    h = _half(field, n)
    top, bottom = X.part(0, h, 0, X.n), X.part(h, n, 0, X.n)
    if upper:
        solve_left(field, team, T.part(h, n, h, n), bottom, unit=unit, upper=True)
        subtract_product(field, team, top, T.part(0, h, h, n), bottom)
        solve_left(field, team, T.part(0, h, 0, h), top, unit=unit, upper=True)
    else:
        solve_left(field, team, T.part(0, h, 0, h), top, unit=unit, upper=False)
        subtract_product(field, team, bottom, T.part(h, n, 0, h), top)
        solve_left(field, team, T.part(h, n, h, n), bottom, unit=unit, upper=False)


def solve_right(field: Field, team: Team, T: Block, X: Block, *, unit: bool, upper: bool) -> None:
    """X ← X·T^-1 for a triangular block T; see ``solve_left``."""
    n = T.m
    if n == 0 or X.m == 0:
        return
    if n <= field.base:
        field.subtract_product(X, X, field.triangle(T, unit=unit, upper=upper), team)
        return
    h = _half(field, n)
    left, right = X.part(0, X.m, 0, h), X.part(0, X.m, h, n)
    if upper:
        solve_right(field, team, T.part(0, h, 0, h), left, unit=unit, upper=True)
        subtract_product(field, team, right, left, T.part(0, h, h, n))
        solve_right(field, team, T.part(h, n, h, n), right, unit=unit, upper=True)
    else:
        solve_right(field, team, T.part(h, n, h, n), right, unit=unit, upper=False)
        subtract_product(field, team, left, right, T.part(h, n, 0, h))
        solve_right(field, team, T.part(0, h, 0, h), left, unit=unit, upper=False)


def _half(field: Field, n: int) -> int:
    return field.base * (-(-n // field.base) // 2)
