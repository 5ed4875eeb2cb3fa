"""The TFDS builders `dialfact` and `dialfact_evidence`."""

import pathlib

from faith_jax.data.builders.base import RawBuilder, configs
from faith_jax.data.raw import dialfact, dialfact_evidence


class Dialfact(RawBuilder):
    """DialFact's claims, with the annotators' evidence or with a retriever's."""

    name = "dialfact"
    code_path = pathlib.Path(__file__)
    BUILDER_CONFIGS = configs(
        {"official": dialfact.DIALFACT, "retrieved": dialfact_evidence.DIALFACT_RETRIEVED}
    )


class DialfactEvidence(RawBuilder):
    """Pairs of a response and a sentence, relevant or not."""

    name = "dialfact_evidence"
    code_path = pathlib.Path(__file__)
    BUILDER_CONFIGS = configs({"official": dialfact_evidence.DIALFACT_EVIDENCE})
