"""The faults that `mutation_check.py` plants, one at a time: each is caught by the tests it names.

An edit replaces a text that occurs exactly once in its file, and must be updated when that code
changes. Each one is a real fault of meaning: a wrong sign, an index off by one, a dropped mask, a
wrong base of a logarithm, a wrong axis, a swapped pair.
"""

from typing import NamedTuple


class Mutant(NamedTuple):
    """One edit.

    Attributes:
      id: a unique name, `<file>-<fault>`.
      area: one of `AREAS`.
      file: the file's path relative to the repository.
      old: a text that occurs exactly once in the file.
      new: the replacement.
      tests: arguments of pytest, separated by spaces: the fewest tests that must catch the fault.
    """

    id: str
    area: str
    file: str
    old: str
    new: str
    tests: str


def _of(area: str, folder: str, *edits: tuple[str, str, str, str, str]) -> tuple[Mutant, ...]:
    """Returns mutants of one area, from (id, path in the folder or full path, old, new, tests)."""
    return tuple(
        Mutant(i, area, f if f.startswith("faith_jax/") else f"{folder}/{f}", old, new, t)
        for i, f, old, new, t in edits
    )


_BEAM = "tests/decoding/test_beam.py"
_NUCLEUS = "tests/decoding/test_nucleus.py"
_PMI = "tests/decoding/test_pmi.py"
_SEARCH = "tests/decoding/test_search.py"

DECODING = _of(
    "decoding",
    "faith_jax/decoding",
    (
        "beam-length-penalty",
        "beam.py",
        "ranked = new.score / _length_penalty(state.position + 1, config)",
        "ranked = new.score / _length_penalty(state.position, config)",
        f"{_BEAM}::test_a_beam_as_wide_as_all_sequences_finds_what_enumeration_finds",
    ),
    (
        "beam-candidates",
        "beam.py",
        "count = min(max(2, 1 + len(config.end_ids)) * beams, beams * vocab)",
        "count = beams",
        f"{_BEAM}::test_beam_search_equals_the_plain_python_one",
    ),
    (
        "beam-log-prob",
        "beam.py",
        "log_prob=candidates.log_prob + jnp.take_along_axis(log_probs, index, axis=1),",
        "log_prob=jnp.take_along_axis(log_probs, index, axis=1),",
        f"{_BEAM}::test_a_beam_as_wide_as_all_sequences_finds_what_enumeration_finds",
    ),
    (
        "beam-cache-rows",
        "beam.py",
        "rows = parents + beams * jnp.arange(batch)[:, None]",
        "rows = parents + jnp.arange(batch)[:, None]",
        f"{_BEAM}::test_a_beam_as_wide_as_all_sequences_finds_what_enumeration_finds",
    ),
    (
        "beam-worst",
        "beam.py",
        "worst = jnp.min(finished.score, axis=1)",
        "worst = jnp.max(finished.score, axis=1)",
        f"{_BEAM}::test_a_beam_as_wide_as_all_sequences_finds_what_enumeration_finds",
    ),
    (
        "nucleus-last-token",
        "nucleus.py",
        "jnp.argmax(enough, axis=-1, keepdims=True), real - 1)",
        "jnp.argmax(enough, axis=-1, keepdims=True) - 1, real - 1)",
        f"{_NUCLEUS}::test_nucleus_is_the_smallest_set_that_sums_to_p",
    ),
    (
        "nucleus-mass-in-front",
        "nucleus.py",
        "before = _sum_probabilities(logits >= bounds.high, probabilities)",
        "before = jnp.zeros(bounds.high.shape)",
        f"{_NUCLEUS}::test_nucleus_of_a_large_vocabulary",
    ),
    (
        "nucleus-top-k-ties",
        "nucleus.py",
        "keep = (logits > last) | ((logits == last) & (tokens <= last_id))",
        "keep = logits >= last",
        f"{_NUCLEUS}::test_top_k_keeps_exactly_k_even_with_ties",
    ),
    (
        "pmi-sign",
        "pmi.py",
        "return allowed - config.alpha",
        "return allowed + config.alpha",
        f"{_PMI}::test_scores_are_the_papers_formula_over_the_documents_nucleus",
    ),
    (
        "pmi-nucleus-of-the-other-branch",
        "pmi.py",
        "    allowed = keep_most_probable(with_document, 0, config.p)\n",
        "    near = keep_most_probable(without_document, 0, config.p)\n"
        "    allowed = jnp.where(near > -jnp.inf, with_document, -jnp.inf)\n",
        f"{_PMI}::test_scores_are_the_papers_formula_over_the_documents_nucleus",
    ),
    (
        "pmi-branches-swapped",
        "pmi.py",
        "with_document, without_document = (branch(",
        "without_document, with_document = (branch(",
        f"{_PMI}::test_greedy_search_equals_brute_force",
    ),
    (
        "pmi-reorder-second-branch",
        "pmi.py",
        "rows = (2 * example + jnp.arange(2)[None, :, None]) * copies + copy",
        "rows = (2 * example + jnp.zeros((1, 2, 1), int)) * copies + copy",
        f"{_PMI}::test_beam_search_equals_brute_force",
    ),
    (
        "search-temperature",
        "search.py",
        "keep_most_probable(scores / config.temperature,",
        "keep_most_probable(scores * config.temperature,",
        f"{_SEARCH}::test_temperature_sharpens_as_division_of_logits",
    ),
    (
        "search-log-prob-of-scores",
        "search.py",
        "log_prob = jnp.take_along_axis(scored.log_probs, tokens[:, None], axis=-1)[:, 0]",
        "log_prob = jnp.take_along_axis(scores, tokens[:, None], axis=-1)[:, 0]",
        f"{_PMI}::test_greedy_search_equals_brute_force",
    ),
    (
        "search-length",
        "search.py",
        "length=rows.length + new,",
        "length=rows.length + new - jnp.any(is_kept & is_end(tokens, config), axis=1),",
        f"{_SEARCH}::test_greedy_follows_the_largest_logit_and_pads_behind_the_end",
    ),
    (
        "steps-end-tokens",
        "steps.py",
        "matches |= tokens == end",
        "matches = tokens == end",
        f"{_SEARCH}::test_several_end_tokens_end_a_row",
    ),
)

