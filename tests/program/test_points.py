import numpy as np
import pytest

import ffrank
from ffrank.errors import ProgramError
from ffrank.models import build_program
from ffrank.models.spec import parse_spec
from ffrank.primes import residues
from ffrank.program.evaluate import Evaluator
from ffrank.program.points import draw_points, draw_theta, root_stages

P = 2**31 - 1
BLOCK = {
    "kind": "attention", "widths": [3, 3, 3], "attention_dims": [2, 2], "tokens": 2, "score": "softmax",
    "norm": "rms", "residual": True, "mlp_width": 2, "activation": "silu",
}  # fmt: skip


def slow_values(program, p, theta, base, counts, x=None):
    """Every node's entries at one point with the given redraws, in Python integers; None where a value is missing."""
    flat = [int(v) for v in theta]
    source = residues(f"{base}\n{counts[0]}" if counts[0] else base, p, program.input_count)
    flat += [int(v) for v in (source if x is None else x)]
    values, at, exponentials = [], 0, 0
    for shape in program.shapes[: program.first_instruction]:
        size = int(np.prod(shape, dtype=int))
        values.append(np.array(flat[at : at + size], dtype=object).reshape(shape))
        at += size
    for node, i in program.steps():
        a = [values[n] for n in i.operands]
        if i.op == "exp":
            exponentials += 1
            drawn = [int(v) for v in residues(f"{base}\nexp {exponentials}\n{counts[exponentials]}", p, 500) if v]
            result = np.array(drawn[: program.sizes[node]], dtype=object).reshape(program.shapes[node])
        elif i.op == "recip":
            if any(v % p == 0 for v in a[0].flat):
                return None, node
            result = np.frompyfunc(lambda v: pow(int(v), -1, p), 1, 1)(a[0])
        elif i.op == "sqrt":
            if any(pow(int(v), (p - 1) // 2, p) != 1 for v in a[0].flat):
                return None, node
            result = np.frompyfunc(lambda v: min(r for r in roots(int(v) % p, p)), 1, 1)(a[0])
        else:
            from tests.program.naive import moved

            match i.op:
                case "const":
                    result = np.array(i.attribute[1], dtype=object).reshape(i.attribute[0])
                case "add":
                    result = a[0] + a[1]
                case "mul":
                    result = a[0] * a[1]
                case "matmul":
                    result = a[0] @ a[1]
                case "pow":
                    result = a[0] ** i.attribute
                case _:
                    result = moved(i, a[0])
        values.append(np.asarray(np.asarray(result, dtype=object) % p, dtype=object))
    return values, None


def roots(q, p):
    if p % 4 == 3:
        r = pow(q, (p + 1) // 4, p)
        return r, p - r
    return tuple(r for r in range(p) if r * r % p == q)


@pytest.mark.parametrize(("p", "seed"), [(P, 0), (P, 5), (257, 0), (4099, 2)])
def test_points_equal_the_slow_twin(p, seed):
    program = build_program(parse_spec(BLOCK))
    theta = draw_theta(program, p, seed)
    points = draw_points(program, p, seed, theta, [1, 2, 3])
    values = Evaluator(program, p, theta).values(points.inputs, points.draws)
    assert points.redraws.any()
    for at in range(3):
        base = f"ffrank point 1\n{program.digest}\n{p}\n{seed}\n{at + 1}"
        slow, missing = slow_values(program, p, theta, base, points.redraws[at])
        assert missing is None
        assert values[at].tolist() == [int(v) for v in slow[program.output].flat]


def test_the_search_is_that_of_one_draw_after_the_other():
    """Raise the count of the last source of the first missing value by one, again and again."""
    program = build_program(parse_spec(BLOCK))
    theta = draw_theta(program, P, 1)
    points = draw_points(program, P, 1, theta, [1, 2])
    latest = last_sources(program)
    for at in range(2):
        counts = [0] * points.redraws.shape[1]
        base = f"ffrank point 1\n{program.digest}\n{P}\n1\n{at + 1}"
        while (missing := slow_values(program, P, theta, base, counts)[1]) is not None:
            counts[latest[missing]] += 1
        assert counts == points.redraws[at].tolist()


def last_sources(program):
    found, exponentials = [-1] * program.first_input + [0] * len(program.inputs), 0
    for i in program.instructions:
        if i.op == "exp":
            exponentials += 1
            found.append(exponentials)
        else:
            found.append(max((found[a] for a in i.operands), default=-1))
    return found


def test_points_do_not_depend_on_each_other():
    program = build_program(parse_spec(BLOCK))
    theta = draw_theta(program, P, 0)
    together, alone = (draw_points(program, P, 0, theta, labels) for labels in ([1, 2, 3, 4], [3]))
    assert together.redraws[2].tolist() == alone.redraws[0].tolist()
    assert together.inputs[2].tolist() == alone.inputs[0].tolist()


def test_a_source_that_does_not_matter_is_not_redrawn_for_ever():
    """With one token softmax weights are 1, so the next norm depends on the input alone."""
    spec = {
        "kind": "attention",
        "widths": [3, 3, 3],
        "attention_dims": [1, 1],
        "tokens": 1,
        "score": "softmax",
        "norm": "rms",
    }
    program = build_program(parse_spec(spec))
    theta = draw_theta(program, P, 0)
    points = draw_points(program, P, 0, theta, range(8))
    assert (points.redraws[:, 1] % 256 == 0).all()
    assert points.redraws[:, 1].any()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda W, x: ffrank.sqrt(0 * x[0]) * W, "square root has no value"),
        (lambda W, x: W / (x - x), "denominator is 0"),
        (lambda W, x: W / (W - W) * x, "another seed"),
    ],
)
def test_values_that_never_exist_end_in_one_clear_error(function, message):
    program = ffrank.parametrization(parameters={"W": (2,)}, inputs={"x": (2,)})(function)
    with pytest.raises(ProgramError, match=message):
        draw_points(program, P, 0, draw_theta(program, P, 0), [1, 2])


def test_stages_of_roots():
    def nested(W, x):
        first = ffrank.sqrt(W * x)
        return ffrank.sqrt(first + x) + first + ffrank.sqrt(x)

    program = ffrank.parametrization(parameters={"W": (2,)}, inputs={"x": (2,)})(nested)
    stages = root_stages(program)
    assert [len(s) for s in stages] == [2, 1]


@pytest.mark.parametrize("p", [3, 5, 7, 13, 257, 65537, 12289, P])
@pytest.mark.parametrize("engine", ["kernels", "plain"])
def test_roots_and_inverses(p, engine):
    from importlib import import_module

    module = import_module(f"ffrank.program.{engine}")
    x = np.array(sorted({0, 1, 2, p - 1, p // 2, *(int(v) for v in residues("roots", p, 200))}), np.int64) % p
    balanced = np.where(x > p // 2, x - p, x)
    z = next(z for z in range(2, p) if pow(z, (p - 1) // 2, p) == p - 1) if p > 3 else 2
    found = module.root_all(balanced, p, 1.0 / p, z) % p
    for q, r in zip(x.tolist(), found.tolist(), strict=True):
        square = q != 0 and pow(q, (p - 1) // 2, p) == 1
        assert (r != 0) == square
        assert not square or (r * r % p == q and r <= (p - 1) // 2)
    inverse = module.inverse_all(balanced, p, 1.0 / p) % p
    assert all(q * i % p == (q != 0) for q, i in zip(x.tolist(), inverse.tolist(), strict=True))
