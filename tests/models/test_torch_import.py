"""PyTorch modules against their programs: equal values in float64, equal ranks, errors that say what is wrong."""

import numpy as np
import pytest

from ffrank import linalg
from ffrank.errors import FfrankError, ProgramError
from ffrank.models import build_program
from ffrank.models.spec import parse_spec
from ffrank.models.torch_import import from_torch
from ffrank.primes import DEFAULT_PRIME
from ffrank.program.evaluate import Evaluator
from ffrank.program.floating import evaluate
from ffrank.program.points import draw_points, draw_theta

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

pytestmark = pytest.mark.filterwarnings("ignore")


class Map(nn.Module):
    """A module made of a function of (module, x) and a few weights."""

    def __init__(self, function, **shapes):
        super().__init__()
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.randn(shape, dtype=torch.float64)))
        self.function = function

    def forward(self, *inputs):
        return self.function(self, *inputs)


def double(module):
    """The module in float64 with parameters that have no special values such as 0 and 1."""
    module = module.to(torch.float64).eval()
    with torch.no_grad():
        for w in module.parameters():
            w.copy_(0.6 * torch.randn_like(w))
    return module


def theta_of(module):
    return torch.cat([w.detach().reshape(-1) for w in module.parameters() if w.requires_grad]).numpy()


def agree(module, *shapes, inputs=None, **options):
    torch.manual_seed(len(str(shapes)))
    inputs = [torch.randn(s, dtype=torch.float64) for s in shapes] if inputs is None else inputs
    program = from_torch(module, tuple(inputs), **options)
    expected = module(*inputs, **options.get("example_kwargs", {}))
    expected = expected[0] if isinstance(expected, tuple) else expected
    distinct = {id(x): x for x in inputs if x.is_floating_point()}
    X = torch.cat([x.reshape(-1) for x in distinct.values()]).numpy()
    got = evaluate(program, theta_of(module), X)
    assert got.shape == tuple(expected.shape)
    np.testing.assert_allclose(got, expected.detach().numpy(), rtol=1e-12, atol=1e-10)
    return program


def formal_rank(program, inputs, p=DEFAULT_PRIME):
    theta = draw_theta(program, p, 0)
    points = draw_points(program, p, 0, theta, range(1, inputs + 1))
    return linalg.rank(Evaluator(program, p, theta).jacobian(points.inputs, points.draws), p)


# ------------------------------------------------------------------------------------- PyTorch's own modules


@pytest.mark.parametrize("bias", [False, True])
def test_multihead_attention_of_one_input(bias):
    attention = double(nn.MultiheadAttention(4, 2, bias=bias, batch_first=True))
    x = torch.randn(1, 3, 4, dtype=torch.float64)
    program = agree(attention, inputs=[x, x, x], example_kwargs={"need_weights": False})
    assert program.inputs == (("query", (1, 3, 4)),)
    assert [name for name, _ in program.parameters] == [name for name, _ in attention.named_parameters()]


def test_multihead_attention_with_weights_and_masks():
    attention = double(nn.MultiheadAttention(4, 2))
    causal = torch.ones(3, 3, dtype=torch.bool).triu(1)
    agree(attention, (3, 2, 4), (3, 2, 4), (3, 2, 4))
    agree(attention, (3, 1, 4), (3, 1, 4), (3, 1, 4), example_kwargs={"attn_mask": causal})
    floating = torch.zeros(3, 3, dtype=torch.float64).masked_fill(causal, float("-inf"))
    agree(attention, (3, 1, 4), (3, 1, 4), (3, 1, 4), example_kwargs={"attn_mask": floating})


def test_cross_attention_with_its_own_widths():
    attention = double(nn.MultiheadAttention(4, 2, kdim=3, vdim=5, batch_first=True))
    agree(attention, (1, 2, 4), (1, 3, 3), (1, 3, 5), example_kwargs={"need_weights": False})


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", [F.silu, nn.GELU(approximate="tanh"), torch.tanh])
def test_transformer_encoder_layer(norm_first, activation):
    layer = nn.TransformerEncoderLayer(
        4, 2, 6, dropout=0.1, activation=activation, norm_first=norm_first, batch_first=True
    )
    agree(double(layer), (1, 3, 4))


def test_causal_encoder_of_two_layers():
    layer = nn.TransformerEncoderLayer(4, 2, 4, activation=F.silu, norm_first=True, batch_first=True)
    encoder = double(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))
    mask = nn.Transformer.generate_square_subsequent_mask(3, dtype=torch.float64)
    agree(encoder, (1, 3, 4), example_kwargs={"mask": mask, "is_causal": True})


