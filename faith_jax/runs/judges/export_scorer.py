"""The run `export-scorer`: writes a judge as a folder that scores without faith_jax.

The folder holds the parameters and StableHLO programs (`jax.export`) for CPUs, GPUs and TPUs. Each
program is for rows of one fixed length, because the model's code branches on lengths.
"""

import json
import pathlib
import shutil
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np

from faith_jax.checkpoints.checkpoint import flatten, unflatten
from faith_jax.checkpoints.manifest import file_digest
from faith_jax.checkpoints.tensors import write_tensor_file
from faith_jax.core.errors import ConfigError
from faith_jax.core.files import atomic_folder
from faith_jax.core.files.stores import path_of
from faith_jax.core.words import SENTENCE_RULES
from faith_jax.models.transformer import Transformer, output_layer
from faith_jax.runs.judges.options import ExportScorerOptions
from faith_jax.runs.judges.verdicts import check_is_judge
from faith_jax.runs.options import scorer_options
from faith_jax.scoring.judges.card import ReadClass, ReadTokens, ReadWords
from faith_jax.scoring.judges.chunks import text_between
from faith_jax.scoring.judges.scorer import Judge
from faith_jax.scoring.registry import load_scorer
from faith_jax.tokenizers.huggingface import HuggingFaceVocabulary
from faith_jax.tokenizers.sentencepiece import SentencePieceVocabulary

_FORMAT = "faith_jax scorer 1"
_PLATFORMS = ("cpu", "cuda", "tpu")
_LENGTHS = (128, 512, 2048)
_TOKENS = 8192  # most tokens of a batch


def export_scorer(options: ExportScorerOptions) -> pathlib.Path:
    """Writes the folder of a judge; returns its path.

    Raises:
      FaithJaxError: for a name that is not a judge's, a model that does not fit the card, or a
        tokenizer that needs more than one file.
    """
    name = options.card
    check_is_judge(name)
    texts = [f"judge.{text}" for text in options.option]
    ((_, settings),) = scorer_options([f"judge={name}"], texts).items()
    scorer: Any = load_scorer(name, model=options.folder, **settings)
    judge: Judge = scorer.judge
    if judge.histogram is not None or isinstance(judge.card.reads, ReadTokens):
        part = "reads tokens" if judge.histogram is None else "has a histogram"
        raise ConfigError(f"{name}: a judge whose card {part} cannot be exported.")
    tokenizer = judge.encode.tokenizer
    is_plain = isinstance(tokenizer, HuggingFaceVocabulary | SentencePieceVocabulary)
    if not is_plain or tokenizer.added_tokens:
        reason = "adds tokens beside its pieces" if is_plain else "is no file"
        raise ConfigError(
            f"vocabulary {tokenizer.model_file}: this tokenizer {reason}, and cannot be exported; "
            "give vocabulary=FOLDER of one that is a tokenizer.json or a SentencePiece model alone."
        )
    with atomic_folder(path_of(options.output), f"a scorer of {name}") as folder:
        folder.mkdir()
        manifest = _build_manifest(name, judge)
        path = folder / manifest["tokenizer"]
        if isinstance(tokenizer, HuggingFaceVocabulary):
            tokenizer.reader.save(str(path))
        elif isinstance(tokenizer, SentencePieceVocabulary):
            path.write_bytes(tokenizer.reader.serialized_model_proto())
        params = {k: np.asarray(v) for k, v in flatten(judge.engine.model.params).items()}
        write_tensor_file(folder / "params.safetensors", params, {"format": "flax"})
        for length, size in manifest["programs"]:
            program = _export_program(judge, params, size, length)
            (folder / f"program_{length}.bin").write_bytes(program)
        shutil.copy(pathlib.Path(__file__).with_name("standalone_score.py"), folder / "score.py")
        files = sorted(path for path in folder.iterdir() if path.name != "score.py")
        manifest["sha256"] = {file.name: file_digest(file) for file in files}
        text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
        (folder / "manifest.json").write_text(text, encoding="utf-8")
    return path_of(options.output)


