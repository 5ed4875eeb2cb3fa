"""DialFact's tables: the steps of their workflow, and its errors."""

import pytest

from faith_jax.papers import workflow
from faith_jax.papers.dialfact.options import Dialfact
from faith_jax.papers.dialfact.tables import Table
from tests.papers.workflows import shown_commands
from tests.retrieval.encyclopedia import built
from tests.scoring.tiny_models import write_model

pytestmark = pytest.mark.usefixtures("offline_data_dir")

LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")
CLASSES = ("contradiction", "entailment", "neutral")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        "nli": write_model(folder / "nli", "roberta", label_names=CLASSES),
        "two": write_model(folder / "two", "roberta", label_names=("no", "yes")),
        "labels": write_model(folder / "labels", "roberta", label_names=LABELS),
        "base": str(built(folder).folder),
    }


@pytest.mark.papers
def test_the_commands_of_the_sample(tmp_path, capfd):
    commands = shown_commands(capfd, "dialfact", "--sample", f"--output={tmp_path}")
    assert not list(tmp_path.rglob("*.jsonl"))  # what is shown is not run
    kinds = [command.split("faith_jax ")[1].split()[0] for command in commands]
    assert sorted(kinds) == [*["evidence"] * 4, "index", "prepare", *["score"] * 5]
    # Verifiers read the evidence that was found.
    (prepared,) = (line for line in commands if " prepare " in line)
    (verified,) = (line for line in commands if line.startswith("FAITH_JAX_DATA_DIR="))
    assert "cp evidence/test/Wiki_ctx.jsonl raw/test/Wiki_ctx/test_evidence.jsonl" in prepared
    assert prepared.endswith("--data-dir=found/test/Wiki_ctx")
    assert verified.startswith("FAITH_JAX_DATA_DIR=found/test/Wiki_ctx ")
    assert "--tfds=dialfact/retrieved@test" in verified


def test_a_verifier_has_files_and_options_of_its_own(folders):
    extra = ("ours.form=dialfact", "nli_neutral.max_length=64")
    options = Dialfact(
        output="", sample=True, verifiers={"ours": folders["nli"]}, scorer_option=extra
    )
    table = Table(options, lambda data, split: split == "test")
    kinds = ("oracle", "retrieved")
    assert set(table.scores) == {
        f"test/{kind}/{n}" for kind in kinds for n in ("baselines", "ours")
    }
    arguments = table.scores["test/retrieved/ours"].command
    assert "--tfds=dialfact/retrieved_sample@test" in arguments
    assert "--scorer-option=claim_refutes.form='dialfact'" in arguments
    assert table.scores["test/oracle/ours"].models[0] == folders["nli"]
    arguments = table.scores["test/oracle/baselines"].command
    assert "--scorer-option=nli_neutral.max_length=64" in arguments
    assert table.verdicts["test/Wiki/ours"].inputs == ["found/test/Wiki_ctx"]
    assert table.left_out == [f"validation with {kind} evidence (no data)" for kind in kinds]


def test_found_evidence_of_both_retrievers_and_splits(folders):
    base = {"knowledge_base": folders["base"], "claims": "t.jsonl", "validation_claims": "v.jsonl"}
    extra = ("blind.form=claim_only", "ours-short.form=dialfact", "ours-short.context=False")
    options = Dialfact(
        output="", **base, vectors="dense", scorer_option=extra, documents=7,
        tagger="spacy:en_core_web_sm",
        verifiers={"ours": folders["nli"], "blind": folders["labels"]},
        variants={"ours-short": folders["labels"]},
    )  # fmt: skip
    table = Table(options, lambda data, split: data.endswith("official"))
    ctx = {f"{split}/{name}_ctx" for split in ("test", "validation") for name in ("Wiki", "DPR")}
    claim_only = {f"test/{name}_claim_only" for name in ("Wiki", "DPR", "fused")}
    assert set(table.searches) == ctx | claim_only | {"test/fused_ctx"}
    dense = table.searches["validation/DPR_ctx"]
    assert "v.jsonl" in dense["arguments"]
    assert "--retrievers=dense --context-turns=2 --documents=100 " in dense["arguments"]
    assert "--vectors=dense" in dense["arguments"]
    names = table.searches["test/Wiki_ctx"]["arguments"]
    assert "--documents=7 --tagger=spacy:en_core_web_sm" in names
    assert dense["files"] == ["valid_split.jsonl", "valid_evidence.jsonl"]
    # Verifiers that read no evidence are scored once.
    assert [name for name in {**table.scores, **table.verdicts} if "blind" in name] == [
        "test/oracle/blind",
        "validation/oracle/blind",
    ]
    short = table.verdicts["validation/DPR/ours-short"]
    assert short.inputs == ["found/validation/DPR_ctx"]
    assert "--scorer-option=claim_supports.context=False" in short.command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--verifiers=ours={two}",), "--verifiers: ours: claim_supports: the model has 2 classes"),
        (("--verifiers=mini_nli={nli}",), "'mini_nli' cannot be a verifier's name"),
        (("--neutral-model={two}",), "--neutral-model: "),
        (
            ("--scorer-option=mini_nli.form=x",),
            "mini_nli: claim_supports: form: expected one of nl",
        ),
        (("--claims={base}",), "need --knowledge-base and --claims; give --knowledge-base"),
        (("--vectors={base}",), "--vectors: goes with --knowledge-base"),
        (("--variants=ours={nli}",), "--variants: 'ours': expected a name that begins with"),
        (("--knowledge-base={nli}", "--claims={nli}"), "nli: "),
    ],
)
def test_bad_input_is_one_line(command, folders, tmp_path, monkeypatch, arguments, message):
    monkeypatch.setattr(workflow, "run_workflow", None)
    formatted = [argument.format(**folders) for argument in arguments]
    formatted.append(f"--output={tmp_path / 'out'}")
    assert message in command.refuses("reproduce", "dialfact", "--sample", *formatted)
    assert not (tmp_path / "out").exists()
