"""The run `mutate-claims`: claims to train verifiers on, made from Wizard of Wikipedia (Aug-WoW).

A Wizard's response is a claim that the sentence it used supports. Mutations of the claim, of the
sentence, or of what a model responds to make claims that it refutes or says too little about. Of
those of one turn, varied, fluent and hard ones are kept.

Reference: Gupta 2022, sections 4.1.1 and 5.3.
"""

import collections
import dataclasses
import itertools
import logging
import math
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.files import partial_output, put, write_jsonl, writing
from faith_jax.core.labels import DialFactLabel, DialFactType
from faith_jax.core.progress import Progress
from faith_jax.core.rows import BadRows, read_jsonl
from faith_jax.core.templates import dialogue_inputs, one_space
from faith_jax.datasets.augmentation import claim_mutation as mutation
from faith_jax.datasets.augmentation import selection
from faith_jax.datasets.augmentation.antonyms import Antonyms, load_antonyms
from faith_jax.datasets.augmentation.draws import draw, shuffled
from faith_jax.datasets.augmentation.tagging import TaggedText, load_tagger
from faith_jax.datasets.raw.dialfact import PoolEntry, from_elsewhere
from faith_jax.datasets.raw.wizard_of_wikipedia import read_turns
from faith_jax.datasets.samples import sample_folder
from faith_jax.decoding.config import DecodingConfig
from faith_jax.input.score_input import ScoreInput
from faith_jax.runs.data.tasks import prepare
from faith_jax.runs.infer import infer
from faith_jax.runs.options import MutateClaimsOptions
from faith_jax.runs.score import score
from faith_jax.runs.setup import check_language_model

logger = logging.getLogger("faith_jax")

SAMPLE, TRAIN, DATASET = "sample", "train.json", "dialfact/augmented"
FILES = {"train": "train_split.jsonl", "validation": "valid_split.jsonl"}
_BATCH = 1000  # turns that are tagged together
_MARK = "#"  # between a turn's id and the kind of its claim
_LABELS = ("claim_supports", "claim_refutes", "claim_not_enough_info")
_UNCHANGED = ("original", "evidence")  # kinds of claims whose text is the Wizard's
# What models respond to in place of the sentence that the Wizard used.
_EMPTY, _SHOWN, _UNRELATED = "empty", "shown", "unrelated"

Turn = Mapping[str, Any]


def mutate_claims(options: MutateClaimsOptions) -> list[str]:
    """Makes the claims, and returns lines about them; a stopped run resumes.

    The new folder has train_split.jsonl and valid_split.jsonl in DialFact's form, and the TFDS data
    set `dialfact/augmented` in `tfds`.

    Raises:
      InputError: for missing or bad files.
      ConfigError: for wrong options, an output that exists, and a stopped run of other options.
    """
    target = pathlib.Path(options.output).expanduser()
    if target.exists():
        raise ConfigError(f"--output: {target} exists already; remove it or name another.")
    is_sample = options.folder == SAMPLE
    folder = sample_folder("wizard_of_wikipedia") if is_sample else options.folder
    source = pathlib.Path(folder).expanduser() / TRAIN
    for option in ("model", "infiller", "language_model"):
        if given := getattr(options, option):
            check_language_model(f"--{option.replace('_', '-')}", given)
    turns = [turn for turn in read_turns(source, BadRows()) if turn["knowledge"]]
    if not turns:
        raise InputError(f"{source}: no turn of the Wizard uses a sentence.")
    told = dataclasses.asdict(options)
    run = {name: value for name, value in told.items() if name not in ("output", "restart")}
    run["turns"] = len(turns)
    with writing(f"--output: {target}"):
        target.parent.mkdir(parents=True, exist_ok=True)
    with partial_output(target, run, options.restart) as kept:
        made = kept / "made"
        made.mkdir(exist_ok=True)
        candidates = list(_candidates(turns, made, options))
        claims = _balanced(_selected(candidates, made, options), options)
        held = _held_out(turns, options)
        for split, name in FILES.items():
            of_split = [c for c in claims if (c["context_id"] in held) == (split == "validation")]
            write_jsonl(made / name, map(_raw, of_split))
        for line in prepare(DATASET, str(made / "tfds"), str(made), tell_ignored=False):
            logger.info("%s", line.replace(str(made), str(target)))  # where it will be
        put(made, target)
    return [
        _counts("made", candidates),
        _counts("kept", claims),
        f"{target / 'tfds'}: read it with FAITH_JAX_DATA_DIR={target / 'tfds'}",
    ]


