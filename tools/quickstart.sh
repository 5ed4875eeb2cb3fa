#!/usr/bin/env bash
# The main job on the embedded sample: prompt-tunes the embedded model `mini`, writes responses,
# scores which of them say what they should not, and shows it.
#
# usage: tools/quickstart.sh [OUTPUT]     (default: runs/quickstart in the repository)
# Run again, it goes on from what OUTPUT holds.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
prepare_environment ""
output="${1:-$repository/runs/quickstart}"
mkdir -p "$output"
output="$(cd "$output" && pwd)"
bin="$(dirname "$PYTHON")"
# glibc keeps large blocks, which a training step allocates anew each time, in huge pages.
export GLIBC_TUNABLES="${GLIBC_TUNABLES:-glibc.malloc.hugetlb=1:\
glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=8589934592:\
glibc.malloc.top_pad=268435456}"

# Runs a command beside the next one, which uses the cores while this one imports and compiles, and
# keeps what it prints for `finish_beside`.
run_beside() {
  "$@" >"$output/beside.log" 2>&1 &
  beside=$!
  trap 'kill "$beside" 2>/dev/null || true' EXIT
}

finish_beside() {
  local status=0
  wait "$beside" || status=$?
  trap - EXIT
  cat "$output/beside.log" >&2
  rm "$output/beside.log"
  return "$status"
}

echo "1/5  Prompt-tuning mini: 5 soft tokens learn to respond, the model is frozen"
"$bin/t5x" train --gin_file=quickstart.gin --gin.MODEL_DIR="$output/prompt"

echo "2/5  Responding to the topics kept for testing, with PMI-Decode"
rm -rf "$output/responses"
"$bin/t5x" infer --gin_file=runs/infer.gin --gin_file=decoding/pmi_greedy.gin \
  --gin.CHECKPOINT_PATH="$output/prompt" --gin.MIXTURE_OR_TASK_NAME=npov_generate_sample \
  --gin.DECODE_LENGTH=224 --gin.NO_REPEAT_NGRAM=16 --gin.INFER_OUTPUT_DIR="$output/responses"

echo "3/5  Scoring these, and written responses with known errors, by ROUGE, salience and inference"
rm -rf "$output/scores" "$output/known_errors.jsonl"
scoring=(
  --scorers=npov_rouge1_hallucination,salience_hallucination,npov_nli_hallucination
  --scorer-option=salience_hallucination.model="$output/prompt"
  --scorer-option=npov_nli_hallucination.model=mini_nli
  --restart
)
run_beside "$bin/faith-jax" score "${scoring[@]}" --input="$output/responses/predictions.jsonl" \
  --corpus=generated --format=tfds --output="$output/scores"
"$bin/faith-jax" score "${scoring[@]}" --tfds=npov_errors/sample --split="test[:48]" \
  --label-column=has_hallucination --labels-are-errors --corpus=known_errors \
  --output="$output/known_errors.jsonl"
finish_beside

echo "4/5  One page with tables, curves, examples and salience maps"
run_beside "$bin/faith-jax" report "$output/known_errors.jsonl" "$output/scores" \
  --title="Quickstart: hallucinations in NPOV responses" \
  --salience-model="$output/prompt" --salience-rows=3 --output="$output/report.html"

echo "5/5  Where the words of a response come from"
"$bin/faith-jax" explain --model="$output/prompt" --knowledge=sample --arguments=1 \
  --query="Should voting be compulsory?" --png="$output/salience.png"
finish_beside
"$PYTHON" "$repository/tools/show_response.py" "$output"