def _build_manifest(name: str, judge: Judge) -> dict[str, Any]:
    """Returns the settings that score.py needs, without the digests of the files."""
    card, encode, config = judge.card, judge.encode, judge.engine.model.config
    tokenizer = encode.tokenizer
    pair = card.input.pair is not None
    around = tokenizer.pair_ids if pair else (tokenizer.prefix_ids, (), tokenizer.suffix_ids)
    chunks = None if card.chunks is None else msgspec.to_builtins(card.chunks)
    is_file = isinstance(tokenizer, HuggingFaceVocabulary)
    # JAX reads programs with flatbuffers, but does not install it.
    requires = ["jax", "flatbuffers", "numpy", "safetensors"]
    requires.append("tokenizers" if is_file else "sentencepiece")
    divides = chunks is not None and chunks["method"] != "windows"
    if divides or card.response.sentences != "whole":
        requires.append("nltk")
    lengths = [length for length in _LENGTHS if length < encode.max_length] + [encode.max_length]
    return {
        "format": _FORMAT,
        "judge": pathlib.Path(name).stem,
        "card": msgspec.to_builtins(card),
        "requires": requires,
        "jax": jax.__version__,
        "platforms": _PLATFORMS,
        "threshold": card.threshold,
        "max_length": encode.max_length,
        "cut_policy": encode.cut_policy,
        "tokenizer": "tokenizer.json" if is_file else "spiece.model",
        "segments": encode.segments,
        "around": around,
        "second_type": tokenizer.second_type if pair and config.num_token_types > 1 else 0,
        "pad_id": config.pad_id,
        "between": text_between(card.chunks),
        "chunks": chunks,
        "response": msgspec.to_builtins(card.response),
        "sentences": SENTENCE_RULES,
        "outputs": len(judge.places),
        "programs": [[length, max(1, min(16, _TOKENS // length))] for length in lengths],
    }


def _export_program(judge: Judge, params: dict[str, np.ndarray], size: int, length: int) -> bytes:
    """Returns the serialized program for rows int32 [size, length]."""
    config, reads, places = judge.engine.model.config, judge.card.reads, np.array(judge.places)
    # "blocks" is an attention kernel that runs on all platforms.
    module = Transformer(config.replace(attention_kernel="blocks"))

    def support(params: dict[str, Any], tokens: jax.Array, second: jax.Array) -> jax.Array:
        """Returns the probabilities that the card reads, float32 [rows, 1 or 2]."""
        tree = unflatten(params)
        variables = {"params": tree}
        if isinstance(reads, ReadClass):
            types = None
            if config.num_token_types > 1:
                types = (jnp.arange(tokens.shape[1])[None] >= second[:, None]).astype(jnp.int32)
            logits: Any = module.apply(variables, tokens, False, types, method="classify")
            softmax = reads.activation == "softmax"
            values = jax.nn.softmax(logits) if softmax else jax.nn.sigmoid(logits)
            return values[:, places]
        assert isinstance(reads, ReadWords)
        encoded: Any = module.apply(variables, tokens, enable_dropout=False, method="encode")
        start = jnp.full((tokens.shape[0], 1), config.decoder_start_id, jnp.int32)
        hidden: Any = module.apply(
            variables, encoded, tokens, start, enable_dropout=False, method="decode_hidden"
        )
        layer = output_layer(module, tree)
        if reads.over == "vocabulary":
            logits = jax.nn.log_softmax(layer.logits(hidden[:, 0]))
            return jnp.exp(logits[:, judge.tokens[0]][:, None])
        return jax.nn.softmax(layer.logits_of(hidden[:, 0], jnp.array(judge.tokens)))[:, places]

    shapes = {key: jax.ShapeDtypeStruct(value.shape, value.dtype) for key, value in params.items()}
    rows = jax.ShapeDtypeStruct((size, length), jnp.int32)
    second = jax.ShapeDtypeStruct((size,), jnp.int32)
    exported = jax.export.export(jax.jit(support), platforms=_PLATFORMS)(shapes, rows, second)
    return bytes(exported.serialize())
