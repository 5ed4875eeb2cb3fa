import subprocess
import sys

import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.datasets.augmentation.adjectives import ANTONYM_PAIRS
from faith_jax.papers.dialfact.antonyms import EMOTIONS, load_antonyms
from tests.papers.dialfact import wordnets


def test_the_list_goes_both_ways():
    antonyms = load_antonyms("list")
    for first, second in ANTONYM_PAIRS:
        assert second in antonyms(first)
        assert first in antonyms(second)
    assert antonyms("blue") == ()


def test_the_list_has_no_feelings_but_guilt_of_a_deed():
    words = {word for pair in ANTONYM_PAIRS for word in pair}
    assert words & EMOTIONS <= {"guilty"}


def run(code, folder):
    environment = {"NLTK_DATA": str(folder), "HOME": str(folder), "PATH": ""}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )


WORDNET = "from faith_jax.papers.dialfact.antonyms import load_antonyms; a = load_antonyms()\n"


@pytest.mark.slow
@pytest.mark.parametrize("broken", [False, True])
def test_where_wordnet_is_not_installed(tmp_path, broken):
    if broken:
        (tmp_path / "corpora").mkdir()
        (tmp_path / "corpora" / "wordnet.zip").write_bytes(b"half a download")
    done = run(WORDNET, tmp_path)
    message = done.stderr.splitlines()[-1]
    assert "python -m nltk.downloader wordnet" in message
    assert "Or choose the antonyms 'list'" in message


def test_an_unknown_name():
    with pytest.raises(ConfigError, match="no antonyms 'thesaurus': expected wordnet, wordnet:F"):
        load_antonyms("thesaurus")


def test_wordnets_antonyms(tmp_path):
    wordnets.write(tmp_path / "corpora" / "wordnet")
    done = run(WORDNET + "print(a('warm'), a('cool'), a('blue'))", tmp_path)
    assert done.stdout == "('cool',) ('warm',) ()\n", done.stderr[-300:]
