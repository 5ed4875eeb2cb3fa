"""The papers' tables of dataset statistics, computed from examples.

Counts are integers, averages floats. Words are counted by `lower_words`: the papers do not say how
they counted, so averages are close to theirs but need not be equal.
"""

import collections
import itertools
import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.core.errors import pluralize
from faith_jax.core.labels import begin_class
from faith_jax.core.table import Table
from faith_jax.core.templates import one_space
from faith_jax.core.words import lower_words
from faith_jax.statistics.texts.text_metrics import extractiveness

Example = Mapping[str, Any]
Splits = Mapping[str, Sequence[Example]]
# The Seekers' texts before responses in Wizard of Wikipedia, by (response, knowledge).
Before = Mapping[tuple[str, str], Collection[str]]


def faithdial_table(splits: Splits, before: Before | None = None) -> Table:
    """Returns Dziri 2022's table 2, and the shares of edited turns (section 4.1), 0 to 100.

    A dialogue's turns are the history and response of its last example; speakers alternate back
    from the Wizard's response. FaithDial's files have the Wizard's original turns, but not the
    Seeker's. With `before` (see `said_before`), the Seekers' turns are compared with Wizard of
    Wikipedia's if that has the response that followed.
    """
    table = _by_split("FaithDial (Dziri 2022, table 2)", splits, _dialogue_statistics)
    published = "Published: 84.7% of the Wizard's turns are edited, and 28.1% of the Seeker's."
    if before is None:
        return table._replace(notes=(published,))
    # By split: for each Seeker turn found in Wizard of Wikipedia, whether its text differs there.
    edited = []
    for examples in splits.values():
        edited_turns = []
        for example in examples:
            # Wizard of Wikipedia has the response before the edit.
            response = one_space(example["original_response"] or example["response"])
            seekers = before.get((response, one_space(example["knowledge"])))
            if seekers and example["history"]:
                edited_turns.append(one_space(example["history"][-1]) not in seekers)
        edited.append(edited_turns)
    shares = (100 * statistics.fmean(turns) if turns else math.nan for turns in edited)
    rows = (("compared Seeker turns", *map(len, edited)), ("edited Seeker turns (%)", *shares))
    return table._replace(rows=(*table.rows, *rows), notes=(published,))


def said_before(turns: Iterable[Example]) -> dict[tuple[str, str], set[str]]:
    """Collects the texts right before the responses of Wizard of Wikipedia's turns.

    The texts are keyed by (response, knowledge).
    """
    before: dict[tuple[str, str], set[str]] = {}
    for turn in turns:
        if turn["history"]:
            key = one_space(turn["response"]), one_space(turn["knowledge"])
            before.setdefault(key, set()).add(one_space(turn["history"][-1]))
    return before


def share_by_class(splits: Splits) -> Table:
    """Returns the shares of BEGIN's classes and of speech acts in each (Dziri 2022, figure 2).

    Shares are in per cent, 0 to 100: each class's share of a split's labelled responses, and each
    verbal response mode's (VRM) share of a class's responses, which may have several modes.
    FaithDial's labels belong to Wizard of Wikipedia's responses, before any edit.
    """
    # Each mode counts once per response.
    counts = collections.Counter(
        mode for examples in splits.values() for e in examples for mode in set(e["vrm_labels"])
    )
    named = [mode for mode, _ in counts.most_common()]
    rows = []
    for split, examples in splits.items():
        by_class: dict[str, list[Sequence[str]]] = {}
        for example in examples:
            if name := begin_class(example["begin_labels"]):
                by_class.setdefault(name, []).append(example["vrm_labels"])
        total = sum(map(len, by_class.values()))
        # The largest class first, ties by name.
        for name, modes_of_responses in sorted(
            by_class.items(), key=lambda pair: (-len(pair[1]), pair[0])
        ):
            share = 100 * len(modes_of_responses) / total
            uses = [
                100 * sum(mode in modes for modes in modes_of_responses) / len(modes_of_responses)
                for mode in named
            ]
            rows.append((split, name, len(modes_of_responses), share, *uses))
    columns = ("split", "class", "responses", "%", *(f"{mode} %" for mode in named))
    title = "BEGIN's classes, and speech acts in them (Dziri 2022, table 1 and figure 2)"
    return Table(title, columns, tuple(rows), _PUBLISHED_CLASSES)


