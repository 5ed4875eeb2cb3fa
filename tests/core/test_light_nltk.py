"""The stemmer and the splitter of sentences come without the rest of NLTK."""

import subprocess
import sys

import nltk.stem.porter
import nltk.tokenize.punkt

from faith_jax.core.light_nltk import light_module
from faith_jax.core.words import split_sentences
from faith_jax.statistics.text_metrics import content_words, rouge
from tests.paths import REPOSITORY

TEXT = "Dr. Lee's generalizations of tea-drinking flies were happily dying. It was not! Was it?"


def test_stems_sentences_and_rouge_import_nothing_slow():
    code = f"""
import sys
from faith_jax.core.words import split_sentences
from faith_jax.statistics.text_metrics import content_words, rouge
print([word.stem for word in content_words({TEXT!r})])
print(split_sentences({TEXT!r}))
print(rouge({TEXT!r}, "flying generalization", use_stemmer=True)["rouge1"].f1)
loaded = set(name.partition(".")[0] for name in sys.modules)
print(*loaded & {{"nltk", "scipy", "sklearn", "pandas"}})
import nltk
print(nltk.stem.PorterStemmer().stem("flies"))
"""
    command = [sys.executable, "-c", code]
    told = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False)
    assert told.stderr == ""
    stems, sentences, f1, loaded, whole = told.stdout.splitlines()
    stem = nltk.stem.porter.PorterStemmer().stem
    assert stems == repr([stem(word.text) for word in content_words(TEXT)])
    assert sentences == repr(split_sentences(TEXT))
    assert f1 == repr(rouge(TEXT, "flying generalization", use_stemmer=True)["rouge1"].f1)
    assert (loaded, whole) == ("", "fli")  # who imports NLTK later gets all of it


def test_where_all_of_nltk_is_there_its_own_modules_are_taken():
    assert light_module("nltk.tokenize.punkt") is nltk.tokenize.punkt