_OBJECTIVES = "tests/training/test_objectives.py"
_CONTRASTIVE = "tests/training/test_infonce.py"
_TRUNCATION = "tests/training/test_loss_truncation.py"
_TRAINER = "tests/training/test_trainer.py"

OBJECTIVES = _of(
    "objectives",
    "faith_jax/training",
    (
        "cross-entropy-padding",
        "objectives.py",
        'batch.get("decoder_loss_weights", targets != module.config.pad_id)',
        'batch.get("decoder_loss_weights", jnp.ones_like(targets))',
        f"{_OBJECTIVES}::test_equals_the_sum_over_the_vocabulary",
    ),
    (
        "cross-entropy-smoothing-share",
        "objectives.py",
        "off_target = label_smoothing / (vocab_size - 1)",
        "off_target = label_smoothing / vocab_size",
        f"{_OBJECTIVES}::test_equals_the_sum_over_the_vocabulary",
    ),
    (
        "cross-entropy-entropy-sign",
        "objectives.py",
        "losses = statistics.log_z - expected_logit - entropy",
        "losses = statistics.log_z - expected_logit + entropy",
        f"{_OBJECTIVES}::test_equals_the_sum_over_the_vocabulary",
    ),
    (
        "cross-entropy-z-loss",
        "objectives.py",
        "losses = z_loss * jnp.square(statistics.log_z)",
        "losses = z_loss * statistics.log_z",
        f"{_OBJECTIVES}::test_equals_the_sum_over_the_vocabulary",
    ),
    (
        "infonce-target-as-negative",
        "infonce.py",
        "& ~is_target & is_positive[:, None]",
        "& is_positive[:, None]",
        f"{_CONTRASTIVE}::test_equals_each_text_read_alone",
    ),
    (
        "infonce-scale",
        "infonce.py",
        "scale = 1.0 / (math.sqrt(context.shape[-1]) * self.temperature)",
        "scale = 1.0 / (context.shape[-1] * self.temperature)",
        f"{_CONTRASTIVE}::test_equals_each_text_read_alone",
    ),
    (
        "infonce-own-texts-in-batch",
        "infonce.py",
        "[None] & ~is_own_text & ~is_own_row",
        "[None] & ~is_own_text",
        f"{_CONTRASTIVE}::test_other_rows_texts_in_the_batch",
    ),
    (
        "infonce-positive-place",
        "infonce.py",
        "losses = jax.nn.logsumexp(scores, axis=1) - scores[:, 0]",
        "losses = jax.nn.logsumexp(scores, axis=1) - scores[:, -1]",
        f"{_CONTRASTIVE}::test_contrast_in_closed_form",
    ),
    (
        "infonce-end-token",
        "infonce.py",
        "return fed, mask, jnp.sum(tokens != pad, axis=-1)",
        "return fed, mask, jnp.sum(tokens != pad, axis=-1) - 1",
        f"{_CONTRASTIVE}::test_equals_each_text_read_alone",
    ),
    (
        "infonce-mean-over-padding",
        "infonce.py",
        'mask = (batch["encoder_input_tokens"] != module.config.pad_id).astype(jnp.float32)',
        'mask = jnp.ones(batch["encoder_input_tokens"].shape, jnp.float32)',
        f"{_CONTRASTIVE}::test_equals_each_text_read_alone",
    ),
    (
        "truncation-quantile",
        "loss_truncation.py",
        "quantile = state.quantile(1.0 - self.drop_fraction)",
        "quantile = state.quantile(self.drop_fraction)",
        f"{_TRUNCATION}::test_drops_what_is_above_the_quantile_of_what_was_seen",
    ),
    (
        "truncation-drops-the-lowest",
        "loss_truncation.py",
        '(rows["loss"] > batch["highest_loss"])',
        '(rows["loss"] < batch["highest_loss"])',
        f"{_TRUNCATION}::test_drops_what_is_above_the_quantile_of_what_was_seen",
    ),
    (
        "truncation-warm-up",
        "loss_truncation.py",
        "jnp.where(state.steps < self.warmup_steps, jnp.inf, quantile)",
        "jnp.where(state.steps <= self.warmup_steps, jnp.inf, quantile)",
        f"{_TRUNCATION}::test_drops_what_is_above_the_quantile_of_what_was_seen",
    ),
    (
        "truncation-window-place",
        "loss_truncation.py",
        "place = (self.examples + total - 1 - num_later) % window",
        "place = (self.examples + total - num_later) % window",
        f"{_TRUNCATION}::test_the_quantile_is_that_of_the_last_examples",
    ),
    (
        "repetition-itself",
        "repetition.py",
        "is_repeat &= ~jnp.eye(tokens.shape[1], dtype=bool)",
        "is_repeat &= jnp.ones((tokens.shape[1],) * 2, bool)",
        "tests/training/test_repetition.py::test_repeated_n_grams_are_those_that_are_counted",
    ),
    (
        "repetition-sign",
        "repetition.py",
        "jnp.where(repeated, -scores, scores)",
        "jnp.where(repeated, scores, -scores)",
        "tests/training/test_repetition.py"
        "::test_adds_a_mean_over_input_tokens_to_the_mean_over_targets",
    ),
    (
        "classification-smoothing",
        "label_cross_entropy.py",
        "smoothing, num_others = label_smoothing, log_probs.shape[1] - 1",
        "smoothing, num_others = label_smoothing, log_probs.shape[1]",
        "tests/training/test_label_cross_entropy.py::test_equals_the_sum_over_classes",
    ),
    (
        "trainer-mean-over-tokens",
        "trainer.py",
        "gradient = jax.tree.map(lambda g: g / divisor, gradient)",
        "gradient = jax.tree.map(lambda g: g, gradient)",
        f"{_TRAINER}::test_two_steps_by_hand",
    ),
    (
        "trainer-micro-batch-dropout",
        "trainer.py",
        "piece_key = jax.random.fold_in(key, index) if dropout else None",
        "piece_key = key if dropout else None",
        f"{_TRAINER}::test_dropout_differs_between_steps_and_micro_batches",
    ),
    (
        "trainer-step-dropout",
        "trainer.py",
        "key = jax.random.fold_in(self._dropout_key, state.step)",
        "key = jax.random.fold_in(self._dropout_key, 0)",
        f"{_TRAINER}::test_dropout_differs_between_steps_and_micro_batches",
    ),
)

