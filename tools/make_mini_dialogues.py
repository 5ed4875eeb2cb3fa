"""Writes `mini_nli`'s training claims in the format of Wizard of Wikipedia's train.json.

Each dialogue is about an article: the Wizard makes claims that its sentences support. `faith-jax
mutate-claims` makes training claims from the file (docs/dialfact.md).
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
    """Yields a dialogue for each article and each wording of its supported claims."""
    for title, title_claims in itertools.groupby(claims, lambda claim: claim.title):
        article_claims = list(title_claims)
        sentences = [claim.sentence for claim in article_claims]
        for wording in range(max(len(claim.supported) for claim in article_claims)):
            turns: list[dict[str, Any]] = []
            for claim in article_claims:
                if wording < len(claim.supported):
                    question = ASKED if turns else f"Tell me about {title}."
                    turns += _turns(question, claim.supported[wording], claim, sentences)
            yield {"chosen_topic": title, "chosen_topic_passage": sentences, "dialog": turns}


def _turns(question: str, answer: str, of: Claims, sentences: list[str]) -> list[dict[str, Any]]:
    passages = {"retrieved_passages": [{of.title: sentences}]}
    checked = {
        "checked_sentence": {f"chosen_{of.title}_0": of.sentence},
        "checked_passage": {f"chosen_topic_0_{of.title}": of.title},
    }
    return [
        {"speaker": "0_Apprentice", "text": question, **passages},
        {"speaker": "1_Wizard", "text": answer, **checked, **passages},
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
    rows = list(dialogues(read_claims(options.claims)))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(rows), encoding="utf-8")
    print(f"{options.output}: {len(rows)} dialogues")


if __name__ == "__main__":
    main()
