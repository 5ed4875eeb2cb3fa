"""The models: one configurable transformer, soft prompts and checkpoint importers."""
