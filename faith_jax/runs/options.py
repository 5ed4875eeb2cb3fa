"""The options of runs, shared by the command line and the runs themselves.

`faith_jax.cli.parser` turns fields into command-line options. Nothing slow is imported here.
"""

import ast
import dataclasses
import functools
import math
import pathlib
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from faith_jax.core.errors import ConfigError
from faith_jax.core.labels import UNSUPPORTED, VERDICTS, label_text, parse_verdict
from faith_jax.core.settings import (
    InputFormat,
    NotNegative,
    OutputPath,
    OutputReader,
    Positive,
    PositiveShare,
    Share,
    ShareBelow1,
    unescape,
)

MODEL_OPTIONS = ("model", "answer_model", "nli_model")  # options of scorers that are checkpoints


def split_names(listed: str) -> list[str]:
    """Returns the names in a comma-separated list."""
    return [name.strip() for name in listed.split(",") if name.strip()]


def split_scorers(listed: str) -> list[str]:
    """Returns the scorers in a comma-separated list; the file of a card is named after its stem.

    >>> split_scorers("token_f1, cards/strict.toml, mine=cards/strict.toml")
    ['token_f1', 'strict=cards/strict.toml', 'mine=cards/strict.toml']
    """
    names = split_names(listed)
    for place, name in enumerate(names):
        if name.endswith(".toml") and "=" not in name:
            stem = pathlib.Path(name).stem
            if "." in stem:
                raise ConfigError(
                    f"--scorers: {name}: give it a name without a full stop, as NAME={name}."
                )
            names[place] = f"{stem}={name}"
    return names


def _whole_numbers(text: str) -> tuple[int, ...]:
    """Returns the numbers in a comma-separated list."""
    try:
        return tuple(map(int, text.split(",")))
    except ValueError:
        raise ValueError(
            f"expected whole numbers with commas, such as 0,1,2; got {text!r}"
        ) from None


# The types of options, which also check the values of the command line.
Names = Annotated[tuple[str, ...], split_names]  # one comma-separated value
Numbers = Annotated[tuple[int, ...], _whole_numbers]
Resamples = Annotated[
    int,
    msgspec.Meta(ge=100, le=1_000_000, description="a whole number from 100 to 1,000,000"),
]
OpenShare = Annotated[float, msgspec.Meta(gt=0, lt=1, description="a share in (0, 1)")]
Html = Annotated[str, OutputReader(".html")]
Png = Annotated[str, OutputReader(".png")]
Json = Annotated[str, OutputReader(".json")]


def split_scorer_name(named: str) -> tuple[str, str]:
    """Returns the name of scores in outputs, and the scorer, of "NAME=SCORER" or "SCORER".

    >>> split_scorer_name("judge=cards/mine.toml"), split_scorer_name("token_f1")
    (('judge', 'cards/mine.toml'), ('token_f1', 'token_f1'))
    """
    name, _, scorer = named.partition("=")
    return name, scorer or name


def scorer_options(
    names: Iterable[str], texts: Iterable[str], among: str = "--scorers"
) -> dict[str, dict[str, Any]]:
    r"""Returns the options of each scorer.

    Args:
      names: names of scorers, or "NAME=SCORER".
      texts: options as "scorer.name=value". Words stay as typed, such as `1,0` for `label_words`.
        In the text of a prompt (`…_prompt`), the two characters `\n` are a line break, `\t` a tab
        and `\\` a backslash.
      among: where the names come from, for messages.

    Raises:
      ConfigError: an option has another form, or its scorer is not among the names.
    """
    options: dict[str, dict[str, Any]] = {name: {} for name in names}
    full_names = {split_scorer_name(full_name)[0]: full_name for full_name in options}
    for text in texts:
        left, equals, value = text.partition("=")
        scorer, dot, name = left.partition(".")
        if not (equals and dot and name):
            raise ConfigError(f"--scorer-option: expected SCORER.NAME=VALUE, got {text!r}.")
        if scorer not in full_names:
            raise ConfigError(f"--scorer-option: {scorer!r} is not among {among}.")
        full_name = full_names[scorer]
        options[full_name][name] = _option_value(split_scorer_name(full_name)[1], name, value)
    return options


