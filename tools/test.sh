#!/usr/bin/env bash
# Installs faith_jax with its test tools into .venv, then lints, checks types and runs the tests.
#
# usage: tools/test.sh [--python VERSION] [--newest] [--all | --long | --faults] [pytest arguments]
#
# --python takes another Python, such as 3.13, and --newest the newest versions of all packages in
# place of the constraints: each in an environment of its own, .venv-3.13 or .venv-3.13-newest.
# It leaves out what takes long and has quicker tests beside it: the markers of pyproject.toml.
# --all leaves out nothing; --long runs only what the plain call leaves out, and --faults what kills
# processes, breaks stores and lets them race.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
environment=.venv release=constrained
while true; do
  case "${1:-}" in
    --python) export FAITH_JAX_PYTHON="python$2"; environment+="-$2"; shift 2 ;;
    --newest) release=newest; environment+="-newest"; shift ;;
    *) break ;;
  esac
done
unset PYTHONDONTWRITEBYTECODE  # tests start processes, each of which would compile the package again
prepare_environment "[dev]" "$environment" "$release"
cd "$repository"
export TF_CPP_MIN_LOG_LEVEL=3
long="slow or faults or papers"
selection=(-m "not ($long)") lint=yes
case "${1:-}" in
  --all) selection=(); shift ;;
  --long) selection=(-m "$long"); lint=no; shift ;;  # the plain call lints
  --faults) selection=(-m faults); shift ;;
esac
types=""
if [ "$lint" = yes ]; then
  "$PYTHON" -m ruff check .
  "$PYTHON" -m ruff format --check .
fi
if [ "$lint $release" = "yes constrained" ]; then  # types of the packages differ by version
  "$PYTHON" -m mypy &  # beside the tests
  types=$!
fi
# A file's tests stay in one process: they share its compiled programs. Files run in the order of
# tests/conftest.py. "-n 0" is one process.
status=0
"$PYTHON" -m pytest -n auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder \
  "${selection[@]}" "$@" || status=$?
if [ -n "$types" ] && ! wait "$types"; then
  echo "mypy found errors: see above the tests." >&2
  status=1
fi
exit "$status"
