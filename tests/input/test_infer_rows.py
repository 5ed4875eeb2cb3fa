"""The parts of rows that infer reads, and those that it copies to the output."""

import csv
import gzip
import json
import math

import pytest
import seqio

import faith_jax.tasks  # noqa: F401  (registers our tasks)
from faith_jax.core import templates
from faith_jax.core.cutting import Kind
from faith_jax.core.errors import InputError
from faith_jax.datasets.input_rows import InputRow
from faith_jax.inference.texts.row_tokens import InputLayout, RowTokens
from faith_jax.input import infer_rows
from faith_jax.input.task_batches import DatasetConfig
from faith_jax.runs.preflight import inference_report
from faith_jax.tokenizers.seqio_vocabulary import DefaultVocabulary
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.models import tiny


def read(tmp_path, *rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return list(infer_rows.read_input_file(str(path), "procon_npov", 1, 0))


@pytest.mark.parametrize("name", ["array.json", "array.jsonl"])
def test_an_array_is_read_as_lines_of_json_are(tmp_path, name):
    rows = [{"inputs": "a"}, {"id": "x", "inputs": "b"}, {"inputs": "c"}]
    (tmp_path / name).write_text(json.dumps(rows))
    rows_read = list(infer_rows.read_input_file(str(tmp_path / name), "procon_npov", 1, 0))
    assert rows_read == read(tmp_path, *rows)
    assert [row.id for row in rows_read] == ["1", "x", "3"]


@pytest.mark.parametrize(("name", "comma"), [("rows.csv", ","), ("rows.tsv", "\t")])
def test_tables_are_read_as_lines_of_json_are(tmp_path, name, comma):
    path = tmp_path / name
    lines = [["id", "query", "pro", "con", "note"], ["a", "Why?", "A.", '"B, if\nnot C."', ""],
             ["b", "Who?", "D.", "E.", "n"]]  # fmt: skip
    path.write_text("".join(comma.join(cells) + "\n" for cells in lines))
    rows = list(infer_rows.read_input_file(str(path), "procon_npov", 1, 0))
    sides = {"query": "Why?", "pro": "A.", "con": "B, if\nnot C."}
    second_row = {"id": "b", "query": "Who?", "pro": "D.", "con": "E.", "note": "n"}
    expected = read(tmp_path, {"id": "a", **sides, "note": None}, second_row)
    assert rows == expected
    (second,) = infer_rows.read_input_file(str(path), "procon_npov", 1, 0, (0, 1))
    assert second == expected[1]


def test_lists_in_cells_are_those_of_lines_of_json(tmp_path):
    rows = [
        {"history": ["Hi!", "What is it?"], "knowledge": ["Tea is a leaf.", "It grows."]},
        {"query": "Is it?", "pro": ["It is.", "It was."], "con": ["It is not."]},
        {"query": "Is it?", "history": [], "knowledge": ["Tea is a leaf."]},
        {"inputs": "Say it.", "knowledge": ["Tea is a leaf.", "It grows."], "note": "['a']"},
    ]
    rows = [{"id": str(number), **row} for number, row in enumerate(rows)]
    columns = ("id", "query", "history", "knowledge", "pro", "con", "inputs", "note")
    expected = read(tmp_path, *(dict.fromkeys(columns) | row for row in rows))
    assert expected[3].knowledge == "Tea is a leaf. It grows."
    for number, write in enumerate((repr, json.dumps)):
        path = tmp_path / f"rows{number}.csv.gz"
        with gzip.open(path, "wt", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            for row in rows:
                cells = {n: v if isinstance(v, str) else write(v) for n, v in row.items()}
                writer.writerow(cells)
        assert list(infer_rows.read_input_file(str(path), "p", 1, 0)) == expected


def test_other_formats_are_one_line(tmp_path):
    path = tmp_path / "rows.parquet"
    with pytest.raises(InputError, match=r"rows.parquet: no such file\."):
        list(infer_rows.read_input_file(str(path), "procon_npov", 1, 0))
    path.write_bytes(b"PAR1")
    with pytest.raises(
        InputError, match=r"rows.parquet: INPUT_FILE is .jsonl, .json, .csv or .tsv; wri"
    ):
        list(infer_rows.read_input_file(str(path), "procon_npov", 1, 0))


def test_rows_keep_their_fields_whatever_their_type(tmp_path):
    columns = {"turn": 3, "score": 0.5, "note": None, "is_new": True, "more": {"tags": ["x", 1]}}
    sides = {"query": "Why?", "pro": "A.", "con": ["B."]}
    rows = read(tmp_path, sides | columns, {"inputs": "Why?"} | columns, {"inputs": "a", "turn": 4})
    assert dict(rows[0].fields) == columns | {
        "query": "Why?", "pro_arguments": ["A."], "con_arguments": ["B."],
    }  # fmt: skip
    assert [dict(row.fields) for row in rows[1:]] == [columns, {"turn": 4}]


def test_ids_of_any_type(tmp_path):
    ids = [None, 1.5, math.nan, 10, 2**70, "", "a"]
    rows = read(tmp_path, *({"id": value, "inputs": "Why?"} for value in ids))
    assert [row.id for row in rows] == ["1", "1.5", "3", "10", str(2**70), "6", "a"]
    for value in (True, [1], {"a": 1}, math.inf):
        with pytest.raises(InputError, match=r"jsonl:1: field 'id': expected a text or a number"):
            read(tmp_path, {"id": value, "inputs": "Why?"})
    with pytest.raises(InputError, match=r"jsonl:2: field 'id': '1' occurs twice"):
        read(tmp_path, {"id": 1, "inputs": "Why?"}, {"id": 1.0, "inputs": "Why?"})
    message = r"jsonl:2: has no id, and its number '2' is the id of another row; give it an id"
    with pytest.raises(InputError, match=message):
        read(tmp_path, {"id": 2, "inputs": "Why?"}, {"inputs": "Why?"})
    message = r"jsonl:2: field 'id': '1' occurs twice; a row without an id has its number, so"
    with pytest.raises(InputError, match=message):
        read(tmp_path, {"inputs": "Why?"}, {"id": "1", "inputs": "Why?"})


def test_the_kinds_of_fields_that_all_rows_have():
    all_rows = [
        {"a": "x", "b": ["x"], "c": 1, "d": True, "e": 0.5, "f": 1, "g": {}, "h": 2**63, "i": "x"},
        {"a": "y", "b": [], "c": 2, "d": False, "e": 1.5, "f": 1.5, "g": {}, "h": 2**63, "j": "x"},
    ]
    fields = infer_rows.FieldKinds()
    rows = [InputRow(str(n), "text", fields=of_row) for n, of_row in enumerate(all_rows)]
    assert list(fields.of(rows)) == rows
    kinds = {"a": "text", "b": "texts", "c": "int", "d": "bool", "e": "float"}
    assert fields.kinds == kinds | dict.fromkeys("fghij", "")


def test_rows_with_arguments_and_rows_whose_arguments_are_found(tmp_path):
    row = {
        "query": "Should it be?",
        "pro_arguments": ["It helps."],
        "con_arguments": ["It costs."],
    }
    plain = {"id": "voting", "query": "Should voting be compulsory?", "response": "Yes and no."}
    first, second = read(tmp_path, row, plain)
    assert first.inputs == "{query: Should it be?} {pro: It helps.} {con: It costs.}"
    assert (first.id, first.target, dict(first.fields)) == ("1", None, row)
    assert (second.id, second.target) == ("voting", "Yes and no.")
    assert list(second.fields) == ["query", "pro_arguments", "con_arguments"]
    assert f"{{pro: {second.fields['pro_arguments'][0]}}}" in second.inputs


def test_whole_inputs_keep_their_knowledge(tmp_path):
    row = {"inputs": "Say it: tea is hot.", "knowledge": "Tea is hot.", "label": "SUPPORTS"}
    (input_row,) = read(tmp_path, row)
    assert (input_row.inputs, input_row.knowledge) == (row["inputs"], row["knowledge"])
    assert input_row.second_inputs is None
    assert dict(input_row.fields) == {"knowledge": "Tea is hot."}


def test_a_dialogue_is_shown_as_the_tasks_show_it(tmp_path):
    turns = ["Hi!", "Hello.", "Do you drink tea?", "What is it?"]
    (input_row,) = read(tmp_path, {"knowledge": ["Tea is a leaf.", "It is hot."], "history": turns})
    assert input_row.inputs == (
        "<knowledge> Tea is a leaf. It is hot. <seeker> Hello. <wizard> Do you drink tea? "
        "<seeker> What is it?"
    )
    assert (input_row.id, input_row.postprocess("A {leaf}.")) == ("1", "A {leaf}.")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "?"}, r"rows.jsonl:1: expected 'query' with .*, got the fields \['text'\]"),
        ({"inputs": "a", "response": 3}, r"jsonl:1: field 'response': expected a text, got 3"),
    ],
)
def test_bad_rows(tmp_path, row, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, row)