def _option_value(scorer: str, option: str, text: str) -> Any:
    """Returns the Python value of an option, or the text as typed if the option takes words."""
    from faith_jax.scoring import registry

    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        if option.endswith("_prompt"):
            return unescape(text)
        if text.lower() in ("true", "false") and not registry.takes_words(scorer, option):
            return text.lower() == "true"
        is_list = scorer in registry.scorer_names() and registry.takes_words(scorer, option) is list
        return split_names(text) if is_list else text
    parts = value if isinstance(value, tuple | list) else [value]
    if value is None:
        return value if registry.takes_none(scorer, option) else text
    if all(isinstance(part, str) for part in parts):
        return value
    words = registry.takes_words(scorer, option)
    if words and text.strip()[0] in "[(":
        return [str(part) for part in parts]
    return split_names(text) if words is list else text if words else value


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """The outputs of `score`, and how it writes them.

    Attributes:
      output (PATH): .jsonl, .parquet, or a folder for TFDS
      format: of the output
      worst (FILE): .csv or .jsonl: write the rows with the lowest scores of the first scorer, with
        all columns of the input
      worst_rows (N): how many rows --worst writes
      batch_size (N): rows scored and written at once (default: 256; with models on an accelerator
        2,048)
      costs (JSON): write the parameters of each scorer, and its speed in a second pass over the
        first 64 rows
      shards (N): number of parts of the rows, which any number of processes share, started by the
        same command on machines with a common disk (default: one for every 5,000 rows)
      join: score nothing; only join the rows that other processes have scored
      restart: discard the rows of a stopped run with this output
    """

    output: OutputPath
    format: Literal["jsonl", "parquet", "tfds"] | None = None
    worst: OutputPath = ""
    worst_rows: Positive = 100
    batch_size: NotNegative = 0
    costs: OutputPath = ""
    shards: NotNegative = 0
    join: bool = False
    restart: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class FindingOptions:
    """How evidence is found.

    Attributes:
      retrievers (NAMES): retrievers of documents, separated by commas: entities, bm25, dense; the
        ranks of several are fused
      vectors (FOLDER): made by faith-jax embed, for dense
      question_model (FOLDER): the encoder of claims, for dense (default: the model of the vectors)
      dense_search (HOW): how vectors are searched: exact; faiss, with the index of faith-jax embed
        --faiss; or parameters of that index's search, such as nprobe=64 or efSearch=256
      documents (N): most documents for each claim
      sentences (N): most sentences for each claim; those with a score above 0 are relevant
      context_turns (N): turns before the claim to search with; the paper uses 2 or 0
      tagger: finds names: rules, which knows names and titles of articles, or spacy:PIPELINE, which
        also finds noun chunks
      evidence_model (FOLDER): a classifier of pairs that ranks sentences (default: BM25 ranks them)
      evidence_vocabulary (FILE): the classifier's tokenizer, if it carries none
    """

    group: ClassVar = "evidence"
    retrievers: Names = ("entities", "bm25")
    vectors: str = ""
    question_model: str = ""
    dense_search: str = "exact"
    documents: Positive = 10
    sentences: Positive = 5
    context_turns: NotNegative = 2
    tagger: str = "rules"
    evidence_model: str = ""
    evidence_vocabulary: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClaimColumns:
    """How files of responses or claims are read.

    Attributes:
      input_format: format of FILE (default: by its ending)
      response_column (NAME): the text; default: the usual names, response among them
      history_column (NAME): earlier utterances; default: the usual names, context among them
      id_column (NAME): default: id, if there is such a column; otherwise, or with --id-column=, the
        row's number
      skip_bad_rows: skip bad rows, count and list them
    """

    group: ClassVar = "columns"
    input_format: InputFormat | None = None
    response_column: str = ""
    history_column: str = ""
    id_column: str | None = None
    skip_bad_rows: bool = False


