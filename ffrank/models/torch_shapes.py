"""PyTorch operators that only move entries, as instructions of a program."""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ffrank.models.torch_values import Refused
from ffrank.program.trace import Tensor, concatenate, stack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["MOVES", "joined", "moved", "replaced"]

_SAME = {"alias", "clone", "contiguous", "detach", "dropout", "alpha_dropout", "feature_dropout", "lift_fresh_copy"}
_RESHAPED = {
    "_reshape_alias", "_unsafe_view", "flatten", "reshape", "reshape_as", "squeeze", "unflatten", "unsqueeze", "view",
    "view_as",
}  # fmt: skip
_REPEATED = {"broadcast_to", "expand", "expand_as"}
# Written as a product with a matrix of zeros and ones, so for small tensors only.
_PICKED = {
    "diagonal", "flip", "gather", "index", "index_select", "moveaxis", "movedim", "repeat", "repeat_interleave", "roll",
    "rot90", "take_along_dim", "tile", "unfold",
}  # fmt: skip
_LARGEST_PICK = 250_000


def _axis(x: Tensor, dim: int) -> int:
    return dim % x.ndim


def _part(x: Tensor, dim: int, start: int, stop: int, step: int = 1) -> Tensor:
    """Entries start, start + step, … of one axis."""
    return x[(slice(None),) * _axis(x, dim) + (slice(start, stop, step),)]


def _transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    axes = list(range(x.ndim))
    a, b = _axis(x, dim0), _axis(x, dim1)
    axes[a], axes[b] = axes[b], axes[a]
    return x.transpose(axes)


def _swapaxes(x: Tensor, axis0: int, axis1: int) -> Tensor:
    return _transpose(x, axis0, axis1)


def _t(x: Tensor) -> Tensor:
    return x.T


def _permute(x: Tensor, dims: Sequence[int]) -> Tensor:
    return x.transpose([_axis(x, d) for d in dims])


def _select(x: Tensor, dim: int, index: int) -> Tensor:
    return x[(slice(None),) * _axis(x, dim) + (index,)]


def _slice(x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    begin, stop, _ = slice(start, end, step).indices(x.shape[_axis(x, dim)])
    return _part(x, dim, begin, stop, step)


def _narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    begin = start % x.shape[_axis(x, dim)]
    return _part(x, dim, begin, begin + length)


def _split(x: Tensor, split_size: int | Sequence[int], dim: int = 0) -> list[Tensor]:
    size = x.shape[_axis(x, dim)]
    sizes = (
        [min(split_size, size - at) for at in range(0, size, split_size)] if isinstance(split_size, int) else split_size
    )
    cuts = [0, *accumulate(sizes)]
    return [_part(x, dim, a, b) for a, b in pairwise(cuts)]


def _chunk(x: Tensor, chunks: int, dim: int = 0) -> list[Tensor]:
    return _split(x, -(-x.shape[_axis(x, dim)] // chunks), dim)


def _unbind(x: Tensor, dim: int = 0) -> list[Tensor]:
    return [_select(x, dim, i) for i in range(x.shape[_axis(x, dim)])]


_EXPLICIT: dict[str, Callable[..., Any]] = {
    "chunk": _chunk,
    "mT": lambda x: _transpose(x, -2, -1),
    "narrow": _narrow,
    "numpy_T": _t,
    "permute": _permute,
    "select": _select,
    "slice": _slice,
    "split": _split,
    "split_with_sizes": lambda x, split_sizes, dim=0: _split(x, split_sizes, dim),
    "swapaxes": _swapaxes,
    "t": _t,
    "transpose": _transpose,
    "unbind": _unbind,
}

MOVES = frozenset(_SAME | _RESHAPED | _REPEATED | _PICKED | set(_EXPLICIT))
"""Operators of one tensor whose result holds entries of it, in some order."""


def moved(name: str, x: Tensor, rest: dict[str, Any], apply: Callable[[Any], Any], torch: Any) -> Any:
    """The result of an operator of :data:`MOVES`.

    Parameters
    ----------
    name : str
        The operator.
    rest : dict
        Its arguments beside x, by the names of its schema.
    apply : callable
        The operator itself, on torch tensors in place of x: it is tried on the numbers of the entries.
    """
    if name in _SAME:
        return x
    if name in _EXPLICIT:
        return _EXPLICIT[name](x, **rest)
    source = apply(torch.arange(x.size).reshape(x.shape))
    shape = tuple(source.shape)
    if name in _RESHAPED:
        return x.reshape(shape)
    if name in _REPEATED:
        return x.broadcast_to(shape)
    if prod(shape) * x.size > _LARGEST_PICK:
        raise Refused(f"it picks {prod(shape)} of {x.size} entries, which are too many; write it with slices")
    chosen = np.zeros((prod(shape), x.size), np.int64)
    chosen[np.arange(len(chosen)), source.reshape(-1).numpy()] = 1
    return (chosen @ x.reshape(x.size)).reshape(shape)


def joined(name: str, parts: Sequence[Tensor], dim: int) -> Tensor:
    """``cat`` and ``stack`` of tensors."""
    ndim = parts[0].ndim + (name == "stack")
    return (stack if name == "stack" else concatenate)(parts, dim % ndim)


def replaced(x: Tensor, src: Tensor, rest: dict[str, Any]) -> Tensor:
    """``select_scatter`` and ``slice_scatter``: x with some entries of one axis replaced by ``src``."""
    axis = _axis(x, rest.get("dim", 0))
    size = x.shape[axis]
    if "index" in rest:
        chosen = [rest["index"] % size]
        src = src.reshape(*x.shape[:axis], 1, *x.shape[axis + 1 :])
    else:
        chosen = list(range(*slice(rest.get("start"), rest.get("end"), rest.get("step", 1)).indices(size)))
    if len(chosen) == size:
        return src
    parts = [
        _part(src, axis, chosen.index(i), chosen.index(i) + 1) if i in chosen else _part(x, axis, i, i + 1)
        for i in range(size)
    ]
    return concatenate(parts, axis)
