"""Calibration of scores: probabilities, thresholds with guarantees, and drift tests."""
