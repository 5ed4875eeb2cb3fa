"""Folders of tiny tokenizers in published formats, trained on our own sentences."""

import importlib.metadata
import json
import pathlib

import pytest
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

# Other versions of sentencepiece train different unigram pieces from the same sentences.
SAME_PIECES = pytest.mark.skipif(
    importlib.metadata.version("sentencepiece") != "0.2.1",
    reason="expects the pieces that sentencepiece 0.2.1 trains",
)
SENTENCES = [
    "The bridge over the river was closed for repairs in 1994.",
    "Some people think that tea is better than coffee; others don't.",
    "A good answer says only what its sources say, and nothing more.",
    "She asked whether the museum opens on Mondays. It does not!",
    "The knowledge was retrieved, but the response contradicts it.",
    "My neighbour's dog barks at every cyclist who passes our house.",
    "In winter the lake freezes, and the children skate on it.",
    "He has never been to Naples, although he speaks Italian well.",
    "The committee's report (42 pages) recommends smaller classes.",
    "Which of these arguments supports the claim, and which one doesn't?",
]
TEXTS = [
    "",
    "tea",
    "The tea wasn't better than coffee.",
    " a leading space, and  two  inside ",
    "line\nbreak\ttab\r\nreturn",
    "naïve café — “quoted” ﬁ ² ½",
    "中文 😀 \u202e é e\u0301",
    "Numbers 1994, 42; THE END?!",
    "x" * 70,
    "no\u00a0break\u2003spaces",
]
ROBERTA_TOKENS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def byte_level(special_tokens, vocab_size=420):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=special_tokens,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


def without_added_tokens(tokenizer):
    """Returns the tokenizer's JSON without registered special tokens, like some published files."""
    return {**json.loads(tokenizer.to_str()), "added_tokens": []}


def gpt2(folder: pathlib.Path):
    tokenizer = byte_level(["<|endoftext|>"])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.enable_truncation(4)
    tokenizer.save(str(folder / "tokenizer.json"))
    tokenizer.model.save(str(folder))
    write_json(folder / "tokenizer_config.json", {"model_max_length": 1024})
    write_json(
        folder / "config.json",
        {"model_type": "gpt2", "bos_token_id": 0, "eos_token_id": 0, "vocab_size": 420},
    )


def dialogpt(folder: pathlib.Path):
    byte_level(["<|endoftext|>"]).model.save(str(folder))
    write_json(folder / "tokenizer_config.json", {"model_max_length": 1024})
    write_json(folder / "config.json", {"model_type": "gpt2", "eos_token_id": 0})


def _roberta_tokenizer():
    tokenizer = byte_level(ROBERTA_TOKENS[:-1])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False)
    return tokenizer


def roberta(folder: pathlib.Path):
    _roberta_tokenizer().save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", {"model_max_length": 512})
    write_json(
        folder / "config.json",
        {"model_type": "roberta", "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1},
    )


def roberta_old(folder: pathlib.Path):
    tokenizer = byte_level(ROBERTA_TOKENS)
    tokenizer.model.save(str(folder))
    mask = {"content": "<mask>", "single_word": False, "lstrip": True, "rstrip": False}
    write_json(
        folder / "special_tokens_map.json",
        {
            "bos_token": "<s>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "sep_token": "</s>",
            "pad_token": "<pad>",
            "cls_token": "<s>",
            "mask_token": {**mask, "normalized": False},
        },
    )
    write_json(folder / "config.json", {"model_type": "roberta"})


def bart(folder: pathlib.Path):
    _roberta_tokenizer().save(str(folder / "tokenizer.json"))
    write_json(
        folder / "config.json",
        {"model_type": "bart", "eos_token_id": 2, "pad_token_id": 1, "decoder_start_token_id": 2},
    )


def bloom(folder: pathlib.Path):
    tokenizer = byte_level(["<unk>", "<s>", "</s>", "<pad>"])
    split = pre_tokenizers.Split(Regex(r" ?[^(\s|[.,!?…])]+"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"unk_token": "<unk>", "eos_token": "</s>", "bos_token": "<s>", "pad_token": "<pad>"}
    write_json(
        folder / "tokenizer_config.json",
        {**names, "tokenizer_class": "BloomTokenizerFast", "padding_side": "left"},
    )
    write_json(folder / "special_tokens_map.json", names)
    write_json(folder / "config.json", {"model_type": "bloom", "pad_token_id": 3})


def sentencepiece(folder: pathlib.Path, name: str, **options):
    import io

    import sentencepiece as spm

    model = io.BytesIO()
    settings = {
        "vocab_size": 400,
        "model_type": "bpe",
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "character_coverage": 1.0,
        "hard_vocab_limit": False,
        "minloglevel": 2,
    }
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_writer=model, **{**settings, **options}
    )
    (folder / name).write_bytes(model.getvalue())


def llama_model(folder: pathlib.Path):
    sentencepiece(folder, "tokenizer.model", add_dummy_prefix=True, split_digits=True)
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "LlamaTokenizer",
            "add_bos_token": True,
            "add_eos_token": False,
            "bos_token": {"__type": "AddedToken", "content": "<s>", "normalized": False},
            "eos_token": {"__type": "AddedToken", "content": "</s>", "normalized": False},
            "unk_token": {"__type": "AddedToken", "content": "<unk>", "normalized": False},
            "pad_token": None,
        },
    )
    write_json(folder / "config.json", {"model_type": "llama"})


