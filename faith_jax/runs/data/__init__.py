"""The runs that make, show and describe data: tasks, data sets, sheets for annotators."""
