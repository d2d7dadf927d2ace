"""Capturing a PyTorch module with ``torch.export``, and saying where in the user's code something came from."""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ffrank.errors import InputError, ProgramError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["check_real", "export", "load_torch", "source_of"]


def load_torch() -> Any:
    """The module torch, or an error that names the extra."""
    try:
        return import_module("torch")
    except ImportError:
        raise InputError(
            "PyTorch is needed to import a module; install the extra: pip install 'ffrank[torch]'"
        ) from None


def check_real(torch: Any, module: Any, inputs: list[Any]) -> None:
    """Refuse parameters and inputs that are complex or integers; boolean inputs are masks."""
    for name, parameter in module.named_parameters():
        if not parameter.is_floating_point():
            raise ProgramError(f"parameter {name}: expected real numbers, got {parameter.dtype}")
    for at, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and not value.is_floating_point() and value.dtype != torch.bool:
            raise ProgramError(
                f"example input {at}: expected real numbers, got {value.dtype}; "
                "for token indices give the embedded vectors"
            )


@contextmanager
def _evaluation_mode(torch: Any, module: Any) -> Iterator[None]:
    """Evaluation mode without the fused kernels of attention; afterwards all is as it was."""
    training = {m: m.training for m in module.modules()}
    fused = torch.backends.mha.get_fastpath_enabled()
    module.eval()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
        for m, mode in training.items():
            m.training = mode


def export(torch: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The graph that torch.export captures, without operators that write into their arguments."""
    try:
        with _evaluation_mode(torch, module):
            exported = torch.export.export(module, args, kwargs)
            calls = [n.target for n in exported.graph.nodes if n.op == "call_function"]
            if any(getattr(t, "_schema", None) is not None and t._schema.is_mutable for t in calls):
                exported = exported.run_decompositions({})
    except Exception as e:
        text = str(e).strip()
        first = text.splitlines()[0] if text else type(e).__name__
        data = "data-dependent" in text.lower() or "unbacked" in text.lower()
        what = "a shape or a branch depends on data" if data else "torch.export cannot capture it"
        where = _last_user_frame(torch, traceback.extract_tb(e.__traceback__))
        raise ProgramError(f"{type(module).__name__}: {what}{where}: {first}") from e
    return exported


def _last_user_frame(torch: Any, frames: list[traceback.FrameSummary]) -> str:
    """Where the user's own code was, as `` (file, line n: code)``."""
    ours = (str(Path(torch.__file__).parent), str(Path(__file__).parent))
    own = [f for f in frames if not f.filename.startswith((*ours, "<"))]
    inside = [f for f in own if f.name == "forward"] or own
    return f" ({inside[-1].filename}, line {inside[-1].lineno}: {inside[-1].line})" if inside else ""


def source_of(torch: Any, node: Any) -> str:
    """The line of the user's code, or else of PyTorch's, that an operator comes from."""
    lines = str(node.meta.get("stack_trace") or "").splitlines()
    at = [i for i, line in enumerate(lines) if line.lstrip().startswith("File ")]
    if not at:
        return ""
    root = str(Path(torch.__file__).parent)
    own = [i for i in at if root not in lines[i]] or at
    place = lines[own[-1]].strip().removeprefix("File ").replace('"', "").split(", in ")[0]
    code = lines[own[-1] + 1].strip() if own[-1] + 1 < len(lines) else ""
    return f" ({place}: {code})" if code else f" ({place})"
