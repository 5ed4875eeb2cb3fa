#!/usr/bin/env bash
# Installs faith_jax with its test tools into .venv, then lints, checks types and runs the tests.
#
# usage: tools/test.sh [--python VERSION] [--newest] [--all | --long | --faults] [pytest arguments]
#
# --python selects another Python, such as 3.13, and --newest the newest versions of all packages
# instead of the constraints; each has its own environment, .venv-3.13 or .venv-3.13-newest.
# Without options, it skips long tests that also have quicker versions: see the markers in
# pyproject.toml. --all runs all tests, --long only those skipped by default, and --faults those
# that kill processes, break stores and let them race.
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
unset PYTHONDONTWRITEBYTECODE  # else each process that tests start would compile the package again
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
if [ "$lint $release" = "yes constrained" ]; then  # package types differ between versions
  "$PYTHON" -m mypy &  # at the same time as the tests
  types=$!
fi
# The tests of a file run in one process, to share compiled programs. tests/conftest.py orders the
# files. "-n 0" runs everything in one process.
status=0
"$PYTHON" -m pytest -n auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder \
  "${selection[@]}" "$@" || status=$?
if [ -n "$types" ] && ! wait "$types"; then
  echo "mypy found errors: see above the tests." >&2
  status=1
fi
exit "$status"
