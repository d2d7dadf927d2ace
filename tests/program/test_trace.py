from fractions import Fraction

import numpy as np
import pytest

import ffrank
from ffrank.errors import FfrankError, ProgramError, ShapeError
from ffrank.models import build_program
from ffrank.models.spec import parse_spec
from ffrank.program.evaluate import Evaluator
from tests.program import naive
from tests.program.naive import point

P = 2**31 - 1
RAGGED = ([1, 2], [3])


class Field:
    """A residue mod P with division, for NumPy object arrays."""

    def __init__(self, value):
        self.value = int(value) % P

    def _of(self, other):
        if isinstance(other, Fraction):
            return Field(other.numerator * pow(other.denominator, -1, P))
        return other if isinstance(other, Field) else Field(other)

    def __add__(self, other):
        return Field(self.value + self._of(other).value)

    def __mul__(self, other):
        return Field(self.value * self._of(other).value)

    def __truediv__(self, other):
        return Field(self.value * pow(self._of(other).value, -1, P))

    def __rtruediv__(self, other):
        return self._of(other) / self

    def __pow__(self, k):
        return Field(pow(self.value, k, P))

    def __int__(self):
        return self.value

    __radd__, __rmul__ = __add__, __mul__


def traced(function, **shapes):
    """Trace a function whose capital arguments are parameters, the others inputs."""
    parameters = {n: s for n, s in shapes.items() if n.isupper()}
    inputs = {n: s for n, s in shapes.items() if not n.isupper()}
    return ffrank.parametrization(parameters=parameters, inputs=inputs)(function)


FUNCTIONS = {
    "attention": (lambda V, K, Q, x: V @ x @ x.T @ K.T @ Q @ x, {"Q": (2, 3), "K": (2, 3), "V": (2, 3), "x": (3, 2)}),
    "vectors": (lambda W, x: (W @ x) ** 2 @ W, {"W": (3, 2), "x": (2,)}),
    "inner": (lambda W, x: W @ x, {"W": (3,), "x": (3,)}),
    "batched": (lambda W, x: W @ x + x.sum(axis=0), {"W": (2, 3, 3), "x": (2, 3, 2)}),
    "broadcast": (lambda W, x: W[:, None] * x + W.reshape(3, -1) - 2, {"W": (3,), "x": (1, 4)}),
    "slices": (lambda W, x: W[1:, ::2] * x[-1] + W[..., -1][0], {"W": (3, 4), "x": (2, 2, 2)}),
    "constants": (lambda W, x: [[1, 2], [3, 4]] @ W - 7 * x + np.arange(2), {"W": (2, 2), "x": (2,)}),
    "left": (lambda W, x: np.eye(2, dtype=int) @ (1 - W) + x, {"W": (2, 2), "x": ()}),
    "powers": (lambda W, x: W**0 + W**1 + (x * W) ** 3, {"W": (2,), "x": ()}),
    "sums": (lambda W, x: W.sum() * x + W.sum(axis=(0, 2)), {"W": (2, 3, 2), "x": (3,)}),
    "joined": (
        lambda W, x: ffrank.concatenate([W, ffrank.stack([x, 2 * x])], axis=-1),
        {"W": (2, 2), "x": (3,)},
    ),
    "fractions": (lambda W, x: Fraction(2, 3) * W + W / 5 + W / (1 + x**2) + x**-2, {"W": (2,), "x": (2,)}),
    "transposed": (lambda W, x: W.transpose(2, 0, 1) @ x + W.T.transpose((0, 2, 1)) @ x, {"W": (2, 3, 4), "x": (3,)}),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_traced_function_means_what_numpy_means(name):
    function, shapes = FUNCTIONS[name]
    program = traced(function, **shapes)
    theta, x = point(program, P, 1, 0), point(program, P, 1, 1)
    arrays = naive.leaves(program, theta, x)
    names = [n for n, _ in program.parameters + program.inputs]
    arrays = [a + Field(0) for a in arrays] if name == "fractions" else arrays
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ffrank, "concatenate", np.concatenate)
        patch.setattr(ffrank, "stack", np.stack)
        expected = np.asarray(function(**dict(zip(names, arrays, strict=True))), dtype=object)
    assert program.shapes[program.output] == expected.shape
    values = Evaluator(program, P, theta).values(x[None])[0]
    assert values.tolist() == [int(v) % P for v in expected.reshape(-1)]


