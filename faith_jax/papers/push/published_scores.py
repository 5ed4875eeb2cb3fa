"""The tables of scorers of Steen 2023, with the published figures."""

from faith_jax.papers.tables import ScorerTable

TRUE = ScorerTable(
    title="Steen 2023, table 1: TRUE's nine corpora",
    data="true_benchmark",
    corpora=("frank", "mnbm", "summeval", "qags_c", "qags_x", "begin", "q2", "dialfact", "paws"),
    scorers=("token_f1", "rouge1_precision", "rougeL_f1", "coverage", "lexical_overlap"),
    options={"baseline": "token_f1"},
    note="Steen 2023's table 1 has scorers with models only; none is among these.",
)

PRONOUNS = ScorerTable(
    title="Steen 2023, table 3: first-person pronouns",
    data="true_benchmark",
    corpora=("q2", "dialfact", "begin"),
    scorers=("token_f1", "rouge1_precision", "rougeL_f1", "coverage", "lexical_overlap"),
    options={"protocol": "pronouns"},
    note=(
        "Published: Steen 2023, table 3, gold label. The paper's models on begin, q2 and "
        "dialfact: T5 -0.27, -0.40, -0.13; Base -0.28, -0.32, -0.10; All -0.19, -0.19, 0.04."
    ),
    columns=("begin", "q2", "dialfact"),
    published=(("label", -0.35, -0.03, 0.05),),
)
