"""Certificates of the real prover, changed in every field and forged on purpose: the checker refuses them."""

import copy
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import ffrank
from ffrank.certificate import checker

CHECKER = Path(checker.__file__)
SPECS = {
    "symmetry": {"kind": "attention", "widths": [2, 2, 2], "attention_dims": [1, 1], "tokens": 2},
    "unreached": {"kind": "attention", "widths": [1, 3, 1], "attention_dims": [1, 1], "tokens": 2},
    "ambient": {"kind": "mlp", "widths": [2, 2, 1]},
    "composition": {"kind": "mlp", "widths": [2, 2, 2, 1]},
    "monte-carlo": {"kind": "mlp", "widths": [3, 4, 2, 1, 1]},
    "softmax": {"kind": "attention", "widths": [2, 2], "attention_dims": [1], "tokens": 2, "score": "softmax"},
    "norm": {"kind": "attention", "widths": [2, 2], "attention_dims": [1], "tokens": 1, "norm": "rms"},
}


@pytest.fixture(scope="module")
def certificates():
    return {name: json.loads(ffrank.certify(spec).to_json()) for name, spec in SPECS.items()}


def sealed(content):
    """With the digest recomputed, as a forger would."""
    rest = {k: v for k, v in content.items() if k not in ("digest", "versions")}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return {**content, "digest": hashlib.sha256(text.encode()).hexdigest()}


def verdict(content, **options):
    try:
        checker.check(content, **options)
    except checker.Invalid:
        return "invalid"
    except checker.Malformed:
        return "malformed"
    return "valid"


def leaves(value, path=()):
    if isinstance(value, dict):
        for k, v in value.items():
            yield from leaves(v, (*path, k))
    elif isinstance(value, list) and value:
        for i, v in enumerate(value):
            yield from leaves(v, (*path, i))
    else:
        yield path, value


def changed(content, path, value):
    content = copy.deepcopy(content)
    place = content
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return content


def others(value):
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1 if value else None, str(value)]
    if isinstance(value, str):
        return [value + "x", 0]
    return [1, "x"]


@pytest.mark.parametrize("name", SPECS)
def test_the_certificates_are_valid(certificates, name):
    assert verdict(certificates[name]) == "valid"
    assert verdict(certificates[name], full=True) == "valid"


@pytest.mark.parametrize("name", SPECS)
def test_every_leaf_that_is_changed_is_noticed(certificates, name):
    for path, value in leaves(certificates[name]):
        for other in others(value):
            outcome = verdict(changed(certificates[name], path, other))
            assert outcome != "valid" or path[0] == "versions", (path, value, other)


@pytest.mark.parametrize("name", SPECS)
def test_every_claim_that_is_changed_is_noticed_with_a_new_digest_too(certificates, name):
    """Exceptions that may remain true: a weaker error, ranks of trials (--full computes them), other rows of roots."""
    for path, value in leaves(certificates[name]):
        if path[0] in ("versions", "digest", "method") or "trials" in path or path[:2] == ("hypotheses", "roots"):
            continue
        for other in others(value):
            assert verdict(sealed(changed(certificates[name], path, other))) != "valid", (path, value, other)


@pytest.mark.parametrize("name", SPECS)
def test_keys_that_are_missing_or_new(certificates, name):
    content = certificates[name]
    for key in content:
        rest = {k: v for k, v in content.items() if k != key}
        assert verdict(rest if key == "digest" else sealed(rest)) == "malformed"
    assert verdict(sealed({**content, "note": "hello"})) == "malformed"
    assert verdict(sealed(changed(content, ("lower_bound", "extra"), 1))) == "malformed"


def test_a_trial_with_a_false_rank_is_seen_by_full(certificates):
    forged = sealed(changed(certificates["monte-carlo"], ("upper_bound", "trials", 0, "rank"), 10))
    assert verdict(forged, full=True) == "invalid"