def test_gold_responses_stay_as_they_are(tmp_path):
    gold_texts = ["  Use {x} or {y}. ", "{response: a}", None, ""]
    rows = read(tmp_path, *({"inputs": "a", "response": text} for text in gold_texts))
    assert [row.target for row in rows] == ["  Use {x} or {y}. ", "{response: a}", None, ""]


TEXTS = ["{label: NO}", "{response: Views differ.} x", "Use {x} or {y}.", " a\n", ""]


@pytest.mark.parametrize(
    ("row", "written"),
    [
        ({"inputs": "{query: Q?} {pro: A.} {con: B.}"}, TEXTS),
        (
            {"query": "Q?", "pro_arguments": ["A."], "con_arguments": ["B."]},
            ["{label: NO}", "Views differ.", "Use {x} or {y}.", " a\n", ""],
        ),
    ],
)
def test_only_the_form_that_we_wrote_is_taken_off(tmp_path, row, written):
    (input_row,) = read(tmp_path, row)
    assert [input_row.postprocess(text) for text in TEXTS] == written


def task_rows(name, split="test"):
    dataset = DatasetConfig(name, {"inputs": 64, "targets": 64}, split=split)
    return list(infer_rows.task_rows(dataset))


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("npov_hallucination_sample", ["NO", *TEXTS[1:]]),
        ("npov_generate_sample", ["{label: NO}", "Views differ.", *TEXTS[2:]]),
        ("faithdial_generate_sample", TEXTS),
        ("dialfact_verify_oracle_sample", [text.strip() for text in TEXTS]),
    ],
)
def test_a_task_s_own_postprocessor_decides(name, written):
    rows = task_rows(name)
    for row in (rows[0], rows[-1]):
        assert [row.postprocess(text) for text in TEXTS] == written
    golds = {
        "npov_hallucination_sample": {"YES", "NO"},
        "dialfact_verify_oracle_sample": {"SUPPORTS", "REFUTES", "NOT ENOUGH INFO"},
    }
    targets = {row.target for row in rows}
    if name in golds:
        assert targets == golds[name]
    else:
        assert len(targets) > 3
        assert not any(target.startswith("{") for target in targets)


