"""Weights that a user brings: read exactly, named as in FORMAT.md, section 2.1, and reduced mod p.

A float is a dyadic rational and is taken as exactly that; nothing is rounded on the way.
"""

from __future__ import annotations

import importlib
import zipfile
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod
from numbers import Rational
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ffrank.errors import InputError, ModulusError, ShapeError, SpecError
from ffrank.models import build_program
from ffrank.models.spec import AttentionSpec, MlpSpec, load_spec, parse_spec
from ffrank.program.ir import Program

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ffrank.models.spec import Spec

__all__ = ["read_target", "read_weights", "reduce_weights", "weights_dict"]

_TORCH = (".pt", ".pth", ".bin", ".ckpt")
_SHOWN = 4  # names in a message


def read_target(target: Any) -> tuple[Program, Spec | None]:
    """The program that a user means, and its spec if it is an architecture.

    Parameters
    ----------
    target : Program, spec, mapping, or path of a .toml or .json file

    Raises
    ------
    SpecError, InputError
        If it is none of these.
    """
    if isinstance(target, Program):
        return target, None
    if isinstance(target, str | Path):
        spec = load_spec(target)
    elif isinstance(target, AttentionSpec | MlpSpec):
        spec = target
    elif isinstance(target, Mapping):
        spec = parse_spec(target)
    else:
        raise InputError(
            f"expected a spec, a path or a program made by ffrank.parametrization, got {type(target).__name__}"
        )
    return build_program(spec), spec


def read_weights(target: Any, W: Any) -> list[Fraction]:
    """Read weights into θ, exactly.

    Parameters
    ----------
    target : Program, spec, mapping, or path
        Fixes names, shapes and order.
    W : mapping, or path
        For each name, such as ``layer1.head1.Q``, nested lists, a NumPy array or a PyTorch tensor of integers,
        fractions or finite floats; or the path of a NumPy .npz file, or of a PyTorch state_dict (.pt, .pth, .bin,
        .ckpt; read with ``weights_only=True``; needs torch).

    Returns
    -------
    list of Fraction
        θ: the parameters in the program's order, row-major.

    Raises
    ------
    SpecError
        If a name is missing or unknown.
    ShapeError
        If an array has another shape than its parameter.
    InputError
        If an entry is not an exact finite number, or a file cannot be read.
    """
    program, _ = read_target(target)
    arrays = _load(W) if isinstance(W, str | Path) else W
    if not isinstance(arrays, Mapping):
        raise InputError(f"expected weights as a mapping from names to arrays, or a path, got {type(W).__name__}")
    shapes = dict(program.parameters)
    missing = [name for name in shapes if name not in arrays]
    unknown = [str(name) for name in arrays if name not in shapes]
    if missing or unknown:
        parts = [f"{_some(missing)} missing"] if missing else []
        parts += [f"{_some(unknown)} unknown"] if unknown else []
        raise SpecError(f"weights: {'; '.join(parts)}; expected {_some(list(shapes))}")
    theta: list[Fraction] = []
    for name, shape in program.parameters:
        theta += _read_array(name, arrays[name], shape)
    return theta


def reduce_weights(theta: Sequence[Fraction], p: int) -> NDArray[np.int64]:
    """The residues of θ mod p.

    Raises
    ------
    ModulusError
        If p divides a denominator.
    """
    inverses: dict[int, int] = {}
    out = np.empty(len(theta), np.int64)
    for at, x in enumerate(theta):
        denominator = x.denominator
        if denominator not in inverses:
            if denominator % p == 0:
                raise ModulusError(f"the prime {p} divides the denominator of the weight {x}; take another prime")
            inverses[denominator] = pow(denominator, -1, p)
        out[at] = x.numerator * inverses[denominator] % p
    return out


