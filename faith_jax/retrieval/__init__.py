"""Knowledge bases: search for an encyclopedia's articles by name or words, and for evidence."""

from faith_jax.retrieval.knowledge_base import KnowledgeBase

__all__ = ["KnowledgeBase"]
