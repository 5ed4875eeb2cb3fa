"""Chang 2024's study through the command, with tiny random models and responses that are given."""

import csv
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sklearn.metrics

from faith_jax.cli import main
from faith_jax.core.errors import InputError
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.inference import load_model
from faith_jax.inference.encoder_decoder import shift_right
from faith_jax.reproduce import npov_detection, npov_detection_data, npov_detection_scores
from faith_jax.reproduce.npov_responses import DetectionOptions, read_topics
from faith_jax.scoring import registry
from faith_jax.scoring.salience.scorers import open_salience
from tests.reproduce.npov_study import told, write_marks, write_responses
from tests.scoring.tiny_models import write_model, write_t5

pytestmark = pytest.mark.usefixtures("offline_data_dir")

NOUNS = {
    "pro": ("calms nervous people", "costs little money", "wakes tired students"),
    "con": ("stains white teeth", "spoils deep sleep", "fills overloaded bins"),
}


def topics():
    made = []
    for split, names in {
        "train": ["tea"],
        "validation": ["mate"],
        "test": ["cocoa", "coffee"],
    }.items():
        for name in names:
            sides = {
                side: [
                    {
                        "text": f"{name.capitalize()} {what}.",
                        "paraphrases": [f"Drinkers of {name} say no. {number}{side}."],
                    }
                    for number, what in enumerate(texts)
                ]
                for side, texts in NOUNS.items()
            }
            fields = {"title": name, "question": f"Is {name} good?", "split": split}
            made.append({"id": name} | fields | sides)
    return made


@pytest.fixture(scope="module")
def knowledge(tmp_path_factory):
    folder = tmp_path_factory.mktemp("topics")
    text = "".join(json.dumps(topic) + "\n" for topic in topics())
    (folder / "topics.jsonl").write_text(text)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    made = {}
    for name, family, seed in (
        ("bart", "bart", 0),
        ("gpt2", "gpt2", 0),
        ("hall", "bart", 1),
        ("cov", "bart", 2),
        ("roberta", "roberta", 0),
    ):
        changes = {} if family == "roberta" else {"max_positions": 512}
        made[name] = write_model(folder / name, family, seed, **changes)
    return made | {"reader": write_t5(folder / "reader", num_heads=1)}


@pytest.fixture
def reproduce(capsys, models, knowledge):
    def run(output, *arguments):
        given = (f"--knowledge={knowledge}", "--combinations=4", "--resamples=100")
        given = (*given, "--max-length=6", f"--output={output}")
        given = (*given, f"--salience-model={models['reader']}")
        status = main(["reproduce", "npov_detection", *map(str, (*given, *arguments))])
        out, err = capsys.readouterr()
        return status, out, (err.strip().splitlines() or [""])[-1]

    return run


def options_of(models, knowledge, **others):
    settings = {"combinations": 4, "max_length": 6, "knowledge": str(knowledge)}
    return DetectionOptions(model=models["bart"], **(settings | others))


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def done(tmp_path_factory, models, knowledge):
    """A whole run: its folder, and the rows of its CSV."""
    folder = tmp_path_factory.mktemp("done") / "out"
    options = options_of(models, knowledge)

    def respond(row):
        return told(row) if not row["id"].endswith("04-t0.7") else "Nobody knows."

    write_responses(folder, options, respond)
    arguments = [
        "reproduce", "npov_detection", f"--model={models['bart']}", f"--knowledge={knowledge}",
        "--combinations=4", "--max-length=6", "--resamples=100", f"--output={folder}",
        f"--hallucination-model={models['hall']}", f"--salience-model={models['reader']}",
        f"--classifiers=synth={models['hall']},{models['cov']}",
    ]  # fmt: skip
    assert main(arguments) == 0
    with open(folder / "npov_detection.csv", newline="") as file:
        return folder, list(csv.DictReader(file)), arguments


