"""Judges: published models that say whether a grounding supports a response, each by a card."""
