"""What scores are worth: probabilities of them, thresholds with a guarantee, and alarms."""
