"""Singular and boundary points of one lightning layer, stratum by stratum.

The geometry of single layers is that of Henry, Marchetti, Kohn, Geometry of Lightning Self-Attention (ICLR 2025): the
functions form a closed set, singular at rank-one networks, with a boundary that consists of rank-one networks.
What is claimed here is derived in :mod:`ffrank.geometry.strata`, including cases that the rule "singular if and only
if rank(A)·rank(V) ≤ 1" does not cover: d = 1, d' = a = 1, and rank A < a < d.
"""

from __future__ import annotations

import importlib
import json
import operator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, SupportsIndex

from ffrank.errors import InputError, ShapeError, SpecError
from ffrank.geometry.strata import Layer, Stratum, every_stratum
from ffrank.primes import DEFAULT_PRIME, check_prime

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["Membership", "Strata", "membership", "strata"]

_LARGEST = 10  # 132 strata with 5,500 coefficients take about ten seconds
_HEADINGS = (
    "rank A", "rank V", "position", "differential", "preimages", "span", "tangent", "dim M", "verdict", "boundary",
    "why",
)  # fmt: skip


@dataclass(frozen=True)
class Strata:
    """The table of strata of one layer V X Xᵀ A X, A = KᵀQ.

    Attributes
    ----------
    d, d_out, a, tokens
        Sizes of the layer; V is d'×d, Q and K are a×d.
    prime, seed
        Where the ranks were computed, and what chose the points.
    dimension
        dim M, the dimension of the set of functions.
    ambient
        Dimension of the space that the functions span.
    table
        One row a stratum.
    """

    d: int
    d_out: int
    a: int
    tokens: int
    prime: int
    seed: int
    dimension: int
    ambient: int
    table: tuple[Stratum, ...]

    #: Headings of the columns of :meth:`rows`.
    headings: ClassVar[tuple[str, ...]] = _HEADINGS

    def to_json(self) -> str:
        """The table as JSON: one object, strata in the list ``strata``."""
        content = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "table"}
        content["strata"] = [row.to_json() for row in self.table]
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"

    def rows(self) -> list[tuple[str, ...]]:
        """The table as text, one tuple a stratum in the order of ``headings``."""
        position = {None: "", True: "aligned", False: "unaligned"}
        return [
            (
                str(x.rank_a), str(x.rank_v), position[x.aligned], str(x.differential),
                "infinitely many" if x.preimages is None else str(x.preimages), str(x.span), str(x.tangent),
                str(x.dimension), x.verdict, "yes" if x.boundary else "no", x.reason,
            )
            for x in self.table
        ]  # fmt: skip

    def draw(self, path: str | Path) -> None:
        """Draw the table: one cell for each (rank A, rank V), two triangles at rank one; needs matplotlib.

        Parameters
        ----------
        path
            Where to write; the ending chooses the format (.png, .svg, .pdf).

        Raises
        ------
        InputError
            If matplotlib is not installed, or the file cannot be written.
        """
        try:
            figures = importlib.import_module("matplotlib.figure")
            patches = importlib.import_module("matplotlib.patches")
        except ImportError:
            raise InputError("the picture needs matplotlib, which is not installed; pip install matplotlib") from None
        wide, high = (max(x.rank_a for x in self.table) + 1, max(x.rank_v for x in self.table) + 1)
        figure = figures.Figure(figsize=(1.5 + 1.25 * wide, 1.6 + 1.1 * high), layout="constrained")
        axes = figure.add_subplot()
        for row in self.table:
            corners, center = _cell(row)
            color = "#e8a1a1" if row.verdict == "singular" else "#a8d3b0"
            edge = {"edgecolor": "white", "linewidth": 2, "hatch": "..." if row.boundary else None}
            axes.add_patch(patches.Polygon(corners, facecolor=color, **edge))
            shown = f"{row.differential} | {row.span}"
            shown += f"\nlimits {row.tangent}" if row.tangent != row.span else ""
            axes.text(*center, shown, ha="center", va="center", fontsize=8)
        axes.set(xlim=(-0.5, wide - 0.5), ylim=(-0.5, high - 0.5), aspect="equal")
        axes.set(xlabel="rank A", ylabel="rank V", xticks=range(wide), yticks=range(high))
        axes.set_title(
            f"d = {self.d}, d' = {self.d_out}, a = {self.a}: dim M = {self.dimension}\n"
            "rank of differential | of all branches", fontsize=9,
        )  # fmt: skip
        legend = [
            patches.Patch(facecolor="#a8d3b0", label="smooth"),
            patches.Patch(facecolor="#e8a1a1", label="singular"),
            patches.Patch(facecolor="white", edgecolor="gray", hatch="...", label="boundary"),
        ]
        axes.legend(handles=legend, loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize=8)
        try:
            figure.savefig(path, dpi=160)
        except (OSError, ValueError) as e:
            raise InputError(f"{path}: the picture cannot be written: {e}") from None


