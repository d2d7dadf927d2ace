"""Vector fields on θ, affine or with quotients of parameters, and the spaces of them that the finder searches."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ffrank.errors import ResourceError
from ffrank.program.bounds import bits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from ffrank.program.ir import Program, Shape

    Residues = NDArray[np.int64]

__all__ = [
    "Ansatz",
    "Block",
    "Term",
    "ansatz_blocks",
    "ansatz_matrix",
    "divisors_of",
    "field_matrix",
    "fields_norm",
    "terms_of",
]

Ansatz = Literal["tensors", "coupled", "full"]
_ONE = ""  # the source of constant terms; parameters have non-empty names
_MOST_UNKNOWNS = 6000


@dataclass(frozen=True, slots=True)
class Term:
    """One contribution to a field: d(target) += matrix acting on an axis of the source.

    Attributes
    ----------
    axis : int or None
        0 is W ↦ M·W for a matrix W, 1 is W ↦ W·Mᵀ, and so on for tensors. None: M acts on all entries, row-major.
    source : str
        A parameter, or "" for the constant 1.
    over : str or None
        A vector by which the source is divided, entry by entry; then axis is None.
    rows, columns : int
        Shape of M.
    entries : tuple of (row, column, value)
        The nonzero entries of M, integers.
    """

    target: str
    axis: int | None
    source: str
    rows: int
    columns: int
    entries: tuple[tuple[int, int, int], ...]
    over: str | None = None

    @property
    def matrix(self) -> NDArray[np.object_]:
        """M as an array of Python integers."""
        M = np.zeros((self.rows, self.columns), dtype=object)
        for i, j, x in self.entries:
            M[i, j] = x
        return M

    def to_json(self) -> dict[str, Any]:
        """Integers and strings only."""
        shape, entries = [self.rows, self.columns], [list(e) for e in self.entries]
        source = {"source": self.source, "over": self.over}
        return {"target": self.target, "axis": self.axis, **source, "shape": shape, "entries": entries}


class _Places:
    """Where the entries of tensors, and of quotients of vectors, are in θ, 1 and all quotients one after the other."""

    def __init__(self, program: Program, quotients: Iterable[tuple[str, str]] = ()) -> None:
        self.shapes: dict[str, Shape] = {name: shape or (1,) for name, shape in program.parameters} | {_ONE: (1,)}
        self.offsets = program.offsets | {_ONE: program.parameter_count}
        self.quotients: dict[tuple[str, str], int] = {}
        self.size = program.parameter_count + 1
        for source, over in sorted(set(quotients)):
            self.quotients[source, over] = self.size
            self.size += self.shapes[over][0]

    def lines(self, name: str, axis: int | None, over: str | None = None) -> NDArray[np.int64]:
        """The positions of a tensor's entries, as a matrix whose rows are its slices along an axis."""
        shape, first = self.shapes[name], self.offsets[name]
        if over is not None:
            shape, first = self.shapes[over], self.quotients[name, over]
        at = np.arange(first, first + prod(shape))
        return at[:, None] if axis is None else np.moveaxis(at.reshape(shape), axis, 0).reshape(shape[axis], -1)

    def extended(self, theta: Residues, p: int) -> Residues:
        """θ, 1 and the quotients mod p; a division by 0 gives 0."""
        parts = [theta, np.ones(1, np.int64)]
        for source, over in self.quotients:
            start, n = self.offsets[over], self.shapes[over][0]
            inverse = np.array([pow(x, p - 2, p) for x in theta[start : start + n].tolist()], np.int64)
            first = self.offsets[source]
            parts.append(inverse if source == _ONE else inverse * theta[first : first + n] % p)
        return np.concatenate(parts)


def _quotients(fields: Sequence[tuple[Term, ...]]) -> set[tuple[str, str]]:
    return {(t.source, t.over) for field in fields for t in field if t.over is not None}


