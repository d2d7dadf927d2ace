"""What a numerical rank makes of deep attention networks, beside ffrank's certified dimension.

usage: python bench/float_baseline.py [--seeds N] [--torch] [--no-ffrank]

For each architecture the Jacobian of all outputs by all parameters is computed in floating point by reverse mode
(NumPy, written here; with --torch also by torch.func.jacrev) at standard normal weights and inputs, with at least
four rows for each parameter, and its rank is taken by numpy.linalg.matrix_rank with its default tolerance (largest
singular value × largest side × machine epsilon), for several seeds, in float64 and float32. "scaled" repeats it
with weights divided by the square root of their number of columns, and every row of the Jacobian
normalised: what a careful user would do. "overflow" means that the Jacobian has entries that are not finite; it
counts as wrong. Nothing is known in advance: right and wrong are told by ffrank's dimension, and only where its status
says that this is exact (perhaps up to a stated probability).

Times are the best of the runs, for Jacobian and singular values together, on one BLAS thread (more are slower on
matrices this small), and for ffrank the best of three calls after one that loads its compiled code.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

Array = np.ndarray[Any, Any]
Layer = tuple[Array, Array, Array]
Tape = list[tuple[Any, ...]]

SMALL = [
    ([4, 3], [2], 3),
    ([3, 2], [4], 2),
    ([4, 3], [2], 1),
    ([3, 2, 3], [2, 2], 2),
    ([3, 3, 3], [1, 3], 2),
    ([4, 4, 4], [2, 2], 3),
    ([4, 4, 4, 4], [1, 1, 1], 3),
]
DEEP = [([4] * (layers + 1), [2] * layers, 3) for layers in (3, 4, 5, 6)]
ROWS_PER_PARAMETER = 4


@dataclass(frozen=True)
class Network:
    """A lightning network: V X (K X)ᵀ(Q X), layer after layer; columns of X are tokens."""

    widths: Sequence[int]
    dims: Sequence[int]
    tokens: int

    @property
    def shapes(self) -> list[tuple[int, int]]:
        found = []
        for a, d, out in zip(self.dims, self.widths[:-1], self.widths[1:], strict=True):
            found += [(a, d), (a, d), (out, d)]
        return found

    @property
    def parameters(self) -> int:
        return sum(m * n for m, n in self.shapes)

    @property
    def inputs(self) -> int:
        return -(-ROWS_PER_PARAMETER * self.parameters // (self.widths[-1] * self.tokens))

    @property
    def spec(self) -> dict[str, Any]:
        return {
            "kind": "attention",
            "widths": list(self.widths),
            "attention_dims": list(self.dims),
            "tokens": self.tokens,
        }

    def split(self, theta: Array) -> list[Layer]:
        parts, start = [], 0
        for m, n in self.shapes:
            parts.append(theta[start : start + m * n].reshape(m, n))
            start += m * n
        return [(parts[i], parts[i + 1], parts[i + 2]) for i in range(0, len(parts), 3)]

    def draw(self, seed: int, dtype: Any, scaled: bool) -> tuple[Array, Array]:
        """Normal weights and inputs, drawn in double precision and rounded."""
        rng = np.random.default_rng(seed)
        theta = rng.standard_normal(self.parameters)
        if scaled:
            theta /= np.concatenate([np.full(m * n, np.sqrt(n)) for m, n in self.shapes])
        x = rng.standard_normal((self.inputs, self.widths[0], self.tokens))
        return theta.astype(dtype), x.astype(dtype)


def forward(layers: list[Layer], x: Array) -> tuple[Array, Tape]:
    """Outputs for a batch of inputs, with what reverse mode needs of every layer."""
    tape: Tape = []
    for Q, K, V in layers:
        q, k, v = Q @ x, K @ x, V @ x
        s = np.swapaxes(k, -1, -2) @ q
        tape.append((x, q, k, v, s))
        x = v @ s
    return x, tape


def jacobian(net: Network, theta: Array, x: Array) -> Array:
    """Rows: outputs of all inputs; columns: parameters. Reverse mode, all outputs of all inputs in one batch."""
    layers = net.split(theta)
    y, tape = forward(layers, x)
    outputs = y.shape[-2] * y.shape[-1]
    # One axis more than the inputs: which output is being differentiated.
    grad = np.eye(outputs, dtype=theta.dtype).reshape(1, outputs, *y.shape[-2:])
    columns: list[Array] = []
    for (Q, K, V), saved in zip(reversed(layers), reversed(tape), strict=True):
        z, q, k, v, s = (array[:, None] for array in saved)
        grad_v = grad @ np.swapaxes(s, -1, -2)
        grad_s = np.swapaxes(v, -1, -2) @ grad
        grad_q, grad_k = k @ grad_s, q @ np.swapaxes(grad_s, -1, -2)
        tokens = np.swapaxes(z, -1, -2)
        weights = [grad_q @ tokens, grad_k @ tokens, grad_v @ tokens]
        columns[:0] = [np.broadcast_to(w, (len(x), outputs, *w.shape[-2:])) for w in weights]
        grad = Q.T @ grad_q + K.T @ grad_k + V.T @ grad_v
    return np.concatenate([c.reshape(len(x) * outputs, -1) for c in columns], axis=1)


def torch_jacobian(net: Network, theta: Array, x: Array) -> Array:
    """The same by PyTorch's reverse mode."""
    import torch

    def outputs(parameters: Any) -> Any:
        z = torch.from_numpy(x)
        start = 0
        shapes = net.shapes
        for i in range(0, len(shapes), 3):
            found = []
            for m, n in shapes[i : i + 3]:
                found.append(parameters[start : start + m * n].reshape(m, n))
                start += m * n
            Q, K, V = found
            z = V @ z @ ((K @ z).transpose(-1, -2) @ (Q @ z))
        return z.reshape(-1)

    result: Array = torch.func.jacrev(outputs)(torch.from_numpy(theta)).numpy()
    return result


