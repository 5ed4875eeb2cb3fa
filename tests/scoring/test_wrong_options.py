"""Invalid options of scorers: one message each, before anything is scored."""

import pytest

from faith_jax.core.errors import FaithJaxError
from faith_jax.scoring.registry import load_scorer

MC = {"dropout_passes": 2}
# A scorer, the fixture of its model, its options, and the error message.
CASES = [
    # All scorers, and scorers without a model.
    ("tokenf1", "", {}, "There is no scorer 'tokenf1'. Did you mean 'token_f1'"),
    ("token_f1", "", {"normalisation": "squad"}, "Did you mean 'normalization'"),
    ("token_f1", "", {"normalization": "qa"}, "normalization: 'qa' is none of true, squad"),
    ("coverage", "", {"normalization": "squad"}, "'squad' is none of published, unicode"),
    ("rouge1_f1", "", {"use_stemmer": "no"}, "rouge1_f1: use_stemmer: expected True or False"),
    ("argument_precision", "", {"threshold": 0}, "threshold: expected a share in (0, 1]"),
    ("argument_precision", "", {"threshold": 1.5}, "threshold: expected a share in (0, 1]"),
    ("argument_precision", "", {"threshold": True}, "threshold: expected a share in (0, 1]"),
    ("q2_baseline_bleu", "", {"normalization": "unicode"},
     "q2_baseline_bleu has no option 'normalization'. It has no options."),
    ("groundedness", "", {"passages": 0}, "groundedness: passages: expected a whole number"),
    # All scorers with a model.
    ("pmi_faith_sum", "", {}, "pmi_faith_sum: needs a model: give model=FOLDER"),
    ("pmi_faith_sum", "", {"model": "no_such"}, "no_such: there is no such checkpoint"),
    ("pmi_faith_sum", "", {"model": 5}, "model: expected the path of a checkpoint, got 5"),
    ("pmi_faith_sum", "gpt2", {"modle": "x"}, "has no option 'modle'. Did you mean 'model'"),
    ("pmi_faith_sum", "gpt2", {"vocabulary": "english_4097"}, "Vocabulary 'english_4097'"),
    ("pmi_faith_sum", "gpt2", {"max_length": 97}, "max_length: expected 8 to 96 tokens"),
    ("pmi_faith_sum", "gpt2", {"max_length": "abc"},
     "max_length: expected a whole number of 8 tokens or more"),
    ("faith_critic", "critic", {"max_length": 63}, "expected 8 to 62 tokens"),
    ("nli_entailment", "nli", {"dtype": ["a"]}, "dtype: expected a text, got"),
    # PMI-Faith
    ("pmi_faith_sum", "gpt2", {"document_prompt": "D"},
     "document_prompt: expected a text with {document}, got 'D'"),
    ("pmi_faith_sum", "gpt2", {"cue_prompt": ["Agent:"]},
     "cue_prompt: expected a text, got ['Agent:']"),
    ("pmi_faith_sum", "gpt2", {"last_turns": -1},
     "last_turns: expected 0 or a positive whole number, got -1"),
    ("pmi_faith_sum", "gpt2", {"score_cue": "yes"}, "score_cue: expected True or False, got 'yes'"),
    # classifiers of pairs
    ("nli_entailment", "critic", {}, "has 2 classes"),
    ("faith_critic", "nli", {}, "has 3 classes"),
    ("faith_critic", "nli", {"form": "x"}, "form: expected critic, nli, decode, got 'x'"),
    ("nli_entailment", "encoder", {}, "the model has no classification head"),
    ("nli_entailment", "nli", {"labels": 5}, "labels: expected texts"),
    ("nli_neutral", "nli", {"premise": "turns"},
     "nli_neutral: premise: 'turns' is none of grounding, last_turn, speaker_turns"),
    ("nli_entailment", "nli", {"passes": 5}, "no option 'passes'. Did you mean 'dropout_passes'"),
    ("nli_entailment", "nli", {"dropout_passes": -1}, "0 or a positive whole number, got -1"),
    ("nli_entailment", "nli", {"seed": 0}, "nli_entailment: seed: needs dropout_passes too"),
    ("summac_zs", "nli", {"dropout_rate": 0.1, "dropout_passes": 0},
     "summac_zs: dropout_rate: needs dropout_passes too"),
    ("faith_critic", "critic", MC | {"dropout_rate": 0}, "expected a share in (0, 1), got 0"),
    ("faith_critic", "critic", MC | {"dropout_rate": "x"}, "expected a share in (0, 1), got 'x'"),
    # verifiers of claims
    ("claim_supports", "nli", {"form": "fever"}, "form: expected one of nli, dialfact, claim_only"),
    ("claim_supports", "nli", {"form": "dialfact"},
     "expected DialFact's: SUPPORTS, REFUTES, NOT ENOUGH INFO"),
    ("claim_supports", "nli", {"context": False}, "context: goes with form=dialfact or claim_only"),
    ("claim_supports", "nli", {"form": "dialfact", "labels": "a,b,c"},
     "labels: goes with form=nli"),
    # BERTScore
    ("bertscore", "encoder", {"layer": 2, "part": "f2"},
     "part: expected one of precision, recall, f1, got 'f2'"),
    ("bertscore", "encoder", {"layer": 4}, "layer: expected 1 to 3, the model's layers, got 4"),
    ("bertscore", "encoder", {}, "layer: say which of the model's 3 layers"),
    ("bertscore", "encoder", {"layer": 2, "baseline": "no_such.tsv"},
     "no_such.tsv: No such file"),
    ("bertscore", "encoder", {"layer": 2, "idf": 3},
     "idf: expected a file of texts, one a line, or a list, got 3"),
    # Q²
    ("q2_f1_no_fallback", "", {"model": "mini", "num_beams": 0},
     "num_beams: expected a positive whole number"),
    ("q2_f1_no_fallback", "", {"model": "mini", "question_template": "{context}"},
     "question_template: expected a tex"),
    ("q2_f1_no_fallback", "", {"model": "mini", "answer_template": "{} {x}"},
     "answer_template: expected a text with"),
    ("q2_f1_no_fallback", "", {"model": "mini", "tagger": "x"}, "There is no tagger 'x'"),
    ("q2_f1_no_fallback", "", {"model": "mini", "tagger": "rules", "nli_model": "mini"},
     "q2_f1_no_fallback asks no inference model"),
    # classifiers of NPOV errors, and salience
    ("npov_coverage", "gpt2", {"error_label": "YES"},
     "expected two different texts, got 'YES' and 'YES'"),
    ("npov_coverage", "gpt2", {"error_label": 0}, "error_label: expected a text, got 0"),
    ("salience_coverage", "gpt2", {"method": "lime"},
     "method: expected one of gradient_x_input, gradient_l2, got 'lime'"),
    ("salience_coverage", "gpt2", {"aggregation": "median"},
     "aggregation: expected one of max, sum, negative_entropy"),
    ("salience_coverage", "gpt2", {"mean": "harmonic"},
     "mean: expected one of geometric, arithmetic"),
    ("salience_coverage", "gpt2", {"max_bytes": 0},
     "max_bytes: expected a positive whole number, got 0"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "model", "options", "message"), CASES)
def test_wrong_options(models, gpt2, name, model, options, message):
    scorer_options = {"model": (models | {"gpt2": gpt2})[model]} if model else {}
    with pytest.raises(FaithJaxError) as error:
        load_scorer(name, **scorer_options, **options)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
