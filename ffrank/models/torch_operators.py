"""PyTorch operators as instructions of a program: arithmetic, reductions, masks, products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ffrank.models.torch_context import Context, axes_of, mean_of, operator, total
from ffrank.models.torch_products import einsum, linear, product
from ffrank.models.torch_values import Masked, Refused
from ffrank.program.trace import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__: list[str] = []  # handlers are found in the table of torch_context


# ------------------------------------------------------------------------------------------ arithmetic


@operator("add", "sub", "subtract")
def _add(c: Context, x: Any, other: Any, alpha: Any = 1) -> Any:
    (x, keep_x), (y, keep_y) = c.scores(x), c.scores(other)
    sign = -1 if "sub" in c.node.target._schema.name else 1
    if keep_y is not None and sign * alpha <= 0:
        raise Refused("it subtracts -inf")
    y = c.lift(y) if sign * alpha == 1 else -c.lift(y) if sign * alpha == -1 else c.lift(y) * c.lift(sign * alpha)
    return c.masked(c.lift(x) + y, keep_x, keep_y)


@operator("rsub")
def _rsub(c: Context, x: Any, other: Any, alpha: Any = 1) -> Any:
    return c.lift(other) - (c.lift(x) if alpha == 1 else c.lift(x) * c.lift(alpha))


@operator("mul", "multiply")
def _mul(c: Context, x: Any, other: Any) -> Any:
    if isinstance(other, Masked):
        x, other = other, x
    x, keep = c.scores(x) if isinstance(x, Masked) else (x, None)
    if keep is not None and not _positive(c, other):
        raise Refused("it multiplies -inf by what is not a positive constant")
    return c.masked(c.lift(x) * c.lift(other), keep)


@operator("div", "divide", "true_divide")
def _div(c: Context, x: Any, other: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode is not None:
        raise Refused("it rounds")
    x, keep = c.scores(x) if isinstance(x, Masked) else (x, None)
    if keep is not None and not _positive(c, other):
        raise Refused("it divides -inf by what is not a positive constant")
    y = c.lift(other)
    return c.masked(c.lift(x) / y, keep)


def _positive(c: Context, value: Any) -> bool:
    if isinstance(value, c.torch.Tensor):
        return bool((value > 0).all())
    return isinstance(value, float | int) and value > 0


@operator("neg", "negative")
def _neg(c: Context, x: Any) -> Tensor:
    return -c.lift(x)


@operator("reciprocal")
def _reciprocal(c: Context, x: Any) -> Tensor:
    return 1 / c.lift(x)


@operator("square")
def _square(c: Context, x: Any) -> Tensor:
    return c.lift(x) ** 2


@operator("sqrt")
def _sqrt(c: Context, x: Any) -> Tensor:
    return c.sqrt(c.lift(x))


@operator("rsqrt")
def _rsqrt(c: Context, x: Any) -> Tensor:
    return 1 / c.sqrt(c.lift(x))


@operator("pow")
def _pow(c: Context, x: Any, exponent: Any) -> Tensor:
    if isinstance(exponent, c.torch.Tensor) and exponent.numel() == 1:
        exponent = exponent.item()
    if not isinstance(exponent, float | int) or not isinstance(x, Tensor):
        raise Refused("the exponent is not a fixed number")
    if 2 * exponent != int(2 * exponent):
        raise Refused(f"the exponent {exponent} is not an integer or half of one")
    if exponent == int(exponent):
        return x ** int(exponent)
    return c.sqrt(x) ** int(2 * exponent)


@operator("clamp_min", "clamp")
def _clamp(c: Context, x: Any, min: Any = None, max: Any = None) -> Tensor:  # noqa: A002 -- names of the schema
    root = c.builder.instruction(x.node) if isinstance(x, Tensor) else None
    if max is None and isinstance(min, float | int) and min <= 1e-4 and root is not None and root.op == "sqrt":
        return c.lift(x)  # a length is above such a guard everywhere but in a small ball
    raise Refused("it is not analytic (only as a guard of at most 1e-4 on a length is it understood)")


# ------------------------------------------------------------------------------------------ reductions


@operator("sum")
def _sum(c: Context, x: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
    x = c.lift(x)
    return total(x, axes_of(x, dim), keepdim=keepdim)


@operator("mean")
def _mean(c: Context, x: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
    x = c.lift(x)
    return mean_of(c, x, axes_of(x, dim), keepdim=keepdim)


@operator("var", "std")
def _var(
    c: Context, x: Any, dim: Any = None, unbiased: bool = True, correction: Any = None, keepdim: bool = False
) -> Tensor:
    x = c.lift(x)
    axes = axes_of(x, dim)
    centred = x - mean_of(c, x, axes, keepdim=True)
    less = int(unbiased) if correction is None else int(correction)
    variance = mean_of(c, centred**2, axes, keepdim=keepdim, less=less)
    return c.sqrt(variance) if c.node.target._schema.name.endswith("std") else variance


@operator("linalg_vector_norm", "norm")
def _norm(c: Context, x: Any, ord: Any = 2, p: Any = 2, dim: Any = None, keepdim: bool = False) -> Tensor:  # noqa: A002
    if ord != 2 or p not in (2, None):
        raise Refused("it is a norm other than the Euclidean")
    x = c.lift(x)
    return c.sqrt(total(x**2, axes_of(x, dim), keepdim=keepdim))


@operator("amax", "max")
def _amax(c: Context, x: Any, dim: Any = None, keepdim: bool = False) -> Any:  # noqa: ARG001 -- of the schema
    if c.node not in c.shifts:
        raise Refused("it is not analytic, and the function depends on it: it is not the shift of a softmax")
    shift = c.shifts[c.node]
    return (shift, None) if isinstance(c.node.meta["val"], tuple) else shift


# ------------------------------------------------------------------------------------------- masks


@operator("masked_fill")
def _masked_fill(c: Context, x: Any, mask: Any, value: Any) -> Any:
    return _choice(c, mask, value, x)


@operator("where")
def _where(c: Context, condition: Any, x: Any, other: Any) -> Any:
    return _choice(c, condition, x, other)


def _choice(c: Context, condition: Any, x: Any, y: Any) -> Any:
    """X where a constant condition holds, elsewhere y."""
    if not isinstance(condition, c.torch.Tensor):
        raise Refused("the mask depends on the inputs or parameters")
    (x, keep_x), (y, keep_y) = c.scores(x), c.scores(y)
    holds = condition.to(c.torch.bool)
    if keep_y is not None and not bool(keep_y.any()):
        value = c.lift(x)  # what stands under a mask does not matter
    elif keep_x is not None and not bool(keep_x.any()):
        value = c.lift(y)
    else:
        value = c.lift(x) * c.lift(holds) + c.lift(y) * c.lift(~holds)
    value = value.broadcast_to(tuple(c.node.meta["val"].shape))
    keep_x = None if keep_x is None else keep_x | ~holds
    keep_y = None if keep_y is None else keep_y | holds
    return c.masked(value, keep_x, keep_y)


@operator("tril", "triu")
def _triangle(c: Context, x: Any, diagonal: int = 0) -> Tensor:
    y = c.lift(x)
    ones = c.torch.ones(y.shape[-2:], dtype=c.torch.bool)
    lower = c.node.target._schema.name.endswith("tril")
    return y * c.lift(ones.tril(diagonal) if lower else ones.triu(diagonal))


# --------------------------------------------------------------------------------- products


@operator("matmul", "mm", "bmm", "mv", "dot")
def _matmul(c: Context, x: Any, other: Any) -> Tensor:
    return product(c.lift(x), c.lift(other))


@operator("baddbmm")
def _baddbmm(c: Context, x: Any, batch1: Any, batch2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    return _addmm(c, x, batch1, batch2, beta, alpha)


@operator("addmm")
def _addmm(c: Context, x: Any, mat1: Any, mat2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    made = product(c.lift(mat1), c.lift(mat2))
    made = made if alpha == 1 else made * c.lift(alpha)
    if beta == 0:
        return made
    x, keep = c.scores(x)
    if keep is not None and beta < 0:
        raise Refused("it subtracts -inf")
    return c.masked(made + (c.lift(x) if beta == 1 else c.lift(x) * c.lift(beta)), keep)


@operator("outer", "ger")
def _outer(c: Context, x: Any, other: Any) -> Tensor:
    left = c.lift(x)
    return left.reshape(left.size, 1) * c.lift(other)


@operator("linear")
def _linear(c: Context, x: Any, weight: Any, bias: Any = None) -> Tensor:
    return linear(c.lift(x), c.lift(weight), None if bias is None else c.lift(bias))


@operator("einsum")
def _einsum(c: Context, equation: str, tensors: Sequence[Any]) -> Tensor:
    return einsum(equation, [c.lift(t) for t in tensors])