_PRODUCTS = "tests/models/attention/test_dot_product.py"
_LAYERS = "tests/models/test_layers.py"
_POSITIONS = "tests/models/test_positions.py"

MODELS = _of(
    "models",
    "faith_jax/models",
    (
        "masks-segments",
        "attention/masks.py",
        "same_segment = queries.segments[:, :, None] == segments[:, None, :]",
        "same_segment = queries.segments[:, :, None] >= segments[:, None, :]",
        "tests/models/test_transformer.py::test_attention_mask_by_hand",
    ),
    (
        "masks-positions",
        "attention/masks.py",
        "positions = jnp.cumsum(valid, axis=1, dtype=jnp.int32) - 1",
        "positions = jnp.cumsum(valid, axis=1, dtype=jnp.int32)",
        f"{_POSITIONS}::test_positions_are_counted_over_tokens_and_within_segments",
    ),
    (
        "masks-middle",
        "attention/masks.py",
        "jnp.abs(offset) <= self.window // 2",
        "jnp.abs(offset) <= self.window",
        "tests/models/test_families.py::test_a_window_of_an_encoder_is_around_each_query",
    ),
    (
        "attention-skip-behind",
        "attention/dot_product.py",
        "jnp.maximum(before, after) <= window // 2",
        "jnp.maximum(before, after) < window // 2",
        "tests/models/test_families.py::test_a_window_of_an_encoder_is_around_each_query",
    ),
    (
        "window-two-sides",
        "config.py",
        "return window if self.is_encoder_only or not window else 2 * window - 1",
        "return window if self.is_encoder_only or not window else 2 * window + 1",
        "tests/models/test_families.py::test_a_window_of_an_encoder_is_around_each_query",
    ),
    (
        "kernel-without-dropout",
        "config.py",
        "drops_weights = not deterministic and self.drops_single_weights",
        "drops_weights = False",
        "tests/models/test_config.py::test_the_kernel_of_a_device_is_taken_where_it_fits",
    ),
    (
        "tied-embedding-of-decoder",
        "transformer.py",
        "embedding = self.decoder_embedder.embedding",
        "embedding = self.token_embedder.embedding",
        "tests/checkpoints/hugging_face/test_families.py::test_encoder_decoders",
    ),
    (
        "salience-embedding-of-decoder",
        "faith_jax/scoring/salience/maps.py",
        "embed(decoder_tokens, lambda module, tokens: module.decoder_embedder(tokens)),",
        "embed(decoder_tokens, lambda module, tokens: module.token_embedder(tokens)),",
        "tests/scoring/salience/test_maps.py::test_equals_finite_differences",
    ),
    (
        "rotation-of-windows",
        "transformer_layers.py",
        "lambda own, other: jnp.where(has_window, own, other)",
        "lambda own, other: jnp.where(has_window, other, own)",
        "tests/checkpoints/hugging_face/test_families.py::test_encoders",
    ),
    (
        "head-mean",
        "transformer.py",
        "return _mean_states(hidden, jnp.where(inside, segment_ids, 0), numbers)",
        "return _mean_states(hidden, segment_ids, numbers)",
        "tests/models/test_families.py::test_the_mean_of_a_text_is_of_its_own_tokens",
    ),
    (
        "attention-mask",
        "attention/dot_product.py",
        "    if mask is not None:\n        logits = jnp.where(mask, logits, MASKED_LOGIT)",
        "    if mask is not None:\n        logits = jnp.where(mask, logits, 0.0)",
        f"{_PRODUCTS}::test_bias_adds_and_mask_removes",
    ),
    (
        "attention-softcap",
        "attention/dot_product.py",
        "return softcap * jnp.tanh(logits / softcap)",
        "return jnp.tanh(logits / softcap)",
        f"{_PRODUCTS}::test_scale_and_softcap_come_before_bias_and_mask",
    ),
    (
        "dropout-scale",
        "dropout.py",
        "jnp.where(keep, x / (1.0 - rate), jnp.zeros_like(x))",
        "jnp.where(keep, x, jnp.zeros_like(x))",
        "tests/models/attention/test_dot_product.py::test_dropout_drops_keys_and_scales_the_rest",
    ),
    (
        "dropout-places-share-bits",
        "dropout.py",
        "mask = _is_kept(part.reshape(rows, *place.shape), place.rate)",
        "mask = _is_kept(bits[:, : part.shape[1]].reshape(rows, *place.shape), place.rate)",
        "tests/models/test_dropout.py::test_masks_have_their_places_shapes_and_rates",
    ),
    (
        "dropout-of-shared-keys",
        "attention/dot_product.py",
        "key, value = (_repeat(x, query.shape) for x in (key, value))",
        "key, value = (jnp.tile(x, (3, 2, 1, 1)) for x in (key, value))",
        f"{_PRODUCTS}::test_weights_of_shared_keys_are_dropped_for_each_row_and_head",
    ),
    (
        "dropout-of-copies",
        "attention/multi_head.py",
        "dropout_draw[:: shape[0] // batch]",
        "dropout_draw[:batch]",
        "tests/models/attention/test_multi_head.py"
        "::test_copies_of_an_example_attend_with_one_dropout_mask",
    ),
    (
        "attention-cached-value",
        "attention/multi_head.py",
        "_write_at(cached_value.value, value, position)",
        "_write_at(cached_value.value, key, position)",
        "tests/models/test_decoding_caches.py",
    ),
    (
        "layer-norm-mean",
        "layers.py",
        "x -= jnp.mean(x, axis=-1, keepdims=True)",
        "x -= jnp.mean(x, axis=0, keepdims=True)",
        f"{_LAYERS}::test_layer_norm_by_hand",
    ),
    (
        "rms-norm-offset",
        "layers.py",
        "(x * inverse * (expand_rank(scale, x) + self.offset))",
        "(x * inverse * (expand_rank(scale, x) - self.offset))",
        f"{_LAYERS}::test_norm_divides_by_the_root_mean_square_and_subtracts_no_mean",
    ),
    (
        "feed-forward-gate",
        "layers.py",
        "return drop(math.prod(parts[1:], start=parts[0]), rate, keep)",
        "return drop(sum(parts[1:], start=parts[0]), rate, keep)",
        f"{_LAYERS}::test_feed_forward_by_hand",
    ),
    (
        "buckets-direction",
        "positions.py",
        "distance = -relative_position",
        "distance = relative_position",
        f"{_LAYERS}::test_boundary_values_of_t5s_buckets",
    ),
    (
        "buckets-later-keys",
        "positions.py",
        "bucket = jnp.where(distance < 0, num_buckets, 0)",
        "bucket = jnp.where(distance > 0, num_buckets, 0)",
        f"{_LAYERS}::test_boundary_values_of_t5s_buckets",
    ),
    (
        "rotary-sign",
        "positions.py",
        "second * cosine + first * sine",
        "second * cosine - first * sine",
        f"{_POSITIONS}::test_rotation_by_hand",
    ),
    (
        "alibi-sign",
        "positions.py",
        "return -alibi_slopes(num_heads)",
        "return alibi_slopes(num_heads)",
        f"{_POSITIONS}::test_alibi_falls_with_the_distance_from_each_rows_own_positions",
    ),
    (
        "deberta-buckets",
        "positions.py",
        "coarse = np.ceil(ratio * (middle - 1)) + middle",
        "coarse = np.floor(ratio * (middle - 1)) + middle",
        f"{_POSITIONS}::test_debertas_buckets_one_by_one",
    ),
    (
        "disentangled-distance-sign",
        "attention/disentangled.py",
        "distance, axis=1)[:, ::-1]",
        "distance, axis=1)",
        "tests/models/attention/test_disentangled.py::test_attention_equals_a_double_loop",
    ),
    (
        "disentangled-skew",
        "positions.py",
        "flat = flat[..., queries - 1 : queries - 1 + queries * width]",
        "flat = flat[..., queries : queries + queries * width]",
        "tests/models/test_positions.py::test_skew_is_a_gather_by_distance",
    ),
    (
        "likelihood-mean-logit",
        "chunked_logits.py",
        "mean_logit=jnp.mean(logits, axis=-1),",
        "mean_logit=jnp.max(logits, axis=-1),",
        "tests/models/test_chunked_logits.py::test_two_tokens_by_hand",
    ),
    (
        "prompts-special-tokens",
        "soft_prompt.py",
        "tokens = first_token + jax.random.choice(",
        "tokens = jax.random.choice(",
        "tests/models/test_soft_prompt.py",
    ),
)

