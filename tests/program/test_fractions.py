import sympy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ffrank
from ffrank.program.fractions import derivative_bounds
from ffrank.program.symbolic import symbolic, symbols


@st.composite
def maps(draw):
    """Small maps with one division and perhaps one exponential."""
    k, shifted, softmax = draw(st.integers(1, 2)), draw(st.booleans()), draw(st.booleans())

    def function(W, V, x):
        y = W * x + (3 if shifted else V)
        z = ffrank.exp(W * x) + y if softmax else y
        return V * (y**k / z).sum() + W / (x + 2)

    return ffrank.parametrization(parameters={"W": (2,), "V": ()}, inputs={"x": (2,)})(function)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(maps())
def test_true_numerators_are_within_the_bounds(program):
    bound = derivative_bounds(program)
    leaves = symbols(program)
    formal = {}

    def exponential(u):
        return formal.setdefault(u, sympy.Symbol(f"E{len(formal)}"))

    values = symbolic(program, leaves, exponential)
    theta = [s for a in leaves[: program.first_input] for s in a.flat]
    variables = [s for a in leaves for s in a.flat] + list(formal.values())
    for entry in values.flat:
        for w in theta:
            derivative = sympy.diff(entry, w) + sum(
                sympy.diff(entry, E) * E * sympy.diff(u, w) for u, E in formal.items()
            )
            top, bottom = sympy.fraction(sympy.cancel(sympy.together(derivative)))
            numerator = sympy.Poly(top, *variables)
            assert numerator.total_degree() <= bound.top
            content = sympy.Poly(bottom, *variables).content()
            assert sum(abs(c) for c in numerator.coeffs()) <= 2**bound.top_norm * abs(content)
