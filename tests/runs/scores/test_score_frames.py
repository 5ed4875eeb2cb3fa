"""Tables of scores."""

import math
import re

import pandas
import pytest

from faith_jax.core.errors import CheckpointError, ConfigError, InputError
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.runs.scores.score_frames import score
from faith_jax.scoring.registry import load_scorer

GROUNDINGS = ["Tea is hot.", ["Tea is hot.", "It is a leaf."]]
RESPONSES = ["The tea is hot!", ""]


def score_rows(*arguments, **options):
    """Returns the rows of a table of scores as dictionaries."""
    return score(*arguments, **options).to_dict("records")


def test_rows_have_texts_histories_labels_and_scores():
    first, second = score_rows(
        GROUNDINGS,
        RESPONSES,
        ["token_f1", "token_recall"],
        histories=[["Hi!"], []],
        labels=[1, None],
    )
    assert first == {
        "grounding": "Tea is hot.", "response": "The tea is hot!", "history": ["Hi!"], "label": 1,
        "token_f1": 1.0, "token_recall": 1.0,
    }  # fmt: skip
    assert math.isnan(second["token_f1"])
    assert second["history"] == []
    assert math.isnan(second["label"])


def test_a_data_frame_has_the_same_columns():
    scored = score(GROUNDINGS, RESPONSES, ["token_f1"], labels=[1, 0])
    assert isinstance(scored, pandas.DataFrame)
    assert list(scored.columns) == ["grounding", "response", "label", "token_f1"]
    assert scored["token_f1"].tolist()[0] == 1.0
    assert list(score([], [], ["token_f1"]).columns) == ["grounding", "response", "token_f1"]


def test_equal_scores_are_told_unless_they_are_few(caplog):
    for count in (4, 5):
        score(["Tea is hot."] * count, ["Ink."] * count, scorers=["token_f1"])
    (warning,) = caplog.messages
    assert warning.startswith("token_f1: all 5 scores are 0, so that they tell no response from")


def test_perspectives_are_lists_by_name():
    sides = {"pro": "Tea calms.", "con": ["It stains.", "It is hot."]}
    same = Grounding(("Tea calms.", "It stains.", "It is hot."), ("pro", "con", "con"))
    rows = score_rows([sides, same], ["Tea calms."] * 2, ["npov_rouge1_coverage"])
    assert rows[0]["npov_rouge1_coverage"] == rows[1]["npov_rouge1_coverage"]
    scorer = load_scorer("npov_rouge1_coverage")
    (expected,) = scorer.score([same], ["Tea calms."])
    assert rows[0]["npov_rouge1_coverage"] == expected.value


def test_scorers_have_options_of_their_own_and_shared_ones():
    with pytest.raises(ConfigError, match=r"^no scorer has an option 'modle'"):
        score(GROUNDINGS, RESPONSES, ["token_f1", "nli_entailment"], modle="x")
    with pytest.raises(ConfigError, match=r"option 'scorer'\. Did you mean 'scorers'"):
        score(GROUNDINGS, RESPONSES, scorer="token_f1")
    with pytest.raises(ConfigError, match=r"option 'history'\. Did you mean 'histories'\?"):
        score(GROUNDINGS, RESPONSES, ["token_f1"], history=["Hi!"])
    with pytest.raises(CheckpointError, match="nowhere"):
        score(GROUNDINGS, RESPONSES, ["token_f1", "nli_entailment"], model="nowhere")
    with pytest.raises(ConfigError, match="'a' is given twice; rename one as NAME=SCORER"):
        score(GROUNDINGS, RESPONSES, ["a=token_f1", "a=rouge1_precision"])
    with pytest.raises(ConfigError, match="'label' is a column of the result"):
        score(GROUNDINGS, RESPONSES, ["label=token_f1"])
    (row, _) = score_rows(GROUNDINGS, RESPONSES, {"mine=token_f1": {}})
    assert row["mine"] == 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scorers": "token_f1"}, "expected a list of names, such as .*, got 'token_f1'"),
        ({"scorers": [load_scorer("token_f1")]}, "expected a list of names"),
        ({"scorers": ["token_f"]}, "There is no scorer 'token_f'. Did you mean 'token_f1'"),
        ({"labels": [1]}, "2 responses, 1 labels"),
        ({"responses": ["a"]}, "2 groundings, 1 responses"),
        (
            {"responses": ["a", "b \ud83d"]},
            r"^Response 1: holds half of a surrogate pair, no character\.$",
        ),
    ],
)
def test_wrong_arguments_are_named(changes, message):
    arguments = {"groundings": GROUNDINGS, "responses": RESPONSES, "scorers": ["token_f1"]}
    with pytest.raises(ValueError, match=message):
        score(**(arguments | changes))