@pytest.mark.parametrize(
    "module",
    [
        nn.Linear(3, 2),
        nn.Linear(3, 2, bias=False),
        nn.LayerNorm(3),
        nn.LayerNorm((2, 3), eps=1e-3),
        nn.RMSNorm(3),
        nn.RMSNorm(3, eps=1e-6),
        nn.Sequential(nn.Linear(3, 4), nn.SiLU(), nn.Dropout(0.5), nn.Linear(4, 2), nn.Tanh(), nn.LayerNorm(2)),
        nn.Sequential(nn.Linear(3, 4), nn.Sigmoid(), nn.Softmax(-1), nn.GELU("tanh"), nn.Mish()),
        nn.Sequential(nn.Flatten(0), nn.Unflatten(0, (3, 2)), nn.Linear(2, 2)),
        nn.BatchNorm1d(3),
    ],
    ids=lambda m: type(m).__name__,
)
def test_modules(module):
    agree(double(module), (2, 3))


# ----------------------------------------------------------------------------------------- users' own modules


def causal_attention(m, x):
    scores = torch.einsum("tia,tja->tij", x @ m.Q, x @ m.K) / x.shape[-1] ** 0.5
    mask = torch.ones(x.shape[1], x.shape[1]).tril().bool()
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ (x @ m.V)


def fused_attention(m, x):
    return F.scaled_dot_product_attention(x @ m.Q, x @ m.K, x @ m.V, is_causal=True)


def additive_mask(m, x):
    bias = torch.zeros(3, 3, dtype=x.dtype)
    bias[0, 1:] = -1e9
    return torch.softmax(x @ m.Q @ (x @ m.K).mT + bias, -1) @ x @ m.V


def shifted_by_hand(m, x):
    scores = x @ m.Q @ (x @ m.K).transpose(1, 2)
    e = torch.exp(scores - scores.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True) @ x @ m.V


def shifted_by_max(m, x):
    scores = x @ m.Q @ (x @ m.K).transpose(1, 2)
    e = torch.exp(scores - scores.max(dim=-1, keepdim=True).values.detach())
    return (e @ x @ m.V) / e.sum(-1).unsqueeze(-1)


def where_mask(m, x):
    scores = x @ m.Q @ (x @ m.K).mT
    keep = torch.eye(3, dtype=torch.bool) | (torch.arange(3) == 0)
    return torch.where(keep, scores, torch.finfo(x.dtype).min).softmax(-1) @ x @ m.V


def grouped(m, x):
    q = (x @ m.Q).reshape(1, 3, 2, 1).transpose(1, 2)
    k, v = ((x @ w).reshape(1, 3, 1, -1).transpose(1, 2) for w in (m.K[:, :1], m.V))
    return F.scaled_dot_product_attention(q, k, v, scale=0.3, enable_gqa=True).flatten(2)


@pytest.mark.parametrize(
    "function", [causal_attention, fused_attention, additive_mask, shifted_by_hand, shifted_by_max, where_mask, grouped]
)
def test_attention_written_by_hand(function):
    module = Map(function, Q=(4, 2), K=(4, 2), V=(4, 3))
    program = agree(module, (1, 3, 4))
    assert sum(i.op == "exp" for i in program.instructions) == 1


def shapes(m, x):
    a, b, c = torch.split(x, [1, 1, 2], dim=-1)
    d, e = x.chunk(2, dim=1)
    y = torch.cat([a * b, c], dim=-1).permute(1, 0, 2).flatten(1).unsqueeze(-1).expand(-1, -1, 2)
    y = torch.stack([y[:, ::2, 0], y[:, 1::2, 1]], dim=0).squeeze(0)
    z = torch.roll(d, 1, -1) + e.flip(-1)[:, [0, 1]] + x[:, -2:].narrow(2, 0, 4)
    u = torch.einsum("...ij,jk,kk->...i", z, m.W, m.W) + z.unbind(1)[0].sum(-1, keepdim=True)
    return u.sum() + y.mean(0).std(unbiased=False) + x.tril().var(dim=1).pow(2).mean()


def arithmetic(m, x):
    y = (2 - x * 0.1 + m.W[0] / 3).square() + torch.rsqrt(x**2 + 1.25) * x**3 - x.pow(4) / 7
    y = torch.addmm(m.W, y, m.W, beta=0.5, alpha=2) + torch.outer(y[0], y[1]) + torch.pow(y * y + 1, 1.5)
    return F.normalize(y, dim=-1) + y.exp().reciprocal() + torch.sinh(y / 8) * torch.cosh(y / 8) + torch.expm1(y / 9)


