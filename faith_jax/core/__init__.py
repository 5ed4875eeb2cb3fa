"""The ground of every room: the example, labels, templates, words, rows and files."""