def _actions(places: _Places, field: tuple[Term, ...]) -> NDArray[np.object_]:
    """A field as rows (target entry, source entry, integer): dθ_target += integer·source."""
    found: list[tuple[int, int, int]] = []
    for term in field:
        target = places.lines(term.target, term.axis)
        source = places.lines(term.source, term.axis, term.over)
        for i, j, x in term.entries:
            found += [(a, b, x) for a, b in zip(target[i].tolist(), source[j].tolist(), strict=True)]
    return np.array(found, dtype=object).reshape(-1, 3)


def fields_norm(program: Program, fields: Sequence[tuple[Term, ...]]) -> int:
    """The least b such that the absolute coefficients of each entry of each field add up to at most 2^b."""
    places, largest = _Places(program, _quotients(fields)), 1
    for field in fields:
        sums: dict[int, int] = {}
        for target, _, x in _actions(places, field):
            sums[target] = sums.get(target, 0) + abs(x)
        largest = max(largest, *sums.values()) if sums else largest
    return bits(largest)


def divisors_of(fields: Sequence[tuple[Term, ...]]) -> dict[str, set[str]]:
    """For each parameter the vectors by which its part of the fields is divided."""
    found: dict[str, set[str]] = {}
    for term in (t for field in fields for t in field):
        if term.over is not None:
            found.setdefault(term.target, set()).add(term.over)
    return found


def field_matrix(program: Program, fields: Sequence[tuple[Term, ...]], theta: Residues, p: int) -> Residues:
    """The matrix of some fields at θ.

    Returns
    -------
    ndarray of shape (P, number of fields)
        Residues 0 … p-1.
    """
    places = _Places(program, _quotients(fields))
    extended = places.extended(theta, p)
    G = np.zeros((len(theta), len(fields)), np.int64)
    for column, field in enumerate(fields):
        actions = _actions(places, field)
        targets, sources = (actions[:, i].astype(np.int64) for i in (0, 1))
        np.add.at(G[:, column], targets, (actions[:, 2] % p).astype(np.int64) * extended[sources] % p)
    return G % p


# ------------------------------------------------------------------------------------------- free matrices


@dataclass(frozen=True)
class Block:
    """A matrix of unknowns that acts on an axis of ``source``: their numbers, -1 where it is 0.

    ``targets`` and ``sources`` are the positions of the slices that its rows and columns stand for.
    """

    target: str
    axis: int | None
    source: str
    unknowns: NDArray[np.int64]
    targets: NDArray[np.int64]
    sources: NDArray[np.int64]
    over: str | None = None


def ansatz_blocks(program: Program, ansatz: Ansatz) -> list[Block]:
    """The free matrices of an ansatz; :func:`ffrank.geometry.finder.find_symmetries` says what each ansatz holds.

    Multiples of the identity act in the same way on every axis of a tensor. So the last diagonal entry is left out on
    all axes but the first: without this the ansatz would hold fields that are 0.

    Raises
    ------
    ResourceError
        If there are more than 6,000 unknowns.
    """
    names = [name for name, _ in program.parameters]
    places = _Places(program, _searched_quotients(program))
    blocks: list[Block] = []
    count = 0

    def add(target: str, axis: int | None, source: str, pattern: NDArray[np.int64], over: str | None = None) -> None:
        """A block whose unknowns are ``pattern``, numbered on from those before."""
        nonlocal count
        size = int(pattern.max()) + 1
        if count + size > _MOST_UNKNOWNS:
            raise ResourceError(
                f"the ansatz {ansatz!r} has more than {_MOST_UNKNOWNS} unknowns; take a smaller map or ansatz"
            )
        if size:
            unknowns = np.where(pattern < 0, -1, pattern + count)
            to, of = places.lines(target, axis), places.lines(source, axis, over)
            blocks.append(Block(target, axis, source, unknowns, to, of, over))
            count += size

    for target in names:
        for source in names if ansatz != "tensors" else [target]:
            for axis in _axes(places.shapes[target], places.shapes[source], ansatz):
                rows, columns = len(places.lines(target, axis)), len(places.lines(source, axis))
                pattern = np.arange(rows * columns).reshape(rows, columns)
                if axis and places.shapes[target] == places.shapes[source]:
                    pattern[-1, -1] = -1  # the last number, so the others keep theirs
                add(target, axis, source, pattern)
        n = prod(places.shapes[target])
        add(target, None, _ONE, np.arange(n)[:, None])
        if ansatz != "full" and len(places.shapes[target]) == 1:
            for source in names:
                for pattern in _columns_added(n, places.shapes[source]):
                    add(target, None, source, pattern)
    for source, over in places.quotients:
        for target in names:
            for pattern in _quotients_added(places.shapes[target], places.shapes[over][0], scalar=source != _ONE):
                add(target, None, source, pattern, over)
    return blocks


