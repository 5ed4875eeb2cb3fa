import json

import pytest

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.datasets import npov
from tests.paths import REAL, needs_shared
from tools.procon import conversion as procon_conversion

NAMES = ("Obesity", "Golf", "Fracking")  # train, validation and test in Chang 2024


def write_page(folder, name, title=None, pro=4, con=3):
    items = [{"Title": f"{title or name} - ProCon.org"}]
    items += [{"Pro argument": [f"{name} helps in way {i}. "]} for i in range(pro)]
    items += [
        {"Con argument": [f"{name} hurts in way {i}."], "Con argument text": ["It ", " does."]}
        for i in range(con)
    ]
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(items), encoding="utf-8")
    return path


@pytest.fixture
def pages(tmp_path):
    for name in NAMES:
        write_page(tmp_path / "pages", name)
    return tmp_path / "pages"


def convert(pages, output, **options):
    sources = pages if isinstance(pages, list) else [pages]
    return procon_conversion.convert(sources, output, **options)


def content(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_pages_become_topics_and_template_responses(pages, tmp_path):
    conversion = convert(pages, tmp_path / "out")
    topics = npov.load_topics(tmp_path / "out")
    assert conversion.topics == topics
    assert [(t.id, t.title, t.split) for t in topics] == [
        ("obesity", "Obesity", "train"),
        ("golf", "Golf", "validation"),
        ("fracking", "Fracking", "test"),
    ]
    assert topics[1].question == "Is golf a real sport?"
    assert topics[0].pro[3] == npov.Argument("Obesity helps in way 3.")
    assert topics[0].con[0] == npov.Argument("Obesity hurts in way 0.", (), "It [...] does.")
    responses = npov.load_responses(tmp_path / "out", topics)
    assert len(responses) == 36
    assert {response.source for response in responses} == {"template"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "pages"]


def test_the_same_pages_and_seed_give_the_same_bytes(pages, tmp_path):
    convert(pages, tmp_path / "a")
    convert([pages / f"{name}.json" for name in sorted(NAMES)], tmp_path / "b")
    convert(pages, tmp_path / "c", seed=1)
    assert content(tmp_path / "a") == content(tmp_path / "b")
    assert content(tmp_path / "a") != content(tmp_path / "c")


def test_written_responses(pages, tmp_path):
    row = {"id": "w", "topic": "golf", "pro": [0], "con": [2], "response": "Both."}
    responses_path = tmp_path / "mine.jsonl"
    responses_path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    (response,) = convert(pages, tmp_path / "out", responses=str(responses_path)).responses
    assert response == npov.WrittenResponse("w", "golf", (0,), (2,), "Both.")
    responses_path.write_text(json.dumps(row | {"con": [3]}) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"mine\.jsonl:1: field 'con': .* 0 to 2, got \[3\]"):
        convert(pages, tmp_path / "other", responses=str(responses_path))
    assert not (tmp_path / "other").exists()
    with pytest.raises(InputError, match="expected responses 'template', 'none' or a file"):
        convert(pages, tmp_path / "other", responses="templates")


def test_an_output_is_replaced_only_when_asked_to_and_only_a_conversion(pages, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    convert(pages, out)  # an empty folder may be filled
    before = content(out)
    with pytest.raises(InputError, match="holds data already: name a new folder or use --over"):
        convert(pages, out, seed=1)
    assert content(out) == before
    convert(pages, out, seed=1, overwrite=True)
    assert content(out) != before
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds other files \(thesis\.txt\)"):
        convert(pages, out, overwrite=True)
    with pytest.raises(InputError, match="expected a folder to make, got a file"):
        convert(pages, out / "thesis.txt", overwrite=True)
    with pytest.raises(ConfigError, match="cannot be written"):
        convert(pages, out / "thesis.txt" / "deeper")


@needs_shared
def test_the_real_pages_take_the_papers_split(tmp_path):
    conversion = convert(REAL / "procon", tmp_path / "out")
    assert conversion.split_reason == "chang2024 (table 4 of the paper)"
    assert {t.id: t.split for t in conversion.topics} == {
        "concealed-guns": "train",
        "tablets-vs-textbooks": "validation",
        "abortion": "test",
        "drones": "test",
        "gun-control": "test",
        "right-to-health-care": "test",
        "social-networking": "test",
        "vegetarian": "test",
    }
    assert sum(len(t.pro) for t in conversion.topics) == 120
    assert sum(len(t.con) for t in conversion.topics) == 120
    assert len(conversion.responses) == 96


def test_a_bad_page_leaves_the_output_as_it_was(pages, tmp_path):
    convert(pages, tmp_path / "out")
    before = content(tmp_path / "out")
    write_page(pages, "Zoos", con=0)
    with pytest.raises(InputError, match=r"Zoos\.json: no usable con argument"):
        convert(pages, tmp_path / "out", overwrite=True)
    assert content(tmp_path / "out") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "pages"]
