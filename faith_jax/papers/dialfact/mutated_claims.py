"""The run `mutate-claims`: claims to train verifiers on, made from Wizard of Wikipedia (Aug-WoW).

A Wizard's response is a claim that is supported by the sentence the Wizard used. Changing the
claim, the sentence, or a generator's input makes claims that the sentence refutes or has too little
information on. For each turn, varied, fluent and hard claims are kept.

A row of the run is a turn with its kept claims. The turns are split into shards, which any number
of processes make (`faith_jax.runs.shards`).

Reference: Gupta 2022, sections 4.1.1 and 5.3.
"""

import collections
import functools
import itertools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from faith_jax.checkpoints.identity import checkpoint_digest
from faith_jax.core.errors import ConfigError, FaithJaxError, InputError
from faith_jax.core.files import report_write_errors, scratch_place, stamp, write_jsonl
from faith_jax.core.labels import DialFactLabel, DialFactType
from faith_jax.core.rows import BadRows, read_jsonl
from faith_jax.core.templates import dialogue_inputs, one_space
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.core.words import lower_words
from faith_jax.datasets.augmentation.draws import draw, draw_order
from faith_jax.datasets.augmentation.tagging import TaggedText, load_tagger
from faith_jax.datasets.input_rows import InputRow
from faith_jax.datasets.raw.dialfact import PoolEntry, from_elsewhere
from faith_jax.datasets.raw.wizard_of_wikipedia import read_turns
from faith_jax.datasets.samples import SAMPLE, sample_folder
from faith_jax.papers.dialfact import claim_mutation as mutation
from faith_jax.papers.dialfact.antonyms import load_antonyms
from faith_jax.papers.dialfact.senses import load_senses
from faith_jax.papers.responses import Responder, check, new_run, prepare_in_place
from faith_jax.runs.shards import Job, Place, split
from faith_jax.scoring.claims import ClaimVerifier
from faith_jax.scoring.fluency import FluencyScorer
from faith_jax.tokenizers.vocabularies import with_own_vocabulary

if TYPE_CHECKING:
    from faith_jax.papers.dialfact.commands import MutateClaims

Opened = TypeVar("Opened")

TRAIN, DATASET = "train.json", "dialfact/augmented"
FILES = {"train": "train_split.jsonl", "validation": "valid_split.jsonl"}
_BATCH = 128  # turns that are processed together
_MARK = "#"  # between a turn's id and the kind of its claim
_NEAR = 5  # sentences of the Wizard's article whose entities may be substitutes
# Labels of kinds of claims; other kinds are REFUTES.
_LABELS = {
    "original": DialFactLabel.SUPPORTS,
    "evidence": DialFactLabel.NOT_ENOUGH_INFO,
    "generated": DialFactLabel.NOT_ENOUGH_INFO,
}
_UNCHANGED = ("original", "evidence")  # kinds of claims whose text is the Wizard's
# Kinds of texts that models respond to instead of the sentence that the Wizard used.
_EMPTY, _SHOWN, _UNRELATED, _SIMILAR = KINDS = "empty", "shown", "unrelated", "similar"

Fields = Mapping[str, Any]
Claim = dict[str, Any]


class WizardTurn(NamedTuple):
    """A turn in which the Wizard used a sentence; `place` has the turn's number."""

    place: Place
    fields: Fields


class Request(NamedTuple):
    """A text that a model reads instead of the sentence that a turn used, as a separate row."""

    turn: WizardTurn
    kind: str
    text: str

    @property
    def number(self) -> int:
        """The row's number, which determines the randomness of its response."""
        return self.turn.place[1] * len(KINDS) + KINDS.index(self.kind)