def _axes(shape: Shape, other: Shape, ansatz: Ansatz) -> list[int | None]:
    """Axes along which a matrix can lead from one tensor to the other: all other axes have equal sizes."""
    if ansatz == "full":
        return [None]
    if len(shape) != len(other):
        return []
    return [k for k in range(len(shape)) if shape[:k] + shape[k + 1 :] == other[:k] + other[k + 1 :]]


def _columns_added(n: int, shape: Shape) -> list[NDArray[np.int64]]:
    """For a vector b of length n and a matrix W: the patterns of db = W·u and db = Wᵀ·u with an unknown u."""
    patterns = []
    for axis in (0, 1) if len(shape) == 2 else ():
        if shape[axis] == n:
            at = np.arange(prod(shape)).reshape(shape)
            at = at if axis == 0 else at.T
            pattern = np.full((n, at.size), -1)
            pattern[np.arange(n)[:, None], at] = np.arange(at.shape[1])
            patterns.append(pattern)
    return patterns


def _searched_quotients(program: Program) -> list[tuple[str, str]]:
    """1/v for all vectors v, and w/v where the vector w comes right behind v; only with square roots."""
    if not any(i.op == "sqrt" for i in program.instructions):
        return []
    vectors = [(name, shape) for name, shape in program.parameters if len(shape) == 1]
    pairs = pairwise(program.parameters)
    behind = [(w, v) for (v, m), (w, n) in pairs if m == n and len(m) == 1]
    return [(_ONE, name) for name, _ in vectors] + behind


def _quotients_added(shape: Shape, n: int, *, scalar: bool) -> list[NDArray[np.int64]]:
    """Patterns with an unknown u for a vector q of quotients.

    They are dW = u·qᵀ and dW = q·uᵀ for a matrix, or, for a ``scalar``, db = u·Σq for a vector.
    """
    if scalar:
        return [np.repeat(np.arange(shape[0])[:, None], n, axis=1)] if len(shape) == 1 else []
    patterns = []
    for axis in (0, 1) if len(shape) == 2 else ():
        if shape[axis] == n:
            at = np.indices(shape).reshape(2, -1)
            pattern = np.full((prod(shape), n), -1)
            pattern[np.arange(prod(shape)), at[axis]] = at[1 - axis]
            patterns.append(pattern)
    return patterns


def ansatz_matrix(program: Program, blocks: list[Block], theta: Residues, p: int) -> Residues:
    """The matrix D(θ), of shape (P, unknowns): the field with coefficients c is D(θ)·c."""
    count = max((int(b.unknowns.max()) + 1 for b in blocks), default=0)
    D = np.zeros((len(theta), count), np.int64)
    extended = _Places(program, _searched_quotients(program)).extended(theta, p)
    for b in blocks:
        rows, columns = np.nonzero(b.unknowns >= 0)
        numbers = np.broadcast_to(b.unknowns[rows, columns][:, None], b.targets[rows].shape)
        np.add.at(D, (b.targets[rows], numbers), extended[b.sources[columns]])
    return D % p


def terms_of(blocks: list[Block], c: Sequence[int]) -> tuple[Term, ...]:
    """The field with integer coefficients c."""
    terms = []
    for b in blocks:
        places = np.argwhere(b.unknowns >= 0).tolist()
        entries = tuple((i, j, c[b.unknowns[i, j]]) for i, j in places if c[b.unknowns[i, j]])
        if entries:
            rows, columns = b.unknowns.shape
            terms.append(Term(b.target, b.axis, b.source, rows, columns, entries, b.over))
    return tuple(terms)
