"""Trains a SentencePiece vocabulary in T5's convention from plain text and the embedded sample.

    python tools/train_vocabulary.py TEXT... --output faith_jax/tokenizers/vocabulary/NAME.model

Each TEXT is a UTF-8 file with one sentence or paragraph per line. Ids are T5's: padding 0, end 1,
unknown 2; then 256 byte pieces (so that no text is unknown), then pieces by falling frequency.
Extra ids are not in the file: loading adds them, as SeqIO does.

All runs of white space become one space; nothing else is normalised, because a grounded response
may have to repeat a character that T5's NFKC would replace (a superscript, a fraction, a
ligature). So single-spaced text survives encoding and decoding unchanged. Each digit is a separate
piece, so that different numbers never share a piece of several digits.

The same texts and options give the same bytes: training uses one thread and all lines in the given
order, and no path is stored in the model.
"""

import argparse
import hashlib
import io
import pathlib
import string
import sys
import tempfile
from collections.abc import Iterator

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from faith_jax.core.files import atomic_file
from faith_jax.datasets import npov, samples

# Every printable ASCII character, and the typographic characters of edited English.
REQUIRED_CHARACTERS = (
    string.ascii_letters
    + string.digits
    + string.punctuation
    + "\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}"
    + "\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}"
    + "\N{EN DASH}\N{EM DASH}\N{HORIZONTAL ELLIPSIS}\N{BULLET}\N{DEGREE SIGN}"
    + "£€½éèçñü"
)

# The characters that `str.isspace` accepts, except the plain space.
WHITE_SPACE = "".join(chr(i) for i in range(0x3001) if chr(i).isspace() and chr(i) != " ")


def sample_texts() -> list[str]:
    """Returns every question, argument, paraphrase and response of the sample, in file order."""
    folder = samples.sample_folder("procon_npov")
    topics = npov.load_topics(folder)
    texts = []
    for topic in topics:
        texts.append(topic.question)
        for argument in (*topic.pro, *topic.con):
            texts += [argument.text, *argument.paraphrases]
    return texts + [r.response for r in npov.load_responses(folder, topics)]


def training_lines(
    files: list[pathlib.Path], sample: list[str], sample_repeats: int
) -> Iterator[str]:
    """Yields the lines of the files, then the sample `sample_repeats` times."""
    for file in files:
        yield from (line for line in file.read_text(encoding="utf-8").splitlines() if line.strip())
    for _ in range(sample_repeats):
        yield from sample


def train(lines: Iterator[str], vocab_size: int) -> bytes:
    """Returns the serialised unigram model."""
    serialised = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        rules.writelines(f"{ord(c):X}\t20\n" for c in WHITE_SPACE)
        rules.flush()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines,
            model_writer=serialised,
            model_type="unigram",
            vocab_size=vocab_size,
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            byte_fallback=True,
            split_digits=True,
            normalization_rule_tsv=rules.name,
            required_chars=REQUIRED_CHARACTERS,
            character_coverage=0.9999,
            max_sentence_length=1 << 16,
            num_threads=1,
            minloglevel=1,
        )
    model = sentencepiece_model_pb2.ModelProto.FromString(serialised.getvalue())
    model.normalizer_spec.name = "white_space"
    model.normalizer_spec.normalization_rule_tsv = ""  # would store a temporary file's name
    return model.SerializeToString(deterministic=True)


def tokens_per_word(model: bytes, texts: list[str]) -> float:
    """Returns the mean number of pieces per white-space-separated word."""
    tokenizer = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = sum(len(ids) for ids in tokenizer.encode(texts))
    return pieces / sum(len(text.split()) for text in texts)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", nargs="+", type=pathlib.Path, help="UTF-8 text files")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="the .model file")
    parser.add_argument("--vocab_size", type=int, default=4096, help="pieces, bytes included")
    parser.add_argument("--sample_repeats", type=int, default=5, help="the sample's weight")
    parser.add_argument("--held_out", type=pathlib.Path, help="text to measure on, not trained on")
    options = parser.parse_args(arguments)
    try:
        sample = sample_texts()
        # Reads all lines first, since SentencePiece ignores errors of an iterator.
        lines = list(training_lines(options.texts, sample, options.sample_repeats))
        model = train(iter(lines), options.vocab_size)
        held_out = options.held_out and options.held_out.read_text(encoding="utf-8").splitlines()
        with atomic_file(options.output) as beside:
            beside.write_bytes(model)
    except (OSError, ValueError, RuntimeError) as error:
        print(f"train_vocabulary: {error}", file=sys.stderr)
        return 2
    print(f"{options.output}: sha256 {hashlib.sha256(model).hexdigest()}")
    print(f"tokens a word on the sample: {tokens_per_word(model, sample):.3f}")
    if held_out:
        print(f"tokens a word on {options.held_out}: {tokens_per_word(model, held_out):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