def gemma_model(folder: pathlib.Path):
    sentencepiece(
        folder,
        "tokenizer.model",
        add_dummy_prefix=False,
        pad_id=0,
        eos_id=1,
        bos_id=2,
        unk_id=3,
        bos_piece="<bos>",
        eos_piece="<eos>",
        control_symbols=["<mask>"],
    )
    write_json(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "GemmaTokenizer", "add_bos_token": True},
    )
    write_json(folder / "config.json", {"model_type": "gemma"})


def llama3(folder: pathlib.Path):
    tokenizer = byte_level(["<|begin_of_text|>", "<|end_of_text|>"])
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(
                single="<|begin_of_text|> $A",
                pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                special_tokens=[("<|begin_of_text|>", 0)],
            ),
        ]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<|begin_of_text|>",
            "eos_token": "<|end_of_text|>",
        },
    )
    write_json(folder / "config.json", {"model_type": "llama"})


def gemma(folder: pathlib.Path):
    """Writes a tokenizer.json like Gemma's: BPE with bytes, spaces as ▁, a begin token."""
    from faith_jax.tokenizers.huggingface import HuggingFaceVocabulary

    gemma_model(folder)
    tokenizer = HuggingFaceVocabulary(str(folder / "tokenizer.model")).tokenizer
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer.model").unlink()
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "GemmaTokenizer",
            "add_bos_token": True,
            "bos_token": "<bos>",
            "eos_token": "<eos>",
            "unk_token": "<unk>",
            "pad_token": "<pad>",
        },
    )


def deberta(folder: pathlib.Path):
    sentencepiece(
        folder,
        "spm.model",
        model_type="unigram",
        vocab_size=200,
        byte_fallback=False,
        normalization_rule_name="nmt_nfkc",
        remove_extra_whitespaces=True,
        pad_id=0,
        bos_id=1,
        eos_id=2,
        unk_id=3,
        pad_piece="[PAD]",
        bos_piece="[CLS]",
        eos_piece="[SEP]",
        unk_piece="[UNK]",
    )
    write_json(folder / "tokenizer_config.json", {"do_lower_case": False, "vocab_type": "spm"})
    write_json(folder / "config.json", {"model_type": "deberta-v2", "pad_token_id": 0})


def deberta_nli(folder: pathlib.Path):
    deberta(folder)
    import sentencepiece as spm

    size = spm.SentencePieceProcessor(model_file=str(folder / "spm.model")).get_piece_size()
    write_json(folder / "added_tokens.json", {"[MASK]": size})
    names = {"bos": "[CLS]", "eos": "[SEP]", "unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]"}
    names |= {"cls": "[CLS]", "mask": "[MASK]"}
    write_json(
        folder / "special_tokens_map.json", {f"{name}_token": t for name, t in names.items()}
    )
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "DebertaV2Tokenizer",
            "do_lower_case": False,
            "split_by_punct": False,
            "sp_model_kwargs": {},
            "vocab_type": "spm",
        },
    )


def deberta_v1(folder: pathlib.Path):
    tokens = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    byte_level(tokens).model.save(str(folder))
    write_json(folder / "tokenizer_config.json", {"do_lower_case": False, "vocab_type": "gpt2"})
    write_json(folder / "config.json", {"model_type": "deberta"})


def bert(folder: pathlib.Path):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=200,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", {"do_lower_case": True})
    write_json(folder / "config.json", {"model_type": "bert"})


def bert_vocab(folder: pathlib.Path):
    bert(folder)
    pieces = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    lines = "".join(f"{piece}\n" for piece in sorted(pieces, key=pieces.get))
    (folder / "vocab.txt").write_text(lines, encoding="utf-8")
    (folder / "tokenizer.json").unlink()
    write_json(folder / "tokenizer_config.json", {"do_lower_case": False})
    write_json(folder / "config.json", {"model_type": "bert"})


def albert(folder: pathlib.Path):
    sentencepiece(
        folder,
        "spiece.model",
        vocab_size=130,
        model_type="unigram",
        byte_fallback=False,
        normalization_rule_name="nmt_nfkc",
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        pad_piece="<pad>",
        control_symbols="[CLS],[SEP],[MASK]",
    )
    write_json(folder / "config.json", {"model_type": "albert"})


FAMILIES = {
    family.__name__: family
    for family in (
        gpt2,
        dialogpt,
        roberta,
        roberta_old,
        bart,
        bloom,
        llama3,
        llama_model,
        gemma,
        gemma_model,
        deberta,
        deberta_nli,
        deberta_v1,
        bert,
        bert_vocab,
        albert,
    )
}
