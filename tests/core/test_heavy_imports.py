"""The stemmer and the sentence splitter load without the rest of NLTK; libtpu prints nothing."""

import importlib.util
import os
import subprocess
import sys

import nltk.stem.porter
import nltk.tokenize.punkt
import pytest

from faith_jax.core import heavy_imports
from faith_jax.core.words import split_sentences
from faith_jax.statistics.texts.text_metrics import content_words, rouge
from tests.paths import REPOSITORY

TEXT = "Dr. Lee's generalizations of tea-drinking flies were happily dying. It was not! Was it?"


def test_stems_sentences_and_rouge_import_nothing_slow():
    code = f"""
import sys
from faith_jax.core.words import split_sentences
from faith_jax.statistics.texts.text_metrics import content_words, rouge
print([word.stem for word in content_words({TEXT!r})])
print(split_sentences({TEXT!r}))
print(rouge({TEXT!r}, "flying generalization", use_stemmer=True)["rouge1"].f1)
loaded = set(name.partition(".")[0] for name in sys.modules)
print(*loaded & {{"nltk", "scipy", "sklearn", "pandas"}})
"""
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False)
    assert result.stderr == ""
    stems, sentences, f1, loaded = result.stdout.split("\n")[:4]
    stem = nltk.stem.porter.PorterStemmer().stem
    assert stems == repr([stem(word.text) for word in content_words(TEXT)])
    assert sentences == repr(split_sentences(TEXT))
    assert f1 == repr(rouge(TEXT, "flying generalization", use_stemmer=True)["rouge1"].f1)
    assert loaded == ""


@pytest.mark.slow
def test_who_imports_nltk_later_gets_all_of_it():
    code = "from faith_jax.core.words import split_sentences\nsplit_sentences('It is. So.')\n"
    code += "import nltk\nassert nltk.stem.PorterStemmer().stem('flies') == 'fli'"
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)


NAMES = {"TPU_ACCELERATOR_TYPE": "v4-8", "TPU_WORKER_HOSTNAMES": "localhost"}


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Returns a function that makes libtpu look at a machine: (vendors, installed, environment)."""

    def names(vendors=(), installed=True, **environment):
        for number, vendor in enumerate(vendors):
            (tmp_path / str(number)).mkdir()
            (tmp_path / str(number) / "vendor").write_text(f"{vendor}\n")
        spec = importlib.util.find_spec("json") if installed else None
        monkeypatch.setattr(heavy_imports.importlib.util, "find_spec", lambda name: spec)
        monkeypatch.setattr(heavy_imports, "_PCI", tmp_path)
        monkeypatch.setattr(os, "environ", dict(environment))
        heavy_imports.quiet_libtpu()
        return os.environ

    return names


def test_names_are_given_where_libtpu_is_and_no_tpu(machine):
    assert machine(["0x8086", "0x10de"]) == NAMES
    assert machine(TPU_ACCELERATOR_TYPE="v5e-4")["TPU_ACCELERATOR_TYPE"] == "v5e-4"


@pytest.mark.parametrize(
    "given",
    [
        {"vendors": ["0x8086", "0x1ae0"]},
        {"installed": False},
        {"JAX_PLATFORMS": "cpu"},
        {"JAX_FORCE_TPU_INIT": "1"},
    ],
)
def test_nothing_is_given_to_others(machine, given):
    assert not NAMES.keys() & machine(**given).keys()