def test_data_sets_nest_and_keep_to_their_topics(done):
    data = done[0] / "data"
    sets = {path.stem: rows_of(path) for path in data.iterdir()}
    # 6 of 7 responses a topic are error-free, and each has 4 rows, or 3 where nothing is unused.
    synth, para, dev = (sets[f"train_{name}"] for name in ("synth", "para", "dev"))
    assert para[: len(synth)] == synth
    assert dev[: len(para)] == para
    assert (len(para), len(dev)) == (2 * len(synth), len(para) + len(sets["validation"]))
    assert {row["topic"] for row in para} == {"tea"}
    assert {row["topic"] for row in dev[len(para) :]} == {"mate"}
    assert {row["topic"] for row in sets["test_unparaphrased_synthetic"]} == {"cocoa", "coffee"}
    assert set(sets) == {
        "train_synth", "train_para", "train_dev", "validation",
        "test_unparaphrased_synthetic", "test_paraphrased_synthetic",
    }  # fmt: skip
    for plain, other in zip(synth, para[len(synth) :], strict=True):
        assert other["id"] == f"{plain['id']}-paraphrased"
        assert other["response"] == plain["response"]
        assert all(text.startswith("Drinkers") for text in other["pro_arguments"])
        assert bool(other["added_argument"]) == bool(plain["added_argument"])
        assert other["removed_argument"].startswith("Drinkers" if plain["removed_argument"] else "")
    for row in synth:
        for start, end in row["hallucinated_spans"]:
            # The topic's name is in the query too.
            assert row["removed_argument"].endswith(f" {row['response'][start:end]}.")


def test_the_papers_share_of_synthetic_errors(models, knowledge, reproduce, tmp_path):
    """With as many errors as in the paper, and with more than the topics can give."""
    write_responses(tmp_path, options_of(models, knowledge))
    status, out, error = reproduce(
        tmp_path, f"--model={models['bart']}", "--errors-per-response=published"
    )
    assert status == 0, error
    assert "Rows with a synthetic error: 2.138 to each error-free response" in out
    sizes = {}
    for path in (tmp_path / "data").iterdir():
        found = rows_of(path)
        sizes[path.stem] = sum(row["error"] == "none" for row in found), len(found)
    # 7 error-free responses a topic; 7 and 14 times 667 / 312 are 14.97 and 29.93.
    assert sizes == {
        "train_synth": (7, 22),
        "train_para": (14, 44),
        "train_dev": (28, 88),
        "validation": (14, 44),
        "test_unparaphrased_synthetic": (14, 44),
        "test_paraphrased_synthetic": (14, 44),
    }
    status, _, error = reproduce(tmp_path, f"--model={models['bart']}", "--errors-per-response=3")
    assert status == 2
    assert "--errors-per-response: 3 rows with an error to each error-free one; even if " in error


def test_a_share_of_errors_that_no_responses_could_give_comes_first(models, knowledge, tmp_path):
    options = options_of(models, knowledge, errors_per_response=3)
    with pytest.raises(InputError) as error:
        npov_detection.npov_detection(options, str(tmp_path / "out"))
    for name in ("validation, plain", "validation, paraphrased", "test, plain"):
        assert f"{name}: 2." in str(error.value)
    assert not (tmp_path / "out").exists()


def test_all_sets_with_too_few_errors_are_named(models, knowledge, tmp_path):
    options = options_of(models, knowledge)
    rows, topics = write_responses(tmp_path, options), read_topics(options)
    free = npov_detection_data.Judged(rows, {}, None)
    with pytest.raises(InputError) as error:
        npov_detection_data.write_sets(tmp_path / "data", rows, topics, free, 0, 3)
    for name in ("validation, plain", "validation, paraphrased", "test, plain"):
        assert f"{name}: 3 rows with an error to each of " in str(error.value)
    assert not (tmp_path / "data").exists()