_PUBLISHED_CLASSES = (
    "Published for Wizard of Wikipedia (section 4.2): 71.4% hallucination (with partial or without "
    "is not said), 20.9% entailment, of which 98.9% have edification. Table 1, of the study before "
    "it: generic 5.3, full hallucination 19.7, partial 42.3, entailment 24.1, uncooperative 8.5.",
    "Published for FaithDial, of 500 edited responses whose labels are in no file: 94.4% "
    "entailment, 5.6% hallucination; of entailment 78.26% have edification (with opinions 36.2%, "
    "questions 35.5%, acknowledgment 18.3%), 13.04% disclosure alone, 8.6% questions alone.",
)


def _by_split(
    title: str, splits: Splits, figures: Callable[[Sequence[Example]], dict[str, float]]
) -> Table:
    columns = [figures(examples) for examples in splits.values()]
    labels = columns[0] if columns else ()
    rows = tuple((label, *(column[label] for column in columns)) for label in labels)
    return Table(title, ("", *splits), rows)


def _dialogue_statistics(examples: Sequence[Example]) -> dict[str, float]:
    last: dict[Any, Example] = {}
    for example in examples:
        # The last turn's history and response hold the whole dialogue.
        longest = last.get(example["dialogue"])
        if longest is None or len(example["history"]) >= len(longest["history"]):
            last[example["dialogue"]] = example
    dialogues = [[*example["history"], example["response"]] for example in last.values()]
    turns = sum(map(len, dialogues))
    # The last turn is the Wizard's, so the Seeker's are every second turn before it.
    seeker = [text for dialogue in dialogues for text in dialogue[-2::-2]]
    edited = [bool(example["original_response"]) for example in examples]
    return {
        "turns": turns,
        "conversations": len(dialogues),
        "average words of the Wizard": _average_words(e["response"] for e in examples),
        "average words of the Seeker": _average_words(seeker),
        "average words of the knowledge": _average_words(e["knowledge"] for e in examples),
        "turns per conversation": turns / len(dialogues),
        "edited Wizard turns (%)": 100 * statistics.fmean(edited),
    }


def dialogue_table(title: str, splits: Splits) -> Table:
    """Returns sizes and average lengths of dialogues whose examples are single turns.

    Examples have `dialogue`, `history`, `knowledge` and `response`.
    """
    return _by_split(title, splits, _turn_statistics)


def _turn_statistics(examples: Sequence[Example]) -> dict[str, float]:
    return {
        "examples": len(examples),
        "conversations": len({example["dialogue"] for example in examples}),
        "average words of the response": _average_words(e["response"] for e in examples),
        "average words of the history": _average_words(" ".join(e["history"]) for e in examples),
        "average words of the knowledge": _average_words(
            e["knowledge"] for e in examples if e["knowledge"]
        ),
        "without knowledge (%)": 100 * statistics.fmean(not e["knowledge"] for e in examples),
    }


def _average_words(texts: Iterable[str]) -> float:
    counts = [len(lower_words(text)) for text in texts]
    return statistics.fmean(counts) if counts else float("nan")


def count_table(title: str, splits: Splits, fields: Sequence[str]) -> Table:
    """Counts the examples of each split, by the combinations of the fields' values and in total."""
    counts = {
        name: collections.Counter(
            tuple(
                " + ".join(e[field]) if isinstance(e[field], list) else str(e[field])
                for field in fields
            )
            for e in examples
        )
        for name, examples in splits.items()
    }
    keys = sorted({key for counter in counts.values() for key in counter if key})
    rows = [(*key, *(counts[name][key] for name in splits)) for key in keys]
    total = ("all", *[""] * (len(fields) - 1), *(len(examples) for examples in splits.values()))
    return Table(title, (*(fields or ("",)), *splits), (*rows, total))


def true_table(corpora: Mapping[str, Sequence[Example]]) -> Table:
    """Returns Steen 2023's table 8: numbers of consistent and inconsistent texts by corpus."""
    rows = []
    for name, examples in corpora.items():
        size, consistent = len(examples), sum(int(e["label"]) for e in examples)
        shares = [100 * n / size for n in (consistent, size - consistent)]
        rows.append((name, consistent, shares[0], size - consistent, shares[1], size))
    columns = ("corpus", "consistent", "%", "inconsistent", "%", "total")
    return Table("TRUE (Steen 2023, table 8)", columns, tuple(rows))


