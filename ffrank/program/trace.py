"""Turn a plain Python function into a program: its arguments are tensors that record what is done to them.

>>> from ffrank import parametrization
>>> @parametrization(parameters={"W1": (4, 3), "W2": (2, 4)}, inputs={"x": (3,)})
... def network(W1, W2, x):
...     return W2 @ (W1 @ x) ** 2
>>> network.parameter_count
20
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import prod
from numbers import Integral
from typing import Any, NoReturn, SupportsIndex, TypeAlias

from ffrank.errors import FfrankError, ProgramError, ShapeError
from ffrank.program.ir import Builder, Program, Shape

__all__ = ["Tensor", "concatenate", "exp", "parametrization", "sigmoid", "softmax", "sqrt", "stack", "tanh"]

Operand: TypeAlias = "Tensor | int | Sequence[Any] | Any"


class Tensor:
    """A symbolic array with NumPy's shapes and operators: ``+ - * / @ ** [ ]``.

    It has no values. Entries combine by ``+ - * / @``, fixed integer powers, :func:`exp`, :func:`sqrt` and what is
    built from them; constants are integers, fractions, or arrays of integers. Comparison and conversion to numbers
    are errors.
    """

    __array_ufunc__ = None  # NumPy arrays leave their operators to this class
    __slots__ = ("_builder", "node")

    def __init__(self, builder: Builder, node: int) -> None:
        self._builder = builder
        self.node = node

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""
        return self._builder.shapes[self.node]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of entries."""
        return prod(self.shape)

    @property
    def T(self) -> Tensor:
        """All axes reversed."""
        return self.transpose()

    def __repr__(self) -> str:
        return f"Tensor(shape={self.shape})"

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError("a scalar Tensor has no length")
        return self.shape[0]

    def _new(self, node: int) -> Tensor:
        return Tensor(self._builder, node)

    def _lift(self, other: Operand) -> Tensor:
        """``other`` as a tensor of the same program."""
        if isinstance(other, Tensor):
            if other._builder is not self._builder:
                raise ProgramError(
                    "expected tensors of one traced function, got one of another; pass it as an argument"
                )
            return other
        if isinstance(other, Fraction):
            return self._lift(other.numerator) / other.denominator
        shape, values = _integers(other)
        return self._new(self._builder.const(shape, values))

    # ------------------------------------------------------------------------------------- arithmetic

    def _aligned(self, other: Operand) -> tuple[Tensor, Tensor]:
        right = self._lift(other)
        shape = _broadcast(self.shape, right.shape)
        return self.broadcast_to(shape), right.broadcast_to(shape)

    def __add__(self, other: Operand) -> Tensor:
        a, b = self._aligned(other)
        return self._new(self._builder.add(a.node, b.node))

    __radd__ = __add__

    def __neg__(self) -> Tensor:
        return self._new(self._builder.neg(self.node))

    def __pos__(self) -> Tensor:
        return self

    def __sub__(self, other: Operand) -> Tensor:
        return self + -self._lift(other)

    def __rsub__(self, other: Operand) -> Tensor:
        return -self + other

    def __mul__(self, other: Operand) -> Tensor:
        a, b = self._aligned(other)
        return self._new(self._builder.mul(a.node, b.node))

    __rmul__ = __mul__

    def __truediv__(self, other: Operand) -> Tensor:
        right = self._lift(other)
        return self * self._new(self._builder.recip(right.node))

    def __rtruediv__(self, other: Operand) -> Tensor:
        return other * self._new(self._builder.recip(self.node))

    def __pow__(self, exponent: SupportsIndex) -> Tensor:
        k = _exponent(exponent)
        if k < 0:
            return 1 / self**-k
        if k == 0:
            return self._lift(1).broadcast_to(self.shape)
        return self._new(self._builder.pow(self.node, k))

    def __matmul__(self, other: Operand) -> Tensor:
        return _matmul(self, self._lift(other))

    def __rmatmul__(self, other: Operand) -> Tensor:
        return _matmul(self._lift(other), self)

    def sum(self, axis: int | tuple[int, ...] | None = None) -> Tensor:
        """Sum over one axis, several, or all."""
        axes = range(self.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
        result = self
        for a in sorted((_axis(a, self.ndim) for a in axes), reverse=True):
            result = result._new(self._builder.sum(result.node, a))
        return result

    # ------------------------------------------------------------------------------------------ shapes

    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        """The same entries, row-major; one size may be -1."""
        sizes = _flat(shape)
        if sizes.count(-1) == 1:
            known = prod(n for n in sizes if n != -1)
            sizes[sizes.index(-1)] = self.size // known if known > 0 else 0
        return self if tuple(sizes) == self.shape else self._new(self._builder.reshape(self.node, sizes))

    def transpose(self, *axes: int | Sequence[int]) -> Tensor:
        """Permute the axes; without arguments reverse them."""
        perm = [_axis(a, self.ndim) for a in _flat(axes)] if axes else list(reversed(range(self.ndim)))
        return self if perm == list(range(self.ndim)) else self._new(self._builder.transpose(self.node, perm))

    def broadcast_to(self, shape: Sequence[int]) -> Tensor:
        """Repeat axes of size 1 and new leading axes."""
        return self if tuple(shape) == self.shape else self._new(self._builder.broadcast(self.node, tuple(shape)))

    def __getitem__(self, key: Any) -> Tensor:
        keys = list(key) if isinstance(key, tuple) else [key]
        axes_used = sum(k is not None and k is not Ellipsis for k in keys)
        if axes_used > self.ndim or keys.count(Ellipsis) > 1:
            raise ShapeError(f"expected at most {self.ndim} indices for shape {self.shape}, got {axes_used}")
        at = keys.index(Ellipsis) if Ellipsis in keys else len(keys)
        keys[at : at + 1] = [slice(None)] * (self.ndim - axes_used)
        triples: list[tuple[int, int, int]] = []
        shape: list[int] = []
        for k in keys:
            if k is None:
                shape.append(1)
                continue
            size = self.shape[len(triples)]
            if isinstance(k, slice):
                start, stop, step = k.indices(size)
                if step < 1 or start >= stop:
                    raise ShapeError(f"expected a non-empty slice with a positive step, got {k} for size {size}")
                shape.append(len(range(start, stop, step)))
                triples.append((start, stop, step))
            else:
                index = _axis(_index(k), size)
                triples.append((index, index + 1, 1))
        whole = all(t == (0, n, 1) for t, n in zip(triples, self.shape, strict=True))
        part = self if whole else self._new(self._builder.slice(self.node, triples))
        return part.reshape(shape)

    # ------------------------------------------------------------------------- what a tensor cannot do

    def __bool__(self) -> NoReturn:
        raise ProgramError("a Tensor has no truth value: the map must not branch on its arguments")

    def __float__(self) -> NoReturn:
        raise ProgramError("a Tensor has no numerical value; the map must be built from its arguments")

    __int__ = __index__ = __float__


def _matmul(a: Tensor, b: Tensor) -> Tensor:
    """NumPy's ``@``: vectors are rows or columns, leading axes broadcast."""
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError("matmul: expected at least one axis on both sides, got a scalar; use *")
    if a.ndim == 1:
        product = _matmul(a.reshape(1, a.size), b)
        row = -1 if b.ndim == 1 else -2  # the axis of size 1 that stands for the vector
        return product.reshape(tuple(n for i, n in enumerate(product.shape, -product.ndim) if i != row))
    if b.ndim == 1:
        product = _matmul(a, b.reshape(b.size, 1))
        return product.reshape(product.shape[:-1])
    lead = _broadcast(a.shape[:-2], b.shape[:-2])
    left, right = (x.broadcast_to(lead + x.shape[-2:]) for x in (a, b))
    return a._new(a._builder.matmul(left.node, right.node))


def concatenate(tensors: Sequence[Operand], axis: int = 0) -> Tensor:
    """Join tensors along an existing axis."""
    first = next((t for t in tensors if isinstance(t, Tensor)), None)
    if first is None:
        raise ProgramError("concatenate: expected at least one Tensor")
    parts = [first._lift(t) for t in tensors]
    if len(parts) == 1:
        return parts[0]
    return first._new(first._builder.concat(_axis(axis, parts[0].ndim), [t.node for t in parts]))


def stack(tensors: Sequence[Operand], axis: int = 0) -> Tensor:
    """Join tensors of equal shape along a new axis."""
    first = next((t for t in tensors if isinstance(t, Tensor)), None)
    if first is None:
        raise ProgramError("stack: expected at least one Tensor")
    at = _axis(axis, first.ndim + 1)
    parts = [first._lift(t) for t in tensors]
    return concatenate([t.reshape(*t.shape[:at], 1, *t.shape[at:]) for t in parts], at)


def _tensor(x: object, name: str) -> Tensor:
    if not isinstance(x, Tensor):
        raise ProgramError(f"{name}: expected a Tensor, got {type(x).__name__}")
    return x


def exp(x: Tensor) -> Tensor:
    """Entrywise exponential; the exponent must depend on an input."""
    x = _tensor(x, "exp")
    return x._new(x._builder.exp(x.node))


def sqrt(x: Tensor) -> Tensor:
    """Entrywise square root, of either sign; the argument must depend on an input."""
    x = _tensor(x, "sqrt")
    return x._new(x._builder.sqrt(x.node))


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)) entrywise."""
    return 1 / (1 + exp(-_tensor(x, "sigmoid")))


def tanh(x: Tensor) -> Tensor:
    """Hyperbolic tangent entrywise, as 1 - 2/(1 + exp(2x))."""
    return 1 - 2 / (1 + exp(_tensor(x, "tanh") + x))


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x) divided by its sum over an axis."""
    weights = exp(x)
    axis = _axis(axis, weights.ndim)
    shape = weights.shape
    return weights / weights.sum(axis).reshape(*shape[:axis], 1, *shape[axis + 1 :])