@dataclasses.dataclass(frozen=True)
class EvidenceOptions(FindingOptions, ClaimColumns):
    """Claims to find evidence for, and the outputs.

    Attributes:
      claims (FILE): .jsonl, .json, .csv, .tsv or .parquet, as check reads them, with gold evidence
        in evidence_list, as in DialFact's files; or sample
      knowledge_base (FOLDER): made by faith-jax index; or sample, an encyclopedia of 188 articles
      output (FILE): JSON lines of id and evidence: [title, URL, sentence, rank, score] each
      json (FILE): write the figures of recall
      restart: discard the rows of a stopped run with other settings
    """

    claims: str
    knowledge_base: str
    _: dataclasses.KW_ONLY
    output: OutputPath
    json: OutputPath = ""
    restart: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckOptions(FindingOptions, ClaimColumns):
    """Responses or claims to check, and the verifier that checks them.

    Attributes:
      input (FILE): .jsonl, .json, .csv, .tsv or .parquet: responses and, where they are known, ids
        and earlier utterances, in columns as score knows them (repeatable)
      label_column (NAME): the right verdict on a response, or a list of verdicts on its sentences:
        SUPPORTS, REFUTES, NOT ENOUGH INFO or NOT VERIFIABLE; or 1, yes or faithful for SUPPORTS,
        and 0, no or hallucinated for any other (UNSUPPORTED); the verdicts are compared with it
        (default: response_label or, with --grounding-column, label, if there is such a column)
      label_values (LABEL=VERDICT): verdicts of other labels, with commas: good=SUPPORTS,bad=REFUTES
      claim (TEXT): a single response, instead of --input
      history (TEXT): an utterance before the response, oldest first (repeatable)
      knowledge_base (FOLDER): made by faith-jax index; or sample, an encyclopedia of 188 articles
      grounding_column (NAME): instead of a knowledge base: the text or list of texts that each
        response was made from; sentences that share most words with a claim are its evidence
      model (FOLDER): the verifier: an NLI classifier, or a model trained on dialfact_verify_…;
        mini_nli is in the package
      form: of the verifier's input: nli reads sentence by sentence, dialfact all evidence at once
        with the context
      labels (NAMES): the order of the verifier's classes, if their names do not tell
      verifiable (SHARE): claims with a smaller share of their words in the evidence are called not
        verifiable
      output (FILE): .jsonl or .parquet, or a folder for TFDS, in the form of faith-jax score: a row
        for each claim, with the fields verdict, response_verdict and decisive
      html (FILE): a page with the evidence beside each claim
      batch_size (N): responses checked at once
      restart: discard the rows of a stopped run with other settings
    """

    input: tuple[str, ...] = ()
    label_column: str | None = None
    label_values: str = ""
    claim: str = ""
    history: tuple[str, ...] = ()
    knowledge_base: str = "sample"
    grounding_column: str = ""
    model: str = "mini_nli"
    form: Literal["nli", "dialfact"] = "nli"
    labels: str | None = None
    verifiable: Share = 0.2
    output: OutputPath = ""
    html: Html = ""
    batch_size: Positive = 64
    restart: bool = False

    def __post_init__(self):
        if bool(self.input) == bool(self.claim):
            raise ConfigError("Give either --input or --claim. A claim must not be empty.")
        if self.history and self.input:
            raise ConfigError("--history: goes with --claim; the rows of a file have context.")
        of_rows = "grounding_column", "label_column", "label_values"
        of_input = (*(field.name for field in dataclasses.fields(ClaimColumns)), *of_rows)
        if self.claim and (misplaced := [name for name in of_input if getattr(self, name)]):
            raise ConfigError(f"--{misplaced[0].replace('_', '-')}: goes with --input.")
        if self.grounding_column:
            of_base = [field.name for field in dataclasses.fields(FindingOptions)]
            of_base = ["knowledge_base", *(name for name in of_base if name != "sentences")]
            for name in of_base:
                if getattr(self, name) != getattr(CheckOptions, name):
                    raise ConfigError(
                        f"--{name.replace('_', '-')}: goes with a knowledge base, in whose place "
                        "--grounding-column is given."
                    )
        _ = self.verdicts

    @functools.cached_property
    def verdicts(self) -> dict[str, str]:
        """The verdicts of `label_values`, by label in lower case."""
        by_label = {}
        for part in filter(None, map(str.strip, self.label_values.split(","))):
            label, equals, value = (text.strip() for text in part.rpartition("="))
            verdict = parse_verdict(value)
            if not (label and equals and verdict):
                verdicts = ", ".join((*VERDICTS, UNSUPPORTED))
                expected = f"LABEL=VERDICT, a verdict being one of {verdicts}"
                raise ConfigError(f"--label-values: expected {expected}; got {part!r}.")
            by_label[label_text(label)] = verdict
        return by_label


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """The hardware that a recipe is planned for, and the requested plans.

    Attributes:
      topology (NAME): v4, v5e, v5p or v6e with the chips' torus, such as v4:4x4x4 or v5e:4x4, or
        2xv4:4x4x4 for several slices; h100, h200, a100, a100-40gb or cpu with their number, such as
        h100:8
      job: run is the run that the gin files configure; score and salience compute likelihoods or
        salience maps of rows with the model, batch and lengths of infer
      sweep: try NUM_PARTITIONS and, if needed, REMAT_POLICY, NUM_MICROBATCHES and partitioning in
        two dimensions, and recommend the fastest
      partitions (N,N): for --sweep: only these
      free (SHARE): share of a device's memory that recommended settings leave free
      json (PATH): write all figures; compiled plans are kept beside it until the end, so that a
        stopped run resumes
      restart: discard the plans of a stopped run
      figure (PATH): for --sweep: write step time and memory over partitions (PNG)
    """

    topology: str
    job: Literal["run", "score", "salience"] = "run"
    sweep: bool = False
    partitions: Numbers = ()
    free: ShareBelow1 = 0.2
    json: OutputPath = ""
    restart: bool = False
    figure: Png = ""


