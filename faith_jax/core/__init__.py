"""What every room stands on: the example, labels, templates, words, rows and files."""
