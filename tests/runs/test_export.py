"""Outputs of runs are self-contained: exported, opened by Transformers, with prompts as files."""

import json
import shlex

import numpy as np
import pytest

from faith_jax import cli
from faith_jax.checkpoints.checkpoint import Checkpoint
from faith_jax.checkpoints.native import write_native
from faith_jax.inference import load_model
from faith_jax.models.soft_prompt import from_npy
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.checkpoints.synthetic import tiny_params
from tests.checkpoints.test_native import prompt_run
from tests.models.tiny import TINY as TINY_CONFIG
from tests.runs.conftest import TINY, settings
from tests.runs.test_bad_input import assert_mistake
from tests.scoring import tiny_models
from tests.tokenizers.special_tokens import encode_row

TEXTS = [
    "Is tea better than coffee?",
    "{query: Should cars be banned?} {pro: Cleaner air.} {con: Less freedom.}",
]
SHORT = ("--gin.TRAIN_STEPS=1", "--gin.WARMUP_STEPS=0", "--gin.BATCH_SIZE=2")


def train(command, family, run, tmp_path):
    """Trains a tiny model for a step, from scratch (T5) or from a published folder."""
    if family == "t5":
        arguments = TINY
    else:
        base = tiny_models.write_model(tmp_path / "base", family, max_positions=256)
        arguments = (
            "train",
            "--gin_file=faithdial_generate_finetune.gin",
            *settings(MIXTURE_OR_TASK_NAME="faithdial_generate_sample"),
            *settings(INITIAL_CHECKPOINT_PATH=base),
            *settings(TASK_FEATURE_LENGTHS="{'inputs': 160, 'targets': 90}", DECODE_LENGTH=4),
        )
    command.succeeds(*arguments, f"--gin.MODEL_DIR={run}", *SHORT)


