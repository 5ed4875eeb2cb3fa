"""Figures of Dziri 2022's tables 5 and 8."""

from collections.abc import Mapping

NOTE = (
    "Published: Dziri 2022, tables 5 and 8 (Critic, Q\u00b2 and F1 there alone), of other models, "
    "fine-tuned by the authors. Which part of wow's test and of topical_chat's is meant is not "
    "said there; ours are the unseen and the rare one."
)
_COLUMNS = ("Critic", "Q\u00b2 F1", "Q\u00b2 NLI", "BERTScore", "F1", "BLEU", "ROUGE")
_ZERO_SHOT = ("Critic", "Q\u00b2 F1", "Q\u00b2 NLI", "F1")
_TABLE_5 = {
    "wow": {
        "gpt2": (60.1, 42.2, 51.4, 0.29, 47.7, 7.3, 18.3),
        "dialogpt": (59.4, 41.4, 52.5, 0.34, 53.5, 8.3, 29.5),
        "doha": (53.2, 63.3, 70.1, 0.32, 56.1, 9.4, 32.3),
        "t5": (46.5, 67.7, 75.2, 0.41, 61.7, 9.5, 32.9),
        "t5_ctrl": (45.2, 70.3, 76.2, 0.45, 65.2, 9.9, 33.1),
        "t5_loss_truncation": (41.4, 71.2, 79.4, 0.43, 65.0, 9.8, 33.4),
    },
    "faithdial": {
        "gpt2": (5.8, 58.4, 69.8, 0.36, 50.4, 9.5, 33.4),
        "dialogpt": (5.6, 56.5, 66.2, 0.36, 52.3, 9.6, 33.1),
        "doha": (4.9, 69.1, 78.3, 0.39, 58.3, 9.9, 31.8),
        "t5": (4.3, 70.4, 79.5, 0.41, 59.2, 10.3, 33.9),
        "t5_ctrl": (5.7, 72.4, 81.5, 0.46, 62.2, 10.4, 33.9),
        "t5_loss_truncation": (4.0, 71.9, 80.2, 0.42, 59.1, 10.2, 33.9),
        "t5_infonce": (1.4, 70.8, 80.9, 0.39, 55.8, 10.9, 35.8),
    },
    "wow_then_faithdial": {
        "gpt2": (7.2, 62.3, 73.4, 0.39, 54.2, 10.0, 34.2),
        "dialogpt": (8.2, 54.5, 65.6, 0.42, 48.6, 8.9, 32.3),
        "doha": (1.6, 66.7, 77.4, 0.40, 55.8, 11.4, 36.5),
        "t5": (2.0, 70.2, 80.1, 0.41, 57.5, 11.5, 37.2),
        "t5_ctrl": (4.5, 73.4, 83.5, 0.50, 64.6, 10.9, 35.6),
        "t5_loss_truncation": (4.0, 70.2, 79.1, 0.41, 58.9, 10.4, 33.9),
        "t5_infonce": (1.4, 69.8, 79.8, 0.40, 57.1, 11.5, 36.5),
    },
}
# The zero-shot ones, and the model trained on the data that it is tested on.
_TABLE_8 = {
    ("topical_chat", "topical_chat"): (95.0, 46.2, 53.2, 6.6),
    ("topical_chat", "faithdial"): (59.3, 57.3, 67.1, 12.5),
    ("cmu_dog", "cmu_dog"): (95.5, 39.5, 49.2, 1.9),
    ("cmu_dog", "faithdial"): (21.8, 50.5, 57.3, 17.1),
    ("wow", "wow"): (57.9, 69.4, 72.1, 59.6),
    ("wow", "faithdial"): (7.7, 72.9, 79.7, 57.4),
}

# By what is responded to, training data and system: the figures by column.
SYSTEMS: Mapping[tuple[str, str, str], Mapping[str, float]] = {
    ("faithdial", trained_on, system): dict(zip(_COLUMNS, values, strict=True))
    for trained_on, systems in _TABLE_5.items()
    for system, values in systems.items()
} | {(*key, "t5"): dict(zip(_ZERO_SHOT, values, strict=True)) for key, values in _TABLE_8.items()}
