"""Tiny random models of the judges' model families, in the format of published checkpoints.

Their weights depend only on a seed, and their tokenizers only on the package's own pieces, so that
tools/make_judge_references.py can score the same models with the judges' own code elsewhere.
"""

import json
import pathlib
import types
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from faith_jax.checkpoints.checkpoint import Checkpoint, expected_shapes, unflatten
from faith_jax.checkpoints.hugging_face.families import FAMILIES
from faith_jax.checkpoints.hugging_face.folder import CONFIG, write_huggingface
from faith_jax.checkpoints.manifest import MANIFEST
from faith_jax.checkpoints.tensors import write_tensor_file
from faith_jax.core.heavy_imports import light_module
from faith_jax.tokenizers.sentencepiece import read_model
from faith_jax.tokenizers.vocabularies import load_vocabulary

_SEED = 0
# Makes attention selective and more important than the token itself. With plain random weights,
# scores would hardly differ from pair to pair.
_FACTORS = {
    **dict.fromkeys(("query/kernel", "key/kernel"), 2.5),
    "ttention/out/kernel": 4.0,
    "classifier/out/kernel": 4.0,
}
_OUTPUT = "decoder/logits_dense/kernel"
_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3  # SentencePiece's types of pieces
# The ids of T5's published vocabulary that the judges' code or cards read.
T5_IDS = {
    "\u2581": 3,
    "\u25811": 209,
    "\u2581No": 465,
    "\u2581At": 486,
    "\u2581Yes": 2163,
    "\u2581Con": 1001,
    "\u2581Ex": 1002,
}
_WORDS_OF_JUDGES = ("\u25811", "\u2581Yes", "\u2581No", "\u2581At", "\u2581Con", "\u2581Ex")


def write_reference_model(
    folder: pathlib.Path,
    family: str,
    classes: int = 0,
    words: Sequence[str] = (),
    loud: Mapping[int, float] = types.MappingProxyType({}),
    sizes: Mapping[str, int] = types.MappingProxyType({}),
) -> None:
    """Writes the tiny model of a family with its tokenizer.

    Args:
      folder: a folder that does not exist yet.
      family: a key of models.json.
      classes: number of classes of the head; 0 = the model writes words.
      words: words whose beginnings become tokens of byte-level tokenizers.
      loud: factors for the output weights of some tokens, by id, so that their probabilities differ
        from pair to pair.
      sizes: fields of config.json that change the model's size.
    """
    fields: dict[str, Any] = json.loads(pathlib.Path(__file__).with_name("models.json").read_text())
    config_fields = fields[family] | dict(sizes)
    if classes:
        config_fields["id2label"] = {str(n): f"LABEL_{n}" for n in range(classes)}
        config_fields["label2id"] = {f"LABEL_{n}": n for n in range(classes)}
    beside = folder.with_name(f"{folder.name}_tokenizer")
    beside.mkdir(parents=True)
    size = _TOKENIZERS[family](beside, words)
    config_fields["vocab_size"] = size
    config = FAMILIES[family].read_config(config_fields, folder / CONFIG)
    params = {name: _draw_parameter(name, shape) for name, shape in expected_shapes(config).items()}
    if config.attention_scale == 1.0:  # T5 does not scale attention; its queries are small instead
        for name in params:
            if name.endswith("query/kernel"):
                params[name] *= np.float32(config.head_dim**-0.5)
    if config.token_label_names:
        # The least supported of many tokens decides; without a bias, it would hardly be supported.
        params["classifier/out/bias"] += np.array([4.0, -4.0], np.float32)
    for token, factor in loud.items():
        params[_OUTPUT][:, token] *= factor
    write_huggingface(Checkpoint(config, unflatten(params)), folder)
    (folder / MANIFEST).unlink()  # published folders have none
    (folder / CONFIG).write_text(json.dumps(config_fields, indent=1) + "\n", encoding="utf-8")
    for file in beside.iterdir():
        file.replace(folder / file.name)
    beside.rmdir()


def write_histogram(path: pathlib.Path, bins: int) -> None:
    """Writes SummaC-Conv weights for which more entailment means more consistent."""
    tensors = {
        "mlp.weight": np.linspace(-0.2, 0.2, bins)[None],
        "mlp.bias": np.array([0.1]),
        "layer_final.weight": np.array([[-0.2, 0.1, -0.3], [0.4, 0.2, 0.1]]),
        "layer_final.bias": np.array([0.05, -0.05]),
    }
    single = {name: np.asarray(tensor, np.float32) for name, tensor in tensors.items()}
    write_tensor_file(path, single, {"format": "pt"})


