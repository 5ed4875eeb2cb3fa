"""The programs that runs compile, built from shapes, without reading data or parameters.

They are the runs' own functions, with the same shardings, donated memory and dtypes.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.core.settings import check_value
from faith_jax.core.types import PyTree
from faith_jax.decoding.config import DecodingConfig
from faith_jax.gin_files import config as gin_config
from faith_jax.inference.batch_decoder import BatchDecoder
from faith_jax.inference.batching import padded_length
from faith_jax.inference.row_likelihoods import LikelihoodRow, scoring_program
from faith_jax.input.task_batches import batch_shapes
from faith_jax.models.config import TransformerConfig
from faith_jax.models.partitioning import SLICE_AXIS, Partitioner
from faith_jax.models.transformer import Transformer, for_decoding, parameter_shapes
from faith_jax.planning.topologies import partition_counts
from faith_jax.runs import infer, setup, train
from faith_jax.scoring.salience.gradients import GRADIENT_LENGTHS
from faith_jax.scoring.salience.maps import maps_program
from faith_jax.training.trainer import Trainer, merge_params, split_params, with_shardings

_NOT_GIVEN = "(not given)"
DECODING = ("prefill", "decode_step", "batch")  # parts of a program that decodes
# Numbers of steps in place of calls that count them in the data; they do not change the programs.
STEPS: Mapping[str, Any] = {
    **dict.fromkeys(("TRAIN_STEPS", "EVAL_PERIOD", "CHECKPOINT_PERIOD"), 1000),
    "DECODED_EVAL_PERIOD": 1000,
    "WARMUP_STEPS": 0,
}
# Macros that a run requires, but that do not change its programs.
UNUSED: Mapping[str, Any] = {
    **dict.fromkeys(("MODEL_DIR", "INFER_OUTPUT_DIR", "INPUT_FILE"), _NOT_GIVEN),
    **dict.fromkeys(("INITIAL_CHECKPOINT_PATH", "CHECKPOINT_PATH"), _NOT_GIVEN),
    "MIXTURE_OR_TASK_NAME": _NOT_GIVEN,
    "TRAIN_STEPS": STEPS["TRAIN_STEPS"],
}


# Settings tried in place of the recipe's, by the macro's name in lower case: num_partitions,
# activation_partitioning_dims, parameter_partitioning_dims, and for training also num_microbatches
# and remat_policy.
Choice = Mapping[str, Any]


class Program(NamedTuple):
    """A function of a run that can be compiled.

    Attributes:
      compile: compiles it and returns JAX's program.
      arguments: the arrays in memory when it is called, by kind, as shapes with shardings.
      parts: names of its work before the loop, in one turn of the loop, and in total; or of the
        total alone.
      loops: the most turns of its loops whose number of turns is not known at compile time.
      beside: names of the `arguments` that stay in memory but are not passed to the function.
    """

    compile: Callable[[], Any]
    arguments: Mapping[str, PyTree]
    parts: Sequence[str]
    loops: int = 1
    beside: Sequence[str] = ()


class RunPrograms(NamedTuple):
    """The programs that a run compiles, and their settings.

    Attributes:
      name: "train", "infer", "score" or "salience".
      partitioner: of the run's mesh.
      settings: the settings that the plan shows: rows, tokens, dtypes, partitions.
      program: a training step, or the work on one batch.
      evaluations: of a training run, by name; they run while the optimizer's state is in memory.
    """

    name: str
    partitioner: Partitioner
    settings: Mapping[str, Any]
    program: Program
    evaluations: Mapping[str, Program] = {}


class Configured(NamedTuple):
    """A job of gin files; see `RunPrograms`, `summed_bytes` and `Objective.couples_rows`.

    `make` returns the job's programs for given settings and devices; `partitioner` returns its
    partitioner for NUM_PARTITIONS = 1; `rows` is the batch size.
    """

    name: str
    rows: int
    make: Callable[[Choice, Sequence[Any]], RunPrograms]
    partitioner: Callable[[Sequence[Any]], Partitioner]
    summed: int
    couples_rows: bool


def configure_job(job: str = "run") -> Configured:
    """Returns the job that gin files configure.

    Args:
      job: "run" = the run `train` or `infer`; or "score" or "salience", with the model and the
        lengths of `infer`.

    Raises:
      ConfigError: the gin files configure no such run, or take the model's dimensions from a
        checkpoint that does not exist here.
    """
    makers: Mapping[Any, Any] = {train.train: _build_training_job, infer.infer: _build_decoding_job}
    if job != "run":
        makers = {infer.infer: functools.partial(_build_scoring_job, job)}
    for run in makers:
        try:
            arguments = gin_config.arguments_of(run)
        except CheckpointError as error:
            raise ConfigError(_no_model(error)) from None
        if arguments is not None:
            break
    else:
        names = " or ".join(f"`{run.__name__}`" for run in makers)
        raise ConfigError(f"The gin files configure no run {names}, which is what can be planned.")
    if run is train.train:
        config, partitioner_for = arguments["model"].config, arguments["partitioner_for"]
        dataset = arguments["dataset"]
        rows, lengths = dataset.batch_size, dataset.task_feature_lengths
        tokens = lengths.get("inputs", 0), lengths.get("targets", 0)
        objective = setup.objective_of(config, arguments["optimization"].objective)
        couples_rows = objective.couples_rows
    else:
        couples_rows = False
        models: infer.Models = arguments["models"]
        config, partitioner_for = _decoding_model(models).config, models.partitioner_for
        rows = arguments["batch_size"]
        tokens = _input_length(arguments), _decoding_of(arguments).max_length

    def partitioner(devices: Sequence[Any]) -> Partitioner:
        return partitioner_for(config, num_partitions=1, devices=devices)

    name = run.__name__ if job == "run" else job
    summed = summed_bytes(config, *tokens)
    make = functools.partial(makers[run], arguments)
    return Configured(name, rows, make, partitioner, summed, couples_rows)


def summed_bytes(config: TransformerConfig, inputs: int, targets: int) -> int:
    """Returns the least bytes of a row's states that partitions add up in a forward pass.

    They are the outputs of attention and feed-forward layers, whose kernels are split over "model".
    """
    encoder, decoder = config.num_encoder_layers, config.num_decoder_layers
    if config.is_decoder_only:
        states = 2 * decoder * (inputs + targets)
    else:
        states = 2 * encoder * inputs + 3 * decoder * targets
    return states * config.emb_dim * jnp.dtype(config.dtype).itemsize


def _no_model(error: CheckpointError) -> str:
    reason = str(error).partition("\n")[0].partition(". ")[0]
    return (
        f"The recipe takes the model's dimensions from a checkpoint ({reason}); without one, give "
        "them by --gin_file=models/t5_1_1_xxl.gin, for example, and "
        "--gin.MODEL=@transformer.Transformer()."
    )


def _decoding_model(models: infer.Models) -> Transformer:
    """Returns the model of a run `infer`, taken from its checkpoint unless it is given."""
    if models.model:
        return models.model
    # CHECKPOINT_PATH may name several checkpoints; the first one gives the dimensions.
    path: Any = models.checkpoint_path
    while not isinstance(path, str):
        path = next(iter(path.values() if isinstance(path, Mapping) else path))
    try:
        return Transformer(open_checkpoint(path).config)
    except CheckpointError as error:
        raise ConfigError(_no_model(error)) from None


def _build_partitioner(
    partitioner_for: Callable[..., Partitioner],
    config: TransformerConfig,
    choice: Choice,
    devices: Sequence[Any],
    rows: int,
) -> Partitioner:
    """Returns the partitioner of a run, checking that it divides a batch of `rows`."""
    names = ("num_partitions", "activation_partitioning_dims", "parameter_partitioning_dims")
    kwargs = {name: choice[name] for name in names if name in choice}
    partitioner = partitioner_for(config, devices=devices, **kwargs)
    try:
        partitioner.local_rows(rows)
    except ConfigError as error:
        slices = partitioner.mesh.shape.get(SLICE_AXIS, 1)
        possible = ", ".join(map(str, partition_counts(len(devices), slices, rows)))
        more = f" Or give NUM_PARTITIONS one of {possible}." if possible else ""
        raise ConfigError(f"{error}{more}") from None
    return partitioner


def _param_shapes(
    module: Transformer, partitioner: Partitioner, trainable: Sequence[str], params_dtype: str
) -> tuple[PyTree, PyTree]:
    """Returns the shapes of trained (float32) and of frozen parameters, with their shardings."""
    shapes = parameter_shapes(module)
    shardings = partitioner.param_shardings(shapes["params_axes"])
    params = with_shardings(dict(shapes["params"]), shardings)
    trained, frozen = split_params(params, trainable) if trainable else ({}, params)
    dtype = jnp.dtype(check_value("PARAMS_DTYPE", params_dtype, setup.ParamsDtype))  # not int8
    frozen = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, dtype, sharding=x.sharding), frozen
    )
    return trained, frozen


def _build_training_job(
    arguments: Mapping[str, Any], choice: Choice, devices: Sequence[Any]
) -> RunPrograms:
    """Returns the training step of a run `train`, and its evaluations."""
    module: Transformer = arguments["model"]
    start: setup.StartingPoint = arguments["start"]
    optimization: train.Optimization = arguments["optimization"]
    if "remat_policy" in choice:
        module = Transformer(module.config.replace(remat_policy=choice["remat_policy"]))
    config, dataset = module.config, arguments["dataset"]
    objective = setup.objective_of(config, optimization.objective)
    objective.check(module, dataset.further_features)
    partitioner = _build_partitioner(
        arguments["partitioner_for"], config, choice, devices, dataset.batch_size
    )
    microbatches = choice.get("num_microbatches", optimization.num_microbatches)
    if dataset.batch_size % microbatches:
        raise ConfigError(
            f"BATCH_SIZE = {dataset.batch_size} does not divide into NUM_MICROBATCHES = "
            f"{microbatches}."
        )
    trained, frozen = _param_shapes(module, partitioner, start.trainable, start.params_dtype)
    trainer = Trainer(
        module, objective, optimization.optimizer, partitioner, optimization.seed, microbatches,
        optimization.use_hardware_rng,
    )  # fmt: skip
    state, batch = trainer.state_shapes(trained), batch_shapes(config, dataset, partitioner)
    held = {
        "trained_parameters": trained,
        "frozen_parameters": frozen,
        "optimizer_state": state.opt_state,
    }
    step = Program(
        lambda: trainer.compile_step(state, frozen, batch),
        {**held, "batch": (batch, state.step, state.objective)},
        ("step",),
    )
    settings = {
        "BATCH_SIZE": dataset.batch_size,
        "TASK_FEATURE_LENGTHS": dict(dataset.task_feature_lengths),
        "NUM_MICROBATCHES": microbatches,
        "REMAT_POLICY": config.remat_policy,
        **_model_settings(config, partitioner, start.params_dtype),
    }
    evaluations = _build_evaluations(arguments["evaluation"], trainer, held)
    return RunPrograms("train", partitioner, settings, step, evaluations)


def _build_evaluations(
    evaluation: train.Evaluation, trainer: Trainer, held: Mapping[str, PyTree]
) -> dict[str, Program]:
    """Returns the evaluations of a run `train`: the loss, and decoding for the task's metrics."""
    dataset, decoding = evaluation.dataset, evaluation.decoding
    if dataset is None or dataset.split is None:
        return {}
    module, partitioner = trainer.module, trainer.partitioner
    partitioner.local_rows(dataset.batch_size)
    trained, frozen = held["trained_parameters"], held["frozen_parameters"]
    batch = batch_shapes(module.config, dataset, partitioner)
    beside = ("optimizer_state",)
    programs = {
        "evaluation": Program(
            lambda: trainer.compile_eval_step(trained, frozen, batch),
            {**held, "batch": batch},
            ("batch",),
            beside=beside,
        )
    }
    if decoding is not None:
        setup.check_generates(module.config)
        decoder = BatchDecoder(module, partitioner, decoding, dataset.batch_size)
        length = dataset.task_feature_lengths["inputs"]
        params = merge_params(trained, frozen)
        programs["decoded_evaluation"] = Program(
            lambda: decoder.compile(params, length, laid_out=False),
            held,
            DECODING,
            decoding.max_length,
            beside,
        )
    return programs


