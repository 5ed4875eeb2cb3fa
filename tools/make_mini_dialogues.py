"""Writes Wizard of Wikipedia's train.json of the claims that `mini_nli` was trained on.

Each dialogue is about an article: the Wizard says what a sentence supports. `faith-jax
mutate-claims` makes training claims of the file (docs/dialfact.md).
"""

import argparse
import itertools
import json
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from mini_claims import Claims, read_claims

ASKED = "What else do you know?"


def dialogues(claims: Sequence[Claims]) -> Iterator[dict[str, Any]]:
    """Yields a dialogue for each article and each wording of what its sentences support."""
    for title, found in itertools.groupby(claims, lambda it: it.title):
        own = list(found)
        sentences = [it.sentence for it in own]
        for wording in range(max(len(it.supported) for it in own)):
            turns: list[dict[str, Any]] = []
            for it in own:
                if wording < len(it.supported):
                    asked = ASKED if turns else f"Tell me about {title}."
                    turns += _turns(asked, it.supported[wording], it, sentences)
            yield {"chosen_topic": title, "chosen_topic_passage": sentences, "dialog": turns}


def _turns(asked: str, told: str, of: Claims, sentences: list[str]) -> list[dict[str, Any]]:
    passages = {"retrieved_passages": [{of.title: sentences}]}
    checked = {
        "checked_sentence": {f"chosen_{of.title}_0": of.sentence},
        "checked_passage": {f"chosen_topic_0_{of.title}": of.title},
    }
    return [
        {"speaker": "0_Apprentice", "text": asked, **passages},
        {"speaker": "1_Wizard", "text": told, **checked, **passages},
    ]


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  python tools/make_mini_dialogues.py docs/mini/claims.jsonl "
        "dialogues/train.json",
    )
    parser.add_argument("claims", type=pathlib.Path, metavar="CLAIMS")
    parser.add_argument("output", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    made = list(dialogues(read_claims(options.claims)))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(made), encoding="utf-8")
    print(f"{options.output}: {len(made)} dialogues")


if __name__ == "__main__":
    main()
