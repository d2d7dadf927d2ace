"""Exponentials and roots: certified dimensions beside numerical ranks of the true functions, and their hypotheses."""

import numpy as np
import pytest

import ffrank
from ffrank.certificate.hypotheses import hypotheses
from ffrank.errors import ProgramError
from ffrank.models import build_program
from ffrank.models.spec import parse_spec
from ffrank.program.ir import interpret

P = 2**31 - 1
ATTENTION = {"kind": "attention", "attention_dims": [1], "tokens": 2, "score": "softmax"}

SPECS = [
    {**ATTENTION, "widths": [2, 2]},
    {**ATTENTION, "widths": [3, 2], "tokens": 1},
    {**ATTENTION, "widths": [2, 3], "heads": 2, "value_dim": 1, "causal": True, "tokens": 3},
    {**ATTENTION, "widths": [2, 2], "qk_bias": True, "residual": True},
    {**ATTENTION, "widths": [2, 3, 2], "attention_dims": [1, 1], "mlp_width": 2, "activation": "tanh"},
    {**ATTENTION, "widths": [3, 2], "attention_dims": [2], "score": "normalized"},
    {**ATTENTION, "widths": [3, 3], "norm": "rms", "residual": True, "mlp_width": 2, "activation": "silu"},
    {**ATTENTION, "widths": [3, 3], "norm": "layer", "residual": True, "qk_bias": True},
    {**ATTENTION, "widths": [3, 3, 2], "attention_dims": [1, 1], "norm": "rms"},
    {"kind": "mlp", "widths": [2, 2, 1], "activation": "sigmoid", "bias": True},
    {"kind": "mlp", "widths": [2, 3, 2], "activation": "silu"},
]


def numerical_rank(program, seed, inputs):
    """Rank of the true Jacobian, by forward mode in floating point at random weights and inputs."""
    generator = np.random.default_rng(seed)
    theta = generator.normal(size=program.parameter_count)
    rows = []
    for _ in range(inputs):
        x = generator.normal(size=program.input_count)
        leaves, at = [], 0
        flat = np.concatenate([theta, x])
        seeds = np.eye(len(flat))[: len(theta)]
        for shape in program.shapes[: program.first_instruction]:
            size = int(np.prod(shape, dtype=int))
            leaves.append((flat[at : at + size].reshape(shape), seeds[:, at : at + size].reshape(-1, *shape)))
            at += size
        rows.append(interpret(program, leaves, dual)[program.output][1].reshape(len(theta), -1).T)
    values = np.linalg.svd(np.vstack(rows), compute_uv=False)
    return int(np.sum(values > 1e-9 * values[0])), values


