"""The NPOV tasks (Chang 2024): a query and arguments in, a response that verbalises them out.

- `npov_generate_sample`: the sample embedded in the package; needs nothing.
- `npov_generate`: the user's own topics and responses; `faith_jax.data.builders.procon_npov` says
  where their files go.

Features are `inputs` and `targets` in the curly braces format, end token included; where they
are cut to a length, the end token stays. `id`, the pretokenised texts and the arguments stay in
the examples for evaluation and export.
"""

import functools

import seqio
import tensorflow_datasets as tfds

from faith_jax.data.seqio_vocabularies import DefaultVocabulary
from faith_jax.tasks import metrics, preprocessors, sources


def _prepare(config: str, data_dir: str | None) -> tfds.core.DatasetBuilder:
    # Imported on first use: importing it registers the builder with TFDS.
    from faith_jax.data.builders import procon_npov

    return procon_npov.prepared_builder(config, data_dir=data_dir)


def _feature() -> seqio.Feature:
    return seqio.Feature(vocabulary=DefaultVocabulary(), add_eos=True)


def _add_generation_task(name: str, config: str) -> None:
    seqio.TaskRegistry.add(
        name,
        source=sources.PreparedTfdsSource(_prepare, name="procon_npov", config=config),
        preprocessors=[
            preprocessors.npov_generate,
            functools.partial(seqio.preprocessors.tokenize, with_eos=False),
            seqio.CacheDatasetPlaceholder(),
            seqio.preprocessors.append_eos_after_trim,
        ],
        output_features={"inputs": _feature(), "targets": _feature()},
        postprocess_fn=metrics.npov_postprocess,
        metric_fns=[metrics.token_f1, metrics.rouge, metrics.arguments],
    )


_add_generation_task("npov_generate", config="full")
_add_generation_task("npov_generate_sample", config="sample")
