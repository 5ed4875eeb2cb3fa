#!/usr/bin/env bash
# Installs faith_jax with its test tools into .venv, then lints, checks types and runs the tests.
#
# usage: tools/test.sh [--quick] [pytest arguments]
#
# --quick runs half of the tests, those of rooms that need no model: two minutes without types.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
prepare_environment "[dev]"
cd "$repository"
export TF_CPP_MIN_LOG_LEVEL=3
quick=()
if [ "${1:-}" = "--quick" ]; then
  shift
  quick=(tests/annotation tests/cli tests/core tests/datasets tests/export tests/input tests/report tests/statistics
    tests/tokenizers tests/tools tests/test_*.py)
fi
"$PYTHON" -m ruff check .
"$PYTHON" -m ruff format --check .
if [ ${#quick[@]} -eq 0 ]; then
  "$PYTHON" -m mypy &  # beside the tests
  types=$!
fi
# A file's tests stay in one process: they share its compiled programs. Files run in the order of
# tests/conftest.py. "-n 0" is one process.
status=0
"$PYTHON" -m pytest -n auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder \
  "${quick[@]}" "$@" || status=$?
if [ -n "${types:-}" ] && ! wait "$types"; then
  echo "mypy found errors: see above the tests." >&2
  status=1
fi
exit "$status"