GOLD = " Use {x} or {y}. "


@pytest.fixture(scope="module")
def own_tasks():
    """Registers tasks of a user; removes them again."""
    import tensorflow as tf

    feature = seqio.Feature(vocabulary=DefaultVocabulary(), add_eos=True)
    calls = []

    def shouted(text, example, is_target=False):
        calls.append((example["number"], is_target))
        return {"response": text.upper()} if is_target else text.upper()

    def counted(text, example=None, is_target=False):
        return len(text)

    postprocessors = {"own_raw": None, "own_shouted": shouted, "own_counted": counted}
    for name, postprocess in postprocessors.items():

        def examples(split, shuffle_files=False, seed=None):
            columns = {"inputs": ["a", "b"], "targets": [GOLD, ""], "number": [7, 8]}
            return tf.data.Dataset.from_tensor_slices(columns)

        seqio.TaskRegistry.add(
            name,
            source=seqio.FunctionDataSource(examples, splits=["test"]),
            preprocessors=[seqio.preprocessors.tokenize, seqio.preprocessors.append_eos],
            output_features={"inputs": feature, "targets": feature},
            postprocess_fn=postprocess,
        )
    seqio.MixtureRegistry.add("own_mixture", [("own_raw", 1), ("own_shouted", 100)])
    yield calls
    for name in postprocessors:
        seqio.TaskRegistry.remove(name)
    seqio.MixtureRegistry.remove("own_mixture")


