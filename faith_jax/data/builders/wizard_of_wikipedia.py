"""The TFDS builder `wizard_of_wikipedia`."""

import pathlib

from faith_jax.data.builders.base import RawBuilder, configs
from faith_jax.data.raw import wizard_of_wikipedia


class WizardOfWikipedia(RawBuilder):
    """The Wizard's turns of Wizard of Wikipedia; those with knowledge also with control tokens."""

    name = "wizard_of_wikipedia"
    code_path = pathlib.Path(__file__)
    BUILDER_CONFIGS = configs(
        {
            "official": wizard_of_wikipedia.WIZARD_OF_WIKIPEDIA,
            "control_tokens": wizard_of_wikipedia.WIZARD_OF_WIKIPEDIA_CONTROL_TOKENS,
        }
    )
