"""The report in a real headless browser."""

import dataclasses
import json
import shutil
import time

import numpy as np
import pytest

from faith_jax.cli import main
from faith_jax.core.table import Table
from faith_jax.report.page import report_page
from faith_jax.report.salience import salience_picture, salience_section
from tests.report.salience_example import EXAMPLE, word_salience

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver (Debian: chromium-driver)"
)
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--window-size=1300,1000",
)
EVIL = "<script>document.title='broken'</script><b>bold</b>"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


def write(path, rows, corpus="c"):
    full = [
        {
            "id": str(number),
            "corpus": corpus,
            "grounding": ["The grounding."],
            "history": [],
            "perspectives": [],
            "generated_text": f"Response {number}.",
            "label": number % 2,
            "fields": {},
            "words": {},
            "cut_tokens": {},
        }
        | row
        for number, row in enumerate(rows)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in full), encoding="utf-8")
    return path


def opened(browser, folder, *files):
    page = folder / "report.html"
    assert main(["report", *map(str, files), f"--output={page}", "--resamples=100"]) == 0
    start = time.perf_counter()
    browser.get(page.as_uri())
    seconds = time.perf_counter() - start
    assert browser.execute_script("return document.documentElement.dataset.ready") == "yes"
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    return seconds


def choose(browser, name, value):
    from selenium.webdriver.support.ui import Select

    Select(browser.find_element("id", name)).select_by_value(value)


def shown(browser):
    return [
        cell.text.split("\n")[0]
        for cell in browser.find_elements("css selector", "#examples tbody tr td:first-child")
    ]


def status(browser):
    return browser.find_element("id", "status").text


def open_two_corpora(browser, folder):
    scores = [(0.1, 5.0), (0.9, 4.0), (0.5, 3.0), (None, 2.0), (0.3, 1.0)]
    rows = [{"scores": {"one": a, "two": b}} for a, b in scores]
    rows[1] |= {"generated_text": EVIL, "grounding": [f"Tea & {EVIL}"]}
    rows[2] |= {
        "generated_text": "\U0001f600 tea is hot",
        "words": {"one": [[2, 5, 0.25, None], [9, 12, 1.0, None], [4, 13, 0.0, 0]]},
    }
    rows[3] |= {"evidence": {"two": [[4, 13, 0.875, 0], [4, 13, 0.875, 0]]}}
    other_rows = [{"scores": {"one": 0.2, "two": 0.2}, "label": None}]
    files = write(folder / "a.jsonl", rows), write(folder / "b.jsonl", other_rows, "other")
    opened(browser, folder, *files)


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    open_two_corpora(browser, tmp_path_factory.mktemp("report"))
    return browser


@pytest.fixture(autouse=True)
def afresh(request):
    if "page" in request.fixturenames:
        open_page = request.getfixturevalue("page")
        open_page.find_element("css selector", "button[type=reset]").click()
        time.sleep(0.05)


def test_it_loads_with_tables_curves_and_all_examples(page):
    assert status(page) == "6 of 6 examples"
    assert shown(page) == ["0", "0", "4", "2", "1", "3"]  # the lowest first
    choose(page, "order", "file")
    assert shown(page) == ["0", "1", "2", "3", "4", "0"]
    curves = page.find_elements("css selector", "svg[aria-label^='ROC'] polyline")
    assert len(curves) == 2
    assert curves[0].get_attribute("stroke") != curves[1].get_attribute("stroke")
    assert "ROC AUC in per cent" in page.find_element("tag name", "caption").text


def test_filters(page):
    choose(page, "corpus", "other")
    assert (status(page), shown(page)) == ("1 of 6 examples", ["0"])
    choose(page, "corpus", "")
    choose(page, "label", "1")
    assert shown(page) == ["1", "3"]
    choose(page, "label", "null")
    assert shown(page) == ["0"]
    choose(page, "label", "")
    page.find_element("id", "search").send_keys("TEA")
    assert shown(page) == ["2", "1"]
    page.find_element("id", "search").send_keys(" nowhere")
    assert status(page) == "0 of 6 examples"


def test_markup_in_texts_is_text(page):
    choose(page, "order", "file")
    assert page.title == "a.jsonl, b.jsonl"
    cell = page.find_elements("css selector", "#examples tbody tr")[1]
    assert EVIL in cell.text
    assert not cell.find_elements("css selector", "b, script")
    cell.find_element("tag name", "summary").click()
    assert f"Tea & {EVIL}" in cell.text


def test_words_are_shaded_where_they_stand(page):
    choose(page, "order", "file")
    cell = page.find_elements("css selector", "#examples tbody tr")[2]
    cell.find_element("tag name", "summary").click()
    marks = cell.find_elements("tag name", "mark")
    assert [(mark.text, mark.get_attribute("title")) for mark in marks] == [
        ("tea", "0.25"),
        ("grounding", "0.00"),
    ]
    # Of the two scorers only one has scores of words.
    options = page.find_elements("css selector", "#scorer option")
    assert [option.get_attribute("value") for option in options] == ["0"]