def test_the_tables_have_the_figures_of_the_scored_files(done):
    folder, rows, _ = done
    cells = {(r["table"], r["test set"], r["error"], r["method"]): r for r in rows}
    for error, field in (
        ("hallucination", "has_hallucination"),
        ("coverage", "has_coverage_error"),
    ):
        for name, stem in (("unparaphrased synthetic", "test_unparaphrased_synthetic"),):
            for method, file, scorer in (
                ("ROUGE", "rouge", f"npov_rouge1_{error}"),
                ("salience", "salience", f"salience_{error}"),
            ):
                scored = rows_of(folder / "scored" / f"{stem}-{file}.jsonl")
                kept = [r for r in scored if r["fields"]["error"] == "none" or r["fields"][field]]
                labels = [int(r["fields"]["error"] == "none") for r in kept]
                scores = [r["scores"][scorer] for r in kept]
                area = sklearn.metrics.roc_auc_score(labels, scores)
                cell = cells["1", name, error, method]
                assert float(cell["auc"]) == pytest.approx(area)
                assert float(cell["low"]) <= area <= float(cell["high"])
                assert (int(cell["rows"]), int(cell["errors"])) == (len(kept), labels.count(0))
                # Table 6 has the same by the usual aggregation.
                if method == "salience":
                    assert cells["6", name, error, "max"]["auc"] == cell["auc"]
                    scores = [r["scores"][f"{scorer}_sum"] for r in kept]
                    area = sklearn.metrics.roc_auc_score(labels, scores)
                    assert float(cells["6", name, error, "sum"]["auc"]) == pytest.approx(area)
    # Responses that copy their arguments are a simple case for words.
    assert float(cells["1", "unparaphrased synthetic", "coverage", "ROUGE"]["auc"]) > 0.9
    # Of an added argument's four words, one is the topic's name, which is told: 1 - 1/4 / 2.
    words = cells["3", "unparaphrased synthetic", "coverage", "ROUGE"]
    assert float(words["auc"]) == pytest.approx(0.875)
    # The same classifier stands in both tables.
    one, two = (
        cells[table, "paraphrased synthetic", "hallucination", method]
        for table, method in (("1", "classifier"), ("2", "+Synth"))
    )
    assert one["auc"] == two["auc"]
    assert ("1", "paraphrased synthetic", "coverage", "classifier") not in cells
    published = cells["1", "unparaphrased synthetic", "hallucination", "classifier"]["published"]
    assert float(published) == pytest.approx(0.998)


def scaled_embedding_map(model, inputs, targets):
    """How each target's logit changes as an earlier token's embedding is scaled, squared.

    At the scale 1 that is gradient x input, without a gradient of embeddings: [tokens, targets].
    """
    module, variables = model.module, {"params": model.params}
    tokens = jnp.asarray([inputs]), shift_right(np.asarray([targets]), 0)

    def logits(scales):
        encoder, decoder = (
            module.apply(variables, t, method=lambda m, t: m.token_embedder(t)) * s[None, :, None]
            for t, s in zip(tokens, scales, strict=True)
        )
        encoded = module.apply(
            variables, encoder, tokens[0], None, False, method="encode_embeddings"
        )
        hidden = module.apply(
            variables, decoder, encoded, tokens[0], enable_dropout=False,
            method="decode_embeddings",
        )  # fmt: skip
        whole = hidden[0] @ model.params["decoder"]["logits_dense"]["kernel"]
        return whole[np.arange(len(targets)), np.asarray(targets)]

    ones = tuple(jnp.ones(t.shape[1]) for t in tokens)
    squares = np.concatenate(jax.jit(jax.jacrev(logits))(ones), axis=1).T.astype(np.float64) ** 2
    return squares / squares.sum(axis=0)


def test_salience_is_the_derivative_of_the_readers_logits(done, models):
    name = "test_unparaphrased_synthetic"
    sets = rows_of(done[0] / f"data/{name}.jsonl")
    given = next(row for row in sets if row["pro_arguments"] and row["con_arguments"])
    scored = rows_of(done[0] / f"scored/{name}-salience.jsonl")[sets.index(given)]
    pro, con = given["pro_arguments"], given["con_arguments"]
    example = GroundedExample(
        given["id"],
        Grounding((*pro, *con), ("pro",) * len(pro) + ("con",) * len(con)),
        (given["query"],),
        given["response"],
    )
    reader = load_model(models["reader"])
    given = open_salience(models["reader"]).encode(example)
    derivatives = scaled_embedding_map(reader, given.row.inputs, given.row.targets)
    entries = np.array(
        [
            [derivatives[np.ix_(a.tokens, r.tokens)].max() for r in given.response_words]
            for a in given.argument_words
        ]
    )
    side = np.array([word.word.perspective for word in given.argument_words])
    shares = entries / entries.sum(axis=0), entries / entries.sum(axis=1, keepdims=True)
    betas = {
        "": entries.max(axis=0),
        "_sum": entries.sum(axis=0),
        "_negative_entropy": np.exp((shares[0] * np.log(shares[0])).sum(axis=0)),
    }
    alphas = {
        "": entries.max(axis=1),
        "_sum": entries.sum(axis=1),
        "_negative_entropy": np.exp((shares[1] * np.log(shares[1])).sum(axis=1)),
    }

    def mean(values):
        return math.exp(np.log(values).mean())

    for suffix in betas:
        found = scored["scores"][f"salience_hallucination{suffix}"]
        assert found == pytest.approx(mean(betas[suffix]), rel=1e-3)
        found = scored["scores"][f"salience_coverage{suffix}"]
        expected = min(mean(alphas[suffix][side == name]) for name in ("pro", "con"))
        assert found == pytest.approx(expected, rel=1e-3)