def _candidates(
    turns: Sequence[Turn], made: pathlib.Path, options: MutateClaimsOptions
) -> Iterator[dict[str, Any]]:
    """Yields all claims of all turns, each once, those of a turn behind each other."""
    found = collections.defaultdict[str, list[dict[str, Any]]](list)
    pool = [(t["dialogue"], t["knowledge_title"], t["knowledge"]) for t in turns]
    masked: dict[str, str] = {}
    tagger, antonyms = load_tagger(options.tagger), load_antonyms(options.antonyms)
    progress = Progress("turn", len(turns))
    for start in range(0, len(turns), _BATCH):
        part = turns[start : start + _BATCH]
        texts = [[t["response"], *t["history"][-2:], *_near(t)] for t in part]
        tagged = iter(tagger.tag(list(itertools.chain.from_iterable(texts))))
        for turn, own in zip(part, texts, strict=True):
            claim, *others = itertools.islice(tagged, len(own))
            found[turn["id"]] += _by_rules(turn, claim, others, antonyms, pool, options.seed)
            if text := mutation.masked(claim, [turn["knowledge"]]):
                masked[turn["id"]] = text
        progress.update(start + len(part))
    asked = {turn["id"]: list(_asked(turn, pool, options.seed)) for turn in turns}
    if options.model:
        rows = (
            (turn, kind, dialogue_inputs(text, turn["history"]))
            for turn in turns
            for kind, text in asked[turn["id"]]
            if text or turn["history"]
        )
        for turn, kind, text in _responses(rows, made / "generated", options.model, options):
            label = DialFactLabel.NOT_ENOUGH_INFO
            found[turn["id"]].append(_claim(turn, f"generated_{kind}", text, label))
    if options.infiller:
        rows = (
            (turn, kind, f"{dialogue_inputs(text, turn['history'])} {masked[turn['id']]}")
            for turn in turns
            if turn["id"] in masked
            for kind, text in asked[turn["id"]]
        )
        for turn, kind, text in _responses(rows, made / "filled", options.infiller, options):
            filled = mutation.filled(masked[turn["id"]], text)
            if filled and filled != turn["response"]:
                label = DialFactLabel.REFUTES
                found[turn["id"]].append(_claim(turn, f"filled_{kind}", filled, label))
    for turn in turns:
        original = _claim(turn, "original", turn["response"], DialFactLabel.SUPPORTS)
        seen = dict[tuple[str, str], dict[str, Any]]()
        for claim_row in (original, *found[turn["id"]]):
            seen.setdefault((claim_row["response"], claim_row["grounding"][0]), claim_row)
        yield from seen.values()


def _near(turn: Turn) -> list[str]:
    """Returns the other sentences of the article that the Wizard used: five at most."""
    pairs = zip(turn["passage_titles"], turn["passage_sentences"], strict=True)
    return [s for t, s in pairs if t == turn["knowledge_title"] and s != turn["knowledge"]][:5]


def _by_rules(
    turn: Turn,
    claim: TaggedText,
    others: Sequence[TaggedText],
    antonyms: Antonyms,
    pool: Sequence[PoolEntry],
    seed: int,
) -> Iterator[dict[str, Any]]:
    """Yields the claims that need no model."""
    evidence, name = [turn["knowledge"]], turn["id"]
    for place, it in enumerate(mutation.negate(claim.text)):
        yield _claim(turn, f"{it.kind}_{place}", it.claim, DialFactLabel.REFUTES)
    for made in (
        mutation.substitute_entity(claim, evidence, others, name, seed),
        mutation.substitute_adjective(claim, antonyms, name, seed),
    ):
        if made is not None:
            yield _claim(turn, made.kind, made.claim, DialFactLabel.REFUTES)
    if elsewhere := from_elsewhere(turn, pool, seed):
        yield _claim(turn, "evidence", claim.text, DialFactLabel.NOT_ENOUGH_INFO, elsewhere)


def _asked(turn: Turn, pool: Sequence[PoolEntry], seed: int) -> Iterator[tuple[str, str]]:
    """Yields what takes the place of the sentence that was used, by kind."""
    yield _EMPTY, ""
    shown = [text for text in turn["passage_sentences"] if text != turn["knowledge"]]
    if shown:
        yield _SHOWN, shown[draw(len(shown), seed, turn["id"], "mutated")]
    if elsewhere := from_elsewhere(turn, pool, seed):
        yield _UNRELATED, elsewhere[1]


def _responses(
    rows: Iterable[tuple[Turn, str, str]],
    folder: pathlib.Path,
    model: str,
    options: MutateClaimsOptions,
) -> Iterator[tuple[Turn, str, str]]:
    """Yields what a model responds to inputs, with the turn and the kind of the input."""
    asked = {f"{turn['id']}{_MARK}{kind}": (turn, kind, inputs) for turn, kind, inputs in rows}
    if not asked:
        return
    inputs = folder.with_suffix(".jsonl")
    write_jsonl(inputs, ({"id": name, "inputs": it[2]} for name, it in asked.items()))
    responses = infer(
        model,
        str(folder),
        input_file=str(inputs),
        max_input_length=options.max_input_length,
        batch_size=options.batch_size,
        decoding=DecodingConfig(
            options.max_length, temperature=options.temperature, top_p=options.top_p
        ),
        seed=options.seed,
        formats=("jsonl",),
        vocabulary=options.vocabulary,
    )
    for _, row in read_jsonl(responses / "predictions.jsonl"):
        turn, kind, _ = asked[row["id"]]
        if text := one_space(row["prediction"]):
            yield turn, kind, text


