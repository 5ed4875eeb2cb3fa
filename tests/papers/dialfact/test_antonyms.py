import subprocess
import sys

import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.datasets.augmentation.adjectives import ANTONYM_PAIRS
from faith_jax.papers.dialfact.antonyms import EMOTIONS, load_antonyms
from tests.paths import REPOSITORY


def test_the_list_goes_both_ways():
    antonyms = load_antonyms("list")
    for first, second in ANTONYM_PAIRS:
        assert second in antonyms(first)
        assert first in antonyms(second)
    assert antonyms("blue") == ()


def test_the_list_has_no_feelings_but_guilt_of_a_deed():
    words = {word for pair in ANTONYM_PAIRS for word in pair}
    assert words & EMOTIONS <= {"guilty"}


def test_an_unknown_name():
    with pytest.raises(ConfigError, match="no antonyms 'thesaurus': expected wordnet, wordnet:F"):
        load_antonyms("thesaurus")


@pytest.mark.slow
def test_where_wordnet_is_not_installed_and_where_it_is(tmp_path):
    corpora = tmp_path / "corpora"
    corpora.mkdir()
    (corpora / "wordnet.zip").write_bytes(b"half a download")
    code = (
        "import os, sys\n"
        "from faith_jax.papers.dialfact.antonyms import load_antonyms\n"
        "from tests.papers.dialfact import wordnets\n"
        "import pathlib\n"
        "try:\n"
        "    load_antonyms()\n"
        "except Exception as error:\n"
        "    print(error)\n"
        "corpora = pathlib.Path(sys.argv[1])\n"
        "(corpora / 'wordnet.zip').unlink()\n"
        "wordnets.write(corpora / 'wordnet')\n"
        "a = load_antonyms()\n"
        "print(a('warm'), a('cool'), a('blue'))\n"
    )
    environment = {"NLTK_DATA": str(tmp_path), "HOME": str(tmp_path), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", code, str(corpora)],
        env=environment | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    message, antonyms = done.stdout.splitlines()
    assert "python -m nltk.downloader wordnet" in message, done.stderr[-300:]
    assert "Or choose the antonyms 'list'" in message
    assert antonyms == "('cool',) ('warm',) ()"