def test_what_is_missing_is_said(done):
    text = (done[0] / "npov_detection.md").read_text()
    assert "STAND-IN for the paper's annotation: 24 of 28 responses count as error-free" in text
    assert "Organic errors are not annotated: give --marks" in text
    assert "No classifier for coverage is given" in text
    assert "Not scored: +Para, +Dev, +Org, of which no classifier is given." in text
    assert "of another model (64 billion parameters" in text
    line = next(line for line in text.splitlines() if line.startswith("| full organic  "))
    assert line.count("not annotated") == 6
    line = next(line for line in text.splitlines() if "full organic (published)" in line)
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    assert cells[1:] == ["0.840", "0.808", "0.953", "0.795", "0.852", "0.905"]
    page = (done[0] / "npov_detection.html").read_text()
    assert page.count("<h2") == 7
    assert page.count('<tr class="published">') == 4 + 2 + 4 + 2 + 3
    found = json.loads((done[0] / "npov_detection.json").read_text())
    counts = {row["topic"]: row for row in found["tables"][0]["rows"]}
    assert counts["tea"] == {
        "split": "train", "topic": "tea", "responses": 7, "error-free": 6, "left out": 1,
        "unused told": 0, "other words": 0, "empty": 0,
    }  # fmt: skip


def test_the_same_command_computes_nothing(done, monkeypatch):
    folder, _, arguments = done
    before = (folder / "npov_detection.json").read_text()

    def fail(*_, **__):
        raise AssertionError("nothing should be computed")

    monkeypatch.setattr("faith_jax.runs.infer.infer", fail)
    monkeypatch.setattr("faith_jax.reproduce.npov_detection_scores.score", fail)
    assert main(arguments) == 0
    assert (folder / "npov_detection.json").read_text() == before
    assert main([*arguments, "--seed=1"]) == 2


def test_changed_settings_are_refused(done, models, reproduce):
    folder, _, _ = done
    model = f"--model={models['bart']}"
    status, out, error = reproduce(folder, model, "--combinations=5")
    assert (status, out) == (2, "")
    assert (
        "keeps responses with another value of combinations (4, not 5); name another folder"
        in error
    )
    status, _, error = reproduce(folder, model, f"--hallucination-model={models['cov']}")
    assert status == 2
    assert "keeps scores of npov_hallucination by another model (" in error


