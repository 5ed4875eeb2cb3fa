"""The run `negatives`: unfaithful responses for InfoNCE, by perturb-and-generate (Dziri 2022).

The knowledge of each turn of FaithDial gets other entities or other verbs, a model that was
trained on Wizard of Wikipedia responds to it, and what it says goes into the turn's
`negative_samples`. With the responses that annotators found hallucinated, these are the turn's
negatives.
"""

import dataclasses
import logging
import pathlib
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.files import (
    content_digest,
    partial_output,
    put,
    write_json,
    write_jsonl,
    writing,
)
from faith_jax.core.json_items import read_array
from faith_jax.core.progress import Progress
from faith_jax.core.rows import BadRows, read_jsonl
from faith_jax.core.templates import dialogue_inputs, one_space
from faith_jax.datasets.augmentation import knowledge_perturbation as perturbation
from faith_jax.datasets.augmentation.tagging import TaggedText, load_tagger
from faith_jax.datasets.raw.faithdial import read_turns
from faith_jax.datasets.samples import sample_folder
from faith_jax.decoding.config import DecodingConfig
from faith_jax.runs.data.tasks import prepare
from faith_jax.runs.infer import infer
from faith_jax.runs.options import NegativesOptions
from faith_jax.runs.setup import check_language_model

logger = logging.getLogger("faith_jax")

SAMPLE = "sample"
FILES = ("train.json", "valid.json")
_TAGGED = 1000  # texts between two lines of progress
_MARK = "#"  # between a turn's id and its perturbation's
_CHANGES = {
    "entity": (perturbation.collect_entities, perturbation.substitute_entities),
    "verb": (perturbation.collect_verbs, perturbation.substitute_verbs),
}


def negatives(options: NegativesOptions) -> list[str]:
    """Makes the negatives of all turns, and returns lines about them; a stopped run resumes.

    The new folder has FaithDial's three files, with `negative_samples` in each turn of
    train.json and valid.json, and the TFDS data set in `tfds`.

    Raises:
      InputError: for missing or bad files.
      ConfigError: for wrong options, an output that exists, and a stopped run of other options.
    """
    target = pathlib.Path(options.output).expanduser()
    if target.exists():
        raise ConfigError(f"--output: {target} exists already; remove it or name another.")
    decoding = DecodingConfig(options.max_length, temperature=1.0, top_p=options.top_p)
    is_sample = options.folder == SAMPLE
    source = sample_folder("faithdial") if is_sample else pathlib.Path(options.folder).expanduser()
    check_language_model("--model", options.model)
    turns = {name: list(read_turns(source / name, BadRows())) for name in (*FILES, "test.json")}
    rows = list(_perturbed([turn for name in FILES for turn in turns[name]], options))
    if not rows:
        raise InputError(
            f"{source}: {options.tagger} finds no entity or verb in any knowledge that could be "
            "another; choose another --tagger."
        )
    told = dataclasses.asdict(options)
    run = {name: value for name, value in told.items() if name not in ("output", "restart")}
    run["perturbed"] = content_digest(rows)
    with writing(f"--output: {target}"):
        target.parent.mkdir(parents=True, exist_ok=True)
    with partial_output(target, run, options.restart) as folder:
        made = folder / "made"
        made.mkdir(exist_ok=True)
        write_jsonl(made / "perturbed.jsonl", rows)
        responses = infer(
            options.model,
            str(made / "responses"),
            input_file=str(made / "perturbed.jsonl"),
            max_input_length=options.max_input_length,
            batch_size=options.batch_size,
            decoding=decoding,
            seed=options.seed,
            formats=("jsonl",),
            vocabulary=options.vocabulary,
        )
        generated: dict[str, list[str]] = {}
        for _, row in read_jsonl(responses / "predictions.jsonl"):
            generated.setdefault(row["id"].rpartition(_MARK)[0], []).append(row["prediction"])
        lines = [_write(source / name, made, turns[name], generated) for name in FILES]
        shutil.copy(source / "test.json", made / "test.json")
        for line in prepare("faithdial", str(made / "tfds"), str(made), tell_ignored=False):
            logger.info("%s", line.replace(str(made), str(target)))  # where it will be
        put(made, target)
    return [*lines, f"{target / 'tfds'}: read it with FAITH_JAX_DATA_DIR={target / 'tfds'}"]


def _perturbed(turns: list[dict[str, Any]], options: NegativesOptions) -> Iterator[dict[str, str]]:
    """Yields a row to respond to for each different perturbation of each turn's knowledge."""
    texts = list(dict.fromkeys(turn["knowledge"] for turn in turns))
    tagger, found = load_tagger(options.tagger), []
    progress = Progress("knowledge", len(texts))
    for start in range(0, len(texts), _TAGGED):
        found += tagger.tag(texts[start : start + _TAGGED])
        progress.update(len(found), force=len(found) == len(texts))
    tagged = dict(zip(texts, found, strict=True))
    substitutes = {kind: collect(tagged.values()) for kind, (collect, _) in _CHANGES.items()}
    for turn in turns:
        variants = _variants(tagged[turn["knowledge"]], substitutes, turn["id"], options)
        for name, text in variants.items():
            inputs = dialogue_inputs(text, turn["history"])
            yield {"id": f"{turn['id']}{_MARK}{name}", "knowledge": text, "inputs": inputs}


def _variants(
    knowledge: TaggedText,
    substitutes: Mapping[str, perturbation.Substitutes],
    identifier: str,
    options: NegativesOptions,
) -> dict[str, str]:
    """Returns texts that differ, by "entity-0", "verb-0" …; fewer where draws repeat."""
    found: dict[str, str] = {}
    # A draw may repeat another, or find nothing: as many again are tried.
    for attempt in range(2 * options.perturbations):
        kind, number = ("entity", "verb")[attempt % 2], attempt // 2
        change = _CHANGES[kind][1]
        made = change(knowledge, substitutes[kind], identifier, options.seed, number)
        if made is not None and made.text not in {knowledge.text, *found.values()}:
            found[f"{kind}-{number}"] = made.text
        if len(found) == options.perturbations:
            break
    return found


def _write(
    source: pathlib.Path,
    target: pathlib.Path,
    turns: list[dict[str, Any]],
    generated: Mapping[str, list[str]],
) -> str:
    """Writes a file with `negative_samples` in each turn; returns a line about it."""
    rest, counts = iter(turns), []

    def with_samples(utterance: Mapping[str, Any]) -> dict[str, Any]:
        turn = next(rest)
        samples = [*utterance.get("negative_samples", ()), *generated.get(turn["id"], ())]
        kept = dict.fromkeys(text for text in map(one_space, samples) if text)
        kept.pop(one_space(turn["response"]), None)
        counts.append(len(kept))
        return {**utterance, "negative_samples": list(kept)}

    dialogues = [
        {**row.fields, "utterances": [with_samples(u) for u in row.fields["utterances"]]}
        for row in read_array(source)
    ]
    write_json(target / source.name, dialogues)
    without = counts.count(0)
    return (
        f"{source.name}: {sum(counts)} negatives of {len(counts)} turns; {without} turns have none"
    )
