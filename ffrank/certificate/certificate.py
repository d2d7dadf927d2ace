"""Certificates: frozen views on the JSON objects that FORMAT.md describes."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ffrank.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Certificate", "RankCertificate"]


@dataclass(frozen=True)
class _Content:
    """A JSON object that can be written to a file."""

    content: Mapping[str, Any]

    def to_json(self) -> str:
        """The file's text: one line for each top-level key, ending in a newline."""
        lines = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in self.content.items()]
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all.

        Raises
        ------
        InputError
            If the path cannot be written.
        """
        path = Path(os.path.realpath(path))  # what a link points to, not the link
        try:
            if path.exists() and not path.is_file():  # a device or a pipe
                path.write_text(self.to_json(), encoding="ascii")
                return
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            try:
                with os.fdopen(handle, "w", encoding="ascii") as out:
                    out.write(self.to_json())
                Path(temporary).chmod(0o666 & ~_umask())
                Path(temporary).replace(path)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
        except OSError as e:
            raise InputError(f"{path}: cannot be written: {e.strerror}") from None


@dataclass(frozen=True)
class Certificate(_Content):
    """A certified dimension.

    Attributes
    ----------
    content : mapping
        The JSON object.
    notes : tuple of str
        What a person should know beside it; not part of the certificate.
    """

    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def parameters(self) -> int:
        """P, the number of parameters."""
        return int(self.content["parameters"])

    @property
    def lower(self) -> int:
        """A proven lower bound of the dimension."""
        return int(self.content["dimension"]["lower"])

    @property
    def upper(self) -> int:
        """An upper bound of the dimension; ``status`` says of which kind."""
        return int(self.content["dimension"]["upper"])

    @property
    def value(self) -> int | None:
        """The dimension, if both bounds agree."""
        value: int | None = self.content["dimension"]["value"]
        return value

    @property
    def status(self) -> str:
        """``exact``, ``exact-with-probability`` or ``bounds``."""
        return str(self.content["dimension"]["status"])

    def __repr__(self) -> str:
        shown = self.value if self.value is not None else f"{self.lower}..{self.upper}"
        return f"Certificate(dimension={shown}, status={self.status!r}, parameters={self.parameters})"


@dataclass(frozen=True)
class RankCertificate(_Content):
    """The certified rank of a matrix, mod a prime or over Q.

    Attributes
    ----------
    content : mapping
        The JSON object.
    """

    @property
    def rank(self) -> int:
        """The rank mod ``prime``, or over Q."""
        return int(self.content["rank"])

    @property
    def over_q(self) -> bool:
        """Whether it is the rank over Q."""
        return "relations" in self.content

    @property
    def prime(self) -> int:
        """The modulus; over Q the prime mod which a minor of this size is not zero."""
        return int(self.content["prime"])

    def __repr__(self) -> str:
        m, n = self.content["shape"]
        field = "over Q" if self.over_q else f"mod {self.prime}"
        return f"RankCertificate(rank {self.rank} of a {m} x {n} matrix {field})"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