def parametrization(
    *, parameters: Mapping[str, Sequence[int]], inputs: Mapping[str, Sequence[int]]
) -> Callable[[Callable[..., Any]], Program]:
    """Decorator: trace a function of named parameters and inputs into a program.

    Parameters
    ----------
    parameters, inputs : mapping from name to shape
        The function is called once, with keyword arguments of these names. θ and X are these arrays in the given
        order, row-major.

    Returns
    -------
    Program
        ``ffrank.certify`` takes it as it is.

    Raises
    ------
    ProgramError
        If the signature does not fit, or the function does something that cannot be traced.
    ShapeError
        If shapes do not fit together inside the function.
    """

    def trace(function: Callable[..., Any]) -> Program:
        names = [*parameters, *inputs]
        try:
            inspect.signature(function).bind(**dict.fromkeys(names))
        except TypeError as e:
            raise ProgramError(f"expected a function of the arguments {', '.join(names)}: {e}") from None
        builder = Builder(_shaped(parameters), _shaped(inputs))
        arguments = {name: Tensor(builder, node) for node, name in enumerate(names)}
        try:
            result = function(**arguments)
        except FfrankError:
            raise
        except (TypeError, AttributeError) as e:
            hint = "expected +, -, *, /, @, fixed powers, .T, reshape, indexing, sum and the functions of ffrank"
            raise ProgramError(f"{getattr(function, '__name__', 'the map')} cannot be traced: {e}; {hint}") from e
        if not isinstance(result, Tensor):
            raise ProgramError(f"expected the function to return a Tensor, got {type(result).__name__}")
        return builder.finish(result.node)

    return trace