@with_own_vocabulary
def mutate_claims(options: "MutateClaims") -> list[str]:
    """Makes the claims, and returns lines about them; a stopped run resumes.

    The new folder has train_split.jsonl and valid_split.jsonl in DialFact's form, and the TFDS data
    set `dialfact/augmented` in `tfds`.

    Raises:
      InputError: on missing or bad files.
      ConfigError: on wrong options, an existing output, and a stopped run with other options.
    """
    is_sample = options.folder == SAMPLE
    folder = sample_folder("wizard_of_wikipedia") if is_sample else options.folder
    source = pathlib.Path(folder).expanduser() / TRAIN
    target, run = new_run(options)
    models = {name: run[name] for name in ("model", "infiller", "language_model")}
    run["models"] = check(**models) | {
        path: _call_for_option("--verifiers and --masker", checkpoint_digest, path)
        for path in (*options.verifiers, options.masker)
        if path
    }
    names = ("id", "dialogue", "history", "response", "knowledge", "knowledge_title")
    turns: list[WizardTurn] = []
    for read in read_turns(source, BadRows()):
        sentence, title = read["knowledge"], read["knowledge_title"]
        if not sentence:
            continue
        # Keep only the few needed of the many sentences that the Wizard was shown.
        pairs = zip(read["passage_titles"], read["passage_sentences"], strict=True)
        near = [text for of, text in pairs if of == title and text != sentence][:_NEAR]
        pool = [text for text in read["passage_sentences"] if text != sentence]
        drawn = pool[draw(len(pool), options.seed, read["id"], "mutated")] if pool else ""
        fields = {name: read[name] for name in names} | {"near": near, "shown": drawn}
        turns.append(WizardTurn((0, len(turns)), fields))
    if not turns:
        raise InputError(f"{source}: no turn of the Wizard uses a sentence.")
    make = Maker(turns, options)
    with report_write_errors(f"--output: {target}"):
        target.parent.mkdir(parents=True, exist_ok=True)

    def plan() -> dict[str, Any]:
        return {"shards": split(turns, options.shards)}

    def rows(place: Place) -> Iterator[WizardTurn]:
        return iter(turns[place[1] :])

    with Job(target, run, plan, stamp([source]), options.restart) as job:
        job.compute(rows, str(source), _BATCH, make)
        make.tell_cut()
        with job.joining() as results:
            if results is None:
                return [f"{target}: other processes make what is missing"]
            return _write_claim_files(job, {turn.fields["id"]: turn for turn in turns}, options)


def _call_for_option(option: str, make: Callable[..., Opened], *values: Any) -> Opened:
    """Calls `make` with an option's values; errors name the option."""
    try:
        return make(*values)
    except FaithJaxError as error:
        raise ConfigError(f"{option}: {error}") from None


