"""The options of runs that make data, once: as the command line has them, and as the runs do.

`faith_jax.cli.parser` says how a field becomes an option. Nothing slow is imported here.
"""

import dataclasses
from typing import Annotated

import msgspec

from faith_jax.core.settings import (
    NotNegative,
    Positive,
    PositiveNumber,
    PositiveShare,
    Share,
    from_text,
)
from faith_jax.runs.options import Names


@dataclasses.dataclass(frozen=True, kw_only=True)
class GeneratorOptions:
    """How models respond to what is changed, and how the rows are shared.

    Attributes:
      vocabulary (FILE): the generators', where they carry none
      tagger: finds entities and parts of speech: spacy:PIPELINE, or rules, which needs no model and
        misses much
      max_length (N): tokens of a response
      max_input_length (N): tokens of an input
      batch_size (N): rows decoded at once
      seed (N): of substitutes and sampling
      top_p: of nucleus sampling, the paper's
      shards (N): into which the rows are split; any number of processes share them, by the same
        command on machines with a common disk (default: one for every 5,000 rows)
      restart: discard what a stopped run with other settings has made
    """

    vocabulary: str | None = None
    tagger: str = "spacy:en_core_web_sm"
    max_length: Positive = 64
    max_input_length: Positive = 512
    batch_size: Positive = 16
    seed: NotNegative = 0
    top_p: PositiveShare = 0.9
    shards: NotNegative = 0
    restart: bool = False


@dataclasses.dataclass(frozen=True)
class NegativesOptions(GeneratorOptions):
    """Settings of the making of negatives.

    Attributes:
      folder (FOLDER): of FaithDial's train.json, valid.json and test.json; or sample
      output (FOLDER): a new folder, of the files and the data set
      model (FOLDER): the generator, trained on Wizard of Wikipedia's responses
      perturbations (N): of each knowledge at most, by turns of entities and of verbs; with a
        response of Wizard of Wikipedia that is hallucinated the default makes the paper's 8
      top_p: of nucleus sampling, the paper's
    """

    folder: str
    _: dataclasses.KW_ONLY
    output: str
    model: str
    perturbations: Positive = 7
    top_p: PositiveShare = 0.6


@dataclasses.dataclass(frozen=True)
class MutateClaimsOptions(GeneratorOptions):
    """Settings of the making of claims.

    Attributes:
      folder (FOLDER): of Wizard of Wikipedia's train.json; or sample
      output (FOLDER): a new folder, of the files and the data set
      model (FOLDER): responds to other sentences; trained on Wizard of Wikipedia (without: no claim
        is generated)
      infiller (FOLDER): a T5 that fills masked words in, trained on wizard_of_wikipedia_infill as
        the paper's or only pre-trained (without: none)
      masker (FOLDER): an NLI classifier: the fewest words are masked without which it finds too
        little said (without: the first three words that the sentence has too)
      language_model (FOLDER): such as GPT-2: drops claims with more than 1.1 times the mean
        perplexity of a turn's claims (without: drops none)
      verifiers (FOLDERS): NLI classifiers: of a turn's claims the hardest ones are kept (without:
        the first ones)
      most (N): claims of a turn at most, beside its own
      unbalanced: keep all, also where a label has more claims than another
      validation_share: of the dialogues, in (0, 1]
      antonyms: of adjectives: wordnet, which NLTK has; wordnet:FOLDER; or list, which is short
      senses: find texts of a similar sense: list, which is short; wordnet or wordnet:FOLDER;
        vectors:PATH, a file in word2vec's text format or a folder of sense2vec; spacy:PIPELINE, one
        with vectors; or none
      temperature: of the generators, the paper's
    """

    folder: str
    _: dataclasses.KW_ONLY
    output: str
    model: str = ""
    infiller: str = ""
    masker: str = ""
    language_model: str = ""
    verifiers: Names = ()
    most: Positive = 4
    unbalanced: bool = False
    validation_share: PositiveShare = 0.02
    antonyms: str = "wordnet"
    senses: str = "list"
    temperature: PositiveNumber = 1.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class NpovTopics:
    """Which topics NPOV responses are on.

    Attributes:
      knowledge (FOLDER): of topics.jsonl; or sample, the topics in the package
      seed (N): of all that is drawn
    """

    knowledge: str = "sample"
    seed: NotNegative = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class NpovCombinations:
    """Topics and combinations of arguments to respond to.

    Attributes:
      splits (NAMES): whose topics, separated by commas (without: of all splits)
      combinations (N): of arguments a topic, at most
    """

    splits: Names = ("train", "validation", "test")
    combinations: Positive = 18


def _errors(text: str) -> float:
    """Returns how many rows with a synthetic error there are to each error-free one."""
    from faith_jax.datasets.augmentation.npov_errors import PUBLISHED_ERROR_FREE, PUBLISHED_ERRORS

    if text == "published":
        return PUBLISHED_ERRORS / PUBLISHED_ERROR_FREE
    expected = "a number above 0 and at most 3, the kinds of errors, or published"
    return from_text(text, Annotated[float, msgspec.Meta(gt=0, le=3, description=expected)])


@dataclasses.dataclass(frozen=True, kw_only=True)
class NpovErrors:
    """Which responses are free of errors, and which errors are put into them.

    Attributes:
      marks (FILE): people's marks of these responses, from `faith-jax annotate read --output`
        (without: a rule of words says which responses are free of errors)
      errors_per_response (NUMBER): rows with a synthetic error to each error-free response, at most
        3; published = 667/312, as in section 4.2 (without: one of each kind, up to 3)
      least_recall (SHARE): of an argument's words that a response tells, for the rule
      least_precision (SHARE): of a response's words that are given, for the rule
    """

    marks: str = ""
    errors_per_response: Annotated[float | None, _errors] = None
    least_recall: Share = 0.8
    least_precision: Share = 0.6


@dataclasses.dataclass(frozen=True, kw_only=True)
class NpovInputs(NpovCombinations, NpovTopics):
    """Inputs for a generator, and where they are written.

    Attributes:
      output (FOLDER): gets a file for each temperature: t0.0.jsonl and t0.7.jsonl
    """

    output: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class NpovSets(NpovErrors, NpovTopics):
    """Training and test sets of responses with errors.

    Attributes:
      input (FILE): responses, from t5x infer
      output (FOLDER): gets train_….jsonl, validation.jsonl and test_….jsonl, those of them that can
        be made; test.jsonl, all test sets in one; and sets.json, what is printed
    """

    input: str
    output: str
