"""Measures judges of published sizes: `faith-jax score` against a plain loop over Transformers.

The models have random weights. Each grounding has several chunks, so that a row is as long as an
answer with its retrieved documents. Both sides start from a file of rows and a folder of weights,
and take turns in new processes. The loop splits the groundings into the card's chunks, sorts them
by length, and computes batches that are padded to their longest row. The first call of `score`
starts without compiled programs; the second call finds those of the first.
"""

import argparse
import json
import pathlib
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable

if __name__ == "__main__":  # makes `tools` importable if run by path
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from tools import benchmark_jobs

BATCH = 16  # the loop's batch size, as in MiniCheck's and FactCG's code
_ENCODER = {
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "intermediate_size": 4096,
}
_DEBERTA = {**_ENCODER, "position_buckets": 256, "pooler_hidden_size": 1024}
_T5 = {"d_model": 1024, "d_kv": 64, "d_ff": 2816, "num_heads": 16}
_MODERNBERT_BASE = {
    "hidden_size": 768,
    "num_attention_heads": 12,
    "num_hidden_layers": 22,
    "intermediate_size": 1152,
}
# The architecture and the published sizes of each measured card.
JUDGES = {
    "factcg_deberta_v3_large": ("deberta-v2", _DEBERTA),
    "minicheck_flan_t5_large": ("t5", {**_T5, "num_layers": 24, "num_decoder_layers": 24}),
    "minicheck_roberta_large": ("roberta", _ENCODER),
    "lettucedetect_qa": ("modernbert", _MODERNBERT_BASE),
}


def rows_of(count: int, chunks: int, chunk_words: int) -> list[dict[str, str]]:
    """Returns `count` rows whose groundings fill `chunks` chunks of `chunk_words` words."""
    from faith_jax.runs.judges import certify

    sentences = sorted(
        {
            sentence
            for pair in certify.certification_pairs()
            for text in pair.texts
            for sentence in re.findall(r"[A-Z][a-z ]+\.", text)
            if text.isascii()
        }
    )
    draw = random.Random(0)
    rows = []
    for number in range(count):
        grounding = list[str]()
        words = draw.uniform(chunks - 0.7, chunks - 0.2) * chunk_words
        while sum(len(sentence.split()) for sentence in grounding) < words:
            grounding.append(draw.choice(sentences))
        response = draw.choice(sentences)
        rows.append(
            {"id": str(number), "grounding": " ".join(grounding), "generated_text": response}
        )
    return rows


def plain_treebank_words(text: str) -> int:
    """Counts NLTK's words in a plain sentence: its words and the full stop."""
    return len(re.findall(r"\w+|\.", text))


def plain_chunks(grounding: str, length: int, count: Callable[[str], int]) -> list[list[str]]:
    """Splits a grounding into chunks, each with as many sentences as fit."""
    chunks, size = [list[str]()], 0
    for sentence in re.split(r"(?<=\.) ", grounding):
        size += count(sentence)
        if size > length:
            chunks.append([])
            size = count(sentence)
        chunks[-1].append(sentence)
    return chunks


