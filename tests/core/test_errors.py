import pickle

import pytest

from faith_jax.core import errors


def test_nearest_names_come_best_first():
    names = ["npov_generate", "npov_generate_sample", "nli_anli"]
    assert errors.nearest_names("npov_generat", names)[0] == "npov_generate"
    assert errors.did_you_mean("NPOV_GENERATE", names).startswith(" Did you mean 'npov_generate'")


def test_nothing_is_suggested_for_what_is_like_nothing():
    assert errors.did_you_mean("zzz", ["npov_generate"]) == ""
    assert errors.did_you_mean("threshold", ["test", "help", "resamples"]) == ""


def test_names_that_hold_the_one_given_are_suggested():
    assert errors.nearest_names("nli", ["coverage", "nli_e_minus_c", "q2_nli"]) == [
        "q2_nli",
        "nli_e_minus_c",
    ]


def test_errors_can_be_pickled():
    """Errors can be pickled, to reach the process that waits for another's result."""
    metric = pickle.loads(pickle.dumps(errors.MetricError("bleu failed", {"rouge": 0.5})))
    assert (type(metric), str(metric)) == (errors.MetricError, "bleu failed")
    assert metric.metrics == {"rouge": 0.5}
    process = pickle.loads(pickle.dumps(errors.ProcessError("training failed", -9)))
    assert (type(process), str(process)) == (errors.ProcessError, "training failed")
    assert process.status == 137


def test_what_several_checks_find_is_said_at_once():
    def wrong(message, kind=errors.ConfigError):
        raise kind(message)

    with pytest.raises(errors.ConfigError) as error:
        errors.all_of(lambda: 1, lambda: wrong("A."), lambda: wrong("B."), lambda: wrong("A."))
    assert str(error.value) == "A. And: B."
    with pytest.raises(errors.ConfigError, match=r"^A\. And: B\.$"):
        errors.all_of(lambda: wrong("A."), lambda: wrong("B.", errors.CheckpointError))
    with pytest.raises(errors.CheckpointError, match=r"^B\.$"):
        errors.all_of(lambda: 1, lambda: wrong("B.", errors.CheckpointError))
    with pytest.raises(errors.InputError, match="other"):
        errors.all_of(lambda: wrong("A."), lambda: wrong("other", errors.InputError))