def test_without_a_postprocessor_texts_are_as_they_are(own_tasks):
    rows = task_rows("own_raw")
    assert [(row.id, row.inputs, row.target) for row in rows] == [("0", "a", GOLD), ("1", "b", "")]
    assert [rows[0].postprocess(text) for text in TEXTS] == TEXTS


def test_a_postprocessor_without_texts_leaves_them(own_tasks):
    row = task_rows("own_counted")[0]
    assert row.fields == {"number": 7}
    assert (row.target, row.postprocess(" {x} ")) == (GOLD, " {x} ")


def test_postprocessors_get_their_row_s_example(own_tasks):
    own_tasks.clear()
    first, second = task_rows("own_shouted")
    assert (first.target, second.postprocess(" {x} ")) == (GOLD.upper(), " {X} ")
    # Of both rows the targets are tried as responses first.
    tried = [(7, False), (7, True), (8, False), (8, True)]
    assert own_tasks == [*tried, (8, False)]


def test_a_mixture_has_all_rows_of_each_task_with_its_own_postprocessor(own_tasks):
    rows = task_rows("own_mixture")
    assert [row.id for row in rows] == [
        "own_raw/0", "own_raw/1", "own_shouted/0", "own_shouted/1",
    ]  # fmt: skip
    assert [row.target for row in rows] == [GOLD, "", GOLD.upper(), ""]
    assert [row.postprocess("{x}") for row in rows] == ["{x}", "{x}", "{X}", "{X}"]


def test_a_row_is_known_by_its_texts_alone(own_tasks):
    assert repr(task_rows("own_shouted")) == repr(task_rows("own_shouted"))
    assert "postprocess" not in repr(task_rows("own_raw"))


LONG = "Tea is a leaf that grows on hills in many lands. " * 20
TURNS = ["Hi there!", "Hello, how are you?", "What is tea made of?"]


def row_tokens(limit, policy="knowledge", branches="pmi"):
    tokenizer = load_vocabulary("english_4096")
    layout = InputLayout.of(tiny.TINY.replace(vocab_size=8000), tokenizer)
    return RowTokens(tokenizer, layout, limit, f"MAX_INPUT_LENGTH = {limit}", policy, branches)


@pytest.mark.parametrize("limit", [60, 90, 400])
def test_both_branches_of_pmi_have_the_same_history(limit):
    row = InputRow("1", templates.dialogue_inputs(LONG, TURNS))
    encoded = row_tokens(limit)(row)
    history = load_vocabulary("english_4096").encode(templates.dialogue_inputs("", TURNS))
    assert encoded.second == [*history, 1]
    assert encoded.ids[-len(encoded.second) :] == encoded.second
    assert len(encoded.ids) == limit
    assert set(encoded.cut) == {Kind.KNOWLEDGE}


def test_an_input_that_a_row_gives_without_its_document_is_taken():
    row = InputRow("1", "Document: tea. What is tea?", "", "What is tea?")
    encoded = row_tokens(60)(row)
    assert encoded.second == [*load_vocabulary("english_4096").encode("What is tea?"), 1]
    with pytest.raises(InputError, match="PMI-Decode needs the input without its document"):
        row_tokens(60)(InputRow("1", "Document: tea. What is tea?"))