def loop(judge: str, folder: str, rows_file: str) -> None:
    """Scores rows with Transformers, and prints their scores."""
    import tomllib

    import torch
    import transformers

    package = pathlib.Path(__file__).resolve().parent.parent / "faith_jax"
    card = tomllib.loads((package / f"scoring/presets/{judge}.toml").read_text())
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    form = card["reads"]["form"]
    opener = {
        "class": transformers.AutoModelForSequenceClassification,
        "tokens": transformers.AutoModelForTokenClassification,
        "words": transformers.AutoModelForSeq2SeqLM,
    }[form]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = opener.from_pretrained(folder).to(device).eval()
    count = {
        "words": lambda text: len(text.split()),
        "treebank_words": plain_treebank_words,
        "tokens": lambda text: len(tokenizer(text, add_special_tokens=False).input_ids),
        "row_tokens": lambda text: 0,  # whole rows fit
    }[card["chunks"]["unit"]]
    texts, numbers = [], []
    rows = [json.loads(line) for line in pathlib.Path(rows_file).read_text().splitlines()]
    for number, row in enumerate(rows):
        chunks = plain_chunks(row["grounding"], card["chunks"]["length"], count)
        for chunk in chunks:
            grounding = card["chunks"].get("joined_by", " ").join(chunk)
            fields = {"grounding": grounding, "response": row["generated_text"], "query": ""}
            forms = card["input"].get("pair") or [card["input"]["text"]]
            texts.append([form.format(**fields) for form in forms])
            numbers.append(number)
    encoded = tokenizer(*map(list, zip(*texts, strict=True)))
    ids = encoded.input_ids
    order = sorted(range(len(ids)), key=lambda place: len(ids[place]))
    scores = [0.0] * len(rows)
    with torch.inference_mode():
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            read = tokenizer.pad({"input_ids": [ids[n] for n in batch]}, return_tensors="pt")
            read = read.to(device)
            if form == "words":
                first = torch.zeros(len(batch), 1, dtype=torch.long, device=device)
                logits = model(**read, decoder_input_ids=first).logits[:, 0]
                signs = [tokenizer(word).input_ids[0] for word in card["reads"]["words"]]
                probabilities = logits[:, signs].softmax(-1)[:, 0]
            elif form == "tokens":
                support = model(**read).logits.softmax(-1)[:, :, card["reads"]["class"]]
                probabilities = torch.stack(
                    [
                        min(
                            p
                            for p, part in zip(row, encoded.sequence_ids(n), strict=False)
                            if part == 1
                        )
                        for row, n in zip(support, batch, strict=True)
                    ]
                )
            else:
                probabilities = model(**read).logits.softmax(-1)[:, card["reads"]["class"]]
            for place, probability in zip(batch, probabilities.tolist(), strict=True):
                scores[numbers[place]] = max(scores[numbers[place]], probability)
    print(json.dumps(scores))


def measure(judge: str, count: int, chunks: int, tiny: bool, folder: pathlib.Path) -> list[str]:
    """Measures both sides with a judge, and returns the lines of the report."""
    from faith_jax.runs.judges import certify
    from faith_jax.scoring.judges.card import read_card

    family, sizes = JUDGES[judge]
    model = certify.reference_model(folder / "model", judge, family, {} if tiny else sizes)
    source = folder / "rows.jsonl"
    rule = read_card(judge).chunks
    # With "row_tokens" the window holds a whole row, of `chunks` chunks of 250 words.
    rows = rows_of(count, chunks, 250 if rule.unit == "row_tokens" else rule.length)
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    seconds: dict[str, list[float]] = {"score": [], "loop": []}
    largest = 0.0
    for call in ("first", "second"):
        output = folder / f"{call}.jsonl"
        command = [sys.executable, "-m", "faith_jax", "score", f"--scorers={judge}"]
        command += [f"--scorer-option={judge}.model={model}"]
        command += [f"--input={source}", f"--output={output}"]
        seconds["score"].append(benchmark_jobs.timed(command, folder / "job")[0])
        plain = [sys.executable, __file__, "--loop", judge, str(model), str(source)]
        took, printed = benchmark_jobs.timed(plain, folder / "loop")
        seconds["loop"].append(took)
        scored = [json.loads(line)["scores"][judge] for line in output.read_text().splitlines()]
        differences = zip(scored, json.loads(printed.splitlines()[-1]), strict=True)
        largest = max(largest, *(abs(ours - reference) for ours, reference in differences))
    words = sum(len(row["grounding"].split()) for row in rows) / count
    lines = [
        f"{judge}, {call} call: {count} rows of {words:,.0f} words in {ours:.1f} s; "
        f"Transformers: {reference:.1f} s ({reference / ours:.2f}x)"
        for call, ours, reference in zip(("first", "second"), *seconds.values(), strict=True)
    ]
    return [*lines, f"{judge}: largest difference of scores {largest:.1e}"]


def main(arguments: list[str] | None = None) -> None:
    """Runs the measurements and prints their report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--judges", default=",".join(JUDGES))
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--chunks", type=int, default=4, help="of a grounding, or one more")
    parser.add_argument("--tiny", action="store_true", help="models of two layers of width 32")
    parser.add_argument("--loop", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.loop:
        loop(*options.loop)
        return
    for judge in options.judges.split(","):
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            lines = measure(judge, options.rows, options.chunks, options.tiny, pathlib.Path(folder))
        print("\n".join(lines), flush=True)
        print(f"{judge}: {time.perf_counter() - start:.0f} s in all", file=sys.stderr)


if __name__ == "__main__":
    main()
