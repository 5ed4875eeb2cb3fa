import pytest

from faith_jax.core.errors import InputError
from faith_jax.datasets.raw.nli import NLI

ROW = '{"id": "1", "premise": "P.", "hypothesis": "H.", "label": "neutral"}\n'


def read(tmp_path, content):
    path = tmp_path / "train.jsonl"
    path.write_text(content, encoding="utf-8")
    return list(NLI.examples({path.name: path}, "train"))


def test_fields(tmp_path):
    expected = {"id": "1", "premise": "P.", "hypothesis": "H.", "label": "neutral"}
    assert read(tmp_path, ROW) == [expected]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"neutral"', '"nuetral"', "Did you mean 'neutral'"),
        ('"P."', '""', "field 'premise': expected a text"),
        ('"hypothesis"', '"hypotheses"', "field 'hypothesis' is missing. Did you mean"),
    ],
)
def test_bad_rows(tmp_path, old, new, message):
    with pytest.raises(InputError, match=rf"train\.jsonl:2: .*{message}"):
        read(tmp_path, ROW + ROW.replace(old, new))
