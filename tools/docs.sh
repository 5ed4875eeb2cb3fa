#!/usr/bin/env bash
# Builds the documentation as a site, with the Python interface from the docstrings.
#
# usage: tools/docs.sh [--serve]     (the site is in site/; --serve shows it while you edit)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
prepare_environment "[docs]"
export NO_MKDOCS_2_WARNING=1  # the theme announces its successor
if [ "${1:-}" = "--serve" ]; then
  exec "$PYTHON" -m mkdocs serve --config-file "$repository/tools/mkdocs.yml"
fi
"$PYTHON" -m mkdocs build --strict --quiet --config-file "$repository/tools/mkdocs.yml" "$@"
echo "$repository/site/index.html"