@pytest.mark.parametrize("family", ["t5", "gpt2", "bart"])
def test_transformers_opens_what_a_run_exports(command, family, tmp_path):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    run, folder = tmp_path / "run", tmp_path / "exported"
    train(command, family, run, tmp_path)
    step = run / "checkpoints" / "1"
    command.succeeds("export-checkpoint", step, folder)
    ours, vocabulary = load_model(folder), load_vocabulary(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = [encode_row(vocabulary, text) for text in TEXTS]
    assert tokenizer(TEXTS).input_ids == texts
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (
        vocabulary.eos_id,
        vocabulary.pad_id,
    )
    ids = np.array([texts[1]])
    special_ids = {"eos_token_id": vocabulary.eos_id}
    if family == "gpt2":
        opened = transformers.AutoModelForCausalLM
        inputs = {"input_ids": ids}
        special_ids["bos_token_id"] = vocabulary.bos_id
    else:
        opened = transformers.AutoModelForSeq2SeqLM
        start = ours.config.decoder_start_id
        inputs = {"input_ids": ids, "decoder_input_ids": np.array([[start, *texts[0][:5]]])}
        special_ids |= {"pad_token_id": vocabulary.pad_id, "decoder_start_token_id": start}
        special_ids |= {"bos_token_id": 0} if family == "bart" else {}
    torch_model = opened.from_pretrained(folder)
    with torch.no_grad():
        logits = torch_model(**{name: torch.tensor(array) for name, array in inputs.items()}).logits
    expected = ours.logits(*inputs.values())
    np.testing.assert_allclose(logits.numpy(), expected, atol=1e-4)
    np.testing.assert_array_equal(load_model(run).logits(*inputs.values()), expected)
    assert json.loads((folder / "generation_config.json").read_text()) == special_ids
    generated = torch_model.generate(torch.tensor(ids), max_new_tokens=6, do_sample=False)[0]
    behind = generated[ids.shape[1] :] if family == "gpt2" else generated[1:]
    decoded = ours.decode(ids, max_length=6)
    assert behind.tolist() == np.asarray(decoded.tokens)[0, : int(decoded.length[0])].tolist()


PROMPT = np.linspace(-1, 1, 5 * 8, dtype=np.float32).reshape(5, 8)


@pytest.fixture
def prompted(tmp_path):
    """A prompt-tuned MODEL_DIR whose base is gone."""
    prompt_run(tmp_path / "run", tmp_path / "gone", vectors=PROMPT)
    return tmp_path / "run"


def test_a_prompt_becomes_a_file_that_starts_another(command, prompted, tmp_path):
    file = tmp_path / "prompts" / "prompt.npy"
    for number, source in enumerate((prompted, prompted / "checkpoints" / "3")):
        more = ("--overwrite",) if number else ()
        status, printed, err = command("export-prompt", source, file, *more)
        assert (status, printed) == (0, f"{file}\n"), err
        stored = np.load(file, allow_pickle=False)
        assert stored.dtype == np.float32
        np.testing.assert_array_equal(stored, PROMPT)
    started = from_npy(str(file))(None, 5, np.zeros((50, 8)))
    np.testing.assert_array_equal(started, PROMPT)
    assert [path.name for path in file.parent.iterdir()] == ["prompt.npy"]


def test_prompts_that_cannot_be_exported_are_one_line(command, prompted, tmp_path):
    file = tmp_path / "prompt.npy"
    write_native(Checkpoint(TINY_CONFIG, tiny_params(TINY_CONFIG)), tmp_path / "plain")
    both = TINY_CONFIG.replace(encoder_prompt_length=2, decoder_prompt_length=2)
    prompts = {
        f"{name}_prompt": {"embedding": np.full((2, 8), value, np.float32)}
        for name, value in (("encoder", 1), ("decoder", 2))
    }
    write_native(Checkpoint(both, tiny_params(TINY_CONFIG) | prompts), tmp_path / "both")
    export = "export-prompt"
    assert_mistake(command(export, tmp_path / "plain", file), "plain: has no soft prompt")
    assert_mistake(command(export, tmp_path / "nothing", file), "no such checkpoint")
    assert_mistake(command(export, tmp_path / "both", file), "--prompt=decoder|encoder")
    assert_mistake(command(export, prompted, file, "--prompt=decoder"), "give --prompt=encoder, of")
    (tmp_path / "file").write_text("")
    assert_mistake(command(export, prompted, tmp_path / "file" / "p.npy"), "cannot be written")
    assert not file.exists()
    command.succeeds(export, tmp_path / "both", file, "--prompt=decoder")
    assert np.load(file).tolist() == [[2.0] * 8] * 2
    assert_mistake(command(export, tmp_path / "both", file, "--prompt=encoder"), "--overwrite")
    assert np.load(file)[0, 0] == 2
    export = "export-checkpoint"
    for target in (tmp_path / "hf", file):
        assert_mistake(command(export, tmp_path / "both", target), "soft prompt", "export-prompt")


def test_a_prompt_tuned_run_names_the_commands_that_export_its_parts(command, tmp_path):
    base = tmp_path / "the base"
    config = TINY_CONFIG.replace(relative_attention_max_distance=128)
    params = tiny_params(config)
    write_native(Checkpoint(config, params), base)
    prompted = config.replace(encoder_prompt_length=5)
    run, target = prompt_run(tmp_path / "run", base, params, config=prompted), tmp_path / "hf"
    status, _, err = command("export-checkpoint", run, target, "--dtype=bfloat16")
    assert status == 2
    first, second = err.strip().partition("for the prompt: ")[2].split(" && ")
    assert first == f"faith-jax export-checkpoint '{base}' {target} --dtype=bfloat16"
    assert second == f"faith-jax export-prompt {run} {target}_encoder_prompt --base={target}"
    for line in (first, second):
        command.succeeds(*shlex.split(line)[1:])
    assert (tmp_path / "hf_encoder_prompt" / "adapter_config.json").is_file()
    # PEFT has no decoder prompts in encoder-decoder models.
    both = config.replace(encoder_prompt_length=5, decoder_prompt_length=2)
    run = prompt_run(tmp_path / "both", base, params, config=both)
    _, _, err = command("export-checkpoint", run, tmp_path / "other")
    copy = tmp_path / "other"
    assert err.strip().split(" && ")[1:] == [
        f"faith-jax export-prompt {run} {copy}_encoder_prompt --base={copy} --prompt=encoder",
        f"faith-jax export-prompt {run} {copy}_decoder_prompt.npy --prompt=decoder",
    ]


def test_help_names_prompts(capsys):
    with pytest.raises(SystemExit):
        cli.main(["export-checkpoint", "--help"])
    printed = capsys.readouterr().out
    for part in ("MODEL_DIR/checkpoints/<step>", ".npy", "export-prompt"):
        assert part in printed
