import sys

import pytest

from faith_jax.papers.judges import as_published, difference, is_missing


def test_tables_of_papers_have_the_papers_options_unless_others_are_given():
    options = {"bertscore": {"model": "m"}, "pmi_faith_mean": {"model": "g"}}
    published = as_published(options)
    assert published == {
        "bertscore": {"model": "m", "lower_grounding": True},
        "pmi_faith_mean": {"model": "g", "score_cue": True},
    }
    overridden = as_published({"bertscore": {"lower_grounding": False}})
    assert overridden["bertscore"] == {"lower_grounding": False}


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("bertscore", {"baseline": "b.tsv"}, ""),
        ("bertscore", {}, "bertscore.baseline=FILE is not given"),
        ("bertscore", {"baseline": "b", "lower_grounding": False}, "lower_grounding is False"),
        ("pmi_faith_mean", {"model": "m", "score_cue": True, "cue_prompt": "Agent:"}, ""),
        ("pmi_faith_mean", {"score_cue": False}, "score_cue is False, the paper's True"),
        ("pmi_faith_mean", {"turn_prompt": "{turn}"}, "turn_prompt is '{turn}', the paper's '{tur"),
        ("q2_nli", {"personal": True}, "q2_nli.personal is True"),
        ("token_f1", {"normalization": "squad"}, ""),  # no paper's figure stands below it
    ],
)
def test_what_is_not_to_be_set_beside_a_papers_figure(name, options, why):
    reason = difference(name, options)
    assert (why in reason) if why else reason == ""


def test_spacy_may_be_missing(monkeypatch):
    assert not is_missing("q2_baseline_token_f1")
    monkeypatch.setitem(sys.modules, "spacy", None)
    assert is_missing("q2_baseline_token_f1")
    assert not is_missing("token_f1")
