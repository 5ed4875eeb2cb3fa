#!/usr/bin/env bash
# Runs the main job on the embedded sample, from installation to a report: makes .venv, installs and
# runs `faith-jax quickstart`. A second run continues after the last finished step.
#
# usage: tools/quickstart.sh [OUTPUT] [--steps=N]     (default: runs/quickstart in the repository)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
prepare_environment ""
# Makes glibc keep the large blocks that each training step allocates, in huge pages.
export GLIBC_TUNABLES="${GLIBC_TUNABLES:-glibc.malloc.hugetlb=1:\
glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=8589934592:\
glibc.malloc.top_pad=268435456}"
case "${1:-}" in
  "" | -*) set -- "$repository/runs/quickstart" "$@" ;;
esac
exec "$(dirname "$PYTHON")/faith-jax" quickstart "$@"