def _draw_parameter(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Returns the float32 array of a parameter, which depends only on its name and shape."""
    rng = np.random.default_rng([_SEED, zlib.crc32(name.encode())])
    # Uniform with variance 1; NumPy may change how it draws normal numbers.
    noise = (rng.random(shape) * 2 - 1) * 3**0.5
    if name.endswith("scale"):
        return np.asarray(1 + 0.2 * noise, np.float32)
    if name.endswith("kernel"):
        fan_in = int(np.prod(shape[:-1])) if name.endswith("out/kernel") else shape[0]
        factor = next((f for part, f in _FACTORS.items() if part in name), 1.0)
        return np.asarray(noise * factor * fan_in**-0.5, np.float32)
    return np.asarray(noise * (1.0 if name.endswith("embedding") else 0.1), np.float32)


def _write_t5_tokenizer(folder: pathlib.Path, words: Sequence[str]) -> int:
    """Writes T5's SentencePiece model, with the words of judges at their published ids."""
    model = _make_sentencepiece_model(
        [("<pad>", _CONTROL), ("</s>", _CONTROL), ("<unk>", _UNKNOWN)], T5_IDS
    )
    _write_spiece(model, folder, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    return len(model.pieces) + 128  # 100 extra ids and unused rows, as in the published model


def _write_albert_tokenizer(folder: pathlib.Path, words: Sequence[str]) -> int:
    special = [("<pad>", _CONTROL), ("<unk>", _UNKNOWN)]
    special += [(token, _CONTROL) for token in ("[CLS]", "[SEP]", "[MASK]")]
    model = _make_sentencepiece_model(special, {})
    _write_spiece(model, folder, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1)
    return len(model.pieces)


def _write_deberta_tokenizer(folder: pathlib.Path, words: Sequence[str]) -> int:
    """Writes DeBERTa-v3's tokenizer.json as Transformers 4 saved it for these judges."""
    tokenizers: Any = light_module("tokenizers")
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    model = _make_sentencepiece_model([(token, _CONTROL) for token in special], {})
    scores = [(piece.piece, piece.score) for piece in model.pieces]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram(scores, unk_id=3))
    tokenizer.normalizer = tokenizers.normalizers.Sequence(
        [
            tokenizers.normalizers.Strip(),
            tokenizers.normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap),
            tokenizers.normalizers.Replace(tokenizers.Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace("\u2581", "always")
    tokenizer.decoder = tokenizers.decoders.Metaspace("\u2581", "always")
    tokenizer.add_special_tokens([*special, "[MASK]"])
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    names = dict(zip(("pad", "cls", "sep", "unk"), special, strict=True))
    names |= {"mask": "[MASK]", "bos": "[CLS]", "eos": "[SEP]"}
    return _save_tokenizer(tokenizer, folder, "DebertaV2Tokenizer", names)


def _byte_level(special: Sequence[str], words: Sequence[str]) -> Any:
    """Returns a byte-level BPE tokenizer in which the beginnings of `words` are tokens."""
    tokenizers: Any = light_module("tokenizers")
    level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    vocab = [*special, *sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())]
    merges = []
    for word in words:
        ((word_bytes, _),) = level.pre_tokenize_str(f" {word}")
        for end in range(1, len(word_bytes)):
            if word_bytes[: end + 1] not in vocab:
                vocab.append(word_bytes[: end + 1])
                merges.append((word_bytes[:end], word_bytes[end]))
    ids = {piece: number for number, piece in enumerate(vocab)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(ids, merges))
    tokenizer.pre_tokenizer = level
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(list(special))
    return tokenizer


def _write_roberta_tokenizer(folder: pathlib.Path, words: Sequence[str]) -> int:
    tokenizers: Any = light_module("tokenizers")
    tokenizer = _byte_level(["<s>", "<pad>", "</s>", "<unk>"], words)
    tokenizer.add_special_tokens([tokenizers.AddedToken("<mask>", lstrip=True)])
    tokenizer.post_processor = tokenizers.processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), True, False
    )
    names = {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "</s>", "pad": "<pad>"}
    names |= {"cls": "<s>", "mask": "<mask>"}
    return _save_tokenizer(tokenizer, folder, "RobertaTokenizer", names)


def _write_modernbert_tokenizer(folder: pathlib.Path, words: Sequence[str]) -> int:
    tokenizers: Any = light_module("tokenizers")
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    tokenizer = _byte_level(special, words)
    tokenizer.normalizer = tokenizers.normalizers.NFC()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:0",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    names = dict(zip(("unk", "cls", "sep", "pad", "mask"), special, strict=True))
    return _save_tokenizer(tokenizer, folder, "PreTrainedTokenizerFast", names)


_TOKENIZERS = {
    "t5": _write_t5_tokenizer,
    "HHEMv2Config": _write_t5_tokenizer,
    "albert": _write_albert_tokenizer,
    "deberta-v2": _write_deberta_tokenizer,
    "modernbert": _write_modernbert_tokenizer,
    "roberta": _write_roberta_tokenizer,
}


def _make_sentencepiece_model(special: Sequence[tuple[str, int]], placed: dict[str, int]) -> Any:
    """Returns the package's SentencePiece model with other special pieces, and without bytes.

    `special` has the first pieces and their types, `placed` the ids of some other pieces.
    """
    model = read_model(load_vocabulary().model_file)
    stored = {p.piece: p.score for p in model.pieces if p.type == _NORMAL}
    # A high score makes each of the judges' words one token.
    rest = {word: -3.0 for word in _WORDS_OF_JUDGES} | {"\u2581": stored.pop("\u2581")}
    rest |= {piece: score for piece, score in stored.items() if piece not in rest}
    del model.pieces[:]
    for piece, kind in special:
        model.pieces.add(piece=piece, score=0.0, type=kind)
    at = {number: piece for piece, number in placed.items()}
    unplaced = iter([piece for piece in rest if piece not in placed])
    for number in range(len(special), len(special) + len(rest)):
        piece = at[number] if number in at else next(unplaced)
        model.pieces.add(piece=piece, score=rest[piece], type=_NORMAL)
    return model


def _write_spiece(model: Any, folder: pathlib.Path, **ids: int) -> None:
    model.trainer_spec.byte_fallback = False
    for name, value in ids.items():
        setattr(model.trainer_spec, name, value)
    (folder / "spiece.model").write_bytes(model.SerializeToString())


def _save_tokenizer(
    tokenizer: Any, folder: pathlib.Path, kind: str, names: Mapping[str, str]
) -> int:
    """Writes a tokenizer with the names of its special tokens; returns its size."""
    tokenizer.save(str(folder / "tokenizer.json"))
    fields = {"tokenizer_class": kind} | {f"{name}_token": text for name, text in names.items()}
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")
    return int(tokenizer.get_vocab_size())