def extractiveness_table(
    splits: Splits, response: Callable[[Example], str], knowledge: Callable[[Example], str]
) -> Table:
    """Returns mean and quartiles of coverage and density of each split (Dziri 2022, figure 3).

    `response` and `knowledge` return an example's response and the text that it may copy from.
    Without knowledge nothing can be copied: such examples are left out, as a note says.
    """
    rows, notes = [], []
    for name, examples in splits.items():
        grounded = [e for e in examples if lower_words(knowledge(e))]
        if left_out := len(examples) - len(grounded):
            left = f"{left_out:,} of {pluralize(len(examples), 'example')}"
            notes.append(f"{name}: {left} without words of knowledge are left out.")
        measures = [extractiveness(response(e), knowledge(e)) for e in grounded]
        for measure in ("coverage", "density"):
            # Drop NaN (texts without words), the only value that does not equal itself.
            values = sorted(v for f in measures if (v := getattr(f, measure)) == v)
            if values:
                quartiles = values * 3  # a single value has no quantiles
                if len(values) > 1:
                    quartiles = statistics.quantiles(values, n=4, method="inclusive")
                rows.append((name, measure, statistics.fmean(values), *quartiles))
    columns = ("split", "measure", "mean", "25%", "50%", "75%")
    return Table("Extractiveness (Dziri 2022, figure 3)", columns, tuple(rows), tuple(notes))


def bias_table(examples: Iterable[Example], text: str, label: str) -> Table:
    """Returns the five bigrams that give away each label most (Gupta 2022, table 2).

    `text` and `label` are the fields of a claim and its label.
    """
    pairs = [(example[text], example[label]) for example in examples]
    labels = [name for _, name in pairs]
    ranked = lexical_bias([claim for claim, _ in pairs], labels)
    rows = tuple(
        # In units of 10^-6, as in the paper.
        (name, b.bigram, 1e6 * b.local_mutual_information, b.probability, b.occurrences)
        for name in sorted(set(labels))
        for b in [bias for bias in ranked if bias.label == name][:5]
    )
    columns = (label, "bigram", "LMI (1e-6)", "p(label | bigram)", "count")
    return Table("Local mutual information (Gupta 2022, table 2)", columns, rows)


class _Bias(NamedTuple):
    """The association of a bigram w (words joined by a space) and a label l.

    Attributes:
      local_mutual_information: p(w, l) * log(p(l | w) / p(l)), in nats; higher = the bigram
        gives the label away more often.
      probability: p(l | w).
      occurrences: number of the bigram's occurrences with the label.
    """

    bigram: str
    label: str
    local_mutual_information: float
    probability: float
    occurrences: int


def lexical_bias(texts: Sequence[str], labels: Sequence[str]) -> list[_Bias]:
    """Returns every bigram of lower-cased words with every label it occurs with, highest first.

    Probabilities are over bigram occurrences; ties are sorted by bigram and label.

    >>> rows = lexical_bias(["it is not hot", "it is hot", "it is warm"], ["no", "yes", "yes"])
    >>> [(row.bigram, row.label) for row in rows[:2]]
    [('is not', 'no'), ('not hot', 'no')]

    Reference: Gupta 2022, section 4.3, after Schuster 2019.
    """
    pairs: collections.Counter[tuple[str, str]] = collections.Counter()
    for text, label in zip(texts, labels, strict=True):
        words = lower_words(text)
        # Every occurrence counts, even several in one text.
        pairs.update((" ".join(gram), label) for gram in itertools.pairwise(words))
    total = sum(pairs.values())
    # Marginal counts: a bigram with any label, and all bigrams with a label.
    by_gram, by_label = collections.Counter[str](), collections.Counter[str]()
    for (gram, label), count in pairs.items():
        by_gram[gram] += count
        by_label[label] += count
    biases = []
    for (gram, label), count in pairs.items():
        probability = count / by_gram[gram]
        # p(w, l) log(p(l | w) / p(l)), with natural logarithms.
        value = count / total * math.log(probability / (by_label[label] / total))
        biases.append(_Bias(gram, label, value, probability, count))
    # Sort ties too, so that the result does not depend on the order of the texts.
    return sorted(biases, key=lambda b: (-b.local_mutual_information, b.bigram, b.label))
