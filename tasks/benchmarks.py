"""The tasks of benchmarks of judges: grounding and response in, `1` (faithful) or `0` out.

They have the form of TRUE's; `faith_jax.datasets.task_data` lists them. LLM-AggreFact and TofuEval
are for evaluation alone: their authors ask not to train on them.
"""

from faith_jax.datasets.task_data import JUDGED, TASKS
from faith_jax.tasks import metrics
from faith_jax.tasks.registering import add_with_sample
from faith_jax.tasks.true_benchmark import judge

for _task in TASKS:
    if _task.startswith(JUDGED) and not _task.endswith("_sample"):
        add_with_sample(
            _task,
            judge,
            postprocess=metrics.label_postprocess,
            metric_fns=[metrics.classification],
        )
