"""Calibration of scores: probabilities of them, thresholds with a guarantee, and alarms."""
