import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.core.errors import InputError
from faith_jax.datasets.npov import Argument
from tests.paths import REAL, needs_shared
from tools.procon.pages import clean_title, read_page

TITLE = {"Title": "Zoos - ProCon.org"}
PRO = {"Pro argument": ["Zoos teach. "], "Pro argument text": ["\n", "They do. ", "\n"]}
CON = {"Con argument": ["Zoos are sad."], "Con argument text": []}


def page_of(tmp_path, items, name="zoos.json", corrections=None):
    path = tmp_path / name
    path.write_text(json.dumps(items), encoding="utf-8")
    return read_page(path, corrections)


def texts(arguments):
    return [argument.text for argument in arguments]


def test_a_page_is_read(tmp_path):
    page = page_of(tmp_path, [TITLE, PRO, CON])
    assert (page.title, page.question) == ("Zoos", "")
    assert page.pro == (Argument("Zoos teach.", explanation="They do."),)
    assert page.con == (Argument("Zoos are sad."),)
    assert page.repairs == {"titles freed of the site's name": 1}
    assert page.dropped == []


@pytest.mark.parametrize(
    ("raw", "title"),
    [
        ("Tablets vs. Textbooks - ProCon.org", "Tablets vs. Textbooks"),
        ("Zoos - Top 3 Pros and Cons | ProCon.org", "Zoos"),
        ("Top 12 Pros and Cons of Zoos \u2013 ProCon", "Zoos"),
        ("Zoos Pros/Cons", "Zoos"),
        ("Procon.org", ""),
        ("Zoos", "Zoos"),
    ],
)
def test_titles_are_freed_of_the_site(raw, title):
    assert clean_title(raw) == title


def test_a_title_that_asks_is_the_question(tmp_path):
    page = page_of(tmp_path, [{"Title": ["Should zoos", "exist? ", "- ProCon.org"]}, PRO, CON])
    assert (page.title, page.question) == ("Should zoos exist", "Should zoos exist?")


def test_untidy_items(tmp_path):
    page = page_of(
        tmp_path,
        [
            {"title": [" Zoos\n", "- ProCon.org"]},
            {"PRO Argument": "1. Zoos teach", "Pro argument text": None, "url": "x"},
            {},
            None,
            {"Con argument": [" "], "Con argument text": ["", "\n"]},
            {"Con argument": ["Zoos are ", "sad."]},
            {"Con argument text": ["Very."]},
            {"Con argument text": ["No argument."]},
            {"Con argument": ["zoos are sad"]},
            {"Pro argument": ["Zoos pay."], "Con argument": ["Zoos cost."]},
            {"Pro argument": ["3"]},
            {"Pro argument": ["Zoos ", ["last."]], "Pro argument text": "Yes."},
        ],
    )
    assert texts(page.pro) == ["Zoos teach.", "Zoos pay.", "Zoos last."]
    assert texts(page.con) == ["Zoos are sad.", "Zoos cost."]
    assert [a.explanation for a in page.con] == ["Very.", ""]
    assert page.pro[2].explanation == "Yes."
    assert page.dropped == [
        "item 5: con argument is empty",
        "item 8: con text without an argument",
        'item 9: con argument occurs twice: "Zoos are sad."',
        "item 11: pro argument has no words",
    ]
    assert page.repairs["unknown fields passed over"] == 1
    assert page.repairs["texts joined to the argument in the item before"] == 1


def test_lost_words_leave_an_argument_out_unless_corrected(tmp_path):
    cut = {"Con argument": ["The decision in ", " was wrong. "]}
    page = page_of(tmp_path, [TITLE, PRO, CON, cut])
    assert texts(page.con) == ["Zoos are sad."]
    assert page.dropped == ['item 4: con argument has lost words: "The decision in was wrong."']
    whole = "The decision in Smith v. Jones was wrong."
    corrections = {"The decision in was wrong.": whole}
    page = page_of(tmp_path, [TITLE, PRO, CON, cut], corrections=corrections)
    assert texts(page.con) == ["Zoos are sad.", whole]
    assert page.repairs["arguments corrected by hand"] == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([TITLE, PRO], "zoos.json: no usable con argument among 2 items; scrape the page again"),
        (
            [TITLE, PRO, {"Con argument": ["The ", " is."]}],
            "no usable con argument among 3 items (left out: item 3: con argument has lost words",
        ),
        ([TITLE, PRO, "text"], 'zoos.json: item 3: expected a JSON object, got "text".'),
        (
            [TITLE, {"Pro argument": [{"a": 1}]}],
            "item 2: field 'pro argument[0]': expected a text or a list, got {\"a\": 1}.",
        ),
        ([{"Title": 5}], "item 1: field 'title': expected a text or a list, got 5."),
        ({"a": 1}, 'expected a list of a title and arguments, got {"a": 1}.'),
    ],
)
def test_pages_that_cannot_be_used_name_the_file_and_the_item(tmp_path, content, message):
    with pytest.raises(InputError) as caught:
        page_of(tmp_path, content)
    assert message in str(caught.value)


FRAGMENTS = st.sampled_from(
    ["Zoos ", "teach", " people. ", "\n", "", "\u2019s", "2. ", "The ", ", which", "&amp;", "<i>"]
)
VALUES = st.one_of(FRAGMENTS, st.none(), st.lists(st.one_of(FRAGMENTS, st.lists(FRAGMENTS))))
ITEMS = st.dictionaries(
    st.sampled_from(["Title", "Pro argument", "Pro argument text", "Con argument", "url"]), VALUES
)


@given(st.lists(st.one_of(ITEMS, st.none()), max_size=6), st.booleans())
def test_any_mixture_is_a_clean_page_or_one_error(tmp_path_factory, items, with_both_sides):
    items += [PRO, CON] if with_both_sides else []
    path = tmp_path_factory.getbasetemp() / "mixture.json"
    path.write_text(json.dumps(items), encoding="utf-8")
    page, message = None, ""
    try:
        page = read_page(path)
    except InputError as error:
        message = str(error)
    if page is None:
        assert message.startswith(str(path))
        assert "\n" not in message
        return
    assert page.title
    for side in (page.pro, page.con):
        assert len({argument.text for argument in side}) == len(side) > 0
        assert all(text == " ".join(text.split()) for text in texts(side))
        assert all(text[-1] in ".!?" for text in texts(side))


@needs_shared
@pytest.mark.parametrize(
    ("name", "title", "pro", "con", "dropped"),
    [
        ("abortion", "Abortion", 15, 15, 1),
        ("conceiledCarrying", "Concealed Guns", 7, 7, 0),
        ("droneStrikes", "Drones", 12, 11, 0),
        ("gunControl", "Gun Control", 15, 15, 0),
        ("rightToHeatlhcare", "Right to Health Care", 12, 11, 0),
        ("socialNetworking", "Social Networking", 23, 23, 0),
        ("textbookTablets", "Tablets vs. Textbooks", 15, 17, 0),
        ("vegetarian", "Vegetarian", 21, 21, 0),
    ],
)
def test_real_pages(name, title, pro, con, dropped):
    page = read_page(REAL / "procon" / f"{name}.json")
    assert (page.title, len(page.pro), len(page.con)) == (title, pro, con)
    assert len(page.dropped) == dropped
    for argument in page.pro + page.con:
        assert argument.text.rstrip('"').endswith(".")
        assert argument.text == " ".join(argument.text.split())
        assert argument.explanation == " ".join(argument.explanation.split())
        assert argument.explanation
