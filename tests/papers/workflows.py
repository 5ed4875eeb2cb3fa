"""Runs a workflow's commands in this process, in the order in which Snakemake would run them."""

import contextlib
import json
import os
import pathlib
import shlex
import shutil
import sys

from faith_jax.cli import main
from faith_jax.papers import workflow

_SHOWN = "Shell command: "
_COMMAND = f"{shlex.quote(sys.executable)} -m faith_jax "


def shown_commands(capfd, *arguments):
    """Returns the steps' command lines that `faith-jax reproduce … --dry-run` shows."""
    capfd.readouterr()
    status = main(["reproduce", *map(str, arguments), "--dry-run"])
    out, err = capfd.readouterr()
    assert status == 0, err
    lines = [line.strip() for line in out.splitlines()]
    commands = [line.removeprefix(_SHOWN) for line in lines if line.startswith(_SHOWN)]
    return [line for line in commands if line != "None"]


def run_in_process(capfd, output, commands):
    """Runs commands that Snakemake would run in its folder."""
    with contextlib.chdir(output):
        for line in commands:
            for part in line.split(" && "):
                if part.startswith("printf"):
                    _, _, text, _, path = shlex.split(part)
                    pathlib.Path(path).write_text(text)
                elif part.startswith("cat "):
                    *inputs, _, path = shlex.split(part.removeprefix("cat "))
                    texts = [pathlib.Path(name).read_text("utf-8") for name in inputs]
                    pathlib.Path(path).write_text("".join(texts), "utf-8")
                elif part.startswith(_COMMAND):
                    arguments = shlex.split(part.removeprefix(_COMMAND))
                    for name in arguments:
                        if name.startswith(("--output=", "--gin.INFER_OUTPUT_DIR=")):
                            path = name.partition("=")[2].strip("'")
                            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
                    assert main(arguments) == 0, (part, capfd.readouterr().err)


def without_snakemake(monkeypatch):
    """Makes workflows run in this process: they train and score what does not exist yet."""

    def run(rules, config, options):
        steps = json.loads(json.dumps(config))
        with contextlib.chdir(options.output):
            for name, step in steps["train"].items():
                if not os.path.exists(folder := f"models/{name}"):
                    arguments = shlex.split(step["arguments"])
                    assert main(["train", *arguments, f"--gin.MODEL_DIR={folder}"]) == 0
            for name, step in steps["score"].items():
                if not os.path.exists(path := f"scores/{name}.jsonl"):
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    assert main(["score", *shlex.split(step["arguments"]), f"--output={path}"]) == 0

            for name, step in steps.get("evidence", {}).items():
                outputs = f"--output=evidence/{name}.jsonl", f"--json=evidence/{name}.json"
                os.makedirs(os.path.dirname(f"evidence/{name}"), exist_ok=True)
                assert main(["evidence", *shlex.split(step["arguments"]), *outputs]) == 0
            for name, step in steps.get("verify", {}).items():
                _verify(name, step, steps["evidence"], monkeypatch)

    monkeypatch.setattr(workflow, "run_workflow", run)


def _verify(name, step, searches, monkeypatch):
    """Scores claims with the evidence found by a step."""
    (folder,) = step["inputs"]
    search = folder.removeprefix("found/")
    raw, search_step = pathlib.Path("raw") / search, searches[search]
    raw.mkdir(parents=True, exist_ok=True)
    for source, file in zip(
        (search_step["claims"], f"evidence/{search}.jsonl"), search_step["files"], strict=True
    ):
        shutil.copy(source, raw / file)
    options = [f"--raw={raw}", f"--data-dir={folder}"]
    assert os.path.exists(folder) or main(["prepare", "dialfact/retrieved", *options]) == 0
    os.makedirs(os.path.dirname(path := f"verdicts/{name}.jsonl"), exist_ok=True)
    with monkeypatch.context() as patched:
        patched.setenv("FAITH_JAX_DATA_DIR", folder)
        assert main(["score", *shlex.split(step["arguments"]), f"--output={path}"]) == 0


def figures(output, name, *keys):
    """Returns the rows of a table's JSON by system and column, or by other keys."""
    content = json.loads((output / f"{name}.json").read_text("utf-8"))
    return {tuple(row[key] for key in keys or ("system", "column")): row for row in content["rows"]}


def rows_of(path):
    """Returns the rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
