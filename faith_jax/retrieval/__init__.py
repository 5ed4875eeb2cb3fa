"""Knowledge bases: articles of an encyclopedia, found by names and words, and evidence in them."""

from faith_jax.retrieval.knowledge_base import KnowledgeBase

__all__ = ["KnowledgeBase"]