def _model_settings(
    config: TransformerConfig, partitioner: Partitioner, params_dtype: str
) -> dict[str, Any]:
    return {
        "NUM_PARTITIONS": partitioner.mesh.shape["model"],
        "DTYPE": config.dtype,
        "PARAMS_DTYPE": params_dtype,
        "SCAN_LAYERS": config.scan_layers,
    }


class _Inference(NamedTuple):
    """The set-up of a run `infer`: a model on a mesh, and the lengths of its longest rows."""

    module: Transformer
    partitioner: Partitioner
    params: PyTree
    rows: int
    decoding: DecodingConfig
    input_length: int
    settings: Mapping[str, Any]


def _input_length(arguments: Mapping[str, Any]) -> int:
    dataset = arguments["dataset"]
    if dataset is not None:
        return dataset.task_feature_lengths["inputs"]
    return arguments["file"].max_length


def _decoding_of(arguments: Mapping[str, Any]) -> DecodingConfig:
    return arguments["decoding"] or DecodingConfig()


def _prepare_inference(
    arguments: Mapping[str, Any], choice: Choice, devices: Sequence[Any]
) -> _Inference:
    models: infer.Models = arguments["models"]
    module, rows = for_decoding(_decoding_model(models)), arguments["batch_size"]
    setup.check_generates(module.config)
    partitioner = _build_partitioner(models.partitioner_for, module.config, choice, devices, rows)
    params = merge_params(*_param_shapes(module, partitioner, (), models.params_dtype))
    length, decoding = _input_length(arguments), _decoding_of(arguments)
    settings = {
        "BATCH_SIZE": rows,
        "MAX_INPUT_LENGTH": length,
        "DECODE_LENGTH": decoding.max_length,
        **_model_settings(module.config, partitioner, models.params_dtype),
    }
    return _Inference(module, partitioner, params, rows, decoding, length, settings)


