"""The commands for checkpoints and their soft prompts."""

import dataclasses
from typing import ClassVar, Literal

from faith_jax.core.errors import ConfigError
from faith_jax.core.settings import OutputPath
from faith_jax.runs.options import PromptReportOptions


@dataclasses.dataclass(frozen=True)
class _Conversion:
    """The source and target of a conversion of checkpoints.

    Attributes:
      source (SOURCE): a checkpoint of any known form
      target (TARGET): the folder to write, or for some commands a file that ends in .npy
      overwrite: replace TARGET
    """

    opens_checkpoints: ClassVar = True
    source: str
    target: OutputPath
    _: dataclasses.KW_ONLY
    overwrite: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImportCheckpoint(_Conversion):
    """Converts a Hugging Face folder or a T5X checkpoint to faith_jax's form.

    The files of its tokenizer are copied. A LoRA adapter of Hugging Face's PEFT is merged with its
    base model.

    Attributes:
      target (TARGET): the folder to write, usable as a checkpoint, such as in
        INITIAL_CHECKPOINT_PATH: model.json, the parameters in params/, manifest.json
      base (CHECKPOINT): the base model of an adapter, in any known form (default: the model that
        the adapter names)

    Examples:
      %(prog)s checkpoints/hf_t5_v1_1_base checkpoints/t5_1_1_base
      %(prog)s adapters/npov_lora checkpoints/npov_lora --base=checkpoints/t5_base
    """

    base: str = ""

    def run(self) -> str:
        from faith_jax.runs import convert

        convert.import_checkpoint(self.source, self.target, self.overwrite, self.base)
        return self.target


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportCheckpoint(_Conversion):
    """Writes a checkpoint as a Hugging Face folder.

    SOURCE is a run's MODEL_DIR (its best step), MODEL_DIR/checkpoints/<step>, an imported
    checkpoint, a T5X checkpoint, or a Hugging Face folder.

    TARGET gets config.json, model.safetensors, generation_config.json and the files of the
    tokenizer, as Transformers reads them. If SOURCE has a soft prompt, export its base model this
    way, and the prompt by export-prompt.

    Attributes:
      dtype: round the parameters to this dtype (default: keep theirs)

    Examples:
      %(prog)s runs/finetuned checkpoints/hf_finetuned
    """

    dtype: Literal["float32", "bfloat16", "float16"] | None = None

    def run(self) -> str:
        from faith_jax.runs.convert import export_checkpoint

        if self.target.endswith(".npy"):
            raise ConfigError(f"{self.target}: export-prompt writes a soft prompt as a .npy file.")
        export_checkpoint(self.source, self.target, self.overwrite, self.dtype)
        return self.target


@dataclasses.dataclass(frozen=True)
class WriteManifest:
    """Writes digests of a checkpoint's tensors and files, which are verified on reading.

    import-checkpoint, export-checkpoint and train write such a manifest.json themselves. Write one
    for a checkpoint that you have downloaded, before you copy it to other machines. A checkpoint
    with a manifest.json is verified whenever it is read.

    Attributes:
      source (SOURCE): a Hugging Face folder, a T5X checkpoint, or a checkpoint of ours

    Examples:
      %(prog)s checkpoints/flan_t5_xl
    """

    source: str

    def run(self) -> str:
        from faith_jax.runs import convert

        return str(convert.add_manifest(self.source))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportPrompt(_Conversion):
    """Writes a soft prompt as a .npy file, or as a folder that Hugging Face's PEFT reads.

    SOURCE is a prompt-tuned MODEL_DIR (its best step), MODEL_DIR/checkpoints/<step>, or any other
    checkpoint with a soft prompt. Its base model need not be present.

    If TARGET ends in .npy, it gets float32 [PROMPT_LENGTH, embed]. Another run starts from it by
    prompts/from_npy.gin and PROMPT_FILE.

    A folder TARGET gets adapter_config.json and adapter_model.safetensors, which
    peft.PeftModel.from_pretrained adds to the base model in Transformers' form.

    Attributes:
      prompt: which soft prompt, if SOURCE has both
      base (NAME): the base model's name in a folder TARGET (default: its path, if that is a Hugging
        Face folder)

    Examples:
      %(prog)s runs/npov prompt.npy
      %(prog)s runs/npov/checkpoints/2000 prompts/npov_peft --base=google/t5-v1_1-base
    """

    prompt: Literal["encoder", "decoder"] | None = None
    base: str = ""

    def run(self) -> str:
        from faith_jax.runs.soft_prompt_files import export_prompt

        export_prompt(self.source, self.target, self.overwrite, self.prompt, self.base)
        return self.target


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImportPrompt(_Conversion):
    """Makes a checkpoint of a soft prompt from PEFT or from a .npy file.

    SOURCE is a folder that PEFT's prompt tuning wrote, or a .npy file of floats [length, embed].

    A folder TARGET gets model.json, which names the base model, and params/ with the prompt alone;
    it is usable wherever a MODEL_DIR is. If TARGET ends in .npy (only from PEFT), it gets the
    vectors, for prompts/from_npy.gin.

    Attributes:
      prompt: where the prompt of a .npy file stands (default: in front of the input)
      base (CHECKPOINT): the base model, in any known form (default: as PEFT's folder names it)

    Examples:
      %(prog)s prompts/npov_peft runs/npov_peft --base=checkpoints/t5_base
      %(prog)s prompt.npy runs/npov_copy --base=checkpoints/t5_base
      %(prog)s prompts/npov_peft prompt.npy --base=checkpoints/t5_base
    """

    prompt: Literal["encoder", "decoder"] | None = None
    base: str = ""

    def run(self) -> str:
        from faith_jax.runs.soft_prompt_files import import_prompt

        import_prompt(self.source, self.target, self.base, self.overwrite, self.prompt)
        return self.target


class PromptReport(PromptReportOptions):
    """Says how healthy prompt-tuned runs are, and how they compare.

    It shows how far each vector moved from its start, how its norm ranks among the vocabulary's
    embeddings, the nearest vocabulary pieces, gradient norms and losses over the training, and for
    several runs the spread over seeds and starts. Warnings point out problems.

    RUN is a prompt-tuned MODEL_DIR (its best step) or MODEL_DIR/checkpoints/<step>.

    Examples:
      %(prog)s runs/npov
      %(prog)s runs/seed0 runs/seed1 runs/uniform0 --html=prompts.html --png=prompts.png
    """

    opens_checkpoints = True

    def run(self) -> str:
        from faith_jax.runs.prompt_report import prompt_report

        return prompt_report(self)