def writes_in_place(m, x):
    y = x @ m.W
    y[:, 0] = 2 * y[:, 1]
    y[1:] += 1
    y *= y
    return y


def without_gradients(m, x):
    with torch.no_grad():
        angle = torch.arange(4) * 0.5
        y = x @ m.W * angle.cos()
        e = (y - y.amax()).exp()
    return y * x + e / e.sum()


def gated(m, x):
    return F.silu(x @ m.W) * torch.sigmoid(x @ m.W) + torch.tanh(x @ m.W) + torch.sigmoid(-(x @ m.W))


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (shapes, (2, 4, 4)),
        (arithmetic, (4, 4)),
        (writes_in_place, (3, 4)),
        (without_gradients, (3, 4)),
        (gated, (2, 4)),
    ],
)
def test_operators(function, shape):
    program = agree(Map(function, W=(4, 4)), shape)
    if function is gated:
        assert sum(i.op == "exp" for i in program.instructions) == 1


def test_buffers_frozen_and_shared_parameters():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(3, 3)
            self.frozen = nn.Linear(3, 3)
            self.frozen.requires_grad_(False)
            self.again = self.first
            self.other = nn.Linear(3, 3)
            self.other.weight = self.first.weight
            self.register_buffer("scale", torch.tensor([1e-30, 0.5, 3e25], dtype=torch.float64))
            self.register_buffer("mask", torch.ones(3, 3, dtype=torch.float64).tril(), persistent=False)

        def forward(self, x):
            x = self.again(self.first(x) ** 2) * self.mask
            return self.other(self.frozen(x)) * self.scale * 1e-25

    module = double(Tied())
    torch.nn.init.constant_(module.frozen.bias, 0.1)
    program = agree(module, (3, 3))
    assert program.parameters == (("first.weight", (3, 3)), ("first.bias", (3,)), ("other.bias", (3,)))


def test_constants_are_exact():
    class Scaled(nn.Module):
        def forward(self, x):
            return x * 0.1 + 2.0**-200

    program = from_torch(Scaled(), torch.zeros(2))
    values = [v for i in program.instructions if i.op == "const" for v in i.attribute[1]]
    assert max(map(abs, values)) < 10**25
    p = DEFAULT_PRIME
    got = Evaluator(program, p, np.zeros(0, np.int64)).values(np.array([[1, 0]]))[0]
    tenth = (0.1).as_integer_ratio()
    low = pow(2, -200, p)
    assert got.tolist() == [(tenth[0] * pow(tenth[1], -1, p) + low) % p, low]


def test_training_flags_and_fused_kernels_are_restored():
    module = nn.TransformerEncoderLayer(4, 2, 4, activation=F.silu, batch_first=True)
    module.requires_grad_(False)
    module.linear1.requires_grad_(True)
    module.norm1.eval()
    program = from_torch(module, torch.zeros(1, 2, 4))
    assert [name for name, _ in program.parameters] == ["linear1.weight", "linear1.bias"]
    assert module.training
    assert not module.norm1.training
    assert torch.backends.mha.get_fastpath_enabled()


# ------------------------------------------------------------------------------------------------ ranks


def softmax_attention(m, x):
    """Columns are tokens, as in specs."""
    scores = (m.K @ x).T @ (m.Q @ x)
    return m.V @ x @ scores.softmax(0)


def test_rank_of_softmax_attention_is_that_of_the_spec():
    spec = {"kind": "attention", "widths": [4, 3], "attention_dims": [2], "tokens": 3, "score": "softmax"}
    written = build_program(parse_spec(spec))
    imported = from_torch(Map(softmax_attention, Q=(2, 4), K=(2, 4), V=(3, 4)), torch.zeros(4, 3, dtype=torch.float64))
    assert imported.parameter_count == written.parameter_count == 28
    assert formal_rank(imported, 8) == formal_rank(written, 8) == 24


def test_scale_and_mask_do_not_change_the_rank():
    module = Map(causal_attention, Q=(4, 2), K=(4, 2), V=(4, 3))
    assert formal_rank(from_torch(module, torch.zeros(1, 3, 4, dtype=torch.float64)), 8) == 24


