"""The foundation of all other packages: the example, labels, templates, words, rows and files."""
