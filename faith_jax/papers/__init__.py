"""The five papers, a package for each, with data making, protocols, tables and published figures.

- `faithdial`: Dziri 2022, FaithDial: A Faithful Benchmark for Information-Seeking Dialogue
- `dialfact`: Gupta 2022, DialFact: A Benchmark for Fact-Checking in Dialogue
- `pmi`: Nandwani 2023, Pointwise Mutual Information Based Metric and Decoding Strategy
- `npov`: Chang 2024, Detecting Hallucination and Coverage Errors for Controversial Topics
- `push`: Steen 2023, With a Little Push, NLI Models can Robustly and Efficiently Predict
  Faithfulness

Each package's docstring maps its paper, part by part, to modules and the commands that run them.
The library does not import these packages: their commands, protocols and tables are registered by
entry points in setup.cfg, as a user's would be (docs/extending.md). Shared modules of the tables
are: `commands` (the command reproduce), `options`, `tables` (the description of a table of scorers)
and `score_and_evaluate` (which makes it), `workflow` and `table.smk` (tables that train and
respond), `judges` (scorers that judge responses), `development` (thresholds from a development
part) and `responses` (models that respond when data is made).
"""
