"""The page and the tables: what they say, and that the page works in a browser."""

import csv
import io
import json
import re
import shutil
from html.parser import HTMLParser

import pytest

import ffrank.batch
from ffrank.errors import InputError
from ffrank.report.page import page
from ffrank.report.rows import describe, read_rows
from ffrank.report.tables import to_csv, to_latex, to_markdown
from tests.batch.tools import ffrank as command

SPECS = [
    *({"kind": "mlp", "widths": [2, hidden, 1]} for hidden in range(1, 9)),
    *(
        {"kind": "attention", "widths": [width, width, 3], "attention_dims": [a, a], "tokens": tokens}
        for width in (2, 3)
        for a in (1, 2)
        for tokens in (1, 2)
    ),
    {"kind": "attention", "widths": [3, 3], "attention_dims": [2], "tokens": 2, "score": "softmax", "causal": True},
    {"kind": "mlp", "widths": ["<script>alert(1)</script>"]},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "a batch"
    assert ffrank.batch(SPECS, out, workers=1).failed == 1
    return out


def test_rows_say_what_results_say(folder):
    rows = read_rows(folder)
    assert len(rows) == len(SPECS)
    assert [row.family for row in rows] == sorted(row.family for row in rows)
    wide = next(row for row in rows if row.architecture == "mlp 2,8,1; square")
    assert (wide.result["value"], wide.axes["hidden_width"], wide.axes["exponent"]) == (3, 8, 2)
    causal = next(row for row in rows if "causal" in row.architecture)
    assert causal.architecture == "attention 3,3; a 2; 2 tokens; softmax; causal"


def test_descriptions_name_what_is_unusual():
    spec = {
        "kind": "attention", "widths": [3, 3], "attention_dims": [2], "tokens": 1, "score": "lightning", "heads": 2,
        "value_dim": 1, "causal": False, "residual": True, "norm": "rms", "mlp_width": 4, "activation": {"power": 5},
        "qk_bias": False,
    }  # fmt: skip
    assert (
        describe(spec) == "attention 3,3; a 2; 1 token; heads 2; value_dim 1; residual; norm rms; mlp_width 4; power 5"
    )


def test_csv_has_every_number(folder):
    rows = list(csv.DictReader(io.StringIO(to_csv(read_rows(folder)))))
    assert len(rows) == len(SPECS)
    (bad,) = (row for row in rows if row["status"] == "failed")
    assert bad["value"] == ""
    assert bad["failure"] == "widths[0]: expected an integer, got '<script>alert(1)</script>'"
    assert all(json.loads(row["spec"]) in SPECS for row in rows)


def test_markdown_and_latex(folder):
    rows = read_rows(folder)
    markdown, latex = to_markdown(rows).splitlines(), to_latex(rows).splitlines()
    assert len(markdown) == len(SPECS) + 2
    assert "| mlp 2,8,1; square | 24 | 3 | 3 | 0 | exact |" in markdown
    assert r"mlp 2,8,1; square & 24 & 3 & 3 & 0 & exact \\" in latex
    assert r"value\_dim" in to_latex([type(rows[0])("value_dim", "", {}, rows[0].result)])


class Structure(HTMLParser):
    """Tags that must be closed, and every address."""

    def __init__(self):
        super().__init__()
        self.open, self.addresses = [], []

    def handle_starttag(self, tag, attrs):
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "link", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_one_well_formed_file(folder):
    text = page(read_rows(folder), folder, folder / "report.html")
    structure = Structure()
    structure.feed(text)
    assert not structure.open
    assert structure.addresses == ["data:,"]
    assert "<!--" not in text
    assert not re.search(r"(?:src|href)=[\"']?https?:|@import|fetch\(|XMLHttpRequest", text)
    assert "<script>alert" not in text
    data = json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', text, re.S)[1])
    assert len(data["rows"]) == len(SPECS)
    assert {len(row) for row in data["rows"]} == {len(data["columns"])}


def test_command_line(folder, tmp_path):
    done = command(tmp_path, "report", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "report.html").exists()
    done = command(tmp_path, "report", folder, "--markdown")
    assert done.stdout.startswith("| architecture |")
    done = command(tmp_path, "report", folder, "--latex", "-o", tmp_path / "table.tex")
    assert "longtable" in (tmp_path / "table.tex").read_text()
    for arguments, reason in [
        ((folder, "--csv", "--latex"), "at most one"),
        ((tmp_path / "absent",), "there is no folder"),
        ((tmp_path, "-o", tmp_path / "x.html"), "cannot be read"),
    ]:
        refused = command(tmp_path, "report", *arguments)
        assert refused.returncode == 2
        assert reason in refused.stderr


def test_empty_batch(tmp_path):
    (tmp_path / "results.jsonl").write_text("")
    with pytest.raises(InputError, match="no results yet"):
        read_rows(tmp_path)


# ------------------------------------------------------------------------------------------------ in a browser


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver")
    binary, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if not binary or not driver:
        pytest.skip("no Chromium with its driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
    yield found
    found.quit()


@pytest.fixture
def opened(browser, folder, tmp_path):
    browser.set_window_size(1200, 900)
    path = tmp_path / "report.html"
    path.write_text(page(read_rows(folder), folder, path), encoding="utf-8")
    browser.get_log("browser")
    browser.get(path.as_uri())
    yield browser
    assert browser.get_log("browser") == []


def cells(browser, column):
    script = "return [...document.querySelectorAll(arguments[0])].map((cell) => cell.textContent)"
    return browser.execute_script(script, f"tr.job td:nth-child({column})")


def wait_for(condition):
    import time

    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_sorting(opened):
    heading = opened.find_element("css selector", "th[data-column=parameters] button")
    heading.click()
    up = [int(n) for n in cells(opened, 2) if n]
    assert up == sorted(up)
    assert heading.find_element("xpath", "..").get_attribute("aria-sort") == "ascending"
    heading.click()
    down = [int(n) for n in cells(opened, 2) if n]
    assert down == sorted(up, reverse=True)


def test_filtering(opened):
    assert len(cells(opened, 1)) == len(SPECS)
    search = opened.find_element("id", "search")
    search.send_keys("softmax causal")
    wait_for(lambda: len(cells(opened, 1)) == 1)
    assert opened.find_element("id", "shown").text == f"1 of {len(SPECS)} rows"
    opened.find_element("css selector", "#filters button").click()
    wait_for(lambda: len(cells(opened, 1)) == len(SPECS))
    opened.find_element("css selector", "#status option[value=failed]").click()
    wait_for(lambda: cells(opened, 6) == ["failed"])


def test_opening_a_row_explains_both_bounds(opened, folder):
    opened.find_element("id", "search").send_keys("3,3,3; 2,2; tokens")
    wait_for(lambda: len(cells(opened, 1)) == 1)
    opened.find_element("css selector", "tr.job .open").send_keys("\n")
    said = opened.find_element("css selector", "tr.detail").text
    assert "At least 23, a theorem: a minor of this size of the Jacobian is nonzero modulo the prime 2147483647" in said
    assert "At most 23, a theorem: 42 parameters less 19 independent symmetries" in said
    assert re.search(r"ffrank verify '.*a batch'/certificates/", said)
    link = opened.find_element("css selector", "tr.detail a").get_attribute("href")
    name = link.rsplit("/", 1)[1]
    assert (folder / "certificates" / name[:2] / name).exists()
    assert "/a%20batch/certificates/" in link
    opened.find_element("css selector", "tr.job").click()
    assert not opened.find_elements("css selector", "tr.detail")


def test_plots_follow_their_axes(opened):
    def axis():
        return opened.find_element("css selector", "#growth text.label").text

    assert axis() == "parameters"
    opened.find_element("css selector", "#axis option[value=tokens]").click()
    assert axis() == "tokens"
    for name in ("growth", "versus", "heat", "counts"):
        assert opened.find_elements("css selector", f"#{name} svg")
    opened.find_element("id", "search").send_keys("nothing like this")
    wait_for(lambda: not cells(opened, 1))
    assert not opened.find_elements("css selector", ".plot svg")


def test_phone(opened):
    opened.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 375, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    )
    try:
        width = opened.execute_script("return document.documentElement.scrollWidth")
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert width <= 375


def test_dark_mode(opened):
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        style = "getComputedStyle(document.body)"
        found = opened.execute_script(f"return [{style}.backgroundColor, {style}.color]")
        colours = [int(re.search(r"\d+", colour)[0]) for colour in found]
    finally:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert colours[0] < 60
    assert colours[1] > 200