def _shaped(named: Mapping[str, Any]) -> list[tuple[str, Shape]]:
    for name, shape in named.items():
        if not isinstance(shape, Sequence) or isinstance(shape, str):
            raise ProgramError(f"{name}: expected a shape such as (3,) or (2, 3), got {shape!r}")
    return [(name, tuple(shape)) for name, shape in named.items()]


def _flat(sizes: tuple[int | Sequence[int], ...]) -> list[int]:
    """The sizes of a call f(2, 3) or f((2, 3))."""
    first = sizes[0] if len(sizes) == 1 else sizes
    return [_index(n) for n in (first if isinstance(first, Sequence) else (first,))]


def _exponent(k: Any) -> int:
    if isinstance(k, Integral) and k is not True and k is not False:
        return int(k)
    raise ProgramError(f"expected a fixed integer exponent, got {k!r}; for roots use ffrank.sqrt")


def _index(k: Any) -> int:
    try:
        return operator.index(k)
    except TypeError:
        raise ProgramError(f"expected an integer, a slice, None or ... as index, got {k!r}") from None


def _axis(a: int, size: int) -> int:
    if not -size <= a < size:
        raise ShapeError(f"expected an index between {-size} and {size - 1}, got {a}")
    return a % size


def _broadcast(a: Shape, b: Shape) -> Shape:
    length = max(len(a), len(b))
    long_a, long_b = ((1,) * (length - len(s)) + s for s in (a, b))
    if any(m != n and 1 not in (m, n) for m, n in zip(long_a, long_b, strict=True)):
        raise ShapeError(f"shapes {a} and {b} do not fit together")
    return tuple(max(m, n) for m, n in zip(long_a, long_b, strict=True))


def _integers(x: Any) -> tuple[Shape, list[int]]:
    """Shape and entries of an integer constant: an int, nested sequences, or an integer array."""
    if hasattr(x, "tolist"):  # NumPy arrays and scalars
        x = x.tolist()
    if isinstance(x, Integral):
        return (), [int(x)]
    if not isinstance(x, list | tuple) or not x:
        raise ProgramError(
            f"expected an integer or a Fraction as constant, got {type(x).__name__} {x!r}; "
            "write fractions.Fraction for a fraction"
        )
    parts = [_integers(e) for e in x]
    if len({shape for shape, _ in parts}) > 1:
        raise ShapeError("expected a constant array whose rows have equal lengths")
    return (len(x), *parts[0][0]), [v for _, values in parts for v in values]
