"""Random programs, as a hypothesis strategy."""

from hypothesis import strategies as st

from ffrank.program.ir import Builder, Program

SHAPES = [(), (1,), (2,), (3,), (2, 2), (1, 3), (3, 2), (2, 1, 2)]


@st.composite
def programs(draw) -> Program:
    """Up to three parameters, two inputs and eight instructions on small shapes; degrees stay low."""
    parameters = [(f"w{i}", draw(st.sampled_from(SHAPES))) for i in range(draw(st.integers(0, 3)))]
    inputs = [(f"x{i}", draw(st.sampled_from(SHAPES))) for i in range(draw(st.integers(0, 2)))]
    if not parameters and not inputs:
        parameters = [("w0", (2, 2))]
    builder = Builder(parameters, inputs)
    degree = [1] * len(builder.shapes)
    for _ in range(draw(st.integers(1, 8))):
        node = draw(st.integers(0, len(builder.shapes) - 1))
        other = _step(draw, builder, node, degree)
        degree.append(other)
    return builder.finish(draw(st.integers(max(0, len(builder.shapes) - 3), len(builder.shapes) - 1)))


def _step(draw, builder: Builder, a: int, degree: list[int]) -> int:
    """Emit one instruction on node a; return the degree of its value."""
    shape = builder.shapes[a]
    partners = [b for b, s in enumerate(builder.shapes) if s == shape and degree[a] + degree[b] <= 8]
    factors = [
        b
        for b, s in enumerate(builder.shapes)
        if len(s) >= 2 and len(shape) >= 2 and s[:-2] == shape[:-2] and s[-2] == shape[-1]
    ]
    factors = [b for b in factors if degree[a] + degree[b] <= 8]
    ops = ["neg", "const", "broadcast", "reshape", "concat"]
    ops += ["add", "mul"] if partners else []
    ops += ["matmul"] * 3 if factors else []
    ops += ["pow"] if degree[a] <= 3 else []
    ops += ["sum", "slice", "transpose"] if shape else []
    op = draw(st.sampled_from(ops))
    match op:
        case "neg":
            builder.neg(a)
        case "const":
            values = draw(st.lists(st.integers(-(10**12), 10**12), min_size=4, max_size=4))
            builder.const((2, 2), values)
            return 0
        case "add" | "mul":
            b = draw(st.sampled_from(partners))
            getattr(builder, op)(a, b)
            return max(degree[a], degree[b]) if op == "add" else degree[a] + degree[b]
        case "matmul":
            b = draw(st.sampled_from(factors))
            builder.matmul(a, b)
            return degree[a] + degree[b]
        case "pow":
            k = draw(st.integers(1, 2 if degree[a] > 2 else 3))
            builder.pow(a, k)
            return degree[a] * k
        case "sum":
            builder.sum(a, draw(st.integers(0, len(shape) - 1)))
        case "slice":
            triples = []
            for n in shape:
                start = draw(st.integers(0, n - 1))
                triples.append((start, draw(st.integers(start + 1, n)), draw(st.integers(1, 2))))
            builder.slice(a, triples)
        case "transpose":
            builder.transpose(a, draw(st.permutations(range(len(shape)))))
        case "reshape":
            size = 1
            for n in shape:
                size *= n
            builder.reshape(a, draw(st.sampled_from([(size,), (size, 1), (1, size)])))
        case "broadcast":
            grown = tuple(3 if n == 1 and draw(st.booleans()) else n for n in shape)
            builder.broadcast(a, (2, *grown) if draw(st.booleans()) and len(grown) < 3 else grown)
        case "concat":
            axis = draw(st.integers(0, len(shape) - 1)) if shape else None
            if axis is None:
                builder.neg(a)
            else:
                builder.concat(axis, [a] * draw(st.integers(1, 3)))
    return degree[a]