class Maker:
    """Makes claims for turns and selects among them; replacement sentences come from all turns.

    Checkpoints are opened when the first turns are processed.
    """

    def __init__(self, turns: Sequence[WizardTurn], options: "MutateClaims"):
        self._options = options
        self._tagger = load_tagger(options.tagger)
        self._antonyms = _call_for_option("--antonyms", load_antonyms, options.antonyms)
        self._senses = _call_for_option("--senses", load_senses, options.senses)
        self._pool: list[PoolEntry] = [
            (t["dialogue"], t["knowledge_title"], t["knowledge"]) for _, t in turns
        ]
        self._by_title: dict[str, list[PoolEntry]] = {}
        for entry in self._pool:
            self._by_title.setdefault(entry[1].casefold(), []).append(entry)

    @functools.cached_property
    def _responders_by_option(self) -> dict[str, Responder]:
        paths = {name: getattr(self._options, name) for name in ("model", "infiller")}
        heat = self._options.temperature
        return {name: Responder(path, self._options, heat) for name, path in paths.items() if path}

    @functools.cached_property
    def _claim_verifiers(self) -> list[ClaimVerifier]:
        return [
            _call_for_option("--verifiers", ClaimVerifier, path) for path in self._options.verifiers
        ]

    @functools.cached_property
    def _masking_verifier(self) -> ClaimVerifier:
        return _call_for_option("--masker", ClaimVerifier, self._options.masker)

    @functools.cached_property
    def _fluency_scorer(self) -> FluencyScorer:
        return _call_for_option("--language-model", FluencyScorer, self._options.language_model)

    def tell_cut(self) -> None:
        """Warns if knowledge that models read was cut."""
        if "_responders_by_option" not in self.__dict__:
            return
        for model in self._responders_by_option.values():
            model.tell_cut()

    def __call__(self, turns: Sequence[WizardTurn]) -> Iterator[dict[str, Any]]:
        """Yields each turn's id, the kinds of all claims made, and the claims that are kept."""
        texts = [[t["response"], *t["history"][-2:], *t["near"]] for _, t in turns]
        tagged = iter(self._tagger.tag(list(itertools.chain.from_iterable(texts))))
        parts = [list(itertools.islice(tagged, len(turn_texts))) for turn_texts in texts]
        claims_by_id = {
            t["id"]: list(self._by_rules(t, claim, sources))
            for (_, t), (claim, *sources) in zip(turns, parts, strict=True)
        }
        claims = [claim for claim, *_ in parts]
        requests = [
            Request(turn, kind, text)
            for turn, claim in zip(turns, claims, strict=True)
            for kind, text in self._list_replacement_texts(turn.fields, claim)
        ]
        responses: list[tuple[str, Request, str]] = []
        if self._options.model:
            responses += [("generated", *response) for response in self._generate_claims(requests)]
        if self._options.infiller:
            responses += [
                ("filled", *response) for response in self._fill_claims(requests, turns, claims)
            ]
        for method, request, text in responses:
            turn = request.turn.fields
            claims_by_id[turn["id"]].append(_build_claim(turn, f"{method}_{request.kind}", text))
        different: dict[str, list[Claim]] = {}
        for name, made_of_turn in claims_by_id.items():
            unique: dict[tuple[str, str], Claim] = {}
            for claim in made_of_turn:
                unique.setdefault((claim["response"], claim["evidence_list"][0][2]), claim)
            different[name] = list(unique.values())
        selected = self._select_claims(different)
        for name, made_of_turn in different.items():
            yield {"id": name, "made": [c["kind"] for c in made_of_turn], "claims": selected[name]}

    def _by_rules(
        self, turn: Fields, claim: TaggedText, sources: Sequence[TaggedText]
    ) -> Iterator[Claim]:
        """Yields the claims that need no model, starting with the Wizard's own."""
        evidence, name, seed = [turn["knowledge"]], turn["id"], self._options.seed
        yield _build_claim(turn, "original", turn["response"])
        for place, negation in enumerate(mutation.negate(claim.text)):
            yield _build_claim(turn, f"{negation.kind}_{place}", negation.claim)
        for changed in (
            mutation.substitute_entity(claim, evidence, sources, name, seed),
            mutation.substitute_sense(claim, evidence, self._senses, name, seed),
            mutation.substitute_adjective(claim, self._antonyms, name, seed),
        ):
            if changed is not None:
                yield _build_claim(turn, changed.kind, changed.claim)
        if elsewhere := from_elsewhere(turn, self._pool, seed):
            yield _build_claim(turn, "evidence", claim.text, elsewhere)

    def _list_replacement_texts(self, turn: Fields, claim: TaggedText) -> Iterator[tuple[str, str]]:
        """Yields texts to replace the sentence that was used, with their kinds."""
        seed = self._options.seed
        yield _EMPTY, ""
        if turn["shown"]:
            yield _SHOWN, turn["shown"]
        if elsewhere := from_elsewhere(turn, self._pool, seed):
            yield _UNRELATED, elsewhere[1]
        similar = [
            entry
            for title in mutation.similar(claim, self._senses)
            for entry in self._by_title.get(title.casefold(), ())
        ]
        if elsewhere := from_elsewhere(turn, similar, seed):
            yield _SIMILAR, elsewhere[1]

    def _generate_claims(self, requests: Sequence[Request]) -> Iterator[tuple[Request, str]]:
        """Yields the model's responses to requests, which replace the Wizard's."""
        rows = [request for request in requests if request.text or request.turn.fields["history"]]
        inputs = [dialogue_inputs(request.text, request.turn.fields["history"]) for request in rows]
        for request, text in zip(
            rows, self._generate_responses("model", rows, inputs), strict=True
        ):
            if one_space(text):
                yield request, text

    def _fill_claims(
        self, requests: Sequence[Request], turns: Sequence[WizardTurn], claims: Sequence[TaggedText]
    ) -> Iterator[tuple[Request, str]]:
        """Yields claims whose masked words a model has replaced."""
        evidence = [(t["knowledge_title"], t["knowledge"]) for _, t in turns]
        if self._options.masker:
            spans = mutation.neutral_spans(self._masking_verifier, claims, evidence)
        else:
            spans = [
                mutation.stated_spans(claim, [sentence])
                for claim, (_, sentence) in zip(claims, evidence, strict=True)
            ]
        masked = {
            turn.fields["id"]: mutation.mask_spans(claim.text, pieces)
            for turn, claim, pieces in zip(turns, claims, spans, strict=True)
            if pieces
        }
        rows = [request for request in requests if request.turn.fields["id"] in masked]
        texts = [masked[request.turn.fields["id"]] for request in rows]
        inputs = [
            f"{dialogue_inputs(request.text, request.turn.fields['history'])} {text}"
            for request, text in zip(rows, texts, strict=True)
        ]
        answers = self._generate_responses("infiller", rows, inputs)
        for request, text, answer in zip(rows, texts, answers, strict=True):
            if filled := mutation.fill_masks(text, answer):
                yield request, filled

    def _generate_responses(
        self, model: str, rows: Sequence[Request], inputs: Sequence[str]
    ) -> Sequence[str]:
        input_rows = [
            InputRow(f"{request.turn.fields['id']}{_MARK}{request.kind}", text)
            for request, text in zip(rows, inputs, strict=True)
        ]
        return self._responders_by_option[model](input_rows, [request.number for request in rows])

    def _select_claims(
        self, claims_by_turn: Mapping[str, Sequence[Claim]]
    ) -> dict[str, list[Claim]]:
        """Returns each turn's unchanged claims, and the varied, fluent and hard new ones."""
        new = {
            name: [claim for claim in claims if claim["kind"] not in _UNCHANGED]
            for name, claims in claims_by_turn.items()
        }
        examples: list[GroundedExample] = []
        for claim in itertools.chain.from_iterable(new.values()):
            ((title, _, sentence, _),) = claim["evidence_list"]
            grounding, context = Grounding((sentence,), (title,)), tuple(claim["context"])
            examples.append(GroundedExample(claim["id"], grounding, context, claim["response"]))
        perplexities: np.ndarray | None = None
        if self._options.language_model:
            scores = self._fluency_scorer.score(examples)
            perplexities = np.exp([-score.value for score in scores])
        probabilities: np.ndarray | None = None
        if self._options.verifiers:
            judgements = [
                [
                    verdict.probabilities
                    for verdict in verifier.verdicts([verifier.read(e) for e in examples])
                ]
                for verifier in self._claim_verifiers
            ]
            probabilities = np.array(judgements, float).reshape(-1, len(examples), 3).swapaxes(0, 1)
        selected, start = {}, 0
        for name, claims in new.items():
            span = slice(start, start + len(claims))
            places = chosen_of(
                [claim["response"] for claim in claims],
                None if perplexities is None else perplexities[span],
                None if probabilities is None else probabilities[span],
                self._options.most,
            )
            unchanged = [claim for claim in claims_by_turn[name] if claim["kind"] in _UNCHANGED]
            selected[name] = unchanged + [claims[place] for place in places]
            start += len(claims)
        return selected