def test_marks_make_the_organic_sets(models, knowledge, reproduce, tmp_path):
    folder = tmp_path / "out"
    rows = write_responses(folder, options_of(models, knowledge))

    def marks(row):
        return {
            "01-t0.0": {"hallucination": True, "unsupported_spans": [[0, 5]]},
            "01-t0.7": {"coverage": True, "missing_arguments": ["pro 1", "con 1"]},
            "02-t0.0": {"repetition": True},
            "03-t0.7": None,
        }.get(row["id"].partition("-")[2], {})

    path = tmp_path / "marks.jsonl"
    write_marks(path, rows, marks)
    model = f"--model={models['bart']}"
    assert reproduce(folder, model)[0] == 0
    kept = folder / "scored" / "test_unparaphrased_synthetic-rouge.jsonl"
    before = len(rows_of(kept))
    status, out, error = reproduce(folder, model, f"--marks={path}")
    assert status == 0, error
    assert "Error-free by people's marks" in out
    assert "STAND-IN" not in out
    assert len(rows_of(kept)) < before  # fewer are error-free, so it was scored again
    organic = rows_of(folder / "data" / "test_full_organic.jsonl")
    # Of 7 responses to each of 2 topics, 3 are error-free and 2 have full errors.
    assert [row["error"] for row in organic].count("organic") == 4
    assert [row["error"] for row in organic].count("none") == 6
    missing = next(row for row in organic if row["has_coverage_error"])
    assert missing["added_argument"] == [missing["pro_arguments"][0], missing["con_arguments"][0]]
    ambiguous = rows_of(folder / "data" / "test_ambiguous_organic.jsonl")
    assert [row["error"] for row in ambiguous].count("organic") == 2
    dev, org = (rows_of(folder / "data" / f"train_{name}.jsonl") for name in ("dev", "org"))
    assert org[: len(dev)] == dev
    assert [row["error"] for row in org[len(dev) :]] == ["organic"] * 4
    assert {row["topic"] for row in org[len(dev) :]} == {"tea", "mate"}
    with open(folder / "npov_detection.csv", newline="") as file:
        cells = {(r["table"], r["test set"], r["error"]): r for r in csv.DictReader(file)}
    assert (cells["1", "full organic", "coverage"]["errors"]) == "2"
    assert ("3", "full organic", "hallucination") in cells


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "cocoa-1-t0.0"}, "'cocoa-1-t0.0' is no response of this run. Did you mean 'cocoa-"),
        ({"unsupported_spans": [[0, 9999]]}, "field 'unsupported_spans': expected start and end"),
        (
            {"missing_arguments": ["pro 9"]},
            "field 'missing_arguments': expected arguments of this row (pro 1",
        ),
        ({"coverage": "maybe"}, "field 'coverage': expected yes or no, got"),
    ],
)
def test_bad_marks(models, knowledge, reproduce, tmp_path, change, message):
    folder = tmp_path / "out"
    rows = write_responses(folder, options_of(models, knowledge))
    path = tmp_path / "marks.jsonl"
    write_marks(path, rows[-1:], lambda row: change)
    status, out, error = reproduce(folder, f"--model={models['bart']}", f"--marks={path}")
    assert (status, out) == (2, "")
    assert f"{path}:1: " in error
    assert message in error


def test_labels_in_place_of_marks(models, knowledge, reproduce, tmp_path):
    write_responses(tmp_path / "out", options_of(models, knowledge))
    path = tmp_path / "labels.jsonl"
    path.write_text(json.dumps({"id": "cocoa-01-t0.0", "annotators": 2}) + "\n")
    given = f"--model={models['bart']}", f"--marks={path}"
    status, _, error = reproduce(tmp_path / "out", *given)
    assert (status, "name the file of `annotate read --output`" in error) == (2, True)


@pytest.mark.parametrize("family", ["bart", "gpt2"])
def test_responses_are_the_generators_and_none_is_error_free(
    models, knowledge, reproduce, tmp_path, family
):
    """Random models say nothing that is given; what they said is kept all the same."""
    given = (f"--model={models[family]}", "--splits=test", "--combinations=1")
    given = (*given, "--max-input-length=256")
    status, _, error = reproduce(tmp_path / "a", *given)
    assert status == 2
    assert "none of 4 responses to a test topic is error-free" in error
    rows = rows_of(tmp_path / "a" / "responses.jsonl")
    assert [row["id"] for row in rows] == [
        "cocoa-01-t0.0", "cocoa-01-t0.7", "coffee-01-t0.0", "coffee-01-t0.7",
    ]  # fmt: skip
    assert all(math.isfinite(row["log_prob"]) for row in rows)
    # A run that is killed behind the first temperature ends in the same place.
    killed = tmp_path / "b"
    for name in ("t0.0", "t0.0_inputs.jsonl", "settings.json"):
        killed.mkdir(exist_ok=True)
        (tmp_path / "a" / name).rename(killed / name)
    assert reproduce(killed, *given)[0] == 2
    assert rows_of(killed / "responses.jsonl") == rows