@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_is_wider_than_the_screen(browser, tmp_path, width):
    name = "a_rather_long_name/of_a_system_with_many_parts/and_more_of_them_than_one_would_like"
    rows = [{"scores": {name: 0.1 * n}, "history": ["Why?"]} for n in range(4)]
    file = write(tmp_path / f"{name.replace('/', '_')}.jsonl", rows, name)
    example = dataclasses.replace(EXAMPLE, response="Tea calms people, " * 20)
    section = salience_section(
        salience_picture(example, word_salience(example, np.full((5, 60), 0.9)))
    )
    page = tmp_path / "map.html"
    page.write_text(report_page(name, {}, [], [], 0, "", [section]), encoding="utf-8")
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        opened(browser, tmp_path, file)
        assert widest(browser) <= width
        browser.get(page.as_uri())
        assert widest(browser) <= width
        box = "document.querySelector('.salience .scroll')"
        assert browser.execute_script(f"return {box}.scrollWidth > {box}.clientWidth")
        text = browser.find_element("css selector", ".salient")
        assert text.value_of_css_property("color") == "rgba(255, 255, 255, 1)"
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def widest(browser):
    """Returns how far to the right anything outside of a box that scrolls reaches, in pixels."""
    return browser.execute_script(
        "return Math.max(document.documentElement.scrollWidth, "
        "...[...document.querySelectorAll('body *')].filter((e) => !e.closest('.scroll'))"
        ".map((e) => e.getBoundingClientRect().right))"
    )


@pytest.mark.slow
def test_ten_thousand_examples_open_in_two_seconds(browser, tmp_path):
    text = "Some words that a document might hold, over and over. " * 20
    rows = [
        {"scores": {"one": i / 10_000, "two": (7 * i % 10_000) / 10_000}, "grounding": [text]}
        for i in range(10_000)
    ]
    assert opened(browser, tmp_path, write(tmp_path / "many.jsonl", rows)) < 2
    assert status(browser) == "10000 of 10000 examples"
    start = time.perf_counter()
    choose(browser, "order", "disagreement")
    browser.find_element("id", "next").click()
    assert browser.find_element("id", "page").text == "page 2 of 400"
    assert time.perf_counter() - start < 2


def test_examples_in_files_are_found_filtered_and_sorted(browser, tmp_path, monkeypatch):
    from faith_jax.report import page as page_module

    monkeypatch.setattr(page_module, "MOST_BYTES", 1000)
    monkeypatch.setattr(page_module, "_BLOCK", 7)
    rows = [{"scores": {"one": -(n % 5), "two": None if n == 3 else n}} for n in range(60)]
    rows[9] |= {"generated_text": EVIL}
    rows[50] |= {"generated_text": "Response 4."}
    rows[59]["words"] = {"two": [[0, 8, 0.5, None]]}
    opened(browser, tmp_path, write(tmp_path / "a.jsonl", rows))
    assert not browser.find_elements("id", "data")
    assert status(browser) == "60 of 60 examples, 59 of them different"
    assert shown(browser)[:3] == ["4", "9", "14"]
    first = browser.find_element("css selector", "#examples tbody tr")
    first.find_element("css selector", "button[aria-expanded]").click()
    wait(lambda: shown(browser)[:2] == ["4", "50"])
    press(browser, 51, "wrong")  # a row of another file
    (marked,) = browser.execute_script("return markedRows()")
    assert (json.loads(marked)["id"], json.loads(marked)["label"]) == ("50", 0)
    choose(browser, "order", "down1")
    wait(lambda: shown(browser)[:3] == ["59", "58", "57"])
    browser.find_element("css selector", "#examples mark")
    for _ in range(2):
        browser.find_element("id", "next").click()
    wait(lambda: shown(browser)[-1] == "3")  # what is undefined comes last
    choose(browser, "order", "disagreement")
    choose(browser, "label", "1")
    wait(lambda: status(browser) == "30 of 60 examples")
    browser.find_element("id", "search").send_keys("BOLD")
    wait(lambda: shown(browser) == ["9"])
    cell = browser.find_element("css selector", "#examples tbody tr")
    assert EVIL in cell.text
    assert not cell.find_elements("css selector", "b, script")
    (folder,) = tmp_path.glob("report_rows_*")
    folder.rename(tmp_path / "away")
    browser.get((tmp_path / "report.html").as_uri())
    wait(lambda: f"keep the folder {folder.name} beside this page" in status(browser))
    browser.get_log("browser")  # has the error, which other tests would find


def wait(holds):
    end = time.perf_counter() + 30
    while not holds():
        assert time.perf_counter() < end
        time.sleep(0.02)


def test_salience_maps_are_coloured_and_text(browser, tmp_path):
    example = dataclasses.replace(EXAMPLE, id=EVIL)
    section = salience_section(salience_picture(example, word_salience(example)))
    table = Table("A title", ("scorer", "c"), (("s", 0.5),))
    page = tmp_path / "report.html"
    text = report_page("Title", {}, [table], [], 0, "Which rows.", [section])
    page.write_text(text, encoding="utf-8")
    browser.get(page.as_uri())
    assert browser.title == "Title"
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    map_section = browser.find_element("css selector", "section.salience")
    assert map_section.find_element("tag name", "h2").text == EVIL
    cells = map_section.find_elements("css selector", "tbody tr:first-child td")
    colours = [cell.value_of_css_property("background-color") for cell in cells]
    assert len(cells) == 5  # the contribution, and a share for each word of the response
    assert colours[1] == "rgba(0, 90, 181, 0.8)"
    assert colours[4] == "rgba(0, 90, 181, 0)"


