"""Computes reference outputs of Transformers for tiny published models (extra `parity`)."""

import json
import pathlib
from typing import Any

import numpy as np
import pytest

from tests.checkpoints.family_folders import rows

_WITHOUT = "the extra `parity` is not installed"
torch = pytest.importorskip("torch", reason=_WITHOUT)
transformers = pytest.importorskip("transformers", reason=_WITHOUT)

select_starts_ends = pytest.importorskip(
    "transformers.pipelines.document_question_answering"
).select_starts_ends

NEW_TOKENS = 8
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


def make_folder(
    folder: pathlib.Path, architecture: str, settings: dict[str, Any], older: dict[str, Any]
) -> None:
    """Lets Transformers save a model with random weights."""
    model_class = getattr(transformers, architecture)
    model = model_class(model_class.config_class(**settings))
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text()) | older
    config = {k: v for k, v in config.items() if v is not None or k not in older}
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def load(folder: pathlib.Path, architecture: str) -> Any:
    """Opens a folder with Transformers, using its eager attention."""
    model = (
        getattr(transformers, architecture)
        .from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
        .eval()
    )
    if architecture.startswith("T5Gemma"):
        # The window of Transformers 5 has one more token on each side than the authors' code.
        model.model.encoder.config.sliding_window -= 1
    return model


def reference(
    model: Any, inputs: dict[str, np.ndarray], generate: bool = True
) -> dict[str, np.ndarray]:
    """Returns the outputs of Transformers for inputs made by `inputs_of`."""
    with torch.no_grad():
        if "decoder_input_tokens" in inputs:
            return _of_pairs(model, inputs, generate)
        tokens, mask = (torch.tensor(inputs[k]).long() for k in ("input_tokens", "input_mask"))
        input_ids = torch.where(mask > 0, tokens, 0 if model.can_generate() else tokens)
        options = {"attention_mask": mask, "output_hidden_states": True}
        if "token_types" in inputs:
            options["token_type_ids"] = torch.tensor(inputs["token_types"]).long()
        result = model(input_ids=input_ids, return_dict=True, **options)
        if not model.can_generate():
            states = result.get("hidden_states") or result.decoder_hidden_states
            outputs = {"last_hidden": states[-1].numpy()}
            if "start_logits" in result:
                spans = torch.stack([result.start_logits, result.end_logits], dim=-1)
                outputs["span_logits"] = spans.numpy()
                outputs["best_spans"] = _best_spans(outputs["span_logits"], inputs["input_mask"])
            for name in ("logits", "pooler_output"):
                if result.get(name) is not None:
                    outputs[name] = result[name].numpy()
            return outputs
        if not generate:
            return {"logits": result.logits.numpy()}
        greedy = [
            _generated(model, row[keep > 0][None]) for row, keep in zip(tokens, mask, strict=True)
        ]
        return {"logits": result.logits.numpy(), "greedy_tokens": np.stack(greedy)}


