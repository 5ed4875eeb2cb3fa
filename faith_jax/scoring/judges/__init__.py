"""Judges: published models that tell whether a grounding supports a response, each with a card."""