def test_systems_side_by_side(browser, tmp_path):
    first = [{"scores": {"one": 0.1 * n, "two": 0.5}, "label": None} for n in range(4)]
    second = [{"scores": {"one": 0.3, "two": 0.5}, "label": None} for n in range(3)]
    second[2]["generated_text"] = f"Other {EVIL}"
    third = [{"scores": {"one": 0.3, "two": 0.5}, "grounding": ["Of a text."], "label": None}]
    files = [
        write(tmp_path / f"{name}.jsonl", rows, name)
        for name, rows in (("a", first), ("b", second), ("c", third))
    ]
    opened(browser, tmp_path, *files)
    choose(browser, "view", "pairs")
    assert status(browser) == "3 inputs, the largest differences first"
    lines = browser.find_elements("css selector", "#examples tbody tr")
    assert [line.find_element("tag name", "td").text for line in lines] == ["0", "1", "2"]
    sides = lines[2].find_elements("css selector", ".pair > div")
    assert [side.find_element("tag name", "strong").text for side in sides] == ["a", "b"]
    assert f"Other {EVIL}" in sides[1].text
    assert "one 0.300, two 0.500" in sides[1].text
    order = browser.find_element("css selector", "#difference option")
    assert order.text == "one, largest differences first"
    assert not browser.find_element("id", "order").is_displayed()
    assert not browser.find_elements("id", "label")
    assert not browser.find_element("css selector", "th.one").is_displayed()
    assert browser.find_element("css selector", "label[for='corpus']").text == "System"
    browser.find_element("id", "search").send_keys("Other")
    assert status(browser) == "1 input, the largest differences first"
    choose(browser, "view", "")
    assert status(browser) == "1 of 8 examples"


def pressed(browser, number):
    """Whether the buttons right and wrong of a row are pressed."""
    script = (
        f"return [...document.querySelector('a[href=\"#row-{number}\"]').closest('tr')"
        ".querySelectorAll('.marks button')].map((one) => one.ariaPressed)"
    )
    return browser.execute_script(script)


def press(browser, number, name):
    from selenium.webdriver.common.keys import Keys

    line = f"//tr[.//a[@href='#row-{number}']]"
    browser.find_element("xpath", f"{line}//button[text()='{name}']").send_keys(Keys.ENTER)


def test_a_row_has_an_address(browser, tmp_path):
    open_two_corpora(browser, tmp_path)
    browser.find_element("css selector", "a[href='#row-3']").click()
    time.sleep(0.1)
    assert (shown(browser), status(browser).split(",")[0]) == (["2"], "example 3 of 6")
    browser.get(browser.current_url.partition("#")[0] + "#row-6")  # opened at the row
    browser.refresh()
    assert shown(browser) == ["0"]
    browser.find_element("css selector", "button[type=reset]").click()
    time.sleep(0.1)
    assert (len(shown(browser)), status(browser)) == (6, "6 of 6 examples")
    assert browser.current_url.endswith("#")


def test_marks_are_kept_and_evaluated(browser, tmp_path, capsys):
    open_two_corpora(browser, tmp_path)
    capsys.readouterr()
    for number, name in {1: "wrong", 2: "right", 3: "wrong", 5: "right"}.items():
        press(browser, number, name)
    press(browser, 3, "wrong")  # takes it back
    assert pressed(browser, 1) == ["false", "true"]
    assert pressed(browser, 2) == ["true", "false"]
    assert pressed(browser, 3) == ["false", "false"]
    browser.refresh()
    assert pressed(browser, 1) == ["false", "true"]
    assert browser.find_element("id", "marked").text == "2 marked as right, 1 as wrong"
    marks = tmp_path / "marks.jsonl"
    marks.write_text("".join(browser.execute_script("return markedRows()")), encoding="utf-8")
    rows = [json.loads(line) for line in marks.read_text(encoding="utf-8").splitlines()]
    assert [(row["id"], row["label"], row["scores"]) for row in rows] == [
        ("0", 0, {"one": 0.1, "two": 5.0}),
        ("1", 1, {"one": 0.9, "two": 4.0}),
        ("4", 1, {"one": 0.3, "two": 1.0}),
    ]
    assert rows[1]["generated_text"] == EVIL
    assert main(["evaluate", str(marks), "--resamples=100"]) == 0
    table = capsys.readouterr().out
    assert "100.0" in next(line for line in table.splitlines() if line.startswith("one"))
    browser.find_element("id", "unmark").click()
    assert browser.find_element("id", "marked").text == "0 marked as right, 0 as wrong"
    assert not browser.find_element("id", "download").is_enabled()
    browser.refresh()
    assert pressed(browser, 1) == ["false", "false"]
