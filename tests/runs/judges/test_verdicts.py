import json
import math
import types

import pytest

import faith_jax
from faith_jax.core.errors import ConfigError
from faith_jax.scoring.registry import load_scorer

TEXTS = ["Tea is a leaf. It grows in the hills.", "The lake freezes in winter."], "It is a leaf."


def test_a_verdict_is_that_of_the_cards_threshold(models):
    name = "minicheck_flan_t5_large"
    (verdict,) = faith_jax.judge([TEXTS[0]], [TEXTS[1]], judge=name, model=models[name])
    (score,) = load_scorer(name, model=models[name]).score([TEXTS[0]], [TEXTS[1]])
    assert verdict.score == pytest.approx(score.value, abs=1e-6)
    assert verdict.supported is (score.value > 0.5)
    assert verdict.evidence == tuple(TEXTS[0])  # one chunk of two texts
    assert (verdict.cut_tokens, verdict.undefined) == (0, "")


def test_without_a_threshold_or_a_score_there_is_no_verdict(models):
    (verdict,) = faith_jax.judge(
        [TEXTS[0]], [TEXTS[1]], judge="unieval_fact", model=models["unieval_fact"]
    )
    assert verdict.supported is None
    assert 0 < verdict.score < 1
    (verdict,) = faith_jax.judge([TEXTS[0]], [""], model=models["minicheck_flan_t5_large"])
    assert verdict.supported is None
    assert math.isnan(verdict.score)
    assert verdict.undefined == "the response is empty"


RECORDS = [
    {"query": "What is tea?", "result": TEXTS[1], "source_documents": [
        {"page_content": text, "metadata": {"page": n}} for n, text in enumerate(TEXTS[0])
    ]},
    {"query": "And ice?", "result": "The lake freezes.", "source_documents": [
        {"page_content": TEXTS[0][1]}
    ]},
]  # fmt: skip


@pytest.fixture
def expected(models):
    """The verdicts on the texts of `RECORDS`."""
    return faith_jax.judge(
        [TEXTS[0], [TEXTS[0][1]]],
        [row["result"] for row in RECORDS],
        model=models["minicheck_flan_t5_large"],
    )


def check_columns(table, expected):
    assert list(table["judge_score"]) == pytest.approx([v.score for v in expected], abs=1e-6)
    assert list(table["judge_supported"]) == [v.supported for v in expected]
    assert list(map(list, table["judge_evidence"])) == [list(v.evidence) for v in expected]


def test_frames_and_columns(models, expected):
    pandas = pytest.importorskip("pandas")
    model = models["minicheck_flan_t5_large"]
    columns = {
        "passages": [TEXTS[0], [TEXTS[0][1]]],
        "answer": [row["result"] for row in RECORDS],
        "note": ["a", "b"],
    }
    frame = pandas.DataFrame(columns, index=[7, 9])
    judged = faith_jax.judge(frame, model=model)
    check_columns(judged, expected)
    assert list(judged.index) == [7, 9]
    assert list(judged["note"]) == ["a", "b"]

    # As `Dataset.map(batched=True)` calls it: columns in, columns out.
    def add_verdicts(batch):
        return faith_jax.judge(batch, model=model)

    mapped = add_verdicts(columns)
    assert type(mapped) is dict
    assert all(type(values) is list for values in mapped.values())
    check_columns(mapped, expected)
    assert mapped["note"] == ["a", "b"]


def write_calibration(path, scorer, **maps):
    deciders = {
        name: {
            "rows": 40, "groups": 40, "sample": [0.1, 0.9],
            "probabilities": {"form": "platt", "slope": slope, "intercept": -1.0},
        }
        for name, slope in maps.items()
    }  # fmt: skip
    fields = {
        "format": "faith_jax calibration 1", "scorer": scorer, "guarantee": "learn_then_test",
        "target": 0.1, "reject_target": 0.1, "confidence": 0.9, "cluster_field": "auto",
        "corpora": deciders,
    }  # fmt: skip
    path.write_text(json.dumps(fields))
    return str(path)


