"""The run `negatives`: unfaithful responses for InfoNCE, by perturb-and-generate (Dziri 2022).

Entities or verbs in the knowledge of each FaithDial turn are replaced, a model that was trained on
Wizard of Wikipedia responds to the changed knowledge, and its responses are added to the turn's
`negative_samples`. Together with the responses that annotators found hallucinated, these are the
turn's negatives.
"""

import functools
import logging
import pathlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from faith_jax.core.errors import InputError
from faith_jax.core.files import (
    partial_folder,
    report_write_errors,
    scratch_place,
    stamp,
    write_json,
    write_jsonl,
)
from faith_jax.core.files.stores import path_of
from faith_jax.core.progress import Progress
from faith_jax.core.rows import BadRows, read_jsonl
from faith_jax.core.templates import dialogue_inputs, one_space
from faith_jax.datasets.augmentation.tagging import load_tagger
from faith_jax.datasets.input_rows import InputRow
from faith_jax.datasets.json_items import read_array
from faith_jax.datasets.raw.faithdial import read_turns
from faith_jax.datasets.samples import SAMPLE, sample_folder
from faith_jax.papers.faithdial import knowledge_perturbation as perturbation
from faith_jax.papers.responses import Responder, check, new_run, prepare_in_place
from faith_jax.runs.shards import Job, Place, split
from faith_jax.tokenizers.vocabularies import with_own_vocabulary

if TYPE_CHECKING:
    from faith_jax.papers.faithdial.commands import Negatives

logger = logging.getLogger("faith_jax")

FILES = ("train.json", "valid.json")
TEST = "test.json"
PERTURBED = "perturbed.jsonl"
_BATCH = 256  # rows that are responded to together
_TAGGED = 1000  # texts tagged between two lines of progress
_MARK = "#"  # between a turn's id and its perturbation's
_CHANGES = {
    "entity": (perturbation.collect_entities, perturbation.substitute_entities),
    "verb": (perturbation.collect_verbs, perturbation.substitute_verbs),
}


@with_own_vocabulary
def negatives(options: "Negatives") -> list[str]:
    """Makes the negatives of all turns, and returns lines about them; a stopped run resumes.

    The new folder has FaithDial's files (only train.json is required) with `negative_samples` in
    each turn of train.json and valid.json, all responses with their inputs in responses.jsonl, and
    the TFDS data set in `tfds`.
    """
    target, run = new_run(options)
    is_sample = options.folder == SAMPLE
    source = sample_folder("faithdial") if is_sample else path_of(options.folder)
    run["models"] = check(model=options.model)
    load_tagger(options.tagger)  # raises errors early
    missing = [name for name in (*FILES[1:], TEST) if not (source / name).exists()]
    names = [name for name in (*FILES, TEST) if name not in missing]
    turns = {name: list(read_turns(source / name, BadRows())) for name in names}
    for name in missing:
        logger.warning("%s: no such file; negatives are made without it", source / name)
    with report_write_errors(f"--output: {target}"):
        target.parent.mkdir(parents=True, exist_ok=True)
    perturbed_file = partial_folder(target) / PERTURBED

    def plan() -> dict[str, Any]:
        changed = [turn for name, part in turns.items() if name in FILES for turn in part]
        perturbed = list(_perturbed_rows(changed, options))
        if not perturbed:
            raise InputError(
                f"{source}: {options.tagger} finds no entity or verb in any knowledge that could "
                "be another; choose another --tagger."
            )
        write_jsonl(perturbed_file, perturbed)
        return {"shards": split(rows((0, 0)), options.shards)}

    def rows(place: Place) -> Iterator[InputRow]:
        for number, (_, row) in enumerate(read_jsonl(perturbed_file, first=place[1]), place[1]):
            yield InputRow(row["id"], row["inputs"], fields=row, place=(0, number))

    @functools.cache
    def load_responder() -> Responder:
        return Responder(options.model, options)

    def responses(batch: Sequence[InputRow]) -> Iterator[dict[str, Any]]:
        texts = load_responder()(batch, [row.place[1] for row in batch])
        for row, text in zip(batch, texts, strict=True):
            yield {**row.fields, "response": text}

    inputs = [source / name for name in turns]
    with Job(target, run, plan, stamp(inputs), options.restart) as job:
        job.compute(rows, str(source), _BATCH, responses)
        if load_responder.cache_info().currsize:
            load_responder().tell_cut()
        with job.joining() as results:
            if results is None:
                return [f"{target}: other processes make what is missing"]
            return _write_data_set(job, source, turns)


def _write_data_set(
    job: Job, source: pathlib.Path, turns: Mapping[str, list[dict[str, Any]]]
) -> list[str]:
    """Writes the files with the generated responses, and the data set."""
    generated: dict[str, list[str]] = {}
    with scratch_place(job.folder) as folder:
        folder.mkdir()
        job.write_jsonl(folder / "responses.jsonl")
        for _, row in read_jsonl(folder / "responses.jsonl"):
            generated.setdefault(row["id"].rpartition(_MARK)[0], []).append(row["response"])
        lines = []
        for name in filter(turns.__contains__, FILES):
            dialogues, counts, remaining_turns = [], [], iter(turns[name])
            for dialogue in read_array(source / name):
                utterances = []
                for utterance in dialogue.fields["utterances"]:
                    turn = next(remaining_turns)
                    own = utterance.get("negative_samples") or ()
                    samples = map(one_space, [*own, *generated.get(turn["id"], ())])
                    unique_samples = dict.fromkeys(text for text in samples if text)
                    unique_samples.pop(one_space(turn["response"]), None)
                    counts.append(len(unique_samples))
                    utterances.append({**utterance, "negative_samples": list(unique_samples)})
                dialogues.append({**dialogue.fields, "utterances": utterances})
            write_json(folder / name, dialogues)
            lines.append(
                f"{name}: {sum(counts)} negatives of {len(counts)} turns; {counts.count(0)} turns "
                "have none"
            )
        if TEST in turns:
            shutil.copy(source / TEST, folder / TEST)
        return [*lines, prepare_in_place("faithdial", folder, job.target)]


def _perturbed_rows(turns: list[dict[str, Any]], options: "Negatives") -> Iterator[dict[str, str]]:
    """Yields a row to respond to for each different perturbation of each turn's knowledge."""
    texts = list(dict.fromkeys(turn["knowledge"] for turn in turns))
    tagger, tagged_texts = load_tagger(options.tagger), []
    progress = Progress("knowledge", len(texts))
    for start in range(0, len(texts), _TAGGED):
        tagged_texts += tagger.tag(texts[start : start + _TAGGED])
        progress.update(len(tagged_texts), force=len(tagged_texts) == len(texts))
    tagged = dict(zip(texts, tagged_texts, strict=True))
    substitutes = {kind: collect(tagged.values()) for kind, (collect, _) in _CHANGES.items()}
    for turn in turns:
        knowledge = tagged[turn["knowledge"]]
        variants: dict[str, str] = {}
        # A draw may repeat another or find nothing, so try twice as many.
        for attempt in range(2 * options.perturbations):
            kind, number = ("entity", "verb")[attempt % 2], attempt // 2
            change = _CHANGES[kind][1]
            changed = change(knowledge, substitutes[kind], turn["id"], options.seed, number)
            if changed is not None and changed.text not in {knowledge.text, *variants.values()}:
                variants[f"{kind}-{number}"] = changed.text
            if len(variants) == options.perturbations:
                break
        for name, text in variants.items():
            inputs = dialogue_inputs(text, turn["history"])
            yield {"id": f"{turn['id']}{_MARK}{name}", "knowledge": text, "inputs": inputs}
