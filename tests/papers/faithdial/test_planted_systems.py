"""A system that copies its knowledge against one that invents, through FaithDial's table."""

import pytest

from tests.papers.planted import (
    INVENTED,
    KNOWLEDGE,
    SHUFFLED,
    plant_classifiers,
    plant_q2,
    write_rows,
)
from tests.papers.workflows import figures, run_in_process, shown_commands
from tests.scoring.tiny_models import write_model

pytestmark = pytest.mark.usefixtures("offline_data_dir")

GROUNDED = ("Critic", "Q\u00b2 F1", "Q\u00b2 NLI", "BERTScore", "F1", "TRUE F1")
OF_GOLD = ("BLEU", "ROUGE")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        "bart": write_model(folder / "bart", "bart", max_positions=320),
        "roberta": write_model(folder / "roberta", "roberta", max_positions=320),
    }


def critic(_, knowledge, response):
    """The probabilities of faithful and unfaithful; responses in the knowledge are faithful."""
    return (0.8, 0.2) if response in knowledge else (0.3, 0.7)


def write_responses(output, knowledge):
    """Writes responses as if two trained systems had responded."""
    rows = [
        {"id": str(number), "knowledge": fact, "history": ["Tell me something."]}
        | {"prediction": text, "target": gold, "system": system}
        for system, texts in (("faithdial/t5", INVENTED), ("faithdial/t5_infonce", KNOWLEDGE))
        for number, (fact, text, gold) in enumerate(zip(knowledge, texts, KNOWLEDGE, strict=True))
    ]
    write_rows(output / "responses" / "faithdial" / "plain" / "predictions.jsonl", rows)


@pytest.mark.papers
def test_who_copies_beats_who_invents_and_shuffled_knowledge_undoes_it(
    models, tmp_path, monkeypatch, capfd
):
    """Random encoders suffice for BERTScore; comparisons with gold responses are unchanged."""
    plant_q2(monkeypatch)
    plant_classifiers(monkeypatch, lambda _: ("faithful", "unfaithful"), critic)
    options = ("--sample", f"--models=t5={models['bart']}", "--methods=cross_entropy,infonce")
    options += ("--trained-on=faithdial", "--tested-on=faithdial", "--resamples=200")
    options += tuple(f"--trained=t5{m}/faithdial={models['bart']}" for m in ("", "_infonce"))
    options += (f"--critic-model={models['roberta']}", f"--bertscore-model={models['roberta']}")
    options += ("--scorer-option=bertscore.layer=1", "--q2-model=mini", "--q2-nli-model=mini")
    tables = {}
    for name, knowledge in (("own", KNOWLEDGE), ("shuffled", SHUFFLED)):
        output = tmp_path / name
        commands = shown_commands(capfd, "faithdial", f"--output={output}", *options)
        write_responses(output, knowledge)
        run_in_process(capfd, output, [line for line in commands if " infer " not in line])
        tables[name] = figures(output, "faithdial_sample")
    planted, shuffled = tables.values()
    assert {column for _, column in planted} == {*GROUNDED, *OF_GOLD}
    copies, invents = "faithdial/t5_infonce", "faithdial/t5"
    for column in GROUNDED:
        sign = -1 if column == "Critic" else 1  # the share of unfaithful responses
        copied, invented = planted[copies, column], planted[invents, column]
        gain = sign * (copied["value"] - invented["value"])
        assert gain > 0, column
        assert copied["significant"], column
        assert copied["p_value"] < 0.02, column
        shuffled_cell = shuffled[copies, column]
        assert not shuffled_cell["significant"], column
        assert sign * (copied["value"] - shuffled_cell["value"]) > 0.8 * gain, column
    for column in OF_GOLD:
        cells = planted[copies, column], shuffled[copies, column]
        for figure in ("value", "p_value", "significant"):
            assert cells[0][figure] == cells[1][figure]
        assert cells[0]["value"] == pytest.approx(100)
        assert cells[0]["significant"]
    expected = {"Critic": (0, 100), "Q\u00b2 NLI": (100, 0), "F1": (100, 0)}
    for column, values in expected.items():
        assert (planted[copies, column]["value"], planted[invents, column]["value"]) == (
            pytest.approx(values)
        ), column
