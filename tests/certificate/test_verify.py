import json

import pytest

import ffrank
from ffrank.errors import CertificateError, InputError

SPEC = {"kind": "mlp", "widths": [2, 2, 1]}


def test_verify_takes_objects_mappings_and_files(tmp_path):
    certificate = ffrank.certify(SPEC)
    certificate.save(tmp_path / "c.json")
    for form in (certificate, certificate.content, tmp_path / "c.json", str(tmp_path / "c.json")):
        result = ffrank.verify(form)
        assert result
        assert result.verified
        assert result.trusted
        assert result.reason == ""
    assert ffrank.verify(certificate, full=True)


def test_a_changed_certificate_is_not_valid():
    content = json.loads(ffrank.certify(SPEC).to_json())
    content["dimension"]["lower"] -= 1
    result = ffrank.verify(content)
    assert not result
    assert result.reason


def test_what_is_no_certificate(tmp_path):
    with pytest.raises(CertificateError):
        ffrank.verify({})
    with pytest.raises(InputError, match="cannot be read"):
        ffrank.verify(tmp_path / "missing.json")


def test_a_rank_certificate_is_checked_with_its_matrix(tmp_path):
    (tmp_path / "a.csv").write_text("1,6\n6,1\n")
    certificate = ffrank.certify_rank([[1, 6], [6, 1]], 7)
    assert ffrank.verify(certificate, matrix=tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("1,6\n6,2\n")
    assert not ffrank.verify(certificate, matrix=tmp_path / "a.csv")
    with pytest.raises(CertificateError, match="--matrix"):
        ffrank.verify(certificate)