FRAME = {
    "user_input": ["Is tea hot?", "What's tea?", "Is it?"],
    "retrieved_contexts": [["Tea is hot."], ["It is hot.", "Tea is a leaf."], ["Tea is hot."]],
    "response": ["The tea is hot!", None, math.nan],
    "label": [1, 0, None],
}


def test_a_frame_of_pandas_keeps_its_index_and_columns():
    frame = pandas.DataFrame(FRAME, index=[7, 3, 5])
    scored = score(frame, scorers=["token_f1", "token_recall"])
    assert list(scored.columns) == [*FRAME, "token_f1", "token_recall"]
    assert scored.index.tolist() == [7, 3, 5]
    assert scored["token_f1"].fillna(-1).to_dict() == {7: 1.0, 3: -1.0, 5: -1.0}
    assert list(frame.columns) == list(FRAME)
    named = frame.rename(columns={"response": "text"})
    assert score(named, scorers=["token_f1"], columns={"response": "text"})["token_f1"][7] == 1.0


def test_the_index_of_any_series_is_kept_and_is_the_same_for_all():
    documents = pandas.Series(["Tea is hot.", "Ink is blue."], index=["x", "y"])
    responses = ["Tea is hot.", "Ink."]
    assert score(documents, responses, ["token_f1"]).index.tolist() == ["x", "y"]
    swapped = pandas.Series(responses[::-1], index=["y", "x"])
    with pytest.raises(
        ValueError, match=r"groundings and responses have .*; give responses.reinde"
    ):
        score(documents, swapped, ["token_f1"])
    scores = score(documents, swapped.reindex(documents.index), ["token_f1"])
    assert scores["token_f1"]["x"] == 1.0


def test_tables_of_arrow_and_lists():
    pyarrow = pytest.importorskip("pyarrow")
    rows = [dict(zip(FRAME, row, strict=True)) for row in zip(*FRAME.values(), strict=True)]
    (first, *rest) = score_rows(rows[:2], scorers=["token_f1"])
    assert first == rows[0] | {"token_f1": 1.0}
    assert math.isnan(rest[0]["token_f1"])
    table = score(pyarrow.Table.from_pylist(rows[:1]), scorers=["token_f1"])
    assert table.to_pylist() == [rows[0] | {"token_f1": 1.0}]
    again = table.set_column(0, "user_input", [["Is it?"]])
    assert score(again, scorers=["token_f1", "token_recall"]).column_names == [
        *FRAME, "token_f1", "token_recall"
    ]  # fmt: skip


def test_examples_are_rows():
    sides = Grounding.two_sided(["Tea is hot."], ["It is wet."])
    example = GroundedExample("a", sides, ("Hi!",), "Tea is hot.", 1)
    (row,) = score_rows([example], scorers=["rouge1_precision"])
    assert (row["id"], row["response"], row["label"]) == ("a", "Tea is hot.", 1)
    assert list(row["perspectives"]) == ["pro", "con"]
    assert row["rouge1_precision"] == 1.0


def test_remedies_are_arguments(caplog):
    row = {"input": "Hot?", "output": '{"answer": "Yes.", "k": 3}', "context": "Tea is hot."}
    score([row], scorers=["token_f1"])
    assert caplog.messages[0].endswith(
        '; columns={"response": "output.KEY"} takes what a key has: answer, k.'
    )
    (scored,) = score_rows([row], scorers=["token_f1"], columns={"response": "output.answer"})
    assert scored["token_f1"] == 0.0
    remedy = r'name it with columns=\{"grounding": "pro=pro_args,con=con_args"\}\. Known'
    with pytest.raises(InputError, match=remedy):
        score([{"pro_args": "a", "con_args": "b", "response": "c"}], scorers=["token_f1"])