def _cell(row: Stratum) -> tuple[list[tuple[float, float]], tuple[float, float]]:
    """Corners and middle of a row's square, or triangle: unaligned upper left, aligned lower right."""
    x, y, h = row.rank_a, row.rank_v, 0.5
    low, right, left, top = (x - h, y - h), (x + h, y - h), (x - h, y + h), (x + h, y + h)
    if row.aligned is None:
        return [low, right, top, left], (x, y)
    return ([low, right, top], (x + 0.17, y - 0.22)) if row.aligned else ([low, left, top], (x - 0.17, y + 0.22))


def strata(
    d: SupportsIndex,
    d_out: SupportsIndex,
    a: SupportsIndex,
    *,
    tokens: SupportsIndex = 2,
    prime: SupportsIndex = DEFAULT_PRIME,
    seed: SupportsIndex = 0,
) -> Strata:
    """Tabulate the strata (rank A, rank V) of one lightning layer with exact ranks and verdicts.

    Parameters
    ----------
    d, d_out, a
        Width before the layer, width behind it, attention dimension; each at most 10.
    tokens
        t ≥ 2; the functions of all t ≥ 2 have the same coefficients.
    prime
        An odd prime below 2^31 in which ranks are computed.
    seed
        Chooses the points, 0 ≤ seed < 2^64.

    Returns
    -------
    Strata
        Every rank is exact over Q and every verdict a theorem for all points of the stratum: singular, because more
        than dim M tangent directions are independent; smooth, by the argument that the row names.

    Raises
    ------
    SpecError
        If a size cannot be used; also for one token, whose functions see only A + Aᵀ and have other strata.
    ModulusError
        If the prime cannot be used, or is so small that no point shows the ranks.
    InputError
        If the seed cannot be used.
    """
    layer = Layer(_size("d", d, _LARGEST), _size("d_out", d_out, _LARGEST), _size("a", a, _LARGEST))
    t = _size("tokens", tokens, 10_000)
    if t == 1:
        raise SpecError(
            "tokens: expected at least 2, got 1: with one token only A + Aᵀ is seen, and other strata decide"
        )
    p = check_prime(prime, above=2)
    number = _integer("seed", seed, InputError)
    if not 0 <= number < 2**64:
        raise InputError(f"seed: expected an integer from 0 to 2^64 - 1, got {number}")
    table = tuple(every_stratum(layer, p, number))
    return Strata(layer.d, layer.d_out, layer.a, t, p, number, layer.dimension, layer.ambient, table)


def _integer(name: str, value: Any, error: type[InputError]) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise error(f"{name}: expected an integer, got {value!r}") from None


def _size(name: str, value: Any, largest: int) -> int:
    number = _integer(name, value, SpecError)
    if not 1 <= number <= largest:
        raise SpecError(f"{name}: expected a size from 1 to {largest}, got {number}")
    return number


# ------------------------------------------------------------------------------------------------ the boundary