def test_an_architecture_written_by_hand_has_the_same_function():
    built = build_program(parse_spec({"kind": "mlp", "widths": [3, 4, 2]}))
    program = traced(lambda A, B, x: B @ (A @ x) ** 2, A=(4, 3), B=(2, 4), x=(3, 1))
    assert [i.op for i in program.instructions] == [i.op for i in built.instructions]


def test_unused_instructions_are_dropped():
    def function(W, x):
        _ = W @ x
        return x * 2

    program = traced(function, W=(3, 3), x=(3,))
    assert program.parameter_count == 9
    assert [i.op for i in program.instructions] == ["const", "broadcast", "mul"]


BAD = {
    "float": (lambda W, x: 0.5 * W, ProgramError, "integer or a Fraction"),
    "float array": (lambda W, x: W + np.ones(2), ProgramError, "integer or a Fraction"),
    "branch": (lambda W, x: W if W else x, ProgramError, "truth value"),
    "conversion": (lambda W, x: W * float(x), ProgramError, "numerical value"),
    "fraction power": (lambda W, x: W**0.5, ProgramError, "exponent"),
    "power of a tensor": (lambda W, x: W**x, ProgramError, "exponent"),
    "exp of an array": (lambda W, x: ffrank.exp(np.ones(2)) + W, ProgramError, "expected a Tensor"),
    "floor division": (lambda W, x: W // x, ProgramError, "cannot be traced"),
    "numpy function": (lambda W, x: np.exp(W), ProgramError, "cannot be traced"),
    "no method": (lambda W, x: W.softmax(), ProgramError, "softmax"),
    "shapes": (lambda W, x: W @ x[:1], ShapeError, "matmul"),
    "add shapes": (lambda W, x: W + ffrank.stack([x, x, x])[:, 0:1].T[0] + x[:, None][:1], ShapeError, "fit"),
    "index": (lambda W, x: W[2], ShapeError, "index"),
    "empty slice": (lambda W, x: W[1:1], ShapeError, "slice"),
    "too many indices": (lambda W, x: W[0, 0], ShapeError, "indices"),
    "float index": (lambda W, x: W[0.5], ProgramError, "index"),
    "result": (lambda W, x: [W, x], ProgramError, "return a Tensor"),
    "reshape": (lambda W, x: W.reshape(3), ShapeError, "reshape"),
    "reshape to nothing": (lambda W, x: W.reshape(0, -1), ShapeError, "at least 1"),
    "axis": (lambda W, x: W.sum(axis=1), ShapeError, "index"),
    "ragged": (lambda W, x: W + RAGGED, ShapeError, "equal lengths"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_traced_is_refused_in_one_sentence(name):
    function, error, words = BAD[name]
    with pytest.raises(error, match=words) as caught:
        traced(function, W=(2,), x=(2,))
    assert "\n" not in str(caught.value)


def test_a_tensor_of_another_function_is_refused():
    kept = []
    traced(lambda W, x: kept.append(W) or W, W=(2,), x=(2,))
    with pytest.raises(ProgramError, match="another"):
        traced(lambda W, x: W + kept[0], W=(2,), x=(2,))


@pytest.mark.parametrize(
    ("parameters", "inputs"), [({"w": (0,)}, {}), ({"w": (2.0,)}, {}), ({"w": (2,)}, {"w": (2,)}), ({"": (2,)}, {})]
)
def test_bad_signatures(parameters, inputs):
    with pytest.raises(FfrankError):
        ffrank.parametrization(parameters=parameters, inputs=inputs)(lambda **k: k["w"])


def test_a_signature_that_does_not_fit():
    with pytest.raises(ProgramError, match="arguments W, x"):
        traced(lambda W, y: W, W=(2,), x=(2,))
