"""The command `plan`: does a recipe fit on hardware that is not here, and how fast can it be?"""

import dataclasses
from collections.abc import Iterator
from typing import Literal

from faith_jax.cli.gin_commands import GinFiles
from faith_jax.core.settings import ShareBelow1
from faith_jax.runs.options import Numbers, Png


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan(GinFiles):
    r"""Plans a recipe for TPUs or GPUs that are not here: does it fit, how fast is it?

    Compiles the run `train` (with its evaluations) or `infer` of gin files for the topology,
    without its hardware, data or checkpoint, and prints for each device: memory, operations, bytes
    moved, collectives, and the shortest time of a step (docs/plan.md). TPUs need the extra
    tpu-plan. What does not fit is answered with settings that would.

    Attributes:
      topology (NAME): v4, v5e, v5p or v6e with the chips' torus, such as v4:4x4x4 or v5e:4x4, and
        for several slices of them 2xv4:4x4x4; h100, h200, a100, a100-40gb or cpu with their number,
        such as h100:8
      job: run is what the gin files configure; score and salience are the likelihoods, or the
        salience maps, of rows with the model, batch and lengths of infer
      sweep: try NUM_PARTITIONS and, where they are needed, REMAT_POLICY, NUM_MICROBATCHES and
        partitioning in two dimensions, and recommend the fastest
      partitions (N,N): for --sweep: only these
      free (SHARE): of a device's memory that recommended settings leave free
      json (PATH): write all figures; what is compiled is kept beside it until the end, and a
        stopped run resumes
      restart: discard what a stopped run has kept
      figure (PATH): for --sweep: write step time and memory over partitions (PNG)

    Examples:
      %(prog)s --topology=v4:4x4x4 --gin_file=models/t5_1_1_xxl.gin \
          --gin_file=npov_generate_prompt_tune.gin --gin.MODEL=@transformer.Transformer\(\) \
          --gin.DTYPE=bfloat16 --gin.PARAMS_DTYPE=bfloat16 --gin.NUM_PARTITIONS=16
      %(prog)s --topology=v5e:4x4 --gin_file=npov_generate_finetune.gin \
          --gin.INITIAL_CHECKPOINT_PATH=checkpoints/t5_1_1_xl --sweep --figure=plan.png
      %(prog)s --topology=h100:8 --gin_file=runs/infer_file.gin \
          --gin.CHECKPOINT_PATH=runs/npov --gin.BATCH_SIZE=64
    """

    topology: str
    job: Literal["run", "score", "salience"] = "run"
    sweep: bool = False
    partitions: Numbers = ()
    free: ShareBelow1 = 0.2
    json: str = ""
    restart: bool = False
    figure: Png = ""

    def run(self) -> Iterator[str]:
        self.check_files()
        from faith_jax.core.errors import ConfigError
        from faith_jax.planning import plan
        from faith_jax.planning.worker import Recipe

        for name in ("partitions", "figure"):
            if getattr(self, name) and not self.sweep:
                raise ConfigError(f"--{name}: goes with --sweep.")
        recipe = Recipe(
            self.gin_file, self.bindings, self.gin_search_paths, self.gin_allow, self.job
        )
        options = plan.PlanOptions(
            self.sweep, self.partitions, self.free, self.json, self.figure, self.restart
        )
        return plan.lines(plan.plan(recipe, self.topology, options))