def test_a_calibration_gives_probabilities(models, expected, tmp_path, caplog):
    name, model = "minicheck_flan_t5_large", models["minicheck_flan_t5_large"]
    path = write_calibration(tmp_path / "calibration.json", name, answers=3.0)
    probabilities = [1 / (1 + math.exp(1.0 - 3.0 * verdict.score)) for verdict in expected]
    table = faith_jax.judge(RECORDS, model=model, calibration=path)
    assert list(table["judge_probability"]) == pytest.approx(probabilities, abs=1e-6)
    verdicts = faith_jax.judge([TEXTS[0], "Tea."], [TEXTS[1], ""], model=model, calibration=path)
    assert verdicts[0].probability == pytest.approx(probabilities[0], abs=1e-6)
    assert verdicts[1].probability is None
    assert expected[0].probability is None
    path = write_calibration(tmp_path / "two.json", name, first=3.0, second=1.0)
    (verdict,) = faith_jax.judge(
        [TEXTS[0]], [TEXTS[1]], model=model, calibration=path, corpus="first"
    )
    assert verdict.probability == pytest.approx(probabilities[0], abs=1e-6)
    texts = [TEXTS[0]], [TEXTS[1]]
    with pytest.raises(ConfigError, match=r"has first, second; choose one"):
        faith_jax.judge(*texts, model=model, calibration=path)
    with pytest.raises(ConfigError, match=r"corpus: .* has none 'third', but first, second"):
        faith_jax.judge(*texts, model=model, calibration=path, corpus="third")
    with pytest.raises(ConfigError, match="corpus: goes with a calibration"):
        faith_jax.judge(*texts, model=model, corpus="first")
    faith_jax.judge(*texts, model=model, calibration=path, corpus="second", sentences="min")
    assert "two.json must be of scores with the same options: sentences='min'" in caplog.text
    other_path = write_calibration(tmp_path / "other.json", "token_f1", answers=1.0)
    with pytest.raises(ConfigError, match="is of the scores of token_f1, not of minicheck_flan"):
        faith_jax.judge(*texts, model=model, calibration=other_path)


def test_the_name_of_a_judge_is_not_first():
    with pytest.raises(ConfigError, match=r'judge: expected a name, got \["Tea"\]; it follows'):
        faith_jax.judge("alignscore", ["Tea"], ["Tea"])


@pytest.mark.parametrize("column", ["source_documents", "source_nodes"])
def test_documents_of_langchain_and_llamaindex_are_read(models, expected, column):
    class Document:
        def __init__(self, text):
            if column == "source_documents":
                self.page_content, self.metadata = text, {}
            else:
                self.node, self.score = types.SimpleNamespace(text=text), 0.8

    records = []
    for row in RECORDS:
        documents = [Document(d["page_content"]) for d in row["source_documents"]]
        records.append({"query": row["query"], "result": row["result"], column: documents})
    check_columns(faith_jax.judge(records, model=models["minicheck_flan_t5_large"]), expected)


def test_words_and_reasons(models):
    name, model = "lettucedetect_summary", models["lettucedetect_summary"]
    texts = ["Tea is a leaf."] * 2, ["It is a hot lake.", " "]
    verdict, blank = faith_jax.judge(*texts, judge=name, model=model)
    assert [word.word for word in verdict.words] == ["It", "is", "a", "hot", "lake."]
    assert min(word.score for word in verdict.words) == pytest.approx(verdict.score)
    assert blank.words == ()
    table = dict(zip(("passages", "answer"), texts, strict=True))
    judged = faith_jax.judge(table, judge=name, model=model)
    assert judged["judge_undefined"] == ["", "the response is empty"]
    assert [word["word"] for word in judged["judge_words"][0]] == ["It", "is", "a", "hot", "lake."]
    assert judged["judge_words"][1] == []


def test_a_row_without_a_grounding_has_no_score(models, caplog):
    model = models["minicheck_flan_t5_large"]
    rows = [{"query": "a", "result": "Tea.", "source_documents": []}, RECORDS[0]]
    judged = faith_jax.judge(rows, model=model)
    assert list(judged["judge_undefined"]) == ["the grounding is empty", ""]
    assert [math.isnan(score) for score in judged["judge_score"]] == [True, False]
    assert caplog.messages[-1] == (
        "minicheck_flan_t5_large is undefined in 1 of 2 rows: the grounding is empty (1)"
    )
