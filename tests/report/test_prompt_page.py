import re

import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.report.curve_panels import curve_panel, prompt_panels
from faith_jax.report.prompt_figures import save_curves
from faith_jax.report.prompt_page import drawn, prompt_page
from tests.report.test_prompt_tables import report_of
from tests.statistics.prompt_examples import VECTORS, curve, healthy_prompt, healthy_run


def page(*runs):
    return prompt_page("<script>alert(1)</script>", report_of(*runs), prompt_panels(runs))


def test_texts_cannot_leave_their_place():
    html = page(healthy_run("<i>a</i>"))
    assert "<script" not in html
    assert "<i>" not in html
    assert "<b>" not in html
    assert "&lt;b&gt;\u2581the&lt;/b&gt; 0.9" in html
    assert "&lt;script&gt;alert(1)" in html


def test_the_page_needs_no_network():
    html = page(healthy_run())
    assert not re.search(r"(?:src|href)=|url\(|@import|https?:", html)
    assert "default-src 'none'" in html


def test_the_page_shows_tables_curves_warnings_and_cosines():
    html = page(healthy_run("a"), healthy_run("b", prompt=healthy_prompt(VECTORS * 9)))
    for part in ("<h1>", "vectors 0, 1, 2 much longer", "Prompts of two runs", "gradient norm"):
        assert part in html
    assert html.count("<polyline") == 2 + 2 * (2 + 3 + 3)
    assert html.count("Cosines between the vectors of") == 2
    # The cosine of vectors 0 and 1: 0.5 over 1.25.
    assert "0.40" in html


def test_nothing_that_is_not_there_is_shown():
    long = healthy_prompt(np.eye(31, 40), start=None, embedding=None)
    html = page(healthy_run("a", prompt=long))
    assert "<p>None.</p>" in html
    assert "Cosines between the vectors of" not in html


def test_points_are_drawn_downwards():
    panel = curve_panel("a", "loss", {"one": curve([3, 1], [1, 2]), "two": curve([2], [2])})
    found = drawn(panel)
    assert found["curves"][0]["points"] == "0.0000,0.0000 1.0000,0.6500"
    assert found["curves"][0]["dot"] is None
    assert found["curves"][1]["dot"] == ("1.0000", "0.3250")


def test_a_picture_is_written_whole(tmp_path):
    runs = [healthy_run(f"_run${i}$") for i in range(5)]
    files = save_curves(prompt_panels(runs), tmp_path / "curves.png")
    assert [file.name for file in files] == ["curves.png", "curves-2.png"]
    assert {path.name for path in tmp_path.iterdir()} == {"curves.png", "curves-2.png"}
    assert all(file.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" for file in files)
    with pytest.raises(ConfigError, match="cannot be written"):
        save_curves(prompt_panels(runs), tmp_path / "nowhere" / "curves.png")
