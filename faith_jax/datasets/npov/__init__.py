"""The NPOV Response Task (Chang 2024): topics with arguments of both sides, and responses."""

from faith_jax.datasets.npov.topics import (
    RESPONSES_FILE,
    SPLITS,
    TOPICS_FILE,
    Argument,
    Topic,
    WrittenResponse,
    choose_arguments,
    generation_examples,
    load_responses,
    load_topics,
    retrieve,
    topics_folder,
)

__all__ = [
    "RESPONSES_FILE",
    "SPLITS",
    "TOPICS_FILE",
    "Argument",
    "Topic",
    "WrittenResponse",
    "choose_arguments",
    "generation_examples",
    "load_responses",
    "load_topics",
    "retrieve",
    "topics_folder",
]