def select_varied_claims(claims: Sequence[str]) -> list[int]:
    """Returns the indices of claims that differ from all claims kept before them.

    Two claims differ if one has at least three words that the other lacks; repeated words count,
    case and punctuation do not.

    >>> select_varied_claims(["Tea is hot.", "Tea is cold.", "Coffee grows on hills."])
    [0, 2]
    """
    kept_counts: list[tuple[int, collections.Counter[str]]] = []
    for place, claim in enumerate(claims):
        counts = collections.Counter(lower_words(claim))
        if all(
            max((counts - earlier).total(), (earlier - counts).total()) >= 3
            for _, earlier in kept_counts
        ):
            kept_counts.append((place, counts))
    return [place for place, _ in kept_counts]


def fluent(perplexities: Sequence[float]) -> list[int]:
    """Returns the indices of claims whose perplexity is at most 1.1 times the average.

    `perplexities` are of all claims of one context; lower = more fluent.

    >>> fluent([10.0, 12.0, 30.0])
    [0, 1]
    """
    values = np.asarray(perplexities, np.float64)
    return np.flatnonzero(values <= 1.1 * values.mean()).tolist() if values.size else []


def hardest(probabilities: np.ndarray, most: int = 4) -> list[int]:
    """Returns the indices of the claims that classifiers are least certain of, hardest first.

    `probabilities` is [claims, classifiers, labels]. The entropies (in nats) of all classifiers are
    summed; in a tie, the earlier claim comes first.

    >>> hardest(np.array([[[0.9, 0.1]], [[0.5, 0.5]]]), most=1)
    [1]
    """
    rows = np.asarray(probabilities, np.float64)
    logs = np.log(rows, out=np.zeros_like(rows), where=rows > 0)
    entropies = -(rows * logs).sum(axis=(1, 2))
    return np.argsort(-entropies, kind="stable")[:most].tolist()