@dataclasses.dataclass(frozen=True)
class PromptReportOptions:
    """Prompt-tuned runs, and the forms of the report on them.

    Attributes:
      runs (RUN): a prompt-tuned run
      nearest (N): how many nearest pieces to show for each vector
      html (OUT.html): write a page, with curves
      png (OUT.png): draw the curves
      json (OUT.json): write all figures
    """

    runs: tuple[str, ...]
    _: dataclasses.KW_ONLY
    nearest: Positive = 3
    html: Html = ""
    png: Png = ""
    json: OutputPath = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Knowledge:
    """Where arguments are looked up.

    Attributes:
      knowledge (FOLDER): topics that tell the arguments in rows of t5x infer apart: a folder of the
        raw NPOV format or a sample's name
    """

    knowledge: str = "procon_npov"


@dataclasses.dataclass(frozen=True, kw_only=True)
class WriteSheets(_Knowledge):
    """Sheets for annotators to fill in.

    Attributes:
      input (FILE): responses from t5x infer or faith-jax score, or rows with id, query,
        pro_arguments and con_arguments (or a grounding) and response
      output (SHEET): .csv (for spreadsheet programs) or .jsonl; with {annotator} in its name, a
        file for each annotator
      annotators (NAMES): separated by commas; each gets all responses (default: annotators write
        their names)
      questions (NAME): npov: errors in each response (Chang 2024); faithdial or pmi_decode: the
        questions of Dziri 2022 or Nandwani 2023 about responses of several systems (fields system
        and corpus), which annotators do not see, such as scores of reproduce faithdial or reproduce
        pmi_decode
      sample (N): draw N of the responses, or of the rows that systems respond to (default: all)
      seed: of the sample; whether a response is drawn does not depend on other responses
      overwrite: replace an existing sheet, filled in or not
    """

    input: str
    output: OutputPath
    annotators: Names = ()
    questions: Literal["npov", "faithdial", "pmi_decode"] = "npov"
    sample: int | None = None
    seed: NotNegative = 0
    overwrite: bool = False