def weights_dict(program: Program, theta: Any) -> dict[str, NDArray[Any]]:
    """Cut θ into named arrays: the inverse of ``read_weights``.

    Parameters
    ----------
    theta : sequence of P numbers
        Fractions, integers or residues; they are kept as they are.

    Raises
    ------
    ShapeError
        If there are not P numbers.
    """
    values = theta if isinstance(theta, np.ndarray) else np.array([*theta, None], dtype=object)[:-1]
    if values.shape != (program.parameter_count,):
        raise ShapeError(f"expected {program.parameter_count} parameters, got an array of shape {values.shape}")
    return {
        name: values[at : at + prod(shape)].reshape(shape)
        for (name, shape), at in zip(program.parameters, program.offsets.values(), strict=True)
    }


# ---------------------------------------------------------------------------------------------------- arrays


def _read_array(name: str, given: Any, shape: tuple[int, ...]) -> list[Fraction]:
    """The entries of one parameter, row-major."""
    if callable(getattr(given, "detach", None)):
        given = _from_tensor(given)
    if isinstance(given, np.ndarray):
        if given.shape != shape:
            raise ShapeError(f"{name}: expected shape {shape}, got {given.shape}")
        entries = given.reshape(-1).tolist() if given.dtype.kind in "iuf" and given.dtype.itemsize <= 8 else given.flat
    else:
        entries = list(_flatten(name, given, shape, shape))
    return [_exact(name, x) for x in entries]


def _from_tensor(tensor: Any) -> Any:
    """A NumPy array with the tensor's exact entries; NumPy has no bfloat16, so floats are widened to 64 bits."""
    plain = tensor.detach().cpu()
    return (plain.double() if plain.is_floating_point() else plain).numpy()


def _flatten(name: str, given: Any, shape: tuple[int, ...], whole: tuple[int, ...]) -> Any:
    if not shape:
        if isinstance(given, list | tuple | np.ndarray):
            raise ShapeError(f"{name}: expected shape {whole}, got deeper nested lists")
        yield given
        return
    if not isinstance(given, list | tuple | np.ndarray) or len(given) != shape[0]:
        got = f"{len(given)} entries" if isinstance(given, list | tuple | np.ndarray) else repr(given)
        raise ShapeError(f"{name}: expected shape {whole}, got {got:.60} where {shape[0]} were due")
    for part in given:
        yield from _flatten(name, part, shape[1:], whole)


def _exact(name: str, x: Any) -> Fraction:
    if isinstance(x, bool | np.bool_):
        raise InputError(f"{name}: expected numbers, got {x!r}")
    if isinstance(x, Rational):  # integers of NumPy too, whose own arithmetic would overflow
        return Fraction(int(x.numerator), int(x.denominator))
    if isinstance(x, float | np.floating):
        try:
            return Fraction(*x.as_integer_ratio())
        except (OverflowError, ValueError):
            raise InputError(f"{name}: expected finite numbers, got {x!r}") from None
    raise InputError(f"{name}: expected integers, fractions or floats, got {type(x).__name__} {x!r:.40}")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


# ----------------------------------------------------------------------------------------------------- files


def _load(path: str | Path) -> Mapping[str, Any]:
    path = Path(path)
    if path.suffix == ".npz":
        try:
            with np.load(path, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        except OSError as e:
            raise InputError(f"{path}: cannot be read: {e.strerror or e}") from None
        except (ValueError, TypeError, zipfile.BadZipFile, EOFError) as e:
            raise InputError(f"{path}: not a NumPy .npz file of plain arrays: {e}") from None
    if path.suffix not in _TORCH:
        raise InputError(f"{path}: expected a file name that ends in .npz, {', '.join(_TORCH)}")
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise InputError(f"{path}: a PyTorch file needs torch, which is not installed; or save an .npz") from None
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as e:
        raise InputError(f"{path}: cannot be read: {e.strerror or e}") from None
    except Exception as e:  # torch raises pickle errors and RuntimeError alike
        reason = (str(e) or type(e).__name__).splitlines()[0]
        raise InputError(f"{path}: not a PyTorch state_dict: {reason:.200}") from None
    if not isinstance(found, Mapping):
        raise InputError(f"{path}: expected a state_dict, got {type(found).__name__}")
    return found