def test_rank_of_multihead_attention():
    """Per head GL_2 of the scores and, with biases of keys, their directions; GL_2 of the values with the output."""
    attention = nn.MultiheadAttention(4, 2, bias=False, batch_first=True)
    x = torch.zeros(1, 3, 4)
    program = from_torch(attention, (x, x, x))
    assert program.parameter_count == 64
    assert formal_rank(program, 14) == 64 - 2 * (4 + 4)


def test_symmetries_of_pytorch_modules_meet_their_ranks():
    from ffrank.geometry.finder import find_symmetries

    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    x = torch.zeros(1, 3, 4)
    program = from_torch(attention, (x, x, x))
    found = find_symmetries(program)
    # beside GL_2 twice per head: biases of keys are not seen, and those of values go into the output's
    assert formal_rank(program, 14) == found.upper == 80 - 2 * (4 + 4) - 4 - 4
    layer = nn.TransformerEncoderLayer(2, 1, 2, activation=F.silu, norm_first=True, batch_first=True)
    program = from_torch(layer, torch.zeros(1, 2, 2))
    found = find_symmetries(program)
    assert formal_rank(program, 30) == found.upper
    assert found.error <= -100


# ----------------------------------------------------------------------------------------------- errors


def message_of(module, *inputs, **options):
    with pytest.raises(FfrankError) as caught:
        from_torch(module, inputs, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_all_unsupported_operators_are_named_with_their_lines():
    class Odd(nn.Module):
        def forward(self, x):
            y = F.relu(x)
            y = torch.erf(y)
            return torch.abs(y).softmax(-1) + torch.log(x) + F.gelu(x)

    text = message_of(Odd(), torch.zeros(3, 3))
    for name in ("relu", "erf", "abs", "log", "gelu"):
        assert f"{name} (" in text
    assert "y = torch.erf(y)" in text
    assert "test_torch_import.py, line" in text
    assert "piecewise linear" in text


def test_relu_inside_a_pytorch_module():
    text = message_of(nn.TransformerEncoderLayer(4, 2, 4, batch_first=True), torch.zeros(1, 2, 4))
    assert text.count("relu") >= 1
    assert "piecewise linear" in text


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda m, x: x[x[:, 0] > 0] @ m.W, ["depends on data"]),
        (lambda m, x: x @ m.W if x.sum() > 0 else x, ["depends on data"]),
        (lambda m, x: x.nonzero(), ["depends on data"]),
        (lambda m, x: x @ m.W * float("nan"), ["mul", "finite"]),
        (lambda m, x: (x @ m.W).masked_fill(torch.eye(3).bool(), float("-inf")), ["output", "-inf"]),
        (lambda m, x: (x @ m.W).masked_fill(torch.eye(3).bool(), float("-inf")) ** 2, ["pow", "fixed"]),
        (lambda m, x: (x @ m.W).masked_fill(torch.ones(3, 3).bool(), float("-inf")).softmax(-1), ["NaN"]),
        (lambda m, x: (x @ m.W) ** 0.3, ["0.3"]),
        (lambda m, x: x**m.W, ["pow", "fixed"]),
        (lambda m, x: x @ m.W + torch.randn(3), ["randn", "random"]),
        (lambda m, x: (x @ m.W).amax(-1), ["amax", "not the shift"]),
        (lambda m, x: torch.where(x > 0, x, m.W), ["gt ("]),
        (lambda m, x: torch.fft.fft(x @ m.W), ["fft"]),
        (lambda m, x: torch.linalg.vector_norm(x @ m.W, 3), ["Euclidean"]),
    ],
)
def test_what_cannot_be_imported(function, words):
    text = message_of(Map(function, W=(3, 3)), torch.randn(3, 3, dtype=torch.float64))
    for word in words:
        assert word in text


def test_parameters_and_inputs_must_be_real():
    assert "complex" in message_of(nn.Linear(2, 2, dtype=torch.complex64), torch.zeros(2))
    module = nn.Linear(2, 2)
    module.count = nn.Parameter(torch.tensor([1]), requires_grad=False)
    assert "count" in message_of(module, torch.zeros(2))
    assert "int64" in message_of(nn.Embedding(3, 2), torch.tensor([1]))
    assert "torch.nn.Module" in message_of(lambda x: x, torch.zeros(2))
    assert "output" in message_of(nn.Linear(2, 2), torch.zeros(2), output=1)
    assert "capture" in message_of(nn.Linear(2, 2), torch.zeros(3))


def test_constants_must_be_finite():
    module = nn.BatchNorm1d(2)
    module.running_mean[0] = float("inf")
    with pytest.raises(ProgramError, match="finite"):
        from_torch(module, torch.zeros(3, 2))
