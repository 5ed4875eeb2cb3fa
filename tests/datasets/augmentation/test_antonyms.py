import subprocess
import sys

import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.datasets.augmentation.antonyms import ANTONYM_PAIRS, EMOTIONS, load_antonyms


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


WORDNET = (
    "from faith_jax.datasets.augmentation.antonyms import load_antonyms; a = load_antonyms()\n"
)


@pytest.mark.parametrize("broken", [False, True])
def test_where_wordnet_is_not_installed(tmp_path, broken):
    if broken:
        (tmp_path / "corpora").mkdir()
        (tmp_path / "corpora" / "wordnet.zip").write_bytes(b"half a download")
    done = run(WORDNET, tmp_path)
    message = done.stderr.splitlines()[-1]
    assert "python -m nltk.downloader wordnet; or choose the antonyms 'list'" in message


def test_an_unknown_name():
    with pytest.raises(ConfigError, match="no antonyms 'thesaurus': expected wordnet or list"):
        load_antonyms("thesaurus")


# A WordNet of one pair of adjectives, in the format of its database.
INDEX = """\
cool a 1 1 ! 1 0 00000000
warm a 1 1 ! 1 0 00000084
"""
DATA = """\
00000000 00 a 01 cool 0 001 ! 00000084 a 0101 | neither warm nor very cold; "cool air"
00000084 00 a 01 warm 0 001 ! 00000000 a 0101 | having much heat; "a warm body"
"""


def test_wordnets_antonyms(tmp_path):
    folder = tmp_path / "corpora" / "wordnet"
    folder.mkdir(parents=True)
    first, second = DATA.splitlines(keepends=True)
    offset = f"{len(first.encode()):08d}"
    for name in ("noun", "verb", "adv"):
        (folder / f"index.{name}").write_text("")
        (folder / f"data.{name}").write_text("")
        (folder / f"{name}.exc").write_text("")
    (folder / "index.adj").write_text(INDEX.replace("00000084", offset))
    (folder / "data.adj").write_text((first + second).replace("00000084", offset))
    (folder / "adj.exc").write_text("")
    (folder / "lexnames").write_text("00\tadj.all\t3\n")
    for name in ("index.sense", "cntlist.rev", "citation.bib"):
        (folder / name).write_text("")
    done = run(WORDNET + "print(a('warm'), a('cool'), a('blue'))", tmp_path)
    assert done.stdout == "('cool',) ('warm',) ()\n", done.stderr[-300:]
