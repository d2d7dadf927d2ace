import json
from pathlib import Path

import pytest

from ffrank.geometry.composition import composition_bound
from ffrank.models.spec import parse_spec

NETWORKS = json.loads((Path(__file__).parent.parent / "reference" / "polynomial_networks.json").read_text())


def test_no_known_dimension_exceeds_the_bound_and_most_reach_it():
    bounds = [composition_bound(parse_spec(c["spec"])) for c in NETWORKS]
    assert all(b >= c["dimension"] for b, c in zip(bounds, NETWORKS, strict=True))
    assert sum(b == c["dimension"] for b, c in zip(bounds, NETWORKS, strict=True)) >= 80


@pytest.mark.parametrize(
    ("spec", "bound"),
    [
        ({"widths": [4, 3]}, 12),
        ({"widths": [4, 3], "bias": True}, 15),
        ({"widths": [4, 3, 1]}, 4 * 3 - 3),  # quadratic forms of rank 3 in 4 variables
        ({"widths": [4, 9, 1]}, 10),  # all quadratic forms
        ({"widths": [4, 3, 2]}, 12 + 6 - 3),
        ({"widths": [4, 3, 1], "activation": "cube"}, 12 + 3 - 3),
        ({"widths": [2, 50, 2], "bias": True}, 2 * 6),
        ({"widths": [2, 2, 9, 3, 1]}, 4 + 5 - 2),  # linear maps, then binary forms of degree 4
    ],
)
def test_values_by_hand(spec, bound):
    assert composition_bound(parse_spec({"kind": "mlp", **spec})) == bound


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "mlp", "widths": [2, 2, 2], "activation": "identity"},
        {"kind": "mlp", "widths": [2] * 102},
        {"kind": "attention", "widths": [2, 2], "attention_dims": [1], "tokens": 2},
    ],
)
def test_it_says_nothing_of_other_networks(spec):
    assert composition_bound(parse_spec(spec)) is None


def test_hopeless_binomials_are_not_computed():
    spec = {"kind": "mlp", "widths": [1000] * 101, "activation": {"power": 1000}}
    assert composition_bound(parse_spec(spec)) == 1000 * 1000 * 100 - 99 * 1000
