"""What README.md says can be done is done."""

import re
from pathlib import Path

import pytest

import ffrank

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text()
ROWS = re.findall(r"^\| \[[\w-]+\]\((data/[\w-]+\.toml)\) \| (\d+) \| (\d+) \| ([\w-]+) \|$", TEXT, re.MULTILINE)


def test_there_is_a_table():
    assert len(ROWS) >= 20


@pytest.mark.parametrize(("path", "parameters", "dimension", "status"), ROWS)
def test_the_table_holds(path, parameters, dimension, status):
    certificate = ffrank.certify(ROOT / path)
    assert (certificate.parameters, certificate.value, certificate.status) == (int(parameters), int(dimension), status)


def test_the_python_examples_print_what_they_say():
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) >= 2
    namespace = {}
    for block in blocks:
        printed = []
        namespace["print"] = lambda *values, to=printed: to.append(" ".join(map(str, values)))
        exec(compile(block, "README.md", "exec"), namespace)
        expected = [c.strip() for c in re.findall(r"^print\(.*\)\s+# (.*)$", block, re.MULTILINE)]
        assert printed == expected


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#:]+)\)", TEXT))))
def test_links_lead_somewhere(link):
    assert (ROOT / link).exists()