def _build_decoding_job(
    arguments: Mapping[str, Any], choice: Choice, devices: Sequence[Any]
) -> RunPrograms:
    """Returns the decoding program of a run `infer`, for its longest inputs."""
    run = _prepare_inference(arguments, choice, devices)
    decoding = run.decoding
    decoder = BatchDecoder(run.module, run.partitioner, decoding, run.rows, arguments["seed"])
    more = {"NUM_BEAMS": decoding.num_beams, "PMI": decoding.pmi is not None}
    program = Program(
        lambda: decoder.compile(run.params, run.input_length),
        {"parameters": run.params},
        DECODING,
        decoding.max_length,
    )
    return RunPrograms("infer", run.partitioner, {**run.settings, **more}, program)


def _build_scoring_job(
    job: str, arguments: Mapping[str, Any], choice: Choice, devices: Sequence[Any]
) -> RunPrograms:
    """Returns the program for likelihoods or salience maps of a run's longest rows."""
    run = _prepare_inference(arguments, choice, devices)
    row = LikelihoodRow([1] * run.input_length, [1] * run.decoding.max_length)
    if job == "score":
        compiled, turns = scoring_program(run.module, run.partitioner, run.params, row, run.rows)
    else:
        lengths = [len(row.inputs), len(row.targets), len(row.targets)]
        if run.module.config.is_decoder_only:
            lengths[1] = len(row.fed)
        tokens: list[Any] = [
            jax.ShapeDtypeStruct(
                (run.rows, padded_length(length, GRADIENT_LENGTHS)),
                jnp.int32,
                sharding=run.partitioner.rows,
            )
            for length in lengths
        ]
        if run.module.config.is_decoder_only:
            tokens[0] = None
        compiled, turns = maps_program(run.module, run.partitioner, run.params, *tokens)
    program = Program(compiled, {"parameters": run.params}, ("batch",), turns)
    return RunPrograms(job, run.partitioner, run.settings, program)
