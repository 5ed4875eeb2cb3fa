import pytest

from faith_jax.cli import main
from faith_jax.datasets.task_data import MIXTURES, TASKS


@pytest.fixture
def lines(tmp_path, monkeypatch, capsys):
    """The output of `faith-jax tasks` if nothing is prepared."""
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(tmp_path))
    assert main(["tasks"]) == 0
    assert not list(tmp_path.iterdir())  # nothing is prepared by looking
    return capsys.readouterr().out.splitlines()


def test_the_list_has_every_task(lines):
    heads = [line.split("  ")[0] for line in lines if not line.startswith(" ")]
    assert heads == sorted({*TASKS, *MIXTURES})
    assert all(len(line) < 200 for line in lines)


def test_sizes_of_the_samples_and_what_prepares_the_rest(lines):
    assert "faithdial_generate_sample  (train 14, validation 4, test 4)" in lines
    assert "begin_classify  (not prepared: faith-jax prepare begin/official)" in lines
    assert "nli_mnli  (not prepared: TFDS fetches multi_nli when it is read)" in lines
    place = lines.index("npov_errors_sample  (train 864, validation 144, test 288)")
    assert lines[place + 1] == ("    a mixture of npov_coverage_sample, npov_hallucination_sample")
