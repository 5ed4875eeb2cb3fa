"""The TFDS builders of all raw data sets, by name: `tfds.builder("begin/official")` once imported.

A builder reads what its configs' `RawDataset`s say; there is no other code of one data set here.
"""

import pathlib
from collections.abc import Mapping
from typing import NamedTuple

import tensorflow_datasets as tfds

from faith_jax.datasets.builders.base import RawBuilder, configs
from faith_jax.datasets.raw import (
    begin,
    cmu_dog,
    decode,
    dialfact,
    dialogue_nli,
    faithdial,
    faithdial_audit,
    multidoc2dial,
    npov,
    own_files,
    topical_chat,
    true_benchmark,
    wizard_of_wikipedia,
)
from faith_jax.datasets.raw_dataset import RawDataset


class _Described(NamedTuple):
    """A data set.

    Attributes:
      what: it holds.
      parts: by the names of their configs; each has another config for its sample.
      releases: what changed, by version, the newest first.
    """

    what: str
    parts: Mapping[str, RawDataset]
    releases: Mapping[str, str] = {"1.0.0": "First release."}


_DATASETS = {
    "begin": _Described(
        "BEGIN's second release: whole, or one of its three sources.",
        {"official": begin.BEGIN, **begin.BEGIN_BY_SOURCE},
    ),
    "begin_2021": _Described(
        "BEGIN's first release, which TRUE has.", {"official": begin.BEGIN_2021}
    ),
    "cmu_dog": _Described("The readers' turns of CMU-DoG.", {"official": cmu_dog.CMU_DOG}),
    "decode": _Described("DECODE's dialogues.", {"official": decode.DECODE}),
    "dialfact": _Described(
        "DialFact's claims, with the annotators' evidence or with a retriever's.",
        {"official": dialfact.DIALFACT, "retrieved": dialfact.DIALFACT_RETRIEVED},
    ),
    "dialfact_evidence": _Described(
        "Pairs of a response and a sentence, relevant or not.",
        {"official": dialfact.DIALFACT_EVIDENCE},
    ),
    "dialogue_nli": _Described(
        "Dialogue NLI's pairs of sentences.", {"official": dialogue_nli.DIALOGUE_NLI}
    ),
    "faith_critic": _Described(
        "FaithCritic's pairs of knowledge and response; `all_edits` has edits in all splits.",
        {"official": faithdial.FAITH_CRITIC, "all_edits": faithdial.FAITH_CRITIC_ALL_EDITS},
        {
            "2.0.0": "The authors' sets; the form before is `all_edits`.",
            "1.0.0": "First release.",
        },
    ),
    "faithdial": _Described(
        "FaithDial, one example a turn of the Wizard; also with control tokens.",
        {"official": faithdial.FAITHDIAL, "control_tokens": faithdial.FAITHDIAL_CONTROL_TOKENS},
    ),
    "faithdial_audit": _Described(
        "People's and models' responses with expert labels; a split for each file.",
        {"official": faithdial_audit.FAITHDIAL_AUDIT},
    ),
    "multidoc2dial": _Described(
        "The agent's turns of MultiDoc2Dial, grounded in passages (Nandwani 2023); `spans` are "
        "those that answer the user, grounded in spans.",
        {
            "official": multidoc2dial.MULTIDOC2DIAL,
            "spans": multidoc2dial.MULTIDOC2DIAL_SPANS,
        },
        {
            "2.0.0": "Every turn of the agent, with whole passages; the form before is `spans`.",
            "1.0.0": "First release.",
        },
    ),
    "nli": _Described("Premises and hypotheses of the user's own.", {"full": own_files.NLI}),
    # The files that `faith-jax reproduce npov_detection` writes into its folder `data`.
    "npov_detection": _Described(
        "Responses with arguments that they may not match; the nested sets of Chang 2024.",
        npov.TRAINING_SETS,
    ),
    "npov_errors": _Described("`procon_npov` with synthetic errors.", {"full": npov.NPOV_ERRORS}),
    # Reads topics.jsonl and responses.jsonl (docs/data_formats.md) from the folder procon_npov in
    # the manual folder; tools/prepare_procon.py makes them from scraped ProCon.org pages.
    "procon_npov": _Described(
        "Responses with their query and arguments.", {"full": npov.PROCON_NPOV}
    ),
    "text_to_text": _Described(
        "Inputs and targets of the user's own.", {"full": own_files.TEXT_TO_TEXT}
    ),
    "topical_chat": _Described(
        "The turns of Topical-Chat, over the reading sets before the authors' build or after it.",
        {
            "official": topical_chat.TOPICAL_CHAT,
            "post_build": topical_chat.TOPICAL_CHAT_POST_BUILD,
        },
        {
            "1.1.0": "Texts of knowledge end with punctuation.",
            "1.0.0": "First release.",
        },
    ),
    "true_benchmark": _Described(
        "The eleven corpora of TRUE in one schema.", true_benchmark.CORPORA
    ),
    "wizard_of_wikipedia": _Described(
        "The Wizard's turns of Wizard of Wikipedia; those with knowledge also with control tokens.",
        {
            "official": wizard_of_wikipedia.WIZARD_OF_WIKIPEDIA,
            "control_tokens": wizard_of_wikipedia.WIZARD_OF_WIKIPEDIA_CONTROL_TOKENS,
        },
    ),
}


def _builder(name: str, described: _Described) -> type[RawBuilder]:
    """Returns the builder of a data set; TFDS knows it by its name from now on."""
    class_name = "".join(part.capitalize() for part in name.split("_"))
    made = type(
        class_name,
        (RawBuilder,),
        {
            "__doc__": described.what,
            "__module__": __name__,
            "name": name,
            "code_path": pathlib.Path(__file__),
            "VERSION": tfds.core.Version(next(iter(described.releases))),
            "RELEASE_NOTES": dict(described.releases),
            "BUILDER_CONFIGS": configs(described.parts),
        },
    )
    globals()[class_name] = made  # where Beam's workers look for it
    return made


BUILDERS: dict[str, type[RawBuilder]] = {
    name: _builder(name, described) for name, described in _DATASETS.items()
}