def test_mistakes(models, knowledge, reproduce, tmp_path):
    few = tmp_path / "few"
    few.mkdir()
    lacking = [topic | {"con": topic["con"][:1]} for topic in topics()]
    (few / "topics.jsonl").write_text("".join(json.dumps(topic) + "\n" for topic in lacking))
    no_train = tmp_path / "test_only"
    no_train.mkdir()
    kept = [topic for topic in topics() if topic["split"] == "test"]
    (no_train / "topics.jsonl").write_text("".join(json.dumps(topic) + "\n" for topic in kept))
    bart = f"--model={models['bart']}"
    for arguments, message in (
        ((), "npov_detection needs a generator: give --model=CHECKPOINT."),
        ((f"--model={models['roberta']}",), "--model: {}: expected a language model, got an enc"),
        ((bart, "--coverage-model=nowhere"), "--coverage-model: nowhere: there is no such check"),
        ((bart, "--classifiers=dev=no,where"), "--classifiers dev, hallucination: no: there is "),
        ((bart, "--classifiers=devel=a,b"), "there is no 'devel'. Did you mean 'dev'"),
        ((bart, "--classifiers=dev"), "expected NAME=HALL_FOLDER,COV_FOLDER, got 'dev'."),
        ((bart, "--splits=tets"), "--splits: there is no 'tets'. Did you mean 'test'"),
        ((bart, "--splits=train"), "--splits: the tables are of test topics; name test too."),
        ((bart, f"--knowledge={few}"), "topic 'tea' has 3 pro and 1 con: expected at least 2"),
        ((bart, f"--knowledge={no_train}"), "no topic has the split 'train', only test"),
        ((bart, "--sample"), "--sample: is of the topics in the package, --knowledge of"),
        ((bart, "--least-recall=2"), "--least-recall: expected a share in [0, 1], got 2.0."),
        ((bart, "--errors-per-response=0"), "above 0 and at most 3, the kinds of errors, got 0.0"),
        ((bart, "--errors-per-response=paper"), "expected a number or published, got 'paper'"),
        ((bart, "--beams=2"), "reproduce npov_detection has no argument '--beams=2'"),
        ((bart, "--scorers=bleu"), "has no argument '--scorers=bleu'"),
    ):
        status, out, error = reproduce(tmp_path / "made", *arguments)
        assert (status, out) == (2, ""), arguments
        assert error.startswith(("faith-jax: ", "faith-jax reproduce npov_detection: argument "))
        assert message.format(models["roberta"]) in error, (arguments, error)
    assert not (tmp_path / "made").exists() or not any((tmp_path / "made").iterdir())


def test_the_best_is_marked_where_it_beats_all(done):
    """The mark in the table follows from the corrected p-values of the others."""
    _, rows, _ = done
    for row in (row for row in rows if row["table"] == "1"):
        group = [
            r
            for r in rows
            if (r["table"], r["test set"], r["error"]) == ("1", row["test set"], row["error"])
        ]
        best = max(float(r["auc"]) for r in group)
        assert (row["best"] == "1") == (float(row["auc"]) == best and row["p_value"] == "")
    assert np.count_nonzero([row["best"] == "1" for row in rows if row["table"] == "1"]) == 4


def test_salience_is_of_the_generator_by_all_aggregations(models, knowledge):
    """All six scorers share one model, so that its maps are made once."""
    for given, model in (({}, "bart"), ({"salience_model": models["gpt2"]}, "gpt2")):
        options = options_of(models, knowledge, **given)
        _, salience = npov_detection_scores.detectors_of(options)
        expected = {
            f"salience_{error}{suffix}": (
                f"salience_{error}",
                {"model": models[model], "aggregation": aggregation},
            )
            for error in ("hallucination", "coverage")
            for suffix, aggregation in (
                ("", "max"), ("_sum", "sum"), ("_negative_entropy", "negative_entropy"),
            )
        }  # fmt: skip
        assert salience.scorers == expected
        assert list(salience.models) == [models[model]]
        loaded = [registry.load_scorer(name, **o) for name, o in salience.scorers.values()]
        assert len({id(scorer._compute) for scorer in loaded}) == 1


def test_no_errors_are_found_in_responses_that_tell_nothing(models, knowledge, reproduce, tmp_path):
    """What `test_the_tables_have_the_figures_of_the_scored_files` finds hangs on what is told."""
    options = options_of(models, knowledge, splits=("test",), combinations=2)
    write_responses(tmp_path, options, lambda row: "Nobody knows.")
    given = (f"--model={models['bart']}", "--splits=test", "--combinations=2")
    status, _, error = reproduce(tmp_path, *given, "--least-recall=0", "--least-precision=0")
    assert status == 0, error
    with open(tmp_path / "npov_detection.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["method"] == "ROUGE"]
    cells = {(row["table"], row["test set"], row["error"]): row["auc"] for row in rows}
    for table, error in (("1", "hallucination"), ("1", "coverage"), ("3", "coverage")):
        assert float(cells[table, "unparaphrased synthetic", error]) == pytest.approx(0.5)