def self_test() -> None:
    """The Jacobian must agree with complex-step derivatives, which are as precise as the function itself."""
    net = Network([3, 4, 2], [2, 3], 3)
    theta, x = net.draw(0, np.float64, scaled=False)
    J = jacobian(net, theta, x)
    step = 1e-30
    for i in range(net.parameters):
        moved = theta.astype(complex)
        moved[i] += 1j * step
        slope = forward(net.split(moved), x)[0].imag.reshape(-1) / step
        np.testing.assert_allclose(J[:, i], slope, rtol=1e-9, atol=1e-9 * np.abs(slope).max())


@dataclass(frozen=True)
class Ranks:
    """Numerical ranks over seeds, and the best time."""

    values: list[int | None]  # None: the Jacobian overflowed
    seconds: float | None  # of the best run that gave a rank

    def __str__(self) -> str:
        ranks = sorted({v for v in self.values if v is not None})
        shown = [str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]}..{ranks[-1]}"] if ranks else []
        return ", ".join(shown + ["overflow"] * (None in self.values))

    def verdict(self, truth: int | None) -> str:
        if truth is None:
            return "?"
        right = sum(v == truth for v in self.values)
        return "right" if right == len(self.values) else f"WRONG {len(self.values) - right}/{len(self.values)}"


Route = Callable[[Network, Array, Array], Array]


def numerical(net: Network, route: Route, dtype: Any, seeds: int, scaled: bool) -> Ranks:
    values: list[int | None] = []
    times: list[float] = []
    for seed in range(seeds):
        theta, x = net.draw(seed, dtype, scaled)
        start = time.perf_counter()
        with np.errstate(over="ignore", invalid="ignore"):
            J = route(net, theta, x)
        if not np.isfinite(J).all():
            values.append(None)
            continue
        if scaled:
            J = normalised(J)
        values.append(int(np.linalg.matrix_rank(J)))
        times.append(time.perf_counter() - start)
    return Ranks(values, min(times) if times else None)


