"""Tasks of judges: a grounding and a response in, a label out.

- `begin_classify`, `begin_2021_classify`: BEGIN (Dziri 2021), its second release with three labels,
  and its first release with five; the targets are the authors' labels.
- `labelled_responses_classify`: a user's own table, `faithful` or `unfaithful` out; it has the form
  of `faith_critic`, so the scorer of that name can use models trained on it
  (`gin_configs/classify_finetune.gin`).
- `true_<corpus>` for each of the eleven corpora of TRUE (Honovich 2022), `1` (consistent) or `0`
  out, and the mixture `true_all` of the nine that TRUE averages. All have one split, `test`.
- the benchmarks of judges, in the same form; `faith_jax.datasets.task_data` lists them.
  LLM-AggreFact and TofuEval are for evaluation only: their authors ask not to train on them.

Each has a `_sample` of the same form.
"""

import seqio

from faith_jax.core import templates
from faith_jax.datasets.raw.true_benchmark import CORPORA
from faith_jax.datasets.task_data import JUDGED, TASKS
from faith_jax.tasks.faithdial import criticise
from faith_jax.tasks.metrics import CLASSIFICATION
from faith_jax.tasks.preprocessors import apply_template, label_text
from faith_jax.tasks.registering import Example, add_mixtures, add_with_sample


@seqio.map_over_dataset
def _classify(example: Example) -> Example:
    """Adds BEGIN's inputs, and the authors' label as the target."""
    texts = (example["knowledge"], example["message"], example["response"])
    inputs = apply_template(templates.attribution_inputs, *texts)
    return {**example, "inputs": inputs, "targets": example["begin_label"]}


@seqio.map_over_dataset
def _judge(example: Example) -> Example:
    """Adds grounding and text as premise and hypothesis, and the label as the target."""
    texts = (example["grounding"], example["generated_text"])
    inputs = apply_template(templates.nli_inputs, *texts)
    targets = label_text(example["label"], {0: "0", 1: "1"})
    return {**example, "inputs": inputs, "targets": targets}


add_with_sample("begin_classify", _classify, **CLASSIFICATION)
add_with_sample("begin_2021_classify", _classify, **CLASSIFICATION)
add_with_sample("labelled_responses_classify", criticise, **CLASSIFICATION)
_BENCHMARKS = (t for t in TASKS if t.startswith(JUDGED) and not t.endswith("_sample"))
for _task in (*(f"true_{corpus}" for corpus in CORPORA), *_BENCHMARKS):
    add_with_sample(_task, _judge, **CLASSIFICATION)
add_mixtures("true_all", seqio.mixing_rate_num_examples)