def forgeries(good):
    """Name and content of forgeries of a symmetry certificate, digests recomputed."""
    lower, upper = good["lower_bound"], good["upper_bound"]
    larger = {**good["architecture"], "widths": [2, 3, 2]}
    yield "a larger architecture", changed(good, ("architecture",), larger)
    yield "another prime", changed(good, ("prime",), 2147483629)
    yield "a pseudoprime", changed(good, ("prime",), 2152302898747 % 2**31 | 1)
    yield "a Carmichael number", changed(good, ("prime",), 825265)
    yield "another seed", changed(good, ("seed",), 1)
    yield "repeated pivots", changed(good, ("lower_bound", "rows"), [lower["rows"][0], *lower["rows"][:-1]])
    yield "unsorted pivots", changed(good, ("lower_bound", "columns"), lower["columns"][::-1])
    yield "fewer challenges", changed(good, ("lower_bound", "witness"), lower["witness"][:3])
    yield "more inputs", changed(good, ("lower_bound", "inputs"), lower["inputs"] + 1)
    fake = {"rule": "general-linear", "layer": 1, "head": 2, "dimension": 1}
    yield "a fake generator", changed(good, ("upper_bound", "generators"), [*upper["generators"], fake])
    yield "a missing generator", changed(good, ("upper_bound", "generators"), upper["generators"][:-1])
    yield "a smaller upper bound", changed(good, ("upper_bound", "value"), upper["value"] - 1)
    yield "an ambient space", changed(good, ("upper_bound",), {"kind": "ambient", "value": 7, "rule": "degrees"})
    yield "another program", changed(good, ("program_digest",), "0" * 64)
    yield "another status", changed(good, ("dimension", "status"), "bounds")
    grown = copy.deepcopy(good)
    for key in ("rows", "columns"):
        grown["lower_bound"][key] = [*lower[key], lower[key][-1] + 1]
    grown["lower_bound"]["witness"] = [[*w, 1] for w in lower["witness"]]
    grown["dimension"] |= {"lower": len(lower["rows"]) + 1, "value": None, "status": "bounds"}
    yield "a larger rank with an invented witness", grown


def test_forgeries_with_recomputed_digests(certificates):
    for name, forged in forgeries(certificates["symmetry"]):
        assert verdict(sealed(forged)) != "valid", name


@pytest.mark.parametrize("prime", [561, 3215031751 % 2**31, 2**31 - 3, 9, 25, 1, 0, 2, 2**31 + 11, 2**64])
def test_moduli_that_are_no_prime_of_the_range(certificates, prime):
    assert verdict(sealed(changed(certificates["ambient"], ("prime",), prime))) != "valid"


def test_hypotheses_cannot_be_left_out(certificates):
    for name in ("softmax", "norm"):
        bare = changed(certificates[name], ("hypotheses",), {"exponents": None, "roots": None})
        assert verdict(sealed(bare)) == "invalid"
    shorter = copy.deepcopy(certificates["softmax"])
    exponents = shorter["hypotheses"]["exponents"]
    exponents["count"] -= 1
    for key in ("rows", "columns"):
        exponents[key] = exponents[key][:-1]
    exponents["witness"] = [w[:-1] for w in exponents["witness"]]
    assert verdict(sealed(shorter)) == "invalid"
    repeated = copy.deepcopy(certificates["norm"])
    for stage in repeated["hypotheses"]["roots"]:
        stage["rows"] = [stage["rows"][0]] * len(stage["rows"])
    assert verdict(sealed(repeated)) == "invalid"


MALFORMED = {
    "empty": b"",
    "truncated": b'{"schema": "ffrank-certificate/1", "prime": 21',
    "not an object": b"[1, 2]",
    "not a number": b'{"prime": NaN}',
    "a float": b'{"prime": 2.5}',
    "a huge number": b'{"prime": ' + b"9" * 100_000 + b"}",
    "deep": b"[" * 200_000,
    "a key twice": b'{"prime": 3, "prime": 3}',
    "binary": bytes(range(256)),
    "a cut gzip file": b"\x1f\x8b\x08\x00",
    "another schema": b'{"schema": "ffrank-certificate/9"}',
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_files_get_one_line_and_status_2(tmp_path, name):
    (tmp_path / "c.json").write_bytes(MALFORMED[name])
    command = [sys.executable, "-I", str(CHECKER), str(tmp_path / "c.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("architecture", "widths"), [10**9, 10**9, 2]),
        (("architecture", "heads"), 10**9),
        (("architecture", "tokens"), 10**9),
        (("architecture", "widths"), [2] * 100_000),
        (("lower_bound", "inputs"), 10**20),
        (("lower_bound", "rows"), [10**18]),
    ],
)
def test_sizes_that_are_only_claimed_cost_nothing(certificates, path, value):
    assert verdict(sealed(changed(certificates["symmetry"], path, value))) != "valid"
