"""PyTorch modules as programs, through ``torch.export``."""

from __future__ import annotations

import operator
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any

from ffrank.errors import FfrankError, ProgramError
from ffrank.models import torch_layers, torch_operators
from ffrank.models.torch_context import OPERATORS, Context, parameters_of
from ffrank.models.torch_export import check_real, export, load_torch, source_of
from ffrank.models.torch_shapes import MOVES, joined, moved, replaced
from ffrank.models.torch_values import Masked, Refused, SharingBuilder, exact
from ffrank.primes import DEFAULT_PRIME
from ffrank.program.trace import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ffrank.program.ir import Named, Program

__all__ = ["from_torch"]

_RENAMED = {"self": "x", "input": "x", "mat2": "other", "vec": "other", "vec2": "other", "tensor": "other"}
# Arguments that do not change the function.
_IGNORED = {
    "copy", "cudnn_enable", "cudnn_enabled", "device", "dropout_p", "dtype", "half_to_float", "implicit", "layout",
    "memory_format", "momentum", "non_blocking", "p", "pin_memory",
}  # fmt: skip
_REASONS = {
    "abs": "it is not analytic",
    "embedding": "its indices are integers; start from the embedded vectors",
    "erf": "the error function is not rational in exponentials",
    "log": "logarithms are not supported",
    "log_softmax": "logarithms are not supported",
    "logsumexp": "logarithms are not supported",
    "relu": "it is piecewise linear: each region has its own rank; use silu, gelu with approximate='tanh', or powers",
    "softplus": "logarithms are not supported",
}
_SHIFTS = ("amax", "max")


def from_torch(
    module: Any, example_inputs: Any, *, example_kwargs: Mapping[str, Any] | None = None, output: int = 0
) -> Program:
    """The function of a PyTorch module, as a program with exact constants.

    Parameters
    ----------
    module : torch.nn.Module
        Taken as in evaluation mode (no dropout, BatchNorm with its running statistics). Its parameters, in the order of
        ``named_parameters``, are θ; a shared one counts once. Buffers, and parameters with ``requires_grad=False``, are
        constants: part of the architecture. Constants are the fractions that their floating-point numbers are.
    example_inputs : torch.Tensor or tuple
        Positional arguments. Their shapes, batch axis included, are those of X; their values do not matter, but
        boolean tensors and tensors with an infinite entry are fixed masks. The same tensor object given twice is one
        input: ``from_torch(attention, (x, x, x))`` is self-attention.
    example_kwargs : mapping, optional
        Named arguments, likewise.
    output : int
        Which tensor to take if the module returns several.

    Returns
    -------
    Program
        f(θ, X) in real arithmetic, not in floating point. The maximum that is subtracted in a softmax is left out; for
        a hand-written one this is tested at two random points of F_p: a function that does depend on the maximum is
        taken for one that does not with probability about (degree/2^31)^2. Score entries of -inf, or constants of at
        most -10^4 in their place, become weights of 0.

    Raises
    ------
    InputError
        If PyTorch is not installed.
    ProgramError
        If the module cannot be captured, a shape or a branch depends on data, an operator is not supported (all of them
        are named at once, with their source lines), a parameter or input is not real, or a constant not finite.

    Notes
    -----
    Equal exponents share one exponential. Exponents that are rational multiples of each other, such as u and 2u, do
    not, except for u and -u.
    """
    torch = load_torch()
    if not isinstance(module, torch.nn.Module):
        raise ProgramError(f"expected a torch.nn.Module, got {type(module).__name__}")
    args = tuple(example_inputs) if isinstance(example_inputs, tuple | list) else (example_inputs,)
    check_real(torch, module, [*args, *(example_kwargs or {}).values()])
    exported = export(torch, module, args, dict(example_kwargs or {}))
    return _Import(torch, module, exported, args, dict(example_kwargs or {}), output).program()


