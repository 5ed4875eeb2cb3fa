# Sourced by quickstart.sh, test.sh and docs.sh: makes the virtual environment and installs into it.
#
# usage: prepare_environment EXTRAS [FOLDER [newest]]   (EXTRAS: "", "[dev]" ...; FOLDER: .venv)
#
# Sets PYTHON to the interpreter. "newest" installs the newest packages that setup.cfg allows; to
# update them later, remove the folder.
#
# A Python version is accepted if it has constraints: tools/constraints-VERSION.txt.

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

accepted_versions() {
  local file
  for file in "$repository"/tools/constraints-*.txt; do
    file="${file##*/constraints-}"
    echo "${file%.txt}"
  done
}

# Prints the version of an interpreter, such as 3.11, if it is accepted.
accepted_version() {
  local version
  version="$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" &&
    [ -f "$repository/tools/constraints-$version.txt" ] && echo "$version"
}

# Prints the path of FAITH_JAX_PYTHON, or else of the lowest accepted version that is installed,
# because the tests are usually run with 3.11.
find_python() {
  local candidate versions
  versions="$(accepted_versions)"
  if [ -n "${FAITH_JAX_PYTHON:-}" ]; then
    set -- "$FAITH_JAX_PYTHON"
  else
    set -- $(sed 's/^/python/' <<<"$versions") python3 python
  fi
  for candidate in "$@"; do
    if accepted_version "$candidate" >/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  echo "faith_jax: expected Python ${versions//$'\n'/, }, found" \
    "${FAITH_JAX_PYTHON:-none of them}; set FAITH_JAX_PYTHON to the path of one." >&2
  return 1
}

prepare_environment() {
  local extras="$1" folder="$repository/${2:-.venv}" release="${3:-constrained}"
  local version wanted constraints python=""
  PYTHON="$folder/bin/python"
  # An environment keeps its Python unless FAITH_JAX_PYTHON asks for another version.
  if [ -n "${FAITH_JAX_PYTHON:-}" ] || ! accepted_version "$PYTHON" >/dev/null; then
    python="$(find_python)" || return 1
  fi
  version="$(accepted_version "${python:-$PYTHON}")"
  constraints="$repository/tools/constraints-$version.txt"
  wanted="$(cat "$repository/setup.cfg" "$repository/pyproject.toml" "$constraints" | cksum)"
  wanted+=" $release python $version extras $extras"
  # An environment with more extras also serves callers that need fewer.
  if [ -x "$PYTHON" ] && grep -qsF "${wanted%]}" "$folder/installed"; then
    return
  fi
  if [ "$(accepted_version "$PYTHON")" = "$version" ]; then
    echo "Adding ${extras:-packages} to the virtual environment $folder …"
  else
    echo "Making the virtual environment $folder with Python $version (a few minutes, once) …"
    "$python" -m venv --clear "$folder"
  fi
  if [ "$release" = newest ]; then constraints=/dev/null; fi
  # The pip that comes with Python 3.11 takes twice as long. --no-compile saves half of the rest:
  # Python compiles modules when they are first imported, and keeps them unless told not to.
  "$PYTHON" -m pip install --quiet --disable-pip-version-check "pip >= 25"
  "$PYTHON" -m pip install --quiet --disable-pip-version-check --constraint "$constraints" \
    $([ -n "${PYTHONDONTWRITEBYTECODE:-}" ] || echo --no-compile) --editable "$repository$extras"
  echo "$wanted" >"$folder/installed"
}
