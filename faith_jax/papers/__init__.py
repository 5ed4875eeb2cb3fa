"""The five papers, a room for each: its data making, protocols, tables and published figures.

- `faithdial`: Dziri 2022, FaithDial: A Faithful Benchmark for Information-Seeking Dialogue
- `dialfact`: Gupta 2022, DialFact: A Benchmark for Fact-Checking in Dialogue
- `pmi`: Nandwani 2023, Pointwise Mutual Information Based Metric and Decoding Strategy
- `npov`: Chang 2024, Detecting Hallucination and Coverage Errors for Controversial Topics
- `push`: Steen 2023, With a Little Push, NLI Models can Robustly and Efficiently Predict
  Faithfulness

Each room's first page maps the paper to files, recipes and commands. The library imports nothing of
this: commands, protocols and tables come in through the entry points of setup.cfg, as those of
users do (docs/extending.md). What the papers' tables share stands beside the rooms: `commands` (the
command reproduce), `options`, `scorer_table` and `scorer_tables` (tables of scorers alone),
`workflow` and `table.smk` (tables that train and respond), `table_scorers` (responses that scorers
judge), `development` (thresholds from a development part) and `responses` (models that respond when
data is made).
"""
