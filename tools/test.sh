#!/usr/bin/env bash
# Installs faith_jax with its test tools into .venv, then lints, checks types and runs the tests.
#
# usage: tools/test.sh [pytest arguments]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
prepare_environment "[dev]"
cd "$repository"
export TF_CPP_MIN_LOG_LEVEL=3
"$PYTHON" -m ruff check .
"$PYTHON" -m ruff format --check .
"$PYTHON" -m mypy
# A file's tests stay in one process: they share its compiled programs. "-n 0" is one process.
"$PYTHON" -m pytest -n auto --maxprocesses=4 --dist=loadfile "$@"
