"""Matrix products and einsum of an imported PyTorch graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ffrank.models.torch_values import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ffrank.program.trace import Tensor

__all__ = ["einsum", "linear", "product"]


def product(x: Tensor, y: Tensor) -> Tensor:
    """``x @ y``; leading axes that only x has become rows, so that y is not repeated."""
    if x.ndim > 2 and y.ndim == 2:
        rows = x.reshape(-1, x.shape[-1]) @ y
        return rows.reshape(*x.shape[:-1], y.shape[1])
    return x @ y


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``x Wᵀ + b`` on the last axis."""
    out = product(x, weight.T)
    return out if bias is None else out + bias


def einsum(equation: str, tensors: Sequence[Tensor]) -> Tensor:
    """Sums of products by index letters, from left to right; an ellipsis stands for axes that broadcast."""
    terms, output = _letters(equation.replace(" ", ""), [t.ndim for t in tensors])
    result, letters = _simple(tensors[0], terms[0])
    for at in range(1, len(tensors)):
        later = set(output).union(*terms[at + 1 :])
        result, letters = _pair(result, letters, *_simple(tensors[at], terms[at]), later)
    for letter in [s for s in letters if s not in output]:
        result, letters = result.sum(letters.index(letter)), letters.replace(letter, "")
    if set(letters) != set(output) or len(output) != len(letters):
        raise Refused(f"expected every output letter once among the operands, got {equation!r}")
    return result.transpose([letters.index(s) for s in output]) if output else result


def _letters(equation: str, ndims: Sequence[int]) -> tuple[list[str], str]:
    """The letters of every operand and of the output; capitals beyond Z stand for the axes of an ellipsis."""
    left, arrow, output = equation.partition("->")
    terms, most = [], 0
    for term, ndim in zip(left.split(","), ndims, strict=True):
        hidden = ndim - len(term.replace("...", "")) if "..." in term else 0
        most = max(most, hidden)
        terms.append(term.replace("...", _hidden(hidden)))
    if not arrow:
        single = sorted(s for s in set(left) - set(",.") if left.count(s) == 1)
        output = ("..." if "..." in left else "") + "".join(single)
    return terms, output.replace("...", _hidden(most))


def _hidden(count: int) -> str:
    """Names of the last ``count`` axes of an ellipsis, the last first so that they align at the right."""
    return "".join(chr(0x3B1 + i) for i in reversed(range(count)))


def _simple(x: Tensor, letters: str) -> tuple[Tensor, str]:
    """Take diagonals until no letter stands twice."""
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            a = letters.index(letter)
            b = letters.index(letter, a + 1)
            shape = [1] * x.ndim
            shape[a] = shape[b] = x.shape[a]
            x = (x * np.eye(x.shape[a], dtype=np.int64).reshape(shape)).sum(b)
            letters = letters[:b] + letters[b + 1 :]
    return x, letters


def _pair(x: Tensor, of_x: str, y: Tensor, of_y: str, later: set[str]) -> tuple[Tensor, str]:
    """Contract two operands over the letters that nothing later needs."""
    for letter in [s for s in of_x if s not in later and s not in of_y]:
        x, of_x = x.sum(of_x.index(letter)), of_x.replace(letter, "")
    for letter in [s for s in of_y if s not in later and s not in of_x]:
        y, of_y = y.sum(of_y.index(letter)), of_y.replace(letter, "")
    both = [s for s in of_x if s in of_y]
    batch = "".join(s for s in both if s in later)
    inner = "".join(s for s in both if s not in later)
    rows = "".join(s for s in of_x if s not in of_y)
    columns = "".join(s for s in of_y if s not in of_x)
    size = dict(zip(of_y, y.shape, strict=True))
    size |= {s: n for s, n in zip(of_x, x.shape, strict=True) if n > 1 or s not in size}  # size 1 broadcasts
    left = _arranged(x, of_x, [batch, rows, inner], size)
    right = _arranged(y, of_y, [batch, inner, columns], size)
    out = left @ right
    return out.reshape([size[s] for s in batch + rows + columns]), batch + rows + columns


def _arranged(x: Tensor, letters: str, groups: Sequence[str], size: dict[str, int]) -> Tensor:
    """Axes in the order of the groups, one axis a group."""
    x = x.transpose([letters.index(s) for s in "".join(groups)]) if letters else x
    x = x.broadcast_to([size[s] for s in "".join(groups)])
    sizes = [int(np.prod([size[s] for s in group], dtype=np.int64)) for group in groups]
    return x.reshape(sizes)