def chosen_of(
    claims: Sequence[str],
    perplexities: np.ndarray | None,
    probabilities: np.ndarray | None,
    max_claims: int,
) -> list[int]:
    """Returns the indices of at most `max_claims` of a turn's new claims, the hardest first.

    Perplexities are float [claims], and a claim with NaN is dropped; None = no claim is dropped.
    Probabilities are float [claims, classifiers, 3]; None = the first claims are kept.
    """
    places = select_varied_claims(claims)
    if perplexities is not None:
        places = [place for place in places if not np.isnan(perplexities[place])]
        places = [places[i] for i in fluent(perplexities[places].tolist())]
    if probabilities is not None and places:
        places = [places[i] for i in hardest(probabilities[places], max_claims)]
    return places[:max_claims]


def _build_claim(
    turn: Fields, kind: str, text: str, evidence: tuple[str, str] | None = None
) -> Claim:
    """Returns a claim in the form of DialFact's files.

    `evidence` is a title and a sentence; None = the Wizard's.
    """
    title, sentence = evidence or (turn["knowledge_title"], turn["knowledge"])
    return {
        "context_id": turn["id"],
        "id": f"{turn['id']}{_MARK}{kind}",
        "data_type": "generated",
        "context": turn["history"],
        "response": one_space(text),
        "evidence_list": [[title, "", sentence, "0"]],
        "response_label": _find_label(kind).value,
        "type_label": DialFactType.FACTUAL.value,
        "kind": kind,
    }


def _find_label(kind: str) -> DialFactLabel:
    return _LABELS.get(kind.partition("_")[0], DialFactLabel.REFUTES)


def _write_claim_files(
    job: Job, turns: Mapping[str, WizardTurn], options: "MutateClaims"
) -> list[str]:
    """Writes files and data set of the kept claims; only their kinds are held in memory."""

    def rows() -> Iterator[Fields]:
        for shard in job.shards:
            yield from (row.fields for row in read_jsonl(shard.rows))

    kinds = [kind for row in rows() for kind in row["made"]]
    kept_kinds = [claim["kind"] for row in rows() for claim in row["claims"]]
    by_label = collections.defaultdict[str, list[int]](list)
    for place, kind in enumerate(kept_kinds):
        by_label[_find_label(kind).value].append(place)
    chosen_places = set(range(len(kept_kinds)))
    if not options.unbalanced and len(by_label) == len(DialFactLabel):
        # Keep as many claims of each label as the rarest label has.
        least, chosen_places = min(map(len, by_label.values())), set()
        for label, places in by_label.items():
            order = draw_order(len(places), options.seed, label, "balance")
            chosen_places |= {places[i] for i in order[:least]}
    dialogues = list(dict.fromkeys(turn.fields["dialogue"] for turn in turns.values()))
    count = max(1, round(options.validation_share * len(dialogues)))
    order = draw_order(len(dialogues), options.seed, "validation")
    held = {dialogues[i] for i in order[:count]}

    def claims(is_held: bool) -> Iterator[Claim]:
        turn_claims = ((row["id"], claim) for row in rows() for claim in row["claims"])
        for place, (turn, claim) in enumerate(turn_claims):
            if place in chosen_places and (turns[turn].fields["dialogue"] in held) == is_held:
                yield claim

    with scratch_place(job.folder) as folder:
        folder.mkdir()
        for part, name in FILES.items():
            write_jsonl(folder / name, claims(part == "validation"))
        line = prepare_in_place(DATASET, folder, job.target)
    return [
        _describe_claim_counts("made", kinds),
        _describe_claim_counts(
            "kept", [kind for place, kind in enumerate(kept_kinds) if place in chosen_places]
        ),
        line,
    ]


def _describe_claim_counts(where: str, kinds: Sequence[str]) -> str:
    labels = collections.Counter(_find_label(kind).value for kind in kinds)
    names = collections.Counter(kind.rstrip("0123456789").rstrip("_") for kind in kinds)
    shares = (
        f"{count:,} {name}" for name, count in (*sorted(labels.items()), *names.most_common())
    )
    return f"{where}: {len(kinds):,} claims: {', '.join(shares)}"
