# Sourced by quickstart.sh and test.sh: makes the virtual environment and installs into it.
#
# usage: prepare_environment EXTRAS   (such as "" or "[dev]"); sets PYTHON to its interpreter.

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

find_python() {
  local candidate
  for candidate in "${FAITH_JAX_PYTHON:-}" python3.11 python3 python; do
    if [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 &&
      "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  echo "faith_jax: Python 3.11 is needed; set FAITH_JAX_PYTHON to its path." >&2
  return 1
}

prepare_environment() {
  local extras="$1" folder="$repository/.venv" wanted python
  wanted="$(cat "$repository/setup.cfg" "$repository/pyproject.toml" \
    "$repository/tools/constraints.txt" | cksum) extras $extras"
  PYTHON="$folder/bin/python"
  # An environment with more extras serves whoever needs fewer.
  if [ -x "$PYTHON" ] && grep -qsF "${wanted%]}" "$folder/installed"; then
    return
  fi
  python="$(find_python)" || return 1
  if [ -x "$PYTHON" ]; then
    echo "Adding ${extras:-packages} to the virtual environment $folder …"
  else
    echo "Making the virtual environment $folder (a few minutes, once) …"
    "$python" -m venv --clear "$folder"
  fi
  "$PYTHON" -m pip install --quiet --disable-pip-version-check \
    --constraint "$repository/tools/constraints.txt" --editable "$repository$extras"
  echo "$wanted" >"$folder/installed"
}
