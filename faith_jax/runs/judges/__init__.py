"""Judges as artefacts: are they certified on this machine, and how do they score without us."""
