import pytest
import sympy
from hypothesis import HealthCheck, given, settings

from ffrank.models import build_program
from ffrank.models.spec import parse_spec
from ffrank.program.bounds import ambient_dimension, bits, output_bounds
from ffrank.program.symbolic import symbolic, symbols
from tests.program.programs import programs


def check_against_expansion(program):
    """Degrees and norms of the true expansion lie inside the composed bounds."""
    bounds = output_bounds(program)
    names = symbols(program)
    theta = [s for a in names[: program.first_input] for s in a.flat]
    inputs = [s for a in names[program.first_input :] for s in a.flat]
    for entry in symbolic(program).flat:
        polynomial = sympy.Poly(entry, *theta, *inputs) if theta or inputs else None
        if polynomial is None or polynomial.is_zero:
            continue
        for monomial, coefficient in polynomial.terms():
            in_x = sum(monomial[len(theta) :])
            assert bounds.low <= in_x <= bounds.high
            assert sum(monomial) <= bounds.degree
            assert coefficient.is_integer
        assert sum(abs(c) for c in polynomial.coeffs()) <= 2**bounds.norm


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_bounds_hold_for_random_programs(program):
    check_against_expansion(program)


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "mlp", "widths": [2, 2, 1], "activation": "square"},
        {"kind": "mlp", "widths": [2, 2, 2, 1], "activation": "square", "bias": True},
        {"kind": "attention", "widths": [2, 2], "attention_dims": [1], "tokens": 2, "heads": 2},
        {"kind": "attention", "widths": [1, 1, 1], "attention_dims": [1, 1], "tokens": 2, "residual": True},
        {"kind": "attention", "widths": [2, 1], "attention_dims": [1], "tokens": 2, "qk_bias": True, "causal": True},
    ],
)
def test_bounds_hold_for_small_networks(spec):
    check_against_expansion(build_program(parse_spec(spec)))


def test_degrees_of_a_polynomial_network_are_sharp():
    bounds = output_bounds(build_program(parse_spec({"kind": "mlp", "widths": [2, 3, 3, 1], "activation": "cube"})))
    assert (bounds.low, bounds.high) == (9, 9)
    assert bounds.degree == 9 + 9 + 3 + 1


@pytest.mark.parametrize(
    ("spec", "dimension"),
    [
        ({"kind": "mlp", "widths": [2, 2, 1]}, 3),
        ({"kind": "mlp", "widths": [2, 2, 5], "bias": True}, 5 * 6),
        ({"kind": "mlp", "widths": [1, 9, 9, 2], "activation": "cube"}, 2),
        ({"kind": "mlp", "widths": [4, 2], "bias": True}, 2 * 5),
        ({"kind": "attention", "widths": [1, 1], "attention_dims": [1], "tokens": 2}, 2 * 4),
        ({"kind": "attention", "widths": [2, 2], "attention_dims": [1], "tokens": 1, "residual": True}, 2 * (10 - 1)),
    ],
)
def test_ambient_dimension_counts_monomials(spec, dimension):
    assert ambient_dimension(build_program(parse_spec(spec))) == dimension


def test_an_ambient_space_beyond_any_parameter_count_is_not_computed():
    spec = {"kind": "mlp", "widths": [3000, 2, 2, 1], "activation": {"power": 1000}}
    assert ambient_dimension(build_program(parse_spec(spec))) is None


def test_bits():
    assert [bits(x) for x in (0, 1, 2, 3, 4, 5, 8, 9)] == [0, 0, 1, 2, 2, 3, 3, 4]
