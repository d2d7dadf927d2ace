"""The float64 interpreter against NumPy."""

from fractions import Fraction

import numpy as np
import pytest

import ffrank
from ffrank.errors import ShapeError
from ffrank.program.floating import evaluate

RNG = np.random.default_rng(0)


@ffrank.parametrization(parameters={"W": (2, 3), "b": (2, 1)}, inputs={"X": (3, 4)})
def attention_like(W, b, X):
    Y = W @ X + b * Fraction(1, 3)
    S = ffrank.softmax(Y.T @ Y, 0)
    n = ffrank.sqrt((Y * Y).sum(0))
    parts = ffrank.concatenate([Y @ S, -Y / n, ffrank.tanh(Y) ** 3], 0)
    return ffrank.stack([parts[::2], parts[1::2]]).transpose(2, 0, 1).reshape(4, 6) - 2


def test_values_are_those_of_numpy():
    W, b, X = RNG.normal(size=(2, 3)), RNG.normal(size=(2, 1)), RNG.normal(size=(3, 4))
    Y = W @ X + b / 3
    E = np.exp(Y.T @ Y)
    parts = np.concatenate([Y @ (E / E.sum(0)), -Y / np.linalg.norm(Y, axis=0), np.tanh(Y) ** 3])
    expected = np.stack([parts[::2], parts[1::2]]).transpose(2, 0, 1).reshape(4, 6) - 2
    got = evaluate(attention_like, np.concatenate([W.reshape(-1), b.reshape(-1)]), X)
    np.testing.assert_allclose(got, expected, rtol=1e-13)
    np.testing.assert_array_equal(evaluate(attention_like, {"W": W, "b": b}, {"X": X}), got)


def test_a_program_without_parameters_or_inputs():
    @ffrank.parametrization(parameters={"w": (2,)}, inputs={})
    def square(w):
        return w**2

    assert evaluate(square, [3, 4], []).tolist() == [9, 16]


def test_what_is_undefined_is_not_a_number():
    @ffrank.parametrization(parameters={"w": ()}, inputs={"x": ()})
    def root(w, x):
        return ffrank.sqrt(x) / w

    assert np.isnan(evaluate(root, [1], [-1]))
    assert np.isinf(evaluate(root, [0], [1]))
    assert evaluate(root, [2], [9]).shape == ()


@pytest.mark.parametrize("theta", [[1, 2], {"W": np.zeros((2, 3))}, {"W": np.zeros(6), "b": np.zeros((2, 1))}])
def test_numbers_that_do_not_fit(theta):
    with pytest.raises(ShapeError, match="theta"):
        evaluate(attention_like, theta, np.zeros((3, 4)))
