"""Lists the tasks and mixtures, and the data that each one reads.

`faith_jax.tasks` makes them; listing them needs only this module.
"""

import collections
import functools
import os
from collections.abc import Iterable, Iterator, Mapping

from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.core.files import read_json_or_none
from faith_jax.core.files.stores import path_of
from faith_jax.datasets import raw_files
from faith_jax.datasets.benchmarks.described_rows import HALUEVAL, TOFUEVAL, WICE
from faith_jax.datasets.raw.npov import TRAINING_SETS
from faith_jax.datasets.raw.true_benchmark import AVERAGED, CORPORA
from faith_jax.datasets.raw_catalogue import DATASETS
from faith_jax.datasets.raw_dataset import sample_config

DATA_DIR_VARIABLE = "FAITH_JAX_DATA_DIR"

# The name prefixes of tasks that benchmark judges: the input is a pair, the output 1 or 0.
JUDGED = (
    *("faithbench_judge", "halueval_judge", "llm_aggrefact_judge", "ragtruth_judge"),
    *("summedits_judge", "tofueval_judge", "wice_judge"),
)

# Data sets of TFDS itself, which are concatenated, and its names for our splits.
ANLI, MULTI_NLI = ("anli/r1", "anli/r2", "anli/r3"), ("multi_nli",)
TFDS_SPLITS: Mapping[tuple[str, ...], Mapping[str, str]] = {
    ANLI: {"train": "train", "validation": "validation", "test": "test"},
    MULTI_NLI: {
        "train": "train",
        "validation": "validation_matched",
        "test": "validation_mismatched",
    },
}

# The data set of each task, as NAME/CONFIG; `<task>_sample` reads the sample of the data set.
_READ = {
    "begin_classify": "begin/official",
    "begin_2021_classify": "begin_2021/official",
    "cmu_dog_generate": "cmu_dog/official",
    "colloquial_claims_verify": "colloquial_claims/official",
    "colloquial_claims_verify_2way": "colloquial_claims/official",
    "dialfact_dense": "dialfact_evidence/official",
    "dialfact_dense_claim_only": "dialfact_evidence/official",
    "dialfact_evidence": "dialfact_evidence/official",
    "dialfact_evidence_claim_only": "dialfact_evidence/official",
    "dialfact_verifiable": "dialfact/official",
    "dialfact_verify_augmented": "dialfact/augmented",
    "dialfact_verify_augmented_2way": "dialfact/augmented",
    "dialfact_verify_augmented_claim_only": "dialfact/augmented",
    "dialfact_verify_augmented_claim_only_2way": "dialfact/augmented",
    "dialfact_verify_augmented_no_context": "dialfact/augmented",
    "dialfact_verify_augmented_no_context_2way": "dialfact/augmented",
    "dialfact_verify_claim_only": "dialfact/official",
    "dialfact_verify_claim_only_2way": "dialfact/official",
    "dialfact_verify_oracle": "dialfact/official",
    "dialfact_verify_oracle_2way": "dialfact/official",
    "dialfact_verify_retrieved": "dialfact/retrieved",
    "dialfact_verify_retrieved_2way": "dialfact/retrieved",
    "faithbench_judge": "faithbench/official",
    "faith_critic": "faith_critic/official",
    "faith_critic_all_edits": "faith_critic/all_edits",
    "faithdial_generate": "faithdial/official",
    "faithdial_generate_ctrl": "faithdial/control_tokens",
    "faithdial_generate_infonce": "faithdial/official",
    "faithdial_generate_wow": "faithdial/official",
    "faithdial_generate_wow_then_faithdial": "faithdial/official",
    "fever_verify": "fever/official",
    "fever_verify_2way": "fever/official",
    **{f"halueval_judge_{part}": f"halueval/{part}" for part in HALUEVAL},
    "labelled_responses_classify": "labelled_responses/full",
    "llm_aggrefact_judge": "llm_aggrefact/official",
    "multidoc2dial_generate": "multidoc2dial/official",
    "multidoc2dial_generate_short_history": "multidoc2dial/official",
    "multidoc2dial_generate_spans": "multidoc2dial/spans",
    "nli_decode": "decode/official",
    "nli_decode_dialogue": "decode/official",
    "nli_dnli": "dialogue_nli/official",
    "npov_coverage": "npov_errors/full",
    **{f"npov_coverage_{part}": f"npov_detection/{part}" for part in TRAINING_SETS},
    "npov_generate": "procon_npov/full",
    "npov_hallucination": "npov_errors/full",
    **{f"npov_hallucination_{part}": f"npov_detection/{part}" for part in TRAINING_SETS},
    "ragtruth_judge": "ragtruth/official",
    "summedits_judge": "summedits/official",
    "text_to_text": "text_to_text/full",
    **{f"tofueval_judge_{part}": f"tofueval/{part}" for part in TOFUEVAL},
    "topical_chat_generate": "topical_chat/post_build",
    "topical_chat_generate_pre_build": "topical_chat/official",
    "topical_chat_generate_with_openings": "topical_chat/post_build",
    **{f"true_{corpus}": f"true_benchmark/{corpus}" for corpus in CORPORA},
    "vitaminc_verify": "vitaminc/official",
    "vitaminc_verify_2way": "vitaminc/official",
    **{f"wice_judge_{part}": f"wice/{part}" for part in WICE},
    "wizard_of_wikipedia_generate": "wizard_of_wikipedia/official",
    "wizard_of_wikipedia_generate_ctrl": "wizard_of_wikipedia/control_tokens",
    "wizard_of_wikipedia_infill": "wizard_of_wikipedia/official",
}
_READ_OF_TFDS = {"nli_anli": ANLI, "nli_anli_augmented": ANLI, "nli_mnli": MULTI_NLI}
_MIXED = {
    "nli_all": ("nli_anli", "nli_mnli"),
    "npov_errors": ("npov_hallucination", "npov_coverage"),
    "fact_verify": ("fever_verify", "vitaminc_verify"),
    "fact_verify_2way": ("fever_verify_2way", "vitaminc_verify_2way"),
    "true_all": tuple(f"true_{corpus}" for corpus in AVERAGED),
}


