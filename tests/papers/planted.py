"""Texts with a planted effect: responses that copy their grounding, and invented responses."""

import csv
import functools
import json
import re

import numpy as np

from faith_jax.cli import main
from faith_jax.core.cutting import CutTokens
from faith_jax.datasets.augmentation.tagging import NounChunk, TaggedText
from faith_jax.inference.texts.text_pairs import PairRow
from faith_jax.inference.texts.text_reader import ReadText
from faith_jax.scoring import pair_classifier, q2
from faith_jax.scoring.pair_classifier import PairClassifier
from faith_jax.tokenizers.vocabularies import load_vocabulary

KNOWLEDGE = [
    "The old lighthouse was built in 1893 by sailors.",
    "Copper kettles heat water faster than clay ones.",
    "Bees visit lavender fields early in summer.",
    "The tram to Porto leaves every nine minutes.",
    "Granite steps lead down to the quiet harbour.",
    "Bakers there salt their bread with seaweed.",
    "The museum keeps forty wooden clocks upstairs.",
    "Rain fills the cisterns below the monastery.",
]
INVENTED = [
    "Penguins cannot fly but swim quickly.",
    "My aunt paints blue horses on Sundays.",
    "Chess was banned in the village once.",
    "Volcanoes sleep beneath frozen lakes.",
    "Nobody remembers the tailor any more.",
    "Wolves avoid bridges after midnight.",
    "Silver coins buy apples cheaply.",
    "Dancers rehearse without music.",
]
SHUFFLED = KNOWLEDGE[3:] + KNOWLEDGE[:3]  # no row keeps its own knowledge
_SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]


def sentences(count, seed=0):
    """Returns sentences of eight made-up words; no word occurs twice."""
    rng = np.random.default_rng(seed)
    words: dict[str, None] = {}
    while len(words) < 8 * count:
        words["".join(rng.choice(_SYLLABLES, size=3))] = None
    vocabulary = list(words)
    return [f"{' '.join(vocabulary[8 * n : 8 * n + 8]).capitalize()}." for n in range(count)]


def write_table(path, rows, delimiter=","):
    """Writes rows (mappings) as a table with the columns of the first row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if delimiter == "\t":  # quote marks have no meaning in TSV
        lines = [list(rows[0]), *(row.values() for row in rows)]
        path.write_text("".join("\t".join(map(str, line)) + "\n" for line in lines))
        return
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_rows(path, rows):
    """Writes JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def prepare(name, raw):
    """Prepares a data set from a folder of raw files, as a user does."""
    assert main(["prepare", name, f"--raw={raw}"]) == 0


def write_corpus(raw, corpus, rows):
    """Prepares one of TRUE's corpora: (grounding, response, label)."""
    fields = ("grounding", "generated_text", "label")
    write_table(raw / f"true_{corpus}.csv", [dict(zip(fields, row, strict=True)) for row in rows])
    prepare(f"true_benchmark/{corpus}", raw)


class Tagger:
    """Tags each word of five letters or more as a noun chunk."""

    def tag(self, texts):
        return [
            TaggedText(
                text,
                (),
                (),
                tuple(NounChunk(m.group(), *m.span()) for m in re.finditer(r"\w{5,}", text)),
            )
            for text in texts
        ]


class Reader:
    """Asks for a span, and answers with it if the context has it."""

    tokenizer = load_vocabulary("english_4096")

    @property
    def reader(self):
        return self

    def to_readable(self, ids):
        return self.tokenizer.to_readable(ids)

    def encode(self, prompt, name=""):
        return ReadText(self.tokenizer.encode(prompt.text), CutTokens())

    def __call__(self, prompts, num_beams=1, **search):
        pattern = re.compile(r"answer: (.*)  context: (.*)")
        answered = re.compile(r"question: Which (.*)\?  context: (.*)")
        answers = []
        for prompt in (entry.text for entry in prompts):
            if match := pattern.fullmatch(prompt):
                answers.append([f"Which {match[1]}?"])
            else:
                span, context = answered.fullmatch(prompt).groups()
                answers.append([span if span in context else "unanswerable"])
        return answers, [CutTokens() for _ in prompts]


class Inference:
    """Predicts entailment if the premise contains the hypothesis, else contradiction."""

    label_names = ("contradiction", "entailment", "neutral")

    def __call__(self, pairs):
        return np.eye(3)[[int(second in first) for first, second in pairs]], [
            CutTokens() for _ in pairs
        ]


def plant_q2(monkeypatch):
    """Replaces Q²'s models by stand-ins."""
    monkeypatch.setattr(q2, "load_tagger", lambda _: Tagger())
    monkeypatch.setattr(q2.TextGenerator, "open", lambda *_, **__: Reader())
    monkeypatch.setattr(q2, "pair_classifier", lambda *_, **__: Inference())


class _Judge:
    """Stands in for the engine of a pair classifier."""

    num_compilations = 0

    def __init__(self, probabilities_of):
        self.probabilities_of, self.pairs = probabilities_of, []

    def encode(self, premise, hypothesis, name=""):
        self.pairs.append((premise, hypothesis))
        return PairRow([len(self.pairs) - 1], CutTokens(), 1)

    encode.tokenizer = load_vocabulary("english_4096")
    encode.max_length = 1
    encode.form = None

    def choose_shapes(self, *_):
        """Does nothing: there are no batches."""

    def probabilities(self, rows, second=None):
        return np.array([self.probabilities_of(*self.pairs[pair]) for (pair,) in rows])


def plant_classifiers(monkeypatch, class_names_of, probabilities_of):
    """Replaces all pair classifiers by stand-ins.

    Args:
      class_names_of: a function of a checkpoint that returns the names of its classes.
      probabilities_of: a function (checkpoint, premise, hypothesis) -> class probabilities.
    """

    @functools.lru_cache
    def opened(model, *_, **options):
        judge = _Judge(functools.partial(probabilities_of, model))
        return PairClassifier(class_names_of(model), judge, judge.encode)

    monkeypatch.setattr(pair_classifier, "_open_classifier", opened)