def _claim(
    turn: Turn,
    kind: str,
    text: str,
    label: DialFactLabel,
    evidence: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """Returns a claim; `evidence` is a title and a sentence, without one the Wizard's."""
    title, sentence = evidence or (turn["knowledge_title"], turn["knowledge"])
    return {
        "id": f"{turn['id']}{_MARK}{kind}",
        "context_id": turn["id"],
        "kind": kind,
        "history": turn["history"],
        "generated_text": one_space(text),
        "response": one_space(text),
        "grounding": [sentence],
        "perspectives": [title],
        "response_label": label.value,
    }


def _selected(
    candidates: Sequence[dict[str, Any]], made: pathlib.Path, options: MutateClaimsOptions
) -> list[dict[str, Any]]:
    """Returns original claims, and of each turn's new ones the varied, fluent and hard ones."""
    scorers: dict[str, dict[str, Any]] = {}
    if options.language_model:
        scorers["fluency"] = {"model": options.language_model}
    for number, model in enumerate(options.verifiers):
        scorers |= {f"{name}_{number}={name}": {"model": model} for name in _LABELS}
    scores: list[Mapping[str, float | None]] = [{} for _ in candidates]
    if scorers:
        path = made / "scored.jsonl"
        if not path.exists():
            write_jsonl(made / "candidates.jsonl", candidates)
            score(ScoreInput(input=(str(made / "candidates.jsonl"),)), scorers, str(path))
        scores = [row.fields["scores"] for row in read_jsonl(path)]
    kept: list[dict[str, Any]] = []
    rows = zip(candidates, scores, strict=True)
    for _, group in itertools.groupby(rows, key=lambda row: row[0]["context_id"]):
        told = list(group)
        kept += [claim for claim, _ in told if claim["kind"] in _UNCHANGED]
        new = [row for row in told if row[0]["kind"] not in _UNCHANGED]
        kept += _chosen(new, options)
    return kept


def _chosen(
    group: Sequence[tuple[dict[str, Any], Mapping[str, Any]]], options: MutateClaimsOptions
) -> list[dict[str, Any]]:
    """Returns at most `options.most` of a turn's claims, the hardest ones first."""
    found = [group[i] for i in selection.varied([claim["response"] for claim, _ in group])]
    if options.language_model:
        found = [(claim, told) for claim, told in found if told["fluency"] is not None]
        perplexities = [math.exp(-told["fluency"]) for _, told in found]
        found = [found[i] for i in selection.fluent(perplexities)]
    if options.verifiers and found:
        names = [[f"{name}_{n}" for name in _LABELS] for n in range(len(options.verifiers))]
        told = [[[scores[name] for name in own] for own in names] for _, scores in found]
        found = [found[i] for i in selection.hardest(np.array(told, float), options.most)]
    return [claim for claim, _ in found[: options.most]]


def _balanced(claims: list[dict[str, Any]], options: MutateClaimsOptions) -> list[dict[str, Any]]:
    """Returns as many claims of each label as the rarest has, unless all are wanted."""
    by_label = collections.defaultdict[str, list[int]](list)
    for place, claim in enumerate(claims):
        by_label[claim["response_label"]].append(place)
    if options.unbalanced or len(by_label) < len(DialFactLabel):
        return claims
    least = min(map(len, by_label.values()))
    kept = set[int]()
    for label, places in by_label.items():
        kept |= {places[i] for i in shuffled(len(places), options.seed, label, "balance")[:least]}
    return [claim for place, claim in enumerate(claims) if place in kept]


def _held_out(turns: Sequence[Turn], options: MutateClaimsOptions) -> set[str]:
    """Returns the ids of the turns of the dialogues that are for validation, at least one."""
    dialogues = list(dict.fromkeys(turn["dialogue"] for turn in turns))
    count = max(1, round(options.validation_share * len(dialogues)))
    chosen = {dialogues[i] for i in shuffled(len(dialogues), options.seed, "validation")[:count]}
    return {turn["id"] for turn in turns if turn["dialogue"] in chosen}


def _raw(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a claim as DialFact's files have it."""
    (title,), (sentence,) = claim["perspectives"], claim["grounding"]
    return {
        "context_id": claim["context_id"],
        "id": claim["id"],
        "data_type": "generated",
        "context": claim["history"],
        "response": claim["response"],
        "evidence_list": [[title, "", sentence, "0"]],
        "response_label": claim["response_label"],
        "type_label": DialFactType.FACTUAL.value,
        "kind": claim["kind"],
    }


def _counts(where: str, claims: Sequence[Mapping[str, Any]]) -> str:
    labels = collections.Counter(claim["response_label"] for claim in claims)
    kinds = collections.Counter(claim["kind"].rstrip("0123456789").rstrip("_") for claim in claims)
    told = (f"{count:,} {name}" for name, count in (*sorted(labels.items()), *kinds.most_common()))
    return f"{where}: {len(claims):,} claims: {', '.join(told)}"
