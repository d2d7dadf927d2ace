"""The error tree. Every message says what was expected, what came instead, and what to do."""

from __future__ import annotations

__all__ = [
    "CertificateError",
    "FfrankError",
    "InputError",
    "MatrixError",
    "ModulusError",
    "ProgramError",
    "ResourceError",
    "ShapeError",
    "SpecError",
]


class FfrankError(Exception):
    """Any error that ffrank raises on purpose; the message is one line meant for a person."""


class InputError(FfrankError, ValueError):
    """Input that cannot be used: an unreadable file, a wrong option."""


class SpecError(InputError):
    """An architecture that is not well formed: unknown or missing key, wrong length or size."""


class ProgramError(InputError):
    """A parametrization that cannot be traced, or a program that is not well formed."""


class ShapeError(InputError):
    """Shapes that do not fit together."""


class MatrixError(InputError):
    """A matrix that cannot be read exactly: floats, ragged rows, entries that are not integers."""


class ModulusError(InputError):
    """A modulus that is not a prime of the allowed range."""


class CertificateError(InputError):
    """A file that is not a well-formed certificate."""


class ResourceError(FfrankError):
    """A computation that would need more memory than it was allowed."""