def normalised(J: Array) -> Array:
    """Every row divided by its length; first by its largest entry, lest the length overflow."""
    tiny = np.finfo(J.dtype).tiny
    J = J / np.maximum(np.abs(J).max(axis=1, keepdims=True), tiny)
    unit: Array = J / np.maximum(np.linalg.norm(J, axis=1, keepdims=True), tiny)
    return unit


@dataclass(frozen=True)
class Certified:
    """ffrank's answer; the dimension is trusted where the status is exact."""

    dimension: int
    status: str
    seconds: float

    @property
    def truth(self) -> int | None:
        return self.dimension if self.status.startswith("exact") else None


def certified(net: Network, repeats: int = 3) -> Certified:
    import ffrank

    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        answer = ffrank.certify(net.spec)
        times.append(time.perf_counter() - start)
    return Certified(int(answer.lower), str(answer.status), min(times))


def has_torch() -> bool:
    try:
        import torch  # noqa: F401
    except ImportError:
        print("PyTorch is not installed: its route is skipped.\n")
        return False
    return True


LINE = "{:31} {:>4} {:>6}  {:28} {:14} {:7} {:>16} {:>10}  {:>9} {:>9} {:>7}"


def short(sizes: Sequence[int]) -> str:
    """4,4,4,4 as 4 (4 times) once it gets long."""
    alike = len(sizes) > 3 and len(set(sizes)) == 1
    return f"{sizes[0]} ({len(sizes)} times)" if alike else ",".join(map(str, sizes))


def milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1000 * seconds:.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="random weights and inputs for each rank (default 5)")
    parser.add_argument("--torch", action="store_true", help="a second route to the Jacobian, by PyTorch")
    parser.add_argument("--no-ffrank", action="store_true", help="numerical ranks alone, with no verdict")
    options = parser.parse_args()

    self_test()
    threadpool_limits(1, user_api="blas")
    routes: dict[str, Route] = {"numpy": jacobian}
    if options.torch and has_torch():
        routes["torch"] = torch_jacobian

    print(
        LINE.format(
            "widths | a | t", "P", "inputs", "ffrank", "route", "", "rank", "verdict", "time", "ffrank", "ratio"
        )
    )
    ratios: list[float] = []
    wrong = total = 0
    if not options.no_ffrank:
        certified(Network(*SMALL[0]), repeats=1)
    for widths, dims, tokens in SMALL + DEEP:
        net = Network(widths, dims, tokens)
        exact = None if options.no_ffrank else certified(net)
        truth = exact.truth if exact else None
        label = f"{short(widths)} | {short(dims)} | {tokens}"
        answer = f"{exact.dimension} {exact.status}" if exact else "-"
        for name, route in routes.items():
            for dtype in (np.float64, np.float32):
                for scaled in (False, True):
                    got = numerical(net, route, dtype, options.seeds, scaled)
                    if truth is not None:
                        total += len(got.values)
                        wrong += sum(v != truth for v in got.values)
                    ratio = exact.seconds / got.seconds if exact and got.seconds else None
                    if ratio is not None and not scaled:
                        ratios.append(ratio)
                    print(
                        LINE.format(
                            label,
                            net.parameters,
                            net.inputs,
                            answer,
                            f"{name} {np.dtype(dtype).name}",
                            "scaled" if scaled else "",
                            str(got),
                            got.verdict(truth),
                            milliseconds(got.seconds),
                            milliseconds(exact.seconds) if exact else "-",
                            f"{ratio:.1f}x" if ratio is not None else "-",
                        )
                    )
                    label = answer = ""
    if ratios:
        print(f"\n{wrong} of {total} numerical ranks are wrong.")
        print(
            f"ffrank takes {statistics.median(ratios):.1f} times as long as one numerical rank (median; "
            f"{min(ratios):.1f} to {max(ratios):.1f}); its time includes the upper bound and the certificate."
        )


if __name__ == "__main__":
    main()