@dataclasses.dataclass(frozen=True)
class Sheets(_Knowledge):
    """Sheets that annotators have filled in, and how they are read.

    Attributes:
      sheets (SHEET): .csv (with commas, semicolons or tabs), .jsonl
      input (FILE): the file that the sheets were written from: texts must still be the same, and
        labels get its other fields, such as the topic
      blank_is_no: in a partly filled row, an empty mark of an ambiguous error is a no
      complete: sheets with rows that are not annotated yet are an error
    """

    sheets: tuple[str, ...]
    _: dataclasses.KW_ONLY
    input: str = ""
    blank_is_no: bool = False
    complete: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadSheets(Sheets):
    """The outputs from sheets that are filled in.

    Attributes:
      output (MARKS): .jsonl: the marks of each annotator
      labels (LABELS): .jsonl: the labels of the majority, in rows that faith-jax score reads
        (default: MARKS_labels.jsonl)
      slices (FOLDER): also write Chang 2024's test slices full_organic.jsonl and
        ambiguous_organic.jsonl
      ties: if as many annotators say yes as no: the response has the error, does not have it, gets
        no label, or the sheets are an error
    """

    output: OutputPath
    labels: OutputPath = ""
    slices: OutputPath = ""
    ties: Literal["error", "no-error", "drop", "refuse"] = "error"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Draws:
    """How intervals are drawn.

    Attributes:
      resamples (N): of the bootstrap, and rounds of a test
      confidence: of the intervals
      seed: of the bootstrap and the test
    """

    resamples: Resamples = 1000
    confidence: OpenShare = 0.95
    seed: NotNegative = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgreementOptions(_Draws, Sheets):
    """How the agreement of annotators is measured.

    Attributes:
      json (PATH): write all figures
    """

    json: OutputPath = ""


@dataclasses.dataclass(frozen=True)
class RatingOptions:
    """Judges' ratings of the responses of systems.

    Attributes:
      sheets (SHEET): filled-in sheets, made by annotate write --questions
      questions (NAME): of the sheets: faithdial (Dziri 2022, tables 7 and 8) or pmi_decode
        (Nandwani 2023, table 4)
      input (FILE): a file that the sheets were written from, which names the systems (repeatable)
      baseline (SYSTEM): the system that the others are tested against
      json (PATH): write all figures
    """

    sheets: tuple[str, ...]
    _: dataclasses.KW_ONLY
    questions: Literal["faithdial", "pmi_decode"]
    input: tuple[str, ...]
    baseline: str = ""
    json: OutputPath = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ExplainSource:
    """The texts that a response was written from.

    Attributes:
      query (TEXT): the question
      pro (TEXT): an argument for (repeatable)
      con (TEXT): an argument against (repeatable)
      grounding (TEXT): a text without a side, instead of --pro and --con (repeatable)
      history (TEXT): an earlier utterance, oldest first (repeatable)
      knowledge (FOLDER): take the arguments of the query's topic from here; 'sample' = the embedded
        sample
      arguments (N): number of arguments to draw from each side
      seed: for drawing arguments
      input (FILE): rows, as score reads them, instead of texts
      id: of a row to explain (repeatable; default: the first 20 rows)
      grounding_column (NAME): as in score, like the next two
      response_column (NAME): of the response
      history_column (NAME): of earlier utterances
    """

    group: ClassVar = "what the response was written from"
    query: str = ""
    pro: tuple[str, ...] = ()
    con: tuple[str, ...] = ()
    grounding: tuple[str, ...] = ()
    history: tuple[str, ...] = ()
    knowledge: str = ""
    arguments: Positive = 2
    seed: NotNegative = 0
    input: str = ""
    id: tuple[str, ...] = ()
    grounding_column: str = ""
    response_column: str = ""
    history_column: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ExplainOutput:
    """The outputs of a salience map.

    Attributes:
      html (FILE): a page with the heat map
      png (FILE): the heat map; those of further rows are NAME-2.png and so on
      json (FILE): words and values, one line for each row
      color: of the text; auto: in a terminal, unless NO_COLOR is set
      threshold (SHARE): in [0, 1]; words below it are marked
    """

    group: ClassVar = "output"
    html: Html = ""
    png: Png = ""
    json: OutputPath = ""
    color: Literal["auto", "always", "never"] = "auto"
    threshold: Share = 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class SalienceMap:
    """How a salience map is made; see `faith_jax.scoring.salience.scorers.SalienceOptions`.

    Attributes:
      method: gradient_x_input or gradient_l2
      vocabulary (FOLDER): of the tokenizer, if not the model's
      max_length (N): most tokens that the model reads
      max_bytes (N): most bytes of activations; a larger map is computed in parts
    """

    group: ClassVar = "the map"
    method: str = "gradient_x_input"
    vocabulary: str | None = None
    max_length: int | None = None
    max_bytes: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExplainOptions(SalienceMap, _ExplainOutput, _ExplainSource):
    """A response to explain, and the outputs.

    Attributes:
      model (FOLDER): a language model, preferably the one that wrote the response
      response (TEXT): the text (default: the model writes it)
    """

    model: str
    response: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison(_Draws):
    """Which scorers are compared, and how.

    Attributes:
      scorers (NAMES): only these, in this order, separated by commas (default: all; in a CSV file,
        the columns that have names of scorers)
      baseline (NAME): the scorer (or system) that others must beat
      test: of significance, with a baseline; t is also the basis of the intervals
      cluster_field (NAME): rows with the same value of this field depend on each other: id,
        grounding, question, corpus or a column of yours; none = all rows are independent; auto =
        rows with the same grounding depend on each other (in dialfact, claims of a dialogue)
      undefined (VALUE): the value that undefined scores count as (default: rows without a score
        are left out of comparisons)
      scorer_module (MODULE): defines your own scorers, and so the range of their scores
    """

    scorers: Names = ()
    baseline: str = ""
    test: Literal["t", "approximate_randomization", "delong", "hanley_mcneil"] = "t"
    cluster_field: str = "auto"
    undefined: float | None = None
    scorer_module: tuple[str, ...] = ()

    def __post_init__(self):
        if self.undefined is not None and not math.isfinite(self.undefined):
            raise ConfigError(f"--undefined: expected a finite number, got {self.undefined}.")
        if self.test != Comparison.test and not self.baseline:
            raise ConfigError(
                "--test: goes with --baseline, the scorer that others are tested with; give "
                "--baseline=SCORER."
            )

    @property
    def score_columns(self) -> tuple[str, ...]:
        """The columns of tables that are scores, even if their names are not those of scorers."""
        return self.scorers