_LIKELIHOOD = "tests/inference/test_row_likelihoods.py"
_NLI = "tests/scoring/test_nli.py"
_SALIENCE_MAPS = "tests/scoring/salience/test_maps.py"

SCORERS = _of(
    "scorers",
    "faith_jax",
    (
        "nli-contradiction-sign",
        "scoring/nli.py",
        "class_weights[numbers[NliLabel.CONTRADICTION]] = -1.0",
        "class_weights[numbers[NliLabel.CONTRADICTION]] = 1.0",
        f"{_NLI}::test_nli_scores_are_transformers_probabilities",
    ),
    (
        "nli-pair-swapped",
        "scoring/nli.py",
        "encode(self._premise_of(example), example.response, name)",
        "encode(example.response, self._premise_of(example), name)",
        f"{_NLI}::test_nli_scores_are_transformers_probabilities",
    ),
    (
        "nli-turns-of-the-other-speaker",
        "scoring/nli.py",
        '" ".join(example.history[::-1][1::2][::-1])',
        '" ".join(example.history[::-1][::2][::-1])',
        f"{_NLI}::test_a_premise_of_the_dialogue",
    ),
    (
        "nli-turns-backwards",
        "scoring/nli.py",
        '" ".join(example.history[::-1][1::2][::-1])',
        '" ".join(example.history[::-1][1::2])',
        f"{_NLI}::test_a_premise_of_the_dialogue",
    ),
    (
        "summac-short-sentences",
        "scoring/sentences/summac.py",
        "if len(piece.text) > self._longest_dropped]",
        "if len(piece.text) >= self._longest_dropped]",
        "tests/scoring/sentences/test_summac.py::test_sentences_of_ten_characters_are_left_out",
    ),
    (
        "sentence-before-claim",
        "inference/texts/text_pairs.py",
        "self._side_by_side((response, Kind.RESPONSE), (knowledge, Kind.KNOWLEDGE), name)",
        "self._side_by_side((knowledge, Kind.KNOWLEDGE), (response, Kind.RESPONSE), name)",
        "tests/inference/texts/test_text_pairs.py",
    ),
    (
        "claim-cut-as-knowledge",
        "inference/texts/text_pairs.py",
        "self._side_by_side((response, Kind.RESPONSE), (knowledge, Kind.KNOWLEDGE), name)",
        "self._side_by_side((response, Kind.KNOWLEDGE), (knowledge, Kind.RESPONSE), name)",
        "tests/inference/texts/test_text_pairs.py",
    ),
    (
        "run-means-newest-step",
        "checkpoints/embedded.py",
        "best = min(steps, key=lambda step: (_read_loss(step), -int(step.name)))",
        "best = _find_newest_step(steps)",
        "tests/checkpoints/test_native.py::test_a_run_means_its_best_step",
    ),
    (
        "critic-class",
        "scoring/nli.py",
        "if name in faithful or plain[1 - number] in unfaithful:",
        "if name in unfaithful or plain[1 - number] in faithful:",
        f"{_NLI}::test_the_faithful_class_has_a_name_or_a_number",
    ),
    (
        "summac-largest",
        "scoring/sentences/summac.py",
        "scores = by_pair[:, :, self._entailment].max(axis=1)",
        "scores = by_pair[:, :, self._entailment].mean(axis=1)",
        "tests/scoring/sentences/test_summac.py::test_the_largest_entailment_of_each_sentence",
    ),
    (
        "summac-axes",
        "scoring/sentences/summac.py",
        "part.reshape(len(row.hypotheses), -1, part.shape[1])",
        "part.reshape(-1, len(row.hypotheses), part.shape[1]).swapaxes(0, 1)",
        "tests/scoring/sentences/test_summac.py::test_the_largest_entailment_of_each_sentence",
    ),
    (
        "bertscore-idf",
        "scoring/bertscore.py",
        "math.log((len(texts) + 1) / (count + 1))",
        "math.log((len(texts) + 1) / count)",
        "tests/scoring/test_bertscore.py::test_frequencies_by_hand",
    ),
    (
        "bertscore-special-tokens",
        "scoring/bertscore.py",
        "weights[:first] = 0",
        "weights[:first] = 1",
        "tests/scoring/test_bertscore.py::test_equals_bert_score",
    ),
    (
        "bertscore-parts",
        "scoring/bertscore.py",
        "values[i] = (precision, recall, f1)[number]",
        "values[i] = (recall, precision, f1)[number]",
        "tests/scoring/test_bertscore.py::test_equals_bert_score",
    ),
    (
        "token-words",
        "scoring/judges/scorer.py",
        "score=min(of_word)",
        "score=max(of_word)",
        "tests/scoring/judges/test_tokens.py::test_words_have_the_smallest_score_of_their_tokens",
    ),
    (
        "token-places",
        "scoring/judges/rows.py",
        "begin = len(front) + (len(between) if response.start >= encoded.split else 0)",
        "begin = len(front)",
        "tests/scoring/judges/test_tokens.py::test_the_score_is_that_of_the_least_supported_token",
    ),
    (
        "npov-label",
        "scoring/npov_error_classifier.py",
        "for value in probabilities[:, 0]]",
        "for value in probabilities[:, 1]]",
        "tests/scoring/test_npov_error_classifier.py::test_the_softmax_of_two_labels",
    ),
    (
        "dropout-passes",
        "inference/class_probabilities.py",
        "jax.lax.map(one_pass, jnp.arange(passes))",
        "jax.lax.map(one_pass, jnp.zeros(passes, jnp.int32))",
        f"{_NLI}::test_monte_carlo_dropout_is_the_mean_over_exactly_k_masks",
    ),
    (
        "likelihoods-read-prefix",
        "inference/row_likelihoods.py",
        "sources[row] = np.arange(span.start + len(start) - 1, span.stop)",
        "sources[row] = np.arange(span.start + len(first_start) - 1, span.stop)",
        f"{_LIKELIHOOD}::test_every_row_as_if_it_were_alone",
    ),
    (
        "bart-targets-without-prefix",
        "inference/texts/row_tokens.py",
        "return () if self.config.is_decoder_only or is_start else self.prefix",
        "return ()",
        "tests/inference/test_class_probabilities.py",
    ),
    (
        "likelihood-source",
        "inference/row_likelihoods.py",
        "last = first_place + span.stop - 1",
        "last = first_place + span.stop",
        f"{_LIKELIHOOD}::test_every_row_as_if_it_were_alone",
    ),
    (
        "likelihood-labels-mean",
        "inference/class_probabilities.py",
        "            weights /= lengths",
        "            weights /= 1",
        "tests/inference/test_class_probabilities.py::"
        "test_label_texts_are_compared_by_their_sum_or_mean",
    ),
    (
        "likelihood-log-base",
        "inference/row_likelihoods.py",
        "piece_log_probs = target_logits - jax.nn.logsumexp(logits, axis=1)",
        "piece_log_probs = (target_logits - jax.nn.logsumexp(logits, axis=1)) / jnp.log(2.0)",
        f"{_LIKELIHOOD}::test_what_does_not_count_is_not_computed",
    ),
    (
        "likelihood-count",
        "inference/row_likelihoods.py",
        "pieces = (count + piece - 1) // piece",
        "pieces = count // piece",
        f"{_LIKELIHOOD}::test_every_row_as_if_it_were_alone",
    ),
    (
        "salience-input",
        "scoring/salience/maps.py",
        "return jnp.sum(gradient * embedding.astype(jnp.float32), axis=-1)",
        "return jnp.sum(gradient, axis=-1)",
        f"{_SALIENCE_MAPS}::test_equals_finite_differences",
    ),
    (
        "salience-column",
        "scoring/salience/maps.py",
        "jax.nn.one_hot(first + jnp.arange(rows) % together, count, dtype=values.dtype)",
        "jax.nn.one_hot(first + 1 + jnp.arange(rows) % together, count, dtype=values.dtype)",
        f"{_SALIENCE_MAPS}::test_equals_finite_differences",
    ),
    (
        "lexical-pair-swapped",
        "scoring/words/lexical.py",
        "Score(compare(e.response, join_texts(e.grounding)))",
        "Score(compare(join_texts(e.grounding), e.response))",
        "tests/scoring/words/test_lexical.py::test_tokens_by_hand",
    ),
)