class _Import:
    """One exported module on its way to a program."""

    def __init__(
        self, torch: Any, module: Any, exported: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: int
    ) -> None:
        self.torch, self.exported, self.output = torch, exported, output
        self.nodes = list(exported.graph.nodes)
        self.faults: dict[str, str] = {}
        self.parameters: list[Named] = [
            (name, tuple(w.shape)) for name, w in module.named_parameters() if w.requires_grad
        ]
        taken = {name for name, _ in self.parameters}
        names = {id(w): name for name, w in module.named_parameters()}
        self.inputs: list[Named] = []
        self.sources: dict[str, str] = {}  # of placeholders: the name of a parameter or an input
        self.constants: dict[str, Any] = {}
        given = torch.utils._pytree.tree_leaves((args, kwargs))
        seen: dict[int, str] = {}
        for spec in exported.graph_signature.input_specs:
            name = getattr(spec.arg, "name", "")
            if spec.kind.name == "PARAMETER":
                weight = module.get_parameter(spec.target)
                if weight.requires_grad:
                    self.sources[name] = names[id(weight)]
                else:
                    self.constants[name] = weight.detach()
            elif spec.kind.name == "USER_INPUT":
                value = given.pop(0)
                if not isinstance(value, torch.Tensor) or value.dtype == torch.bool or bool(value.isinf().any()):
                    self.constants[name] = value
                    continue
                if id(value) not in seen:
                    fresh = name
                    while fresh in taken:
                        fresh += "_"
                    taken.add(fresh)
                    seen[id(value)] = fresh
                    self.inputs.append((fresh, tuple(value.shape)))
                self.sources[name] = seen[id(value)]
            else:
                stored = exported.constants if spec.target in exported.constants else exported.state_dict
                self.constants[name] = stored.get(spec.target)

    def program(self) -> Program:
        """The program; where a maximum is subtracted, after a test that the function does not depend on it."""
        graphs = [m.graph for m in self.exported.graph_module.modules() if hasattr(m, "graph")]
        maxima = [n for g in graphs for n in g.nodes if n.op == "call_function" and _name(n) in _SHIFTS]
        if maxima:
            shifts = {node: f"shift {at}" for at, node in enumerate(maxima)}
            self._check_shifts(self._build(maxima, shifts), shifts)
        return self._build(maxima, {})

    def _shape(self, node: Any) -> tuple[int, ...]:
        value = node.meta["val"]
        return tuple((value[0] if isinstance(value, tuple) else value).shape)

    def _check_shifts(self, program: Program, shifts: dict[Any, str]) -> None:
        """J has no entries in the columns of the shifts: the function is the same for every shift, so for 0."""
        from ffrank.program.evaluate import Evaluator
        from ffrank.program.points import draw_points, draw_theta

        p = DEFAULT_PRIME
        theta = draw_theta(program, p, 0)
        points = draw_points(program, p, 0, theta, [1, 2])
        J = Evaluator(program, p, theta).jacobian(points.inputs, points.draws)
        for node, name in shifts.items():
            start = program.offsets[name]
            if J[:, start : start + prod(self._shape(node))].any():
                self._fault(
                    node, "it is not analytic, and the function depends on it: it is not the shift of a softmax"
                )
        self._raise_faults()

    def _build(self, maxima: list[Any], shifts: dict[Any, str]) -> Program:
        """The program; ``maxima`` are 0, or the further parameters that ``shifts`` names."""
        further = [(name, self._shape(node)) for node, name in shifts.items()]
        builder = SharingBuilder([*self.parameters, *further], self.inputs)
        leaves = {name: Tensor(builder, at) for at, (name, _) in enumerate([*builder.parameters, *builder.inputs])}
        context = Context(builder, self.torch)
        for node in maxima:
            zero = exact(builder, (), [0]).broadcast_to(self._shape(node))
            context.shifts[node] = leaves.get(shifts.get(node, ""), zero)
        placed = [n for n in self.nodes if n.op == "placeholder"]
        given = [leaves[self.sources[n.name]] if n.name in self.sources else self.constants.get(n.name) for n in placed]
        result = self._result(context, *self._run(context, self.exported.graph_module, given))
        self._raise_faults()
        return builder.finish(result.node)

    def _run(self, context: Context, graph_module: Any, given: list[Any]) -> tuple[Any, dict[Any, Any]]:
        """The output node of a graph and the values of its nodes."""
        values: dict[Any, Any] = {}
        arguments = iter(given)
        for node in graph_module.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(arguments)
            elif node.op == "get_attr":
                values[node] = getattr(graph_module, node.target)
            elif node.op == "call_function" and _name(node) in _REGIONS:
                _, inner, *operands = node.args
                output, found = self._run(context, values[inner], [values[x] for x in operands])
                values[node] = [found[n] for n in output.args[0]]
            elif node.op == "call_function":
                values[node] = self._call(context, node, values)
        return node, values

    def _call(self, context: Context, node: Any, values: dict[Any, Any]) -> Any:
        """The value of one operator; a fault is noted, and the import goes on to find others."""
        fx = import_module("torch.fx")
        args, kwargs = (fx.node.map_arg(x, values.__getitem__) for x in (node.args, node.kwargs))
        leaves = self.torch.utils._pytree.tree_leaves((args, kwargs))
        symbolic = [x for x in leaves if isinstance(x, Tensor | Masked)]
        if node.target is operator.getitem:
            return _UNKNOWN if args[0] is _UNKNOWN else args[0][args[1]]
        name = _name(node)
        context.node = node
        try:
            if not all(isinstance(n, int) for x in _tensors(node) for n in x.shape):
                raise Refused("the shape of its result depends on data")
            unknown = any(x is _UNKNOWN for x in leaves)
            if not symbolic and not unknown:
                return self._constant(node, args, kwargs)
            if name.startswith("_assert"):
                return None
            if name not in OPERATORS and name not in MOVES and name not in _OTHERS:
                raise Refused(_REASONS.get(name.rstrip("_"), ""))
            return _UNKNOWN if unknown else self._operator(context, node, args, kwargs)
        except (Refused, FfrankError) as e:
            self._fault(node, str(e))
        except (AttributeError, RuntimeError, TypeError, ValueError) as e:  # a form of its arguments not thought of
            self._fault(node, str(e).partition("\n")[0])
        return _UNKNOWN

    def _constant(self, node: Any, args: Any, kwargs: Any) -> Any:
        """What depends on no input and no parameter, as PyTorch computes it."""
        tags = getattr(node.target, "tags", ())
        if self.torch.Tag.nondeterministic_seeded in tags:
            raise Refused("it is random")
        if not hasattr(node.target, "_schema"):
            raise Refused("it is not a plain operator")
        with self.torch.no_grad():
            return node.target(*args, **kwargs)

    def _operator(self, context: Context, node: Any, args: Any, kwargs: Any) -> Any:
        name = _name(node)
        named, defaults = _bound(node.target._schema, args, kwargs)
        if any(not x.dtype.is_floating_point for x in _tensors(node)[:1]):
            raise Refused(f"it turns numbers into {_tensors(node)[0].dtype}")
        if named.pop("train", False) or (name == "batch_norm" and named.get("training")):
            raise Refused("it is in training mode although the module was put into evaluation mode")
        if name in ("cat", "stack"):
            return joined(name, [context.lift(t) for t in named["tensors"]], named.get("dim", 0))
        if name in ("select_scatter", "slice_scatter"):
            return replaced(context.lift(named.pop("self")), context.lift(named.pop("src")), named)
        if name == "copy":
            return context.lift(named["src"]).broadcast_to(tuple(node.meta["val"].shape))
        if name in ("to", "_to_copy", "type_as"):
            return named["self"]
        if name in MOVES:
            return self._move(context, node, named)
        known = parameters_of(name)
        renamed = {k if k in known else _RENAMED.get(k, k): v for k, v in named.items()}
        extra = [k for k, v in renamed.items() if k not in known and k not in _IGNORED and v != defaults.get(k)]
        if extra:
            raise Refused(f"its argument {extra[0]} is not supported")
        return OPERATORS[name](context, **{k: v for k, v in renamed.items() if k in known})

    def _move(self, context: Context, node: Any, named: dict[str, Any]) -> Any:
        x = named.pop("self" if "self" in named else "input")
        first = node.target._schema.arguments[0].name
        if any(isinstance(v, Tensor | Masked) for v in self.torch.utils._pytree.tree_leaves(named)):
            named = {k: _stand_in(self.torch, v) for k, v in named.items()}

        def apply(values: Any) -> Any:
            return node.target(**{first: values}, **named)

        rest = {k: v for k, v in named.items() if k not in _IGNORED and v is not None and k != "generator"}
        if not isinstance(x, Masked):
            return moved(_name(node), context.lift(x), rest, apply, self.torch)
        tensor = moved(_name(node), x.tensor, rest, apply, self.torch)
        keep = apply(x.keep)
        if isinstance(tensor, list):
            return [Masked(t, k) for t, k in zip(tensor, keep, strict=True)]
        return Masked(tensor, keep)

    def _result(self, context: Context, node: Any, values: dict[Any, Any]) -> Any:
        """The tensor that the caller wants."""
        specs = self.exported.graph_signature.output_specs
        outputs = [n for n, s in zip(node.args[0], specs, strict=True) if s.kind.name == "USER_OUTPUT"]
        tensors = [n for n in outputs if hasattr(n, "meta")]
        if not -len(tensors) <= self.output < len(tensors):
            raise ProgramError(f"output: expected a number below {len(tensors)}, got {self.output}")
        value = values[tensors[self.output]]
        if value is _UNKNOWN:
            return None
        try:
            return context.lift(value)
        except Refused as e:
            raise ProgramError(f"the output cannot be used: {e}") from None

    def _fault(self, node: Any, reason: str) -> None:
        where = source_of(self.torch, node)
        text = f"{_name(node)}{where}" + (f": {reason}" if reason else "")
        self.faults.setdefault(text, text)

    def _raise_faults(self) -> None:
        if self.faults:
            raise ProgramError("expected operators that have an exact meaning, got " + "; ".join(self.faults))


_HANDLERS = (torch_layers, torch_operators)  # which fill the table of operators
_UNKNOWN = object()  # the value of an operator that was refused
_REGIONS = {"wrap_with_set_grad_enabled"}  # torch.no_grad does not change the function
_OTHERS = {"_to_copy", "cat", "copy", "select_scatter", "slice_scatter", "stack", "to", "type_as"}


def _name(node: Any) -> str:
    schema = getattr(node.target, "_schema", None)
    return schema.name.split("::")[-1] if schema is not None else str(getattr(node.target, "__name__", node.target))


def _tensors(node: Any) -> list[Any]:
    """The tensors that a node makes, as the export describes them."""
    value = node.meta.get("val")
    return [v for v in (value if isinstance(value, tuple | list) else [value]) if hasattr(v, "shape")]


def _stand_in(torch: Any, value: Any) -> Any:
    return torch.zeros(value.shape) if isinstance(value, Tensor | Masked) else value


def _bound(schema: Any, args: Any, kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments that are given, and the defaults, by the names of the schema."""
    names = [a.name for a in schema.arguments]
    given = dict(zip(names, args, strict=False)) | dict(kwargs)
    return given, {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
