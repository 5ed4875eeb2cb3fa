"""The models: one configurable transformer, soft prompts and likelihoods."""
