"""A system that copies its knowledge against one that invents, through FaithDial's table."""

import functools
import json

import numpy as np
import pytest

from faith_jax.cli import main
from faith_jax.scoring import pair_classifier
from faith_jax.scoring.pair_classifier import PairClassifier
from faith_jax.scoring.text_pairs import PairRow
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.reproduce.planted import INVENTED, KNOWLEDGE, SHUFFLED, plant_q2, write_rows
from tests.scoring.tiny_models import write_model

pytestmark = pytest.mark.usefixtures("offline_data_dir", "quick_compilation")

GROUNDED = ("Critic", "Q\u00b2 F1", "Q\u00b2 NLI", "BERTScore", "F1", "TRUE F1")
OF_GOLD = ("BLEU", "ROUGE")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        "bart": write_model(folder / "bart", "bart", max_positions=320),
        "roberta": write_model(folder / "roberta", "roberta", max_positions=320),
    }


class Critic:
    """Stands for a critic's probabilities: faithful is what stands in the knowledge."""

    num_compilations = 0

    def encode(self, knowledge, response, name=""):
        return PairRow([int(response in knowledge)], {})

    encode.tokenizer = load_vocabulary("english_4096")

    def probabilities(self, rows):
        return np.array([[0.8, 0.2] if said else [0.3, 0.7] for (said,) in rows])


@functools.lru_cache
def critic(model, form, **options):
    engine = Critic()
    return PairClassifier(("faithful", "unfaithful"), engine, engine.encode)


def write_responses(folder, knowledge):
    """Writes rows and responses as if two trained systems had responded."""
    for name, made in {
        "rows": {},
        "t5_faithdial_seed_0": {"texts": INVENTED},
        "t5_infonce_faithdial_seed_0": {"texts": KNOWLEDGE},
    }.items():
        rows = []
        for number, (told, gold) in enumerate(zip(knowledge, KNOWLEDGE, strict=True)):
            row = {"id": str(number), "knowledge": told, "history": ["Tell me something."]}
            if made:
                row |= {"generated_text": made["texts"][number], "gold": gold}
                row |= {"log_prob": -1.0, "inputs_cut_tokens": 0}
            else:
                row |= {"inputs": told, "response": gold}
            rows.append(row)
        write_rows(folder / "faithdial" / f"{name}.jsonl", rows)


def test_who_copies_beats_who_invents_and_shuffled_knowledge_undoes_it(
    models, tmp_path, monkeypatch
):
    """Random encoders suffice for BERTScore; what is compared with gold responses stays."""
    plant_q2(monkeypatch)
    monkeypatch.setattr(pair_classifier, "_opened", critic)
    figures = {}
    for name, knowledge in (("own", KNOWLEDGE), ("shuffled", SHUFFLED)):
        write_responses(tmp_path / name, knowledge)
        given = ("--sample", f"--models=t5={models['bart']}", "--methods=cross_entropy,infonce")
        given += ("--trained-on=faithdial", "--tested-on=faithdial", "--resamples=200")
        given += tuple(f"--trained=t5{m}/faithdial={models['bart']}" for m in ("", "_infonce"))
        given += (f"--critic-model={models['roberta']}", f"--bertscore-model={models['roberta']}")
        given += ("--scorer-option=bertscore.layer=1", "--q2-model=mini", "--q2-nli-model=mini")
        assert main(["reproduce", "faithdial", f"--output={tmp_path / name}", *given]) == 0
        found = json.loads((tmp_path / name / "faithdial_sample.json").read_text("utf-8"))["rows"]
        figures[name] = {(row["system"], row["column"]): row for row in found}
    own, shuffled = figures.values()
    assert {column for _, column in own} == {*GROUNDED, *OF_GOLD}
    for column in GROUNDED:
        sign = -1 if column == "Critic" else 1  # the share of unfaithful responses
        copied, invented = (own[name, column] for name in ("t5_infonce", "t5"))
        gain = sign * (copied["value"] - invented["value"])
        assert gain > 0, column
        assert copied["significant"], column
        assert copied["p_value"] < 0.02, column
        other = shuffled["t5_infonce", column]
        assert not other["significant"], column
        assert sign * (copied["value"] - other["value"]) > 0.8 * gain, column
    for column in OF_GOLD:
        for figure in ("value", "p_value", "significant"):
            cells = own["t5_infonce", column], shuffled["t5_infonce", column]
            assert cells[0][figure] == cells[1][figure]
        assert cells[0]["value"] == pytest.approx(100)
        assert cells[0]["significant"]
    expected = {"Critic": (0, 100), "Q\u00b2 NLI": (100, 0), "F1": (100, 0)}
    for column, values in expected.items():
        found = tuple(own[name, column]["value"] for name in ("t5_infonce", "t5"))
        assert found == pytest.approx(values), column
