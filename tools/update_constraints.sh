#!/usr/bin/env bash
# Makes the constraints of Python 3.12 and 3.13 from those of 3.11, with the same versions; fails if
# one of these is not available for a Python. It only resolves versions, so uv must be on the path,
# but not these Pythons.
#
# usage: tools/update_constraints.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for version in 3.12 3.13; do
  file="tools/constraints-$version.txt"
  # Leaves out PyTorch's GPU libraries: PyTorch's version determines theirs.
  packages="$(uv pip compile setup.cfg --extra dev --extra parity --python-version "$version" \
    --python-platform linux --constraint tools/constraints-3.11.txt \
    --quiet --no-header --no-annotate | grep -vE '^(nvidia|cuda|triton)\b')"
  {
    echo "# The set of constraints-3.11.txt for Python $version: written by tools/update_constraints.sh."
    echo "$packages"
  } >"$file"
done
