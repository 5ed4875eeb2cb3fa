import pytest

from faith_jax.core.errors import InputError
from faith_jax.datasets.raw.text_to_text import TEXT_TO_TEXT

ROW = '{"id": "1", "inputs": "copy: Tea.", "targets": "Tea."}\n'


def read(tmp_path, content):
    path = tmp_path / "train.jsonl"
    path.write_text(content, encoding="utf-8")
    return list(TEXT_TO_TEXT.examples({path.name: path}, "train"))


def test_fields(tmp_path):
    assert read(tmp_path, ROW) == [{"id": "1", "inputs": "copy: Tea.", "targets": "Tea."}]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"Tea."', '""', "field 'targets': expected a text"),
        ('"inputs"', '"input"', "field 'inputs' is missing. Did you mean 'input'"),
    ],
)
def test_bad_rows(tmp_path, old, new, message):
    with pytest.raises(InputError, match=rf"train\.jsonl:2: .*{message}"):
        read(tmp_path, ROW + ROW.replace(old, new))