SPLIT = "split"  # for --development
AUTO: Literal["auto"] = "auto"
# The protocols that AUTO stands for: for rows with labels, and without.
CHOSEN_BY_LABELS: tuple[str, str] = ("auc", "systems")


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOptions(Comparison):
    """How scored files are evaluated.

    Attributes:
      protocol (NAME): auc (ROC AUC by corpus; the default if rows have labels), systems (mean
        scores of systems on the same rows; the default otherwise), balanced_accuracy (of calls at
        0.5 and at thresholds of a development part), hallucinations (precision, recall and F1 of
        responses and of marked characters), thresholds (scores below which to read, or from which
        on to accept, by your labels); or a paper's: accuracy (how often 0.5 divides rows as the
        labels do: Dziri 2022, table 4), begin (F1 with the best threshold of a development
        part: Nandwani 2023, table 1), verifiable (the same for claims that can be verified: Gupta
        2022, table 3), dialfact (verdicts in predictions of t5x infer: Gupta 2022, section 5.3),
        npov and npov_words (errors in responses that tell arguments of both sides, and their words:
        Chang 2024, tables 1 and 3), pronouns (do scores fall with words such as "I"? Steen 2023,
        table 3); or your own as FILE.py:NAME
      compare (SYSTEM:BASELINE): for systems: a pair to compare, instead of --baseline (repeatable)
      below (SCORER:VALUE): for systems: show the share of rows below this score (default: 0.5 for
        scorers from 0 to 1; repeatable)
      worst (N): for systems: show this many rows with the lowest scores of the first scorer
      table (JSON): for systems and accuracy: columns and published figures
      slice_field (NAME): for npov, balanced_accuracy and hallucinations: the field that names a
        row's slice or part (default: each corpus is one)
      dataset (NAME): for dialfact: NAME[/CONFIG] with the claims
      split: for dialfact: the split of the dataset
      development (FILE): for begin, verifiable, balanced_accuracy and hallucinations: the scored
        development part; for the first two, `split` takes a random half of the rows
      group_field (NAME): for begin: also show F1 by this field
      catch (SHARE): for thresholds: the share of errors to be read
      risk (SHARE): for thresholds: the share of accepted rows that may be wrong
      ensemble (NAME=SCORER,SCORER): the mean of several scorers' scores, each mapped from its range
        to 0 to 1; write a scorer of your own as SCORER:LOW:HIGH; -SCORER counts low scores as high
        ones (repeatable)
    """

    protocol: str = AUTO
    compare: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    worst: NotNegative = 5
    table: str = ""
    slice_field: str = ""
    dataset: str = "dialfact"
    split: str = "test"
    development: str = ""
    group_field: str = "source"
    catch: PositiveShare = 0.9
    risk: ShareBelow1 = 0.05
    ensemble: tuple[str, ...] = ()

    # Options that only some protocols read; with other protocols they are an error.
    OF_SOME_PROTOCOLS: ClassVar = frozenset(
        ("slice_field", "dataset", "split", "development", "group_field", "baseline", "compare")
        + ("catch", "risk")
        + ("below", "worst", "table", "test", "cluster_field", "undefined", "resamples")
        + ("confidence", "seed", "scorers", "ensemble", "histograms", "roc_curves")
    )

    def __post_init__(self):
        from faith_jax.runs.scores.protocols import load_protocol, protocol_names

        protocols_used = CHOSEN_BY_LABELS if self.protocol == AUTO else (self.protocol,)
        read = frozenset[str]().union(*(load_protocol(name).options for name in protocols_used))
        for field in dataclasses.fields(self):
            is_unread = field.name in self.OF_SOME_PROTOCOLS - read
            if is_unread and getattr(self, field.name) != field.default:
                protocols = [n for n in protocol_names() if field.name in load_protocol(n).options]
                by_labels = ", one of which is chosen without --protocol" * (self.protocol == AUTO)
                raise ConfigError(
                    f"--{field.name.replace('_', '-')}: goes with --protocol="
                    f"{' or '.join(protocols)}, not with {' or '.join(protocols_used)}{by_labels}."
                )
        super().__post_init__()

    @property
    def score_columns(self) -> tuple[str, ...]:
        """The columns of tables that are scores, including the members of ensembles."""
        from faith_jax.runs.scores.protocols import read_ensembles

        ensembles = read_ensembles(self.ensemble).values()
        members = (name.removeprefix("-") for ranges in ensembles for name in ranges)
        return (*self.scorers, *members)