@dataclass(frozen=True)
class Membership:
    """Where a rank-one function stands.

    Attributes
    ----------
    status
        ``"value"``: some real (A, V) gives it. ``"closure"``: only complex ones do; it lies in the Zariski closure of
        the real functions, but is no value and, these being closed, no limit of values. ``"outside"``: not even that.
    boundary
        Whether it is a value and a limit of functions of status ``"closure"``.
    signature
        Numbers of positive and negative squares of q.
    reason
        What decides.
    """

    status: Literal["value", "closure", "outside"]
    boundary: bool
    signature: tuple[int, int]
    reason: str


def membership(q: Sequence[Sequence[Any]]) -> Membership:
    """Decide whether the rank-one function X ↦ e·(Σ_s q(x_s))·hᵀX is a value of a lightning layer.

    Here e and h are any nonzero vectors, q(x) = xᵀ q x, the sum runs over the t ≥ 2 tokens, and a ≥ 1 is arbitrary.

    Parameters
    ----------
    q
        A symmetric matrix of integers or fractions, d×d.

    Returns
    -------
    Membership
        Exact. A value has v_i·a_m = e_i h_m q, so q is a product of two linear forms, over R exactly if its
        signature is (0, 0), (1, 0), (0, 1) or (1, 1). The pairs (A, V), both of norm one, are compact and no product
        is zero, so the values are closed; over C likewise. Hence the real points of the Zariski closure that are
        not values are the q of signature (2, 0) or (0, 2), and the limits of these among values, the boundary, are
        the q of rank at most one with d ≥ 2.

    Raises
    ------
    ShapeError
        If q is not square, or not symmetric.
    InputError
        If an entry is not an integer or a fraction.
    """
    rows = [[_exact(x) for x in row] for row in q]
    d = len(rows)
    if not d or any(len(row) != d for row in rows):
        raise ShapeError(f"q: expected a square matrix, got rows of lengths {[len(row) for row in rows]}")
    if any(rows[i][j] != rows[j][i] for i in range(d) for j in range(i)):
        raise ShapeError("q: expected a symmetric matrix")
    plus, minus = signature = _signature(rows)
    if plus + minus >= 3:
        return Membership("outside", False, signature, "q has rank at least 3, so it is not a product of linear forms.")
    if abs(plus - minus) == 2:
        return Membership("closure", False, signature, "q is definite of rank 2: its two linear factors are not real.")
    if plus == minus == 1:
        return Membership("value", False, signature, "q is indefinite of rank 2: a product of two real linear forms.")
    if plus + minus:
        reason, near = "q is plus or minus a square l²", "±(l² + εx²) with x not parallel to l has"
    else:
        reason, near = "q is zero", "ε(x² + y²) has"
    return Membership("value", d > 1, signature, f"{reason}; {near} no real factors." if d > 1 else f"{reason}.")


def _exact(x: Any) -> Fraction:
    if isinstance(x, bool | float | str):
        raise InputError(f"q: expected integers or fractions, got {x!r}")
    try:
        return Fraction(x)
    except (TypeError, ValueError):
        raise InputError(f"q: expected integers or fractions, got {x!r}") from None


def _signature(rows: list[list[Fraction]]) -> tuple[int, int]:
    """Count the positive and negative squares of a symmetric matrix by completing squares (Lagrange)."""
    rest, plus, minus = [list(row) for row in rows], 0, 0
    while rest:
        n = len(rest)
        at = next((i for i in range(n) if rest[i][i]), None)
        if at is None:
            pair = next(((i, j) for i in range(n) for j in range(i) if rest[i][j]), None)
            if pair is None:
                break
            i, j = pair  # x_i stays, x_j becomes x_i + x_j: a congruence that makes the diagonal entry 2 q_ij
            rest[i] = [x + y for x, y in zip(rest[i], rest[j], strict=True)]
            for row in rest:
                row[i] += row[j]
            at = i
        pivot, line = rest[at][at], rest[at]
        plus, minus = plus + (pivot > 0), minus + (pivot < 0)
        others = [k for k in range(n) if k != at]
        rest = [[rest[k][m] - line[k] * line[m] / pivot for m in others] for k in others]
    return plus, minus
