"""The commands for knowledge bases: index, embed, evidence and check."""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from faith_jax.core.settings import NotNegative, OutputPath, Positive
from faith_jax.runs.options import CheckOptions, EvidenceOptions


@dataclasses.dataclass(frozen=True)
class Index:
    """Makes a knowledge base of Wikipedia or other articles, to find evidence in.

    WIKIPEDIA is a MediaWiki XML dump (.xml, .bz2 or .gz), KILT's JSON lines, JSON lines or a table
    with title and text (optionally aliases and url), a folder of such files, a folder of a TFDS
    data set, or sample, the embedded encyclopedia. FOLDER gets one SQLite file with the articles,
    their names and a BM25 index. A run that was stopped resumes when the same command is given
    again.

    Attributes:
      wikipedia (WIKIPEDIA): the source of the articles
      folder (FOLDER): the folder to write the knowledge base to
      paragraphs (N): how many paragraphs to keep from the beginning of an article; 0 keeps all
      processes (N): how many processes parse the wikitext of a dump (default: one per core)
      restart: discard the work of a stopped run with this folder

    Examples:
      %(prog)s enwiki-latest-pages-articles.xml.bz2 knowledge/enwiki
      %(prog)s kilt_knowledgesource.json knowledge/kilt
      %(prog)s articles.jsonl knowledge/ours --paragraphs=0
      %(prog)s sample knowledge/sample
    """

    wikipedia: str
    folder: OutputPath
    _: dataclasses.KW_ONLY
    paragraphs: NotNegative = 5
    processes: Positive | None = None
    restart: bool = False

    kept: ClassVar = "what is indexed is kept; the same command resumes there."

    def run(self) -> list[str]:
        from faith_jax.runs.data.knowledge import index

        return index(self.wikipedia, self.folder, self.paragraphs, self.processes, self.restart)


@dataclasses.dataclass(frozen=True)
class Embed:
    r"""Makes the vectors of a knowledge base's passages, for dense retrieval.

    MODEL is an encoder, such as DPR's passage encoder or a BERT trained by
    dialfact_dense_finetune.gin. A run that was stopped resumes. With --faiss, FOLDER also gets an
    index for approximate search; if FOLDER has vectors already, only the index is made.

    Attributes:
      knowledge_base (KNOWLEDGE_BASE): a folder that faith-jax index made; or sample, the embedded
        encyclopedia
      folder (FOLDER): the folder to write the vectors to
      model (MODEL): the encoder of passages
      vocabulary (FILE): the model's tokenizer, if its folder has none
      faiss (FACTORY): the index, as faiss names it, such as HNSW32 or IVF4096,PQ64; needs the extra
        faiss
      restart: discard the work of a stopped run with this folder

    Examples:
      %(prog)s knowledge/enwiki knowledge/enwiki_dpr --model=checkpoints/dpr-ctx_encoder
      %(prog)s knowledge/enwiki knowledge/enwiki_dpr --model=checkpoints/dpr-ctx_encoder \
          --faiss=IVF4096,PQ64
    """

    knowledge_base: str
    folder: OutputPath
    _: dataclasses.KW_ONLY
    model: str
    vocabulary: str | None = None
    faiss: str = ""
    restart: bool = False

    opens_checkpoints: ClassVar = True
    kept: ClassVar = "what is encoded is kept; the same command resumes there."

    def run(self) -> str:
        from faith_jax.retrieval.dense import embed
        from faith_jax.runs.data.knowledge import open_base

        base = open_base(self.knowledge_base)
        vectors = embed(base, self.model, self.folder, self.vocabulary, self.restart, self.faiss)
        count, size = vectors.values.shape
        return f"{self.folder}: {count:,} vectors of {size}"


class Evidence(EvidenceOptions):
    r"""Finds evidence for claims in a knowledge base, and measures the recall of gold evidence.

    Retrieves documents for each claim by the names in it, by BM25 or by vectors, ranks their
    sentences (Gupta 2022, section 5.2), and writes them as DialFact's retrieved evidence, which the
    tasks dialfact_verify_retrieved read. Prints recall if claims have gold evidence. A run that was
    stopped resumes.

    Examples:
      %(prog)s sample sample --output=evidence.jsonl
      %(prog)s test_split.jsonl knowledge/enwiki --output=test_evidence.jsonl
      %(prog)s test_split.jsonl knowledge/enwiki --retrievers=entities --context-turns=0 \
          --tagger=spacy:en_core_web_sm --evidence-model=runs/evidence --output=claim_only.jsonl
    """

    opens_checkpoints = True
    kept = "what is found is kept; the same command resumes there."

    def run(self) -> Iterator[str]:
        from faith_jax.runs.data.find_evidence import evidence

        return evidence(self)


class Check(CheckOptions):
    r"""Checks the claims of responses: whether they are verifiable and supported by evidence.

    Each sentence of a response is a claim. Its evidence is found in a knowledge base, and a
    verifier says whether the evidence SUPPORTS or REFUTES it or is NOT ENOUGH INFO (Gupta 2022). A
    claim that shares no words with any sentence is NOT VERIFIABLE. A run that was stopped resumes.

    Examples:
      %(prog)s --claim="The accordion has bellows and keys." --history="What instrument is that?"
      %(prog)s --input=responses.jsonl --knowledge-base=knowledge/enwiki \
          --model=checkpoints/deberta_nli --output=checked.jsonl --html=checked.html
    """

    opens_checkpoints = True
    kept = "what is found is kept; the same command resumes there."

    def run(self) -> Iterator[str]:
        from faith_jax.runs.scores.check import check

        return check(self)