@dataclasses.dataclass(frozen=True)
class EvaluateFiles(EvaluateOptions):
    """Files of scores to evaluate, and the outputs.

    Attributes:
      files (FILE): scored .jsonl, .csv or .parquet files, or TFDS folders
      json (PATH): write all figures
      markdown (PATH): write the table
      latex (PATH): write the table
      csv (PATH): write the table
      histograms (PATH): write the scores' distributions (PNG)
      roc_curves (PATH): write the ROC curves (PNG)
    """

    files: tuple[str, ...]
    _: dataclasses.KW_ONLY
    json: OutputPath = ""
    markdown: OutputPath = ""
    latex: OutputPath = ""
    csv: OutputPath = ""
    histograms: Png = ""
    roc_curves: Png = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ReportSalience:
    """Heat maps in a report.

    Attributes:
      salience_model (FOLDER): the language model
      salience_rows (N): how many rows have a map
      salience_threshold (SHARE): words below it are marked
      salience_method: gradient_x_input or gradient_l2
    """

    group: ClassVar = "salience: heat maps of where words come from (docs/salience.md)"
    salience_model: str = ""
    salience_rows: Positive = 5
    salience_threshold: Share = 0.1
    salience_method: str = "gradient_x_input"


@dataclasses.dataclass(frozen=True)
class ReportOptions(_ReportSalience, Comparison):
    """A page that shows scored files.

    Attributes:
      files (FILE): scored .jsonl, .csv or .parquet files, or TFDS folders
      output (HTML): the page; if there are many examples, they are in a folder beside it
      title: of the page (default: the files' names)
      most_examples (N): how many examples to show at most; figures use all rows
    """

    files: tuple[str, ...]
    _: dataclasses.KW_ONLY
    output: OutputPath
    title: str = ""
    most_examples: Positive = 1_000_000

    def __post_init__(self):
        super().__post_init__()
        for field in dataclasses.fields(_ReportSalience):
            if not self.salience_model and getattr(self, field.name) != field.default:
                raise ConfigError(f"--{field.name.replace('_', '-')}: goes with --salience-model.")