_SIGNIFICANCE = "tests/statistics/test_significance.py"
_ROC = "tests/statistics/test_auc.py"
_SALIENCE_SCORES = "tests/statistics/texts/test_salience_scores.py"

STATISTICS = _of(
    "statistics",
    "faith_jax/statistics",
    ("roc-ties", "faith_jax/statistics/auc.py", "(wins + 0.5 * ties)", "(wins + ties)", _ROC),
    (
        "roc-below",
        "faith_jax/statistics/auc.py",
        'below = np.searchsorted(ordered, positive_scores, side="left")',
        'below = np.searchsorted(ordered, positive_scores, side="right")',
        _ROC,
    ),
    (
        "detection-right-zeros",
        "faith_jax/statistics/detection.py",
        "truth == 0, (truth == 0) & ~called]",
        "truth == 0, (truth == 0) & called]",
        "tests/statistics/test_detection.py",
    ),
    (
        "detection-unit-left-out",
        "faith_jax/statistics/intervals.py",
        "np.concatenate([total[None], total - sums])",
        "np.concatenate([total[None], sums])",
        "tests/statistics/test_detection.py",
    ),
    (
        "verifiable-direction",
        "faith_jax/papers/dialfact/verifiable.py",
        "threshold = sign * best_threshold(sign * values, truth, macro=True)",
        "threshold = best_threshold(values, truth, macro=True)",
        "tests/papers/test_protocols.py::test_development_chooses_the_direction",
    ),
    (
        "held-out-no-threshold",
        "faith_jax/statistics/thresholds.py",
        "if math.isnan(threshold):",
        "if False:",
        "tests/statistics/test_thresholds.py",
    ),
    (
        "accuracy-documents",
        "faith_jax/papers/faithdial/critic_accuracy.py",
        "None if units is None else units[defined].tolist()",
        "None",
        "tests/papers/test_document_intervals.py",
    ),
    (
        "tuned-on-own-rows",
        "faith_jax/runs/scores/balanced_accuracy.py",
        "usable_parts(tuning, scorers, options)",
        "tuning",
        "tests/runs/scores/test_silent_scorers.py",
    ),
    (
        "verifiable-undefined",
        "faith_jax/papers/dialfact/verifiable.py",
        "else scores <= self.threshold",
        "else ~(scores > self.threshold)",
        "tests/papers/test_protocols.py::test_development_chooses_the_direction",
    ),
    (
        "pronouns-counted",
        "faith_jax/papers/push/table3_pronouns.py",
        "first_person_count(text, STEEN_PRONOUNS) > 0 for",
        "first_person_count(text, STEEN_PRONOUNS) for",
        "tests/papers/test_protocols.py",
    ),
    (
        "ensemble-sign",
        "scored_corpora.py",
        "scaled.append(values if member == scorer else 1 - values)",
        "scaled.append(values if member == scorer else -values)",
        "tests/statistics/test_scored_corpora.py",
    ),
    (
        "delong-covariance-sign",
        "faith_jax/statistics/auc.py",
        "sum(parts) + 2 * of_both * float(first @ second)",
        "sum(parts) - 2 * of_both * float(first @ second)",
        f"{_SIGNIFICANCE}::test_differences_of_areas_are_estimates",
    ),
    (
        "jackknife-units",
        "intervals.py",
        "(units - 1) / units * float(np.sum((figures - value) ** 2))",
        "float(np.sum((figures - value) ** 2)) / units",
        "tests/statistics/test_intervals.py",
    ),
    (
        "difference-of-other-rows",
        "measures.py",
        "(self.counts == self.replicates) & (baseline.counts == baseline.replicates)",
        "(self.counts == self.replicates) | (baseline.counts == baseline.replicates)",
        "tests/statistics/test_systems.py::test_differences_are_of_the_rows_that_both_have",
    ),
    (
        "delong-rank-axis",
        "faith_jax/statistics/auc.py",
        "stats.rankdata(positives, axis=1)",
        "stats.rankdata(positives, axis=0)",
        f"{_SIGNIFICANCE}::test_delongs_covariance_against_its_definition",
    ),
    (
        "randomization-one-more",
        "significance.py",
        "(extreme + 1) / (len(exchanged) + 1)",
        "extreme / len(exchanged)",
        f"{_SIGNIFICANCE}::test_p_values_against_their_definitions",
    ),
    (
        "holm-factors",
        "significance.py",
        "factors = np.arange(len(places), 0, -1)",
        "factors = np.arange(1, len(places) + 1)",
        f"{_SIGNIFICANCE}::test_corrections_agree_with_statsmodels",
    ),
    (
        "bonferroni-undefined",
        "significance.py",
        "values * np.count_nonzero(~np.isnan(values))",
        "values * values.size",
        f"{_SIGNIFICANCE}::test_undefined_p_values_do_not_count",
    ),
    (
        "hanley-q2",
        "significance.py",
        "2 * area**2 / (1 + area)",
        "area**2 / (1 + area)",
        f"{_SIGNIFICANCE}::test_hanley_and_mcneils_error_by_hand",
    ),
    (
        "bootstrap-tail",
        "bootstrap.py",
        "tail = (1 - confidence) / 2",
        "tail = 1 - confidence",
        "tests/statistics/test_bootstrap.py",
    ),
    (
        "bootstrap-clusters",
        "bootstrap.py",
        "yield drawn.take(groups, axis=1) if clusters is not None else drawn",
        "yield drawn.take(groups[::-1], axis=1) if clusters is not None else drawn",
        "tests/statistics/test_bootstrap.py::test_clusters_are_drawn_whole",
    ),
    (
        "lexical-bias-log-base",
        "dataset_statistics.py",
        "math.log(probability / (by_label[label] / total))",
        "math.log2(probability / (by_label[label] / total))",
        "tests/statistics/test_dataset_statistics.py",
    ),
    (
        "density-length",
        "texts/text_metrics.py",
        "squares = sum(length * length for length in lengths)",
        "squares = sum(length for length in lengths)",
        "tests/statistics/texts/test_text_metrics.py",
    ),
    (
        "threshold-itself",
        "faith_jax/papers/pmi/begin.py",
        "calls = scores >= threshold",
        "calls = scores > threshold",
        "tests/papers/test_protocols.py",
    ),
    (
        "salience-log-base",
        "texts/salience_scores.py",
        "np.exp(np.log(values).mean())",
        "np.exp(np.log2(values).mean())",
        _SALIENCE_SCORES,
    ),
    (
        "salience-attribution-axis",
        "texts/salience_scores.py",
        "return aggregate(self.values.T, aggregation)",
        "return aggregate(self.values, aggregation)",
        _SALIENCE_SCORES,
    ),
    (
        "words-as-sets",
        "texts/text_metrics.py",
        "left[word] = count - 1",
        "left[word] = count",
        "tests/statistics/texts/test_text_metrics.py::test_match_words_takes_first_occurrences",
    ),
    (
        "coverage-of-the-better-side",
        "texts/text_metrics.py",
        "any(map(math.isnan, shares)) else min(shares)",
        "any(map(math.isnan, shares)) else max(shares)",
        "tests/statistics/texts/test_text_metrics.py::test_argument_overlap_by_hand",
    ),
) + _of(
    "statistics",
    "faith_jax/annotation",
    (
        "krippendorff-expected",
        "agreement.py",
        "alpha = 1 - (total - 1) * disagreeing / (yes * no)",
        "alpha = 1 - total * disagreeing / (yes * no)",
        "tests/annotation/test_agreement.py",
    ),
    (
        "fleiss-pairs",
        "agreement.py",
        "/ (raters * other_raters)",
        "/ (raters * raters)",
        "tests/annotation/test_agreement.py",
    ),
)

