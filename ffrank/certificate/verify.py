"""Check a certificate from Python: a thin way into :mod:`ffrank.certificate.checker`, which does all the work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ffrank.certificate import checker
from ffrank.errors import CertificateError, InputError

if TYPE_CHECKING:
    from ffrank.certificate.certificate import Certificate, RankCertificate

__all__ = ["Verification", "read_matrix_text", "verify"]


@dataclass(frozen=True)
class Verification:
    """What the checker says.

    Attributes
    ----------
    valid : bool
    reason : str
        Why not, if it is not valid; else empty.
    verified, trusted : tuple of str
        In words: what was checked, and what was taken on trust.
    """

    valid: bool
    reason: str
    verified: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.valid


def verify(
    certificate: Certificate | RankCertificate | Mapping[str, Any] | str | Path,
    *,
    full: bool = False,
    matrix: Any = None,
) -> Verification:
    """Check a certificate, believing nothing that the prover wrote.

    Parameters
    ----------
    certificate : Certificate, RankCertificate, mapping, or path
        A path is a .json or .json.gz file.
    full : bool
        Recompute the ranks of minors and Monte-Carlo trials too; in plain Python, so slow for large ones.
    matrix : path or matrix, optional
        The matrix of a rank certificate: a file as ``ffrank rank`` reads it, or whatever ``ffrank.rank`` takes.

    Raises
    ------
    CertificateError
        If it is not a well-formed certificate.
    InputError, MatrixError
        If a file cannot be read.
    """
    given = None if matrix is None else read_matrix_text(matrix)
    source: Any
    if isinstance(certificate, str | Path):
        source = _content(certificate)
    elif not isinstance(certificate, Mapping) and not hasattr(certificate, "content"):
        raise InputError(f"expected a certificate, a mapping or a path, got {type(certificate).__name__}")
    else:
        source = dict(certificate if isinstance(certificate, Mapping) else certificate.content)
    try:
        report = checker.check(source, full=full, matrix=given)
    except checker.Invalid as e:
        return Verification(False, str(e))
    except checker.Malformed as e:
        raise CertificateError(str(e)) from None
    return Verification(True, "", report.verified, report.trusted)


def read_matrix_text(matrix: Any) -> bytes:
    """Return a matrix, or the file of one, as text that the checker reads."""
    from ffrank.certificate.matrix import matrix_text
    from ffrank.linalg.adapters import entries
    from ffrank.linalg.files import read_matrix

    return matrix_text(entries(read_matrix(matrix) if isinstance(matrix, str | Path) else matrix).values)


def _content(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as e:
        raise InputError(f"{path}: cannot be read: {e.strerror}") from None