def dual(i, operands):
    """Value and all partial derivatives, the latter along a leading axis."""
    (a, da), *rest = operands or [(None, None)]
    match i.op:
        case "const":
            value = np.array(i.attribute[1], dtype=float).reshape(i.attribute[0])
            return value, np.zeros((1, *value.shape))
        case "add":
            return a + rest[0][0], da + rest[0][1]
        case "mul":
            b, db = rest[0]
            return a * b, da * b + a * db
        case "matmul":
            b, db = rest[0]
            return a @ b, da @ b + a @ db
        case "neg":
            return -a, -da
        case "pow":
            return a**i.attribute, i.attribute * a ** (i.attribute - 1) * da
        case "exp":
            return np.exp(a), np.exp(a) * da
        case "sqrt":
            return np.sqrt(a), da / (2 * np.sqrt(a))
        case "recip":
            return 1 / a, -da / a**2
        case "sum":
            return a.sum(i.attribute), da.sum(i.attribute + 1)
        case "reshape":
            return a.reshape(i.attribute), da.reshape(-1, *i.attribute)
        case "transpose":
            return a.transpose(i.attribute), da.transpose(0, *(p + 1 for p in i.attribute))
        case "broadcast":
            added = len(i.attribute) - a.ndim
            wide = da.reshape(len(da), *[1] * added, *a.shape)
            return np.broadcast_to(a, i.attribute), np.broadcast_to(wide, (len(da), *i.attribute))
    raise AssertionError(i.op)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_the_certified_dimension_is_the_rank_of_the_true_function(spec):
    certificate = ffrank.certify(spec)
    program = build_program(parse_spec(spec))
    rank, values = numerical_rank(program, 1, 3 * program.parameter_count // program.output_count + 6)
    assert certificate.status == "exact"
    assert certificate.value == rank, values[max(0, rank - 2) : rank + 2] / values[0]


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("prime", [65537, 101])
def test_small_primes_never_exceed_the_dimension(spec, prime):
    truth = ffrank.certify(spec).value
    try:
        certificate = ffrank.certify(spec, prime=prime)
    except ProgramError:
        return  # a root or the independence was not found with so few residues
    assert certificate.lower <= truth <= certificate.upper


def trace(function, **shapes):
    parameters = {n: s for n, s in shapes.items() if n.isupper()}
    inputs = {n: s for n, s in shapes.items() if not n.isupper()}
    return ffrank.parametrization(parameters=parameters, inputs=inputs)(function)


def test_a_norm_of_a_normalised_vector_is_recognised():
    def twice(W, x):
        y = (W * x) / ffrank.sqrt(((W * x) ** 2).sum())
        return y / ffrank.sqrt((y**2).sum())

    with pytest.raises(ProgramError, match="constant times a square"):
        ffrank.certify(trace(twice, W=(3,), x=(3,)))


def test_roots_whose_product_is_a_square_are_recognised():
    program = trace(lambda W, x: W * ffrank.sqrt(x) + ffrank.sqrt(4 * x), W=(), x=())
    with pytest.raises(ProgramError, match="constant times a square"):
        hypotheses(program, P, 0)


@pytest.mark.parametrize(
    "function",
    [
        lambda W, x: W * (ffrank.exp(x) - ffrank.exp(x / 2) ** 2),
        lambda W, x: W * (ffrank.exp(x) ** (2**31) - ffrank.exp(2**31 * x)),  # 2^31 = 1 mod the default prime
        lambda W, x: ffrank.exp(W * x) + ffrank.exp(W * x + W),
        lambda W, x: ffrank.exp(W * x) - ffrank.exp(x * W),
    ],
)
@pytest.mark.parametrize("prime", [P, 1009])
def test_related_exponents_are_refused(function, prime):
    with pytest.raises(ProgramError, match="linear relations"):
        ffrank.certify(trace(function, W=(), x=()), prime=prime)


@pytest.mark.parametrize("widths", [[1, 3], [2, 1, 2]])
def test_softmax_behind_a_width_of_one_is_refused_with_the_reason(widths):
    spec = {**ATTENTION, "widths": widths, "attention_dims": [1] * (len(widths) - 1)}
    with pytest.raises(ProgramError, match="behind a width 1"):
        ffrank.certify(spec)


def shifted(A, B, x, y):
    s = ffrank.sqrt(x)
    return A * ffrank.sqrt(s + 1) * ffrank.sqrt(s - 1) + B * ffrank.sqrt(x - 1) + 0 * y


def scaled(A, B, x, y):
    return A * ffrank.sqrt(y * ffrank.sqrt(x) ** 4) + B * x * ffrank.sqrt(y)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("function", [shifted, scaled])
def test_roots_that_depend_through_an_earlier_stage_are_recognised(function, seed):
    """sqrt(x - 1) is sqrt(s + 1)·sqrt(s - 1) where s = sqrt(x): the arguments of stage 1 must have roots at stage 2."""
    with pytest.raises(ProgramError, match="constant times a square"):
        ffrank.certify(trace(function, A=(), B=(), x=(), y=()), seed=seed)


@pytest.mark.parametrize("function", [lambda W, x: ffrank.exp(W) * x, lambda W, x: ffrank.sqrt(W) * x])
def test_functions_of_parameters_alone_are_refused(function):
    with pytest.raises(ProgramError, match="parameters alone"):
        ffrank.certify(trace(function, W=(), x=()))


def test_exponentials_of_inputs_alone():
    certificate = ffrank.certify(trace(lambda A, x: A[0] * ffrank.exp(x) + A[1] * x + A[2], A=(3,), x=()))
    assert (certificate.value, certificate.status) == (3, "exact")
