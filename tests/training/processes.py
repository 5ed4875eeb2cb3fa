"""Starts processes that run `t5x` commands, alone or two that jax.distributed joins."""

import json
import os
import signal
import socket
import subprocess
import sys

from tests.paths import REPOSITORY


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start_module(name, *arguments, devices=8):
    """Starts a module as a process with `devices` CPU devices."""
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"
    return subprocess.Popen(
        [sys.executable, "-m", name, *map(str, arguments)],
        cwd=REPOSITORY,
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output_of(process):
    """Returns the output of a process, which must succeed."""
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err[-3000:]
    return out


def start(folder, name, commands):
    """Starts a process that runs the commands; its output goes to files."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps(commands))
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    with open(folder / f"{name}.out", "w") as out, open(folder / f"{name}.err", "w") as err:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.training.process_driver", str(path)],
            cwd=REPOSITORY,
            env=environment,
            stdout=out,
            stderr=err,
        )


def finish(folder, processes):
    """Waits for processes {name: …}; returns the exit status of each one's commands."""
    try:
        for process in processes.values():
            process.wait(timeout=600)
    finally:
        for process in processes.values():
            process.kill()
    statuses = statuses_of(folder, processes)
    for name, process in processes.items():
        assert process.returncode == statuses[name][-1], name
    return statuses


def end(folder, processes, killed):
    """Waits until one process is killed, kills the others, and returns their commands' statuses."""
    try:
        assert processes[killed].wait(timeout=600) == -signal.SIGKILL
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
    return statuses_of(folder, processes)


def statuses_of(folder, processes):
    """Returns the exit statuses of the commands that ended, by process."""
    statuses = {}
    for name in processes:
        lines = (folder / f"{name}.out").read_text().splitlines()
        rows = [json.loads(line) for line in lines if line.startswith('{"command"')]
        statuses[name] = [row["status"] for row in rows]
        assert rows, (folder / f"{name}.err").read_text()[-3000:]
    return statuses


def start_pair(folder, name, lists, second=None):
    """Starts both processes of a pair, which meet at the first command.

    `second` are the second process's command lists, where they differ.
    """
    address = f"127.0.0.1:{free_port()}"
    pair = {}
    for index in (0, 1):
        flags = [f"--coordinator_address={address}", "--process_count=2"]
        own_lists = (second or lists) if index else lists
        first = [*own_lists[0], *flags, f"--process_index={index}"]
        pair[f"{name}{index}"] = start(folder, f"{name}{index}", [first, *own_lists[1:]])
    return pair