def _best_spans(logits: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Returns int32 [batch, 3]: first and last token of the best span, and whether none is better.

    "None" means that there is no answer. The text is the second half of each row; spans have at
    most 3 tokens.
    """
    spans = []
    for row, mask in zip(logits, masks, strict=True):
        in_text = mask * (np.arange(len(mask)) >= mask.sum() // 2)
        outside = 1 - in_text
        outside[0] = 0  # no answer
        starts, ends, scores, null = select_starts_ends(
            row[None, :, 0],
            row[None, :, 1],
            outside,
            mask,
            top_k=100,
            handle_impossible_answer=True,
            max_answer_len=3,
        )
        spans.append((starts[0], ends[0], null > scores[0]))
    return np.array(spans, np.int32)


def _generated(model: Any, row: torch.Tensor, **options: Any) -> np.ndarray:
    """Returns the generated tokens int32 [NEW_TOKENS], -1 after the end."""
    options = {"max_new_tokens": NEW_TOKENS, "do_sample": False, "use_cache": False} | options
    output = model.generate(row, attention_mask=torch.ones_like(row), **options)[0]
    new = output[row.shape[1] :].numpy()
    return np.pad(new, (0, NEW_TOKENS - len(new)), constant_values=-1).astype(np.int32)


def _of_pairs(model: Any, inputs: dict[str, np.ndarray], generate: bool) -> dict[str, np.ndarray]:
    names = ("encoder_input_tokens", "encoder_mask", "decoder_input_tokens")
    tokens, mask, decoder = (torch.tensor(inputs[name]).long() for name in names)
    outputs = model(input_ids=tokens, attention_mask=mask, decoder_input_ids=decoder)
    if not generate:
        return {"logits": outputs.logits.numpy()}
    options = {"max_new_tokens": NEW_TOKENS, "do_sample": False, "attention_mask": mask}
    options["pad_token_id"] = model.config.pad_token_id
    greedy = model.generate(tokens, **options)
    beams = model.generate(
        tokens,
        num_beams=4,
        length_penalty=0.0,
        return_dict_in_generate=True,
        output_scores=True,
        **options,
    )
    return {
        "logits": outputs.logits.numpy(),
        "greedy_tokens": _padded(greedy[:, 1:], model.config.pad_token_id),
        "beam4_tokens": _padded(beams.sequences[:, 1:], model.config.pad_token_id),
        "beam4_score": beams.sequences_scores.numpy(),
    }


def _padded(tokens: torch.Tensor, pad_id: int) -> np.ndarray:
    """Pads to int32 [batch, NEW_TOKENS]; Transformers stops when all rows have ended."""
    missing = NEW_TOKENS - tokens.shape[1]
    return np.pad(tokens.numpy(), ((0, 0), (0, missing)), constant_values=pad_id).astype(np.int32)


def salience(model: Any, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns gradient x input of each target token's logit for each input embedding.

    A T5 has `salience_encoder` [batch, inputs, targets], `salience_decoder` [batch, targets,
    targets], and the gradients' norms `salience_encoder_l2`. A decoder-only model has `salience`
    [length, length] of the first row, whose column t belongs to the logit of token t. Other models
    have none.
    """
    if "decoder_target_tokens" in inputs:
        tokens, mask, fed, targets = (
            torch.tensor(inputs[name]).long()
            for name in ("encoder_input_tokens", "encoder_mask", "decoder_input_tokens",
                         "decoder_target_tokens")
        )  # fmt: skip
        encoder, decoder = (_embedded(model, ids) for ids in (tokens, fed))
        outputs = model(inputs_embeds=encoder, attention_mask=mask, decoder_inputs_embeds=decoder)
        gradients = _gradients(outputs.logits, targets, (encoder, decoder))
        return {
            "salience_encoder": _stacked((g * encoder).sum(-1) for g, _ in gradients),
            "salience_decoder": _stacked((g * decoder).sum(-1) for _, g in gradients),
            "salience_encoder_l2": _stacked(g.norm(dim=-1) for g, _ in gradients),
        }
    if "encoder_input_tokens" in inputs or not model.can_generate():
        return {}
    tokens = torch.tensor(inputs["input_tokens"][:1]).long()
    embeddings = _embedded(model, tokens)
    logits = model(inputs_embeds=embeddings).logits
    gradients = _gradients(logits[:, :-1], tokens[:, 1:], (embeddings,))
    first = torch.zeros(embeddings.shape[:-1])  # the first token has no logit
    return {"salience": _stacked([first, *((g * embeddings).sum(-1) for (g,) in gradients)])[0]}


def _embedded(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    return model.get_input_embeddings()(tokens).detach().requires_grad_()


def _gradients(
    logits: torch.Tensor, targets: torch.Tensor, inputs: tuple[torch.Tensor, ...]
) -> list[tuple[torch.Tensor, ...]]:
    """Returns the gradients of each target's logit; rows of a batch do not see each other."""
    log_likelihood = logits.gather(2, targets[..., None])[..., 0].sum(0)
    return [torch.autograd.grad(logit, inputs, retain_graph=True) for logit in log_likelihood]


def _stacked(columns: Any) -> np.ndarray:
    return torch.stack(list(columns), dim=-1).detach().numpy()


def inputs_of(config: dict[str, Any], seed: int = 0) -> dict[str, np.ndarray]:
    """Returns random inputs with padding for a model with these fields of config.json."""
    pad = config.get("pad_token_id")
    pad = 0 if pad is None else pad
    is_classifier = "ForSequenceClassification" in str(config["architectures"])
    if config["model_type"] == "t5" and not is_classifier:
        encoder = rows(11, 4, 7, pad_id=pad, seed=seed)
        targets = rows(6, 3, 5, pad_id=pad, seed=seed + 1)
        fed = np.pad(targets, ((0, 0), (1, 0)))[:, :-1]  # the start token is 0 too
        return {
            "encoder_input_tokens": encoder,
            "encoder_mask": (encoder != pad).astype(np.int8),
            "decoder_input_tokens": fed,
            "decoder_target_tokens": targets,
        }
    if config["model_type"] in ("bart", "t5gemma", "umt5") and not is_classifier:
        encoder = rows(11, 4, 7, pad_id=pad, seed=seed)
        decoder = rows(6, 6, 6, pad_id=pad, seed=seed + 1)
        decoder[:, 0] = config.get("decoder_start_token_id", config.get("bos_token_id"))
        mask = (encoder != pad).astype(np.int8)
        return {
            "encoder_input_tokens": encoder,
            "encoder_mask": mask,
            "decoder_input_tokens": decoder,
        }
    has_long_rows = "deberta" in config["model_type"] or config["model_type"] == "modernbert"
    lengths = (40, 9) if has_long_rows else (11, 4, 7)
    tokens = rows(*lengths, pad_id=pad, seed=seed)
    mask = np.arange(tokens.shape[1]) < np.array(lengths)[:, None]
    if config["model_type"] in ("bart", "t5", "mt5"):  # the model reads the last of two end tokens
        for row, length in zip(tokens, lengths, strict=True):
            row[[length // 2, length - 1]] = config["eos_token_id"]
    inputs = {"input_tokens": tokens, "input_mask": mask.astype(np.int8)}
    if config["model_type"] in ("bert", "albert", "electra"):
        second = np.arange(tokens.shape[1]) >= np.array(lengths)[:, None] // 2
        inputs["token_types"] = (second & mask).astype(np.int8)
    return inputs