def test_missing_texts_have_no_scores(caplog):
    frame = pandas.DataFrame(
        {
            "context": [["Tea is hot."], None, "Tea.", "Tea.", "Tea."],
            "answer": ["Tea is hot.", "Tea.", None, math.nan, pandas.NA],
            "question": ["Hot?", None, math.nan, pandas.NA, "Hot?"],
        }
    )
    by_text = score(frame.context, frame.answer, ["token_f1"], histories=frame.question)
    assert caplog.messages == [
        "token_f1 is undefined in 4 of 5 rows: the response is empty (3); "
        "the grounding has no words (1)"
    ]
    by_table = score(frame, scorers=["token_f1"])
    assert caplog.messages == caplog.messages[:1] * 2
    for scored in (by_text, by_table):
        assert scored["token_f1"].fillna(-1).tolist() == [1.0, -1.0, -1.0, -1.0, -1.0]
    assert by_text["response"].isna().tolist() == [False, False, True, True, True]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"groundings": [{"contexts": ["a"], "text": "b"}]},
            r"^frame\[0\]: none of .* name it with columns=\{\"response\": \"NAME\"\}\. Known",
        ),
        ({"groundings": ["a"]}, r"^frame\[0\]: expected a row with columns, got \"a\""),
        (
            {"groundings": pandas.DataFrame({"passages": ["a"]}), "responses": ["a"]},
            r"^responses: a table has them in a column; leave them out, or give one column",
        ),
        ({"labels": [1]}, r"^labels: a table has them in a column; leave them out\.$"),
        ({"histories": [[]]}, r"^histories: a table has them in a column; leave them out\.$"),
        (
            {
                "groundings": [{"contexts": ["a"], "response": "b", "label": "partly"}],
                "columns": {"label": "label"},
            },
            r"^frame\[0\]: field 'label': .*, got \"partly\"; write one of these in the table\.$",
        ),
        ({"columns": {"text": "a"}}, "columns: expected grounding, response, .*, got 'text'"),
        ({"responses": ["a"], "columns": {"response": "a"}}, "columns: name those of a table"),
    ],
)
def test_wrong_tables_are_named(changes, message):
    arguments = {"groundings": [{"contexts": ["a"], "response": "b"}], "scorers": ["token_f1"]}
    with pytest.raises((ValueError, TypeError), match=message):
        score(**(arguments | changes))


def test_rows_without_a_grounding_have_no_scores(caplog):
    groundings = ["Tea is hot.", None, float("nan"), " "]
    frame = pandas.DataFrame({"passages": groundings, "answer": ["Tea is hot."] * 4})
    values = score(frame, scorers=["token_f1"])["token_f1"]
    assert values.fillna(-1).tolist() == [1.0, -1.0, -1.0, -1.0]
    assert caplog.messages[-1] == (
        "token_f1 is undefined in 3 of 4 rows: the grounding has no words (3)"
    )


def test_what_was_cut_is_told(caplog):
    frame = pandas.DataFrame({"passages": ["Tea is hot. " * 300], "answer": ["Tea is hot."]})
    for arguments in ((frame["passages"], frame["answer"]), (frame,)):
        score(*arguments, scorers=["nli_entailment"], model="mini_nli", max_length=64)
        warning = caplog.messages[-1]
        assert re.fullmatch(
            r"nli_entailment cut the input of 1 of 1 row, which was too long: "
            r"[\d,]+ tokens of knowledge in 1 row",
            warning,
        )
        caplog.clear()


def test_no_rows_have_all_columns():
    assert score([], scorers=["token_f1"]).columns.tolist() == ["token_f1"]


def test_columns_of_pandas_may_be_numbers():
    frame = pandas.DataFrame([["Tea is hot.", "Tea is hot."]])
    scored = score(frame, scorers=["token_f1"], columns={"grounding": 0, "response": 1})
    assert scored["token_f1"].tolist() == [1.0]


def test_columns_of_a_frame_keep_their_index():
    frame = pandas.DataFrame(FRAME, index=[7, 3, 5]).iloc[:1]
    scored = score(
        frame["retrieved_contexts"], frame["response"], ["token_f1"], histories=frame["user_input"]
    )
    assert frame.join(scored["token_f1"])["token_f1"].to_dict() == {7: 1.0}
    assert scored["history"].tolist() == ["Is tea hot?"]


def test_iterators_are_read_once():
    rows = [dict(zip(FRAME, row, strict=True)) for row in zip(*FRAME.values(), strict=True)]
    (first, *_) = score_rows((row for row in rows), scorers=["token_f1", "token_recall"])
    assert first == rows[0] | {"token_f1": 1.0, "token_recall": 1.0}
    texts = (iter(FRAME[name]) for name in ("retrieved_contexts", "response"))
    (first, *_) = score_rows(*texts, ["token_f1"], labels=iter(FRAME["label"]))
    assert (first["label"], first["token_f1"]) == (1, 1.0)


def test_texts_that_look_like_lists_stay_beside_others(caplog):
    texts = ["It prints red.", '["red", "green"]']
    rows = score_rows(texts, ["Red."] * 2, ["token_recall"])
    assert [row["grounding"] for row in rows] == texts
    table = [{"contexts": text, "answer": "Red."} for text in [*texts, "nan"]]
    assert [row["contexts"] for row in score_rows(table, scorers=["token_recall"])] == [
        *texts,
        "nan",
    ]
    assert [record.getMessage()[:45] for record in caplog.records] == [
        "grounding: texts that look like lists, as in ",
        "contexts: texts that look like lists, as in f",
        "contexts: 1 'nan' scored as the text of a gro",
    ]
