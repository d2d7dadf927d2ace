import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ffrank.models import build_program
from ffrank.models.spec import parse_spec
from ffrank.primes import residues
from ffrank.program import kernels, plain
from ffrank.program.evaluate import Evaluator
from ffrank.program.ir import Builder
from tests.program import naive
from tests.program.naive import point
from tests.program.programs import programs

BOTH = [kernels, plain]
PRIMES = [3, 5, 257, 65537, 2**31 - 1]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.sampled_from(PRIMES), st.integers(1, 5), st.integers(0, 3), st.booleans(), st.sampled_from(BOTH))
def test_values_and_jacobian_equal_the_slow_twin(program, p, inputs, seed, extremal, engine):
    theta = point(program, p, seed, 0)
    X = np.array([point(program, p, seed, i + 1) for i in range(inputs)]).reshape(inputs, -1)
    if extremal:
        theta, X = np.full_like(theta, p - 1), np.where(X % 2 == 0, p // 2, p // 2 + 1)
    evaluator = Evaluator(program, p, theta, workspace=8 * 7 * sum(program.sizes), kernels=engine)  # several chunks
    values, J = evaluator.values(X), evaluator.jacobian(X)
    m = program.output_count
    assert J.shape == (inputs * m, program.parameter_count)
    assert J.min(initial=0) >= 0
    assert J.max(initial=0) < p
    for i in range(inputs):
        assert values[i].tolist() == naive.dual(program, theta, X[i], [0] * len(theta), p)[0]
        assert J[i * m : (i + 1) * m].tolist() == naive.jacobian(program, theta, X[i], p)


@pytest.mark.parametrize("p", [3, 5, 1021, 1031, 65537, 2**30 + 3, 2**31 - 1])
@pytest.mark.parametrize("inner", [1, 2, 3, 4, 5, 7, 8, 9, 31, 200])
@pytest.mark.parametrize("engine", BOTH)
def test_long_sums_of_extremal_entries_are_exact(p, inner, engine):
    builder = Builder([("A", (2, inner)), ("B", (inner, 2))], [("x", (1, 1))])
    product = builder.matmul(0, 1)
    program = builder.finish(builder.mul(product, builder.broadcast(2, (2, 2))))
    for residue in (p - 1, p // 2, p // 2 + 1):
        theta = np.full(program.parameter_count, residue)
        X = np.array([[p - 1], [p // 2], [1]])
        evaluator = Evaluator(program, p, theta, kernels=engine)
        expected = [[inner * residue * residue * int(x) % p] * 4 for (x,) in X]
        assert evaluator.values(X).tolist() == expected
        for i, (x,) in enumerate(X):
            rows = naive.jacobian(program, theta, [x], p)
            assert evaluator.jacobian(X)[4 * i : 4 * i + 4].tolist() == rows


@pytest.mark.parametrize("p", [3, 5, 7, 1009, 1013, 1019, 1021, 1031, 65537, 2**30 + 3, 2**31 - 1])
def test_reduction_is_balanced_up_to_its_limit(p):
    bound = p // 2 + p // 1024 + 1
    limit = min(2**63 - 2**32, p * 2**40)
    assert kernels.terms(p) >= 7
    assert kernels.terms(p) * bound**2 + bound <= limit
    spread = [int(v) for v in residues("reduction", 2**61 - 1, 2000)]
    x = [0, 1, p - 1, p, limit, limit - 1, limit - p // 2, *(v % (limit + 1) for v in spread)]
    x += [v // p * p + p // 2 for v in x if v // p * p + p // 2 <= limit]
    array = np.array(x + [-v for v in x], np.int64)
    reduced = array.copy()
    kernels.reduce_all(reduced, p, 1.0 / p)
    for before, after in zip(array.tolist(), reduced.tolist(), strict=True):
        assert abs(after) <= bound
        assert (before - after) % p == 0


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "mlp", "widths": [2, 3, 2], "activation": "cube", "bias": True},
        {
            "kind": "attention", "widths": [2, 2, 2], "attention_dims": [1, 2], "tokens": 3, "heads": 2, "value_dim": 1,
            "causal": True, "residual": True, "qk_bias": True, "mlp_width": 2, "activation": {"power": 5},
        },
    ],
)  # fmt: skip
@pytest.mark.parametrize("p", [3, 2**31 - 1])
@pytest.mark.parametrize("engine", BOTH)
def test_architectures_equal_the_slow_twin(spec, p, engine):
    program = build_program(parse_spec(spec))
    theta, x = point(program, p, 7, 0), point(program, p, 7, 1)
    rows = Evaluator(program, p, theta, kernels=engine).jacobian(x[None])
    assert rows.tolist() == naive.jacobian(program, theta, x, p)


def test_chunks_do_not_change_a_bit():
    spec = {"kind": "attention", "widths": [3, 3], "attention_dims": [2], "tokens": 2, "mlp_width": 4}
    program, p = build_program(parse_spec(spec)), 2**31 - 1
    theta = point(program, p, 0, 0)
    X = np.array([point(program, p, 0, i) for i in range(1, 700)])
    whole = Evaluator(program, p, theta).jacobian(X)
    assert np.array_equal(whole, Evaluator(program, p, theta, kernels=plain).jacobian(X))
    for entries in (1, 3, 10, 1000):
        small = Evaluator(program, p, theta, workspace=8 * entries * sum(program.sizes)).jacobian(X)
        assert np.array_equal(whole, small)


def test_a_map_without_inputs():
    builder = Builder([("w", (2,))], [])
    program = builder.finish(builder.mul(0, 0))
    J = Evaluator(program, 7, np.array([3, 5])).jacobian(np.empty((3, 0), np.int64))
    assert J.tolist() == [[6, 0], [0, 3]] * 3
