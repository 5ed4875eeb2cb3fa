#!/usr/bin/env bash
# The main job on the embedded sample: trains the mini model, prompt-tunes it, writes responses.
#
# usage: tools/quickstart.sh [OUTPUT]     (default: runs/quickstart in the repository)
# Run again, it goes on from what OUTPUT holds.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
prepare_environment ""
output="${1:-$repository/runs/quickstart}"
mkdir -p "$output"
output="$(cd "$output" && pwd)"
t5x="$(dirname "$PYTHON")/t5x"

echo "1/3  Training a mini model from scratch on the sample, as a stand-in for a base model"
"$t5x" train --gin_file=quickstart_base.gin --gin.MODEL_DIR="$output/base"
echo "2/3  Prompt-tuning it: 5 soft tokens learn, the model is frozen"
"$t5x" train --gin_file=quickstart.gin --gin.MODEL_DIR="$output/prompt" \
  --gin.INITIAL_CHECKPOINT_PATH="$output/base"
echo "3/3  Responding to the topics kept for testing"
rm -rf "$output/responses"
"$t5x" infer --gin_file=runs/infer.gin --gin.CHECKPOINT_PATH="$output/prompt" \
  --gin.MIXTURE_OR_TASK_NAME=npov_generate_sample --gin.DECODE_LENGTH=224 \
  --gin.INFER_OUTPUT_DIR="$output/responses"
"$PYTHON" "$repository/tools/show_response.py" "$output"
