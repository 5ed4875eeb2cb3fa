from faith_jax.evaluation.published_faithdial import SYSTEMS


def test_rows_of_the_papers_tables():
    assert SYSTEMS["faithdial", "faithdial", "t5_infonce"] == {
        "Critic": 1.4,
        "Q\u00b2 F1": 70.8,
        "Q\u00b2 NLI": 80.9,
        "BERTScore": 0.39,
        "F1": 55.8,
        "BLEU": 10.9,
        "ROUGE": 35.8,
    }
    assert SYSTEMS["faithdial", "wow", "gpt2"]["ROUGE"] == 18.3
    assert SYSTEMS["cmu_dog", "faithdial", "t5"] == {
        "Critic": 21.8,
        "Q\u00b2 F1": 50.5,
        "Q\u00b2 NLI": 57.3,
        "F1": 17.1,
    }
    # Table 5 has 20 systems, table 8 six: in domain and from FaithDial, on three data sets.
    assert len(SYSTEMS) == 26
    assert ("faithdial", "wow", "t5_infonce") not in SYSTEMS
