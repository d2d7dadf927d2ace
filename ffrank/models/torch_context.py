"""What the handlers of PyTorch operators share: their table, lifting of constants, masks, exponentials, sums."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any

from ffrank.models.torch_values import LOWEST, Masked, Refused, SharingBuilder, exact
from ffrank.program.trace import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["OPERATORS", "Context", "axes_of", "mean_of", "operator", "parameters_of", "total"]


@dataclass
class Context:
    """What handlers need beside their arguments.

    Attributes
    ----------
    builder : SharingBuilder
    torch : module
    node : torch.fx.Node
        The operator that is being imported.
    shifts : dict
        Tensors that stand for the results of ``amax`` and ``max``, by their nodes.
    """

    builder: SharingBuilder
    torch: Any
    node: Any = None
    shifts: dict[Any, Tensor] = field(default_factory=dict)

    def lift(self, value: Any) -> Tensor:
        """A value as a tensor of the program; constants become exact."""
        if isinstance(value, Tensor):
            return value
        if isinstance(value, Masked):
            raise Refused("a mask of -inf reaches it; only a softmax or an exponential may follow such a mask")
        if isinstance(value, self.torch.Tensor):
            if value.is_complex():
                raise Refused("it has complex constants")
            return exact(self.builder, tuple(value.shape), value.detach().reshape(-1).tolist())
        return exact(self.builder, (), [value])

    def scores(self, value: Any) -> tuple[Any, Any]:
        """A value without its -inf, and the torch mask of what is kept, or None."""
        if isinstance(value, Masked):
            return value.tensor, value.keep
        if isinstance(value, float | int) and not isinstance(value, bool) and value <= LOWEST:
            return 0, self.torch.zeros((), dtype=self.torch.bool)
        if isinstance(value, self.torch.Tensor) and value.is_floating_point() and bool((value <= LOWEST).any()):
            return value.masked_fill(value <= LOWEST, 0.0), value > LOWEST
        return value, None

    def masked(self, tensor: Tensor, *keeps: Any) -> Tensor | Masked:
        """A tensor with the masks that are not None."""
        known = [k for k in keeps if k is not None]
        if not known:
            return tensor
        keep = self.torch.ones(tensor.shape, dtype=self.torch.bool)
        for k in known:
            keep = keep & k
        return Masked(tensor, keep)

    def exp(self, x: Tensor) -> Tensor:
        """exp(x), or the reciprocal of exp(-x) where the program has that already."""
        opposite = self.builder.exponential_of_negative(x.node)
        if opposite is not None:
            return 1 / Tensor(self.builder, opposite)
        return Tensor(self.builder, self.builder.exp(x.node))

    def sqrt(self, x: Tensor) -> Tensor:
        """A square root of x."""
        return Tensor(self.builder, self.builder.sqrt(x.node))


OPERATORS: dict[str, Callable[..., Any]] = {}


def operator(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a handler into the table; its first argument is the :class:`Context`."""

    def register(handler: Callable[..., Any]) -> Callable[..., Any]:
        OPERATORS.update(dict.fromkeys(names, handler))
        return handler

    return register


def parameters_of(name: str) -> list[str]:
    """The arguments that the handler of an operator understands; ``x`` is torch's ``self`` or ``input``."""
    return list(inspect.signature(OPERATORS[name]).parameters)[1:]


def axes_of(x: Tensor, dim: int | Sequence[int] | None) -> list[int]:
    """Axes as PyTorch names them; None and an empty list stand for all."""
    dims = [dim] if isinstance(dim, int) else dim or range(x.ndim)
    return sorted(d % x.ndim for d in dims)


def total(x: Tensor, axes: Sequence[int], *, keepdim: bool) -> Tensor:
    """The sum over some axes."""
    summed = x.sum(tuple(axes))
    return summed.reshape([1 if i in axes else n for i, n in enumerate(x.shape)]) if keepdim else summed


def mean_of(c: Context, x: Tensor, axes: Sequence[int], *, keepdim: bool, less: int = 0) -> Tensor:
    """The sum over some axes divided by their size, less ``less``, exactly."""
    count = prod(x.shape[a] for a in axes) - less
    summed = total(x, axes, keepdim=keepdim)
    return summed if count == 1 else summed * exact(c.builder, (), [Fraction(1, count)])
