"""The jobs `calibrate` and `accept`, and the file that the first writes and the second reads."""