_ERRORS = "tests/papers/npov/test_training_sets.py"
_SELECTION = "tests/papers/dialfact/test_selection.py"
_CLAIMS = "tests/papers/dialfact/test_claim_mutation.py"
_CONTROL = "tests/datasets/augmentation/test_control_tokens.py"

DATA = _of(
    "data",
    "faith_jax",
    (
        "errors-label",
        "faith_jax/datasets/npov/synthetic_errors.py",
        '"removed_argument": removed, "has_hallucination": 1}',
        '"removed_argument": removed, "has_coverage_error": 1}',
        _ERRORS,
    ),
    (
        "errors-added-is-removed",
        "faith_jax/datasets/npov/synthetic_errors.py",
        '        if argument != row["added_argument"]\n',
        "        if argument\n",
        f"{_ERRORS}::test_an_added_argument_is_not_the_one_removed",
    ),
    (
        "sets-unused-arguments",
        "faith_jax/datasets/npov/synthetic_errors.py",
        "if argument.text not in used_texts]",
        "if argument.text in used_texts]",
        _ERRORS,
    ),
    (
        "sets-unparaphrased-con",
        "faith_jax/papers/npov/error_sets.py",
        'if None in (*sides["pro_arguments"], *sides["con_arguments"], *single.values()):',
        'if None in (*sides["pro_arguments"], *single.values()):',
        _ERRORS,
    ),
    (
        "phrase-capital",
        "datasets/augmentation/dialogue_phrases.py",
        "{hypothesis[:1].lower()}{hypothesis[1:]}",
        "{hypothesis[:1]}{hypothesis[1:]}",
        "tests/datasets/augmentation/test_dialogue_phrases.py",
    ),
    (
        "selection-difference",
        "faith_jax/papers/dialfact/mutated_claims.py",
        "max((counts - earlier).total(), (earlier - counts).total())",
        "min((counts - earlier).total(), (earlier - counts).total())",
        _SELECTION,
    ),
    (
        "selection-fluent",
        "faith_jax/papers/dialfact/mutated_claims.py",
        "values <= 1.1 * values.mean()",
        "values <= values.mean()",
        _SELECTION,
    ),
    (
        "selection-hardest",
        "faith_jax/papers/dialfact/mutated_claims.py",
        "np.argsort(-entropies,",
        "np.argsort(entropies,",
        _SELECTION,
    ),
    (
        "claims-entity-type",
        "faith_jax/papers/dialfact/claim_mutation.py",
        "if candidate.type == entity.type and not",
        "if candidate.type != entity.type and not",
        _CLAIMS,
    ),
    (
        "claims-entity-without-evidence",
        "faith_jax/papers/dialfact/claim_mutation.py",
        "for entity in claim.entities if _stands_in(entity.text, evidence)]",
        "for entity in claim.entities if entity.text]",
        _CLAIMS,
    ),
    (
        "negation-article",
        "faith_jax/papers/dialfact/negation_rules.py",
        'if match["y"][0].lower() in "aeiou":',
        'if match["y"][-1].lower() in "aeiou":',
        "tests/papers/dialfact/test_negation_rules.py",
    ),
    (
        "control-tercile",
        "datasets/augmentation/control_tokens.py",
        "for end in (low, medium)",
        "for end in (low + 1, medium)",
        _CONTROL,
    ),
    (
        "control-case",
        "datasets/augmentation/control_tokens.py",
        "set(english_tokens(knowledge))",
        "set(english_tokens(knowledge.lower()))",
        _CONTROL,
    ),
    (
        "infilled-whole-claim",
        "faith_jax/papers/dialfact/claim_mutation.py",
        "sum(shares) > len(words) / 2",
        "sum(shares) >= len(words) / 2",
        _CLAIMS,
    ),
    (
        "dense-query-separators",
        "core/templates.py",
        '" [SEP] ".join([*filter(None, [" [eot] ".join(context)]), claim])',
        '" [SEP] ".join([claim, *filter(None, [" [eot] ".join(context)])])',
        "faith_jax/core/templates.py",
    ),
    (
        "ratings-of-all-rows",
        "annotation/ratings.py",
        "if all(row in marks for marks in judgements)]",
        "if any(row in marks for marks in judgements)]",
        "tests/annotation/test_ratings.py",
    ),
    (
        "kappa-of-counts",
        "annotation/ratings.py",
        "agreeing = (counts * (counts - 1)).sum()",
        "agreeing = (counts * counts).sum()",
        "tests/annotation/test_ratings.py",
    ),
    (
        "alpha-of-populations",
        "annotation/ratings.py",
        "unit.var(ddof=1) for unit",
        "unit.var() for unit",
        "tests/annotation/test_ratings.py",
    ),
    (
        "control-entailed",
        "datasets/augmentation/control_tokens.py",
        "entailed = NliLabel(nli) is NliLabel.ENTAILMENT",
        "entailed = NliLabel(nli) is not NliLabel.CONTRADICTION",
        _CONTROL,
    ),
    (
        "npov-sides",
        "datasets/npov/topics.py",
        "[topic.con[i].text for i in response.con]",
        "[topic.con[i].text for i in response.pro]",
        "tests/datasets/npov/test_topics.py::test_generation_examples_follow_the_indices",
    ),
    (
        "combinations-at-both-temperatures",
        "faith_jax/papers/npov/combinations.py",
        "for temperature in TEMPERATURES if number <= _AT_BOTH else",
        "for temperature in TEMPERATURES if number < _AT_BOTH else",
        "tests/datasets/npov/test_choices.py::test_the_first_three_get_two_responses",
    ),
    (
        "faithbench-worst-label",
        "datasets/benchmarks/faithbench.py",
        "worst = max(labels,",
        "worst = min(labels,",
        "tests/datasets/benchmarks/test_faithbench.py::test_the_worst_label_decides",
    ),
    (
        "ragtruth-label",
        "datasets/benchmarks/ragtruth.py",
        '"label": int(not spans),',
        '"label": int(bool(spans)),',
        "tests/datasets/benchmarks/test_ragtruth.py",
    ),
    (
        "vitaminc-pair-swapped",
        "datasets/raw/true_benchmark.py",
        "row(claim.unique_id, source, claim.evidence, claim.claim, label)",
        "row(claim.unique_id, source, claim.claim, claim.evidence, label)",
        "tests/datasets/raw/test_true_benchmark.py::test_what_is_grounding_and_what_is_judged",
    ),
    (
        "dialfact-label",
        "datasets/raw/dialfact.py",
        '"label": int(row.response_label.faithfulness),',
        '"label": int(not row.response_label.faithfulness),',
        "tests/datasets/raw/test_dialfact.py",
    ),
    (
        "templates-arguments-swapped",
        "core/templates.py",
        '("response", response), ("pro", pro), ("con", con)',
        '("response", response), ("pro", con), ("con", pro)',
        "faith_jax/core/templates.py",
    ),
    (
        "templates-nli-pair-swapped",
        "core/templates.py",
        'f"premise: {one_space(premise)} hypothesis: {one_space(hypothesis)}"',
        'f"premise: {one_space(hypothesis)} hypothesis: {one_space(premise)}"',
        "faith_jax/core/templates.py",
    ),
) + _of(
    "data",
    "tasks",
    (
        "decode-earlier-turn",
        "nli.py",
        "place = tf.where(tf.size(history) > 2, -2, -1) + tf.size(history)",
        "place = tf.size(history) - 1",
        "tests/tasks/test_nli.py::test_decodes_pairs_and_dialogues",
    ),
    (
        "infill-neighbours",
        "dialogue.py",
        "begins = is_masked & ~tf.concat([[False], is_masked], 0)[:-1]",
        "begins = is_masked",
        "tests/tasks/test_dialogue.py::test_masked_words_of_responses_are_filled_in",
    ),
    (
        "metrics-unknown-labels",
        "metrics.py",
        "float(label not in labels) for label in predictions",
        "float(label in labels) for label in predictions",
        "tests/tasks/test_judging.py::test_classification_counts_unknown_labels_as_wrong",
    ),
)

MUTANTS = DECODING + OBJECTIVES + MODELS + SCORERS + STATISTICS + DATA
AREAS = tuple(dict.fromkeys(mutant.area for mutant in MUTANTS))