def test_doha_reads_the_dialogue_and_the_dialogue_with_its_knowledge():
    encode = load_vocabulary("english_4096").encode
    whole, dialogue = (templates.dialogue_inputs(text, TURNS) for text in ("Tea is a leaf.", ""))
    read = row_tokens(80, branches="doha")(InputRow("1", whole))
    assert read.ids == [*encode(dialogue), 1]
    assert read.second == [*encode(whole), 1]
    # A row of another form gives its knowledge besides.
    row = InputRow("1", "What is tea?", knowledge="Tea is a leaf.")
    read = row_tokens(80, branches="doha")(row)
    assert read.ids == [*encode("What is tea?"), 1]
    assert read.second == [*encode("Tea is a leaf. What is tea?"), 1]


@pytest.mark.parametrize("branches", ["pmi", "doha"])
def test_the_knowledge_beside_inputs_that_have_it_changes_nothing(tmp_path, branches):
    # As in the predictions of an earlier run.
    row = {"id": "1", "inputs": templates.dialogue_inputs("Tea is a leaf.", TURNS)}
    plain, beside = read(tmp_path, row, {**row, "id": "2", "knowledge": "Tea is a leaf."})
    tokens = row_tokens(80, branches=branches)
    assert tokens(beside) == tokens(plain)


def test_pmi_decode_does_not_take_the_knowledge_for_the_input_without_it(tmp_path):
    (row,) = read(tmp_path, {"inputs": "Document: tea. What is it?", "knowledge": "tea."})
    with pytest.raises(InputError, match="PMI-Decode needs the input without its document"):
        row_tokens(60)(row)


def test_a_turn_without_knowledge_has_two_equal_branches():
    row = InputRow("1", templates.dialogue_inputs("", TURNS))
    encoded = row_tokens(80)(row)
    assert encoded.ids == encoded.second


def test_a_length_without_room_for_the_last_turn_names_the_row():
    row = InputRow("7", templates.dialogue_inputs(LONG, TURNS))
    with pytest.raises(InputError, match=r"^Row 7: MAX_INPUT_LENGTH = 12: .*no room for the last"):
        row_tokens(12)(row)


def test_the_policy_end_leaves_no_empty_branch_of_pmi():
    row, limit = InputRow("7", templates.dialogue_inputs(LONG, TURNS)), 90
    with pytest.raises(InputError, match=r"^Row 7: MAX_INPUT_LENGTH = 90: .* empty second branch"):
        row_tokens(limit, "end")(row)
    (warning, lost) = inference_report("rows", [row], row_tokens(limit, "end", ""))["warnings"][1:]
    assert warning == "100.0% of the inputs lose tokens of their history."
    assert lost == "The last turn, which the response answers, is cut in 1 input."
    alone = InputRow("8", templates.dialogue_inputs("Tea is a leaf.", []))
    assert row_tokens(limit, "end")(alone).second == [1]


def test_reading_can_begin_at_any_row(tmp_path, own_tasks):
    path = tmp_path / "rows.jsonl"
    lines = [json.dumps({"inputs": f"What is {word}?"}) for word in ("tea", "mate", "milk")]
    path.write_text("\n\n".join(lines) + "\n")
    rows = list(infer_rows.read_input_file(str(path), "procon_npov", 1, 0))
    assert [(row.id, row.place) for row in rows] == [("1", (0, 0)), ("2", (0, 1)), ("3", (0, 2))]
    for row in rows:
        first = next(infer_rows.read_input_file(str(path), "procon_npov", 1, 0, row.place))
        assert (first, first.place) == (row, row.place)
    dataset = DatasetConfig("own_mixture", {"inputs": 64, "targets": 64}, split="test")
    rows_read = list(infer_rows.task_rows(dataset))
    assert {row.place[0] for row in rows_read} == {0, 1}
    for row in rows_read:
        first = next(infer_rows.task_rows(dataset, row.place))
        assert (first.id, first.inputs, first.place) == (row.id, row.inputs, row.place)
