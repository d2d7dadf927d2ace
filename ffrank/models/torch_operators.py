"""PyTorch operators as instructions of a program: arithmetic, activations, normalisations, softmax."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any

from ffrank.models.torch_products import einsum, linear, product
from ffrank.models.torch_values import LOWEST, Masked, Refused, SharingBuilder, exact
from ffrank.program.trace import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["OPERATORS", "Context", "parameters_of"]


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
        Tensors that stand for the results of ``amax`` and ``max``, by the names of their nodes.
    """

    builder: SharingBuilder
    torch: Any
    node: Any = None
    shifts: dict[str, Tensor] = field(default_factory=dict)

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
        known, opposite = self.builder.known, self.builder.negated(x.node)
        if opposite is not None and ("exp", (opposite,), None) in known:
            return 1 / Tensor(self.builder, known["exp", (opposite,), None])
        return Tensor(self.builder, self.builder.exp(x.node))

    def sqrt(self, x: Tensor) -> Tensor:
        """A square root of x."""
        return Tensor(self.builder, self.builder.sqrt(x.node))


OPERATORS: dict[str, Callable[..., Any]] = {}


def _operator(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(handler: Callable[..., Any]) -> Callable[..., Any]:
        OPERATORS.update(dict.fromkeys(names, handler))
        return handler

    return register


def parameters_of(name: str) -> list[str]:
    """The arguments that the handler of an operator understands; ``x`` is torch's ``self`` or ``input``."""
    return list(inspect.signature(OPERATORS[name]).parameters)[1:]


# ------------------------------------------------------------------------------------------ arithmetic


@_operator("add", "sub", "subtract")
def _add(c: Context, x: Any, other: Any, alpha: Any = 1) -> Any:
    (x, keep_x), (y, keep_y) = c.scores(x), c.scores(other)
    sign = -1 if "sub" in c.node.target._schema.name else 1
    if keep_y is not None and sign * alpha <= 0:
        raise Refused("it subtracts -inf")
    y = c.lift(y) if sign * alpha == 1 else -c.lift(y) if sign * alpha == -1 else c.lift(y) * c.lift(sign * alpha)
    return c.masked(c.lift(x) + y, keep_x, keep_y)


@_operator("rsub")
def _rsub(c: Context, x: Any, other: Any, alpha: Any = 1) -> Any:
    return c.lift(other) - (c.lift(x) if alpha == 1 else c.lift(x) * c.lift(alpha))


@_operator("mul", "multiply")
def _mul(c: Context, x: Any, other: Any) -> Any:
    if isinstance(other, Masked):
        x, other = other, x
    x, keep = c.scores(x) if isinstance(x, Masked) else (x, None)
    if keep is not None and not _positive(c, other):
        raise Refused("it multiplies -inf by what is not a positive constant")
    return c.masked(c.lift(x) * c.lift(other), keep)


@_operator("div", "divide", "true_divide")
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


@_operator("neg", "negative")
def _neg(c: Context, x: Any) -> Tensor:
    return -c.lift(x)


@_operator("reciprocal")
def _reciprocal(c: Context, x: Any) -> Tensor:
    return 1 / c.lift(x)


@_operator("square")
def _square(c: Context, x: Any) -> Tensor:
    return c.lift(x) ** 2


@_operator("sqrt")
def _sqrt(c: Context, x: Any) -> Tensor:
    return c.sqrt(c.lift(x))


@_operator("rsqrt")
def _rsqrt(c: Context, x: Any) -> Tensor:
    return 1 / c.sqrt(c.lift(x))


@_operator("pow")
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


@_operator("clamp_min", "clamp")
def _clamp(c: Context, x: Any, min: Any = None, max: Any = None) -> Tensor:  # noqa: A002 -- names of the schema
    root = c.builder.instruction(x.node) if isinstance(x, Tensor) else None
    if max is None and isinstance(min, float | int) and min <= 1e-4 and root is not None and root.op == "sqrt":
        return c.lift(x)  # a length is above such a guard everywhere but in a small ball
    raise Refused("it is not analytic (only as a guard of at most 1e-4 on a length is it understood)")


# ------------------------------------------------------------------------------------------ reductions


def _axes(x: Tensor, dim: int | Sequence[int] | None) -> list[int]:
    dims = [dim] if isinstance(dim, int) else dim or range(x.ndim)
    return sorted(d % x.ndim for d in dims)


def _total(x: Tensor, axes: Sequence[int], *, keepdim: bool) -> Tensor:
    total = x.sum(tuple(axes))
    return total.reshape([1 if i in axes else n for i, n in enumerate(x.shape)]) if keepdim else total


def _mean_of(c: Context, x: Tensor, axes: Sequence[int], *, keepdim: bool, less: int = 0) -> Tensor:
    count = prod(x.shape[a] for a in axes) - less
    total = _total(x, axes, keepdim=keepdim)
    return total if count == 1 else total * exact(c.builder, (), [Fraction(1, count)])


@_operator("sum")
def _sum(c: Context, x: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
    x = c.lift(x)
    return _total(x, _axes(x, dim), keepdim=keepdim)


@_operator("mean")
def _mean(c: Context, x: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
    x = c.lift(x)
    return _mean_of(c, x, _axes(x, dim), keepdim=keepdim)


@_operator("var", "std")
def _var(
    c: Context, x: Any, dim: Any = None, unbiased: bool = True, correction: Any = None, keepdim: bool = False
) -> Tensor:
    x = c.lift(x)
    axes = _axes(x, dim)
    centred = x - _mean_of(c, x, axes, keepdim=True)
    less = int(unbiased) if correction is None else int(correction)
    variance = _mean_of(c, centred**2, axes, keepdim=keepdim, less=less)
    return c.sqrt(variance) if c.node.target._schema.name.endswith("std") else variance


@_operator("linalg_vector_norm", "norm")
def _norm(c: Context, x: Any, ord: Any = 2, p: Any = 2, dim: Any = None, keepdim: bool = False) -> Tensor:  # noqa: A002
    if ord != 2 or p not in (2, None):
        raise Refused("it is a norm other than the Euclidean")
    x = c.lift(x)
    return c.sqrt(_total(x**2, _axes(x, dim), keepdim=keepdim))


@_operator("amax", "max")
def _amax(c: Context, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if c.node.name not in c.shifts:
        raise Refused("it is not analytic, and the function depends on it: it is not the shift of a softmax")
    shift = c.shifts[c.node.name]
    return (shift, None) if isinstance(c.node.meta["val"], tuple) else shift


# ------------------------------------------------------------------------------- exponentials, activations


@_operator("exp")
def _exp(c: Context, x: Any) -> Tensor:
    x, keep = c.scores(x)
    e = c.exp(c.lift(x))
    return e if keep is None else e * c.lift(keep)


@_operator("expm1")
def _expm1(c: Context, x: Any) -> Tensor:
    return c.exp(c.lift(x)) - 1


@_operator("sinh", "cosh")
def _hyperbolic(c: Context, x: Any) -> Tensor:
    e = c.exp(c.lift(x))
    sign = -1 if c.node.target._schema.name.endswith("sinh") else 1
    return (e + sign * (1 / e)) * exact(c.builder, (), [Fraction(1, 2)])


@_operator("sigmoid", "special_expit")
def _sigmoid(c: Context, x: Any) -> Tensor:
    return _logistic(c, c.lift(x))


def _logistic(c: Context, x: Tensor) -> Tensor:
    return 1 - 1 / (1 + c.exp(x))


@_operator("tanh")
def _tanh(c: Context, x: Any) -> Tensor:
    return 1 - 2 / (1 + c.exp(c.lift(x)) ** 2)  # exp(x)^2, so that exp(x) is shared with a sigmoid of x


@_operator("silu")
def _silu(c: Context, x: Any) -> Tensor:
    x = c.lift(x)
    return x * _logistic(c, x)


@_operator("mish")
def _mish(c: Context, x: Any) -> Tensor:
    x = c.lift(x)
    return x * (1 - 2 / (1 + (1 + c.exp(x)) ** 2))  # tanh(log(1 + exp(x)))


@_operator("gelu")
def _gelu(c: Context, x: Any, approximate: str = "none") -> Tensor:
    if approximate != "tanh":
        raise Refused('the error function is not rational in exponentials; use approximate="tanh"')
    x = c.lift(x)
    # x/2·(1 + tanh(b(x + k x^3))) is x times the logistic function of 2b(x + k x^3); b and k are PyTorch's doubles.
    inner = (x + x**3 * c.lift(0.044715)) * c.lift(2 * math.sqrt(2) * (2 / math.sqrt(math.pi)) * 0.5)
    return x * _logistic(c, inner)


def _softmax_of(c: Context, x: Any, dim: int) -> Tensor:
    x, keep = c.scores(x)
    e = c.exp(c.lift(x))
    if keep is not None:
        if not bool(keep.any(dim).all()):
            raise Refused("it masks everything that a softmax sums over, which gives NaN")
        e = e * c.lift(keep)
    return e / _total(e, _axes(e, dim), keepdim=True)


@_operator("softmax", "_softmax", "_safe_softmax", "special_softmax")
def _softmax(c: Context, x: Any, dim: int) -> Tensor:
    return _softmax_of(c, x, dim)


@_operator("scaled_dot_product_attention")
def _attention(
    c: Context,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    q, k, v = c.lift(query), c.lift(key), c.lift(value)
    if enable_gqa and k.shape[-3] != q.shape[-3]:
        k, v = (_repeated(x, q.shape[-3] // x.shape[-3]) for x in (k, v))
    # 1/sqrt(d) is irrational; the double nearest to it scales K, which changes no rank.
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = q @ k.transpose(*range(k.ndim - 2), k.ndim - 1, k.ndim - 2)
    scores = scores if factor == 1 else scores * c.lift(factor)
    bias, keep = c.scores(attn_mask)
    if isinstance(bias, c.torch.Tensor) and bias.dtype == c.torch.bool:
        bias, keep = None, bias
    if is_causal:
        bias, keep = None, c.torch.ones(scores.shape[-2:], dtype=c.torch.bool).tril()
    return _softmax_of(c, c.masked(scores if bias is None else scores + c.lift(bias), keep), -1) @ v


def _repeated(x: Tensor, times: int) -> Tensor:
    """Every head of (…, heads, tokens, d) ``times`` times in a row."""
    lead, tail = x.shape[:-2], x.shape[-2:]
    wide = x.reshape(*lead, 1, *tail).broadcast_to((*lead, times, *tail))
    return wide.reshape(*lead[:-1], lead[-1] * times, *tail)


# ------------------------------------------------------------------------------------------- masks


@_operator("masked_fill")
def _masked_fill(c: Context, x: Any, mask: Any, value: Any) -> Any:
    return _choice(c, mask, value, x)


@_operator("where")
def _where(c: Context, condition: Any, x: Any, other: Any) -> Any:
    return _choice(c, condition, x, other)


def _choice(c: Context, condition: Any, x: Any, y: Any) -> Any:
    """X where a constant condition holds, elsewhere y."""
    if not isinstance(condition, c.torch.Tensor):
        raise Refused("the mask depends on the inputs or parameters")
    (x, keep_x), (y, keep_y) = c.scores(x), c.scores(y)
    holds = condition.to(c.torch.bool)
    value = _product_or_zero(c, x, holds, y) + _product_or_zero(c, y, ~holds, x)
    keep_x = None if keep_x is None else keep_x | ~holds
    keep_y = None if keep_y is None else keep_y | holds
    return c.masked(value, keep_x, keep_y)


def _product_or_zero(c: Context, x: Any, keep: Any, other: Any) -> Tensor:
    x, other = c.lift(x), c.lift(other)
    return x * c.lift(keep)


@_operator("tril", "triu")
def _triangle(c: Context, x: Any, diagonal: int = 0) -> Tensor:
    x = c.lift(x)
    ones = c.torch.ones(x.shape[-2:], dtype=c.torch.bool)
    lower = c.node.target._schema.name.endswith("tril")
    return x * c.lift(ones.tril(diagonal) if lower else ones.triu(diagonal))


# --------------------------------------------------------------------------------- products, normalisations


@_operator("matmul", "mm", "bmm", "mv", "dot")
def _matmul(c: Context, x: Any, other: Any) -> Tensor:
    return product(c.lift(x), c.lift(other))


@_operator("addmm", "baddbmm", "addmv")
def _addmm(c: Context, x: Any, left: Any, right: Any, beta: Any = 1, alpha: Any = 1) -> Tensor:
    made = product(c.lift(left), c.lift(right))
    made = made if alpha == 1 else made * c.lift(alpha)
    return made if beta == 0 else made + (c.lift(x) if beta == 1 else c.lift(x) * c.lift(beta))


@_operator("outer", "ger")
def _outer(c: Context, x: Any, other: Any) -> Tensor:
    x, y = c.lift(x), c.lift(other)
    return x.reshape(x.size, 1) * y


@_operator("linear")
def _linear(c: Context, x: Any, weight: Any, bias: Any = None) -> Tensor:
    return linear(c.lift(x), c.lift(weight), None if bias is None else c.lift(bias))


@_operator("einsum")
def _einsum(c: Context, equation: str, tensors: Sequence[Any]) -> Tensor:
    return einsum(equation, [c.lift(t) for t in tensors])


@_operator("layer_norm", "native_layer_norm")
def _layer_norm(
    c: Context, x: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    x = c.lift(x)
    axes = range(x.ndim - len(normalized_shape), x.ndim)
    centred = x - _mean_of(c, x, axes, keepdim=True)
    out = _normalised(c, centred, axes, weight, bias, eps)
    return (out, None, None) if c.node.target._schema.name.endswith("native_layer_norm") else out


@_operator("rms_norm")
def _rms_norm(
    c: Context, x: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None
) -> Tensor:
    x = c.lift(x)
    eps = c.torch.finfo(c.node.meta["val"].dtype).eps if eps is None else eps
    return _normalised(c, x, range(x.ndim - len(normalized_shape), x.ndim), weight, None, eps)


def _normalised(c: Context, x: Tensor, axes: Sequence[int], weight: Any, bias: Any, eps: float) -> Tensor:
    """X divided by the root of the mean of its squares plus epsilon, with gain and shift."""
    square = _mean_of(c, x**2, axes, keepdim=True)
    x = x * (1 / c.sqrt(square if eps == 0 else square + c.lift(eps)))
    x = x if weight is None else x * c.lift(weight)
    return x if bias is None else x + c.lift(bias)


@_operator("batch_norm", "_native_batch_norm_legit_no_training")
def _batch_norm(
    c: Context, x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, eps: float, training: bool = False
) -> Any:
    if training or running_mean is None:
        raise Refused("it uses the statistics of the batch")
    x = c.lift(x)
    shape = [1, x.shape[1]] + [1] * (x.ndim - 2)
    # The root is of constants and irrational: the double nearest to it rescales each channel, which changes no rank.
    scale = (running_var.double() + eps).rsqrt()
    x = (x - c.lift(running_mean).reshape(shape)) * c.lift(scale).reshape(shape)
    x = x if weight is None else x * c.lift(weight).reshape(shape)
    x = x if bias is None else x + c.lift(bias).reshape(shape)
    return (x, None, None) if "native" in c.node.target._schema.name else x
