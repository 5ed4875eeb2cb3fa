"""Models with their parameters, which a library user loads to score and generate.

```python
model = faith_jax.load_model("path/to/checkpoint")
log_probs = model.target_log_probs(encoder_input_tokens, decoder_target_tokens)  # T5, BART
log_probs = model.next_log_probs(input_tokens)                                   # GPT-2, Llama …
logits = model.classify(input_tokens)                                            # RoBERTa …
tokens = model.generate(input_tokens, max_length=64)
```

All tokens are integer arrays [batch, length], padded on the right with the model's `pad_id`. Inputs
are padded further to one of a few lengths, so that batches of many lengths share few compilations;
padding changes no result.
"""

from faith_jax.inference.batching import bucket_length
from faith_jax.inference.causal import CausalModel
from faith_jax.inference.encoder import EncoderModel
from faith_jax.inference.encoder_decoder import EncoderDecoderModel, shift_right
from faith_jax.inference.opening import Model, load_model

__all__ = [
    "CausalModel",
    "EncoderDecoderModel",
    "EncoderModel",
    "Model",
    "bucket_length",
    "load_model",
    "shift_right",
]