def _name_sample(data_set: str) -> str:
    name, _, config = data_set.partition("/")
    return f"{name}/{sample_config(config)}"


TASK_ENTRY_POINTS = "faith_jax.tasks"  # entry points for task modules of other packages
# The data sets of each task.
TASKS: Mapping[str, tuple[str, ...]] = {
    **{task: (data_set,) for task, data_set in _READ.items()},
    **{f"{task}_sample": (_name_sample(data_set),) for task, data_set in _READ.items()},
    **_READ_OF_TFDS,
    **dict.fromkeys((f"{task}_sample" for task in _READ_OF_TFDS), ("nli/sample",)),
}
# The tasks of each mixture.
MIXTURES: Mapping[str, tuple[str, ...]] = {
    f"{mixture}{suffix}": tuple(f"{task}{suffix}" for task in tasks)
    for mixture, tasks in _MIXED.items()
    for suffix in ("", "_sample")
}


def check_task_name(name: str, setting: str, choices: Iterable[str] = (*TASKS, *MIXTURES)) -> None:
    """Checks that there is a task or mixture of this name.

    Raises:
      ConfigError: there is none; the message names the setting that gave it, and similar names.
    """
    if name not in (names := sorted(choices)):
        hint = did_you_mean(str(name), names) or f" There are: {', '.join(names)}."
        raise ConfigError(f"{setting}: there is no task or mixture {name!r}.{hint}")


def data_dir() -> str | None:
    """Returns the folder for prepared data; None = TFDS's default."""
    folder = os.environ.get(DATA_DIR_VARIABLE)
    return os.path.expanduser(folder) if folder else None


def task_sizes(task: str) -> dict[str, int] | None:
    """Returns the number of examples in each split of a task; None if its data is not prepared.

    Examples of a sample are counted; for other data the numbers were stored when it was prepared.
    """
    names = TASKS[task]
    if names[0].endswith("sample"):
        return _sample_sizes(names[0])
    sizes = [_prepared_sizes(name) for name in names]
    if not all(sizes):
        return None
    splits = TFDS_SPLITS.get(names) or {split: split for split in sizes[0]}
    return {split: sum(part[name] for part in sizes) for split, name in splits.items()}


@functools.cache
def _sample_sizes(name: str) -> dict[str, int]:
    (dataset,) = (d for d in DATASETS if _name_sample(f"{d.name}/{d.config}") == name)
    files = raw_files.sample_files(dataset)
    counts = {
        split: sum(1 for _ in dataset.examples({name: files[name] for name in names}, split))
        for split, names in dataset.splits.items()
        if all(name in files for name in names)
    }
    return {split: count for split, count in counts.items() if count}


def _prepared_sizes(name: str) -> dict[str, int]:
    """Returns the split sizes of prepared data without importing TFDS; empty = not prepared."""
    default_dir = os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"
    folder = path_of(data_dir() or default_dir) / name
    infos = [read_json_or_none(path) for path in sorted(folder.glob("*/dataset_info.json"))]
    splits = infos[-1].get("splits", ()) if infos and infos[-1] else ()
    return {split["name"]: sum(map(int, split["shardLengths"])) for split in splits}


def describe_tasks() -> Iterator[str]:
    """Yields lines that list all tasks with their splits and sizes, in alphabetical order.

    Nothing is prepared for this; the lines of unprepared tasks tell how to prepare the data.
    """
    for name in sorted({*TASKS, *MIXTURES}):
        parts = MIXTURES.get(name, (name,))
        sizes = {part: task_sizes(part) for part in parts}
        if missing := next((part for part, size in sizes.items() if size is None), None):
            data_sets = TASKS[missing]
            remedy = f"faith-jax prepare {data_sets[0]}"
            if data_sets in TFDS_SPLITS:
                remedy = f"TFDS fetches {', '.join(data_sets)} when it is read"
            yield f"{name}  (not prepared: {remedy})"
            continue
        counts = collections.Counter[str]()
        for part_sizes in sizes.values():
            counts.update(part_sizes or {})
        yield f"{name}  ({', '.join(f'{split} {count:,}' for split, count in counts.items())})"
        if name in MIXTURES:
            yield f"    a mixture of {', '.join(sorted(parts))}"
