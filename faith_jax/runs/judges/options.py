"""The options of the commands of judges."""

import dataclasses
from typing import Literal

from faith_jax.core.settings import OutputPath
from faith_jax.runs.options import Json, OpenShare


@dataclasses.dataclass(frozen=True)
class CertifyOptions:
    """The judge, its folder, and the scores to compare with.

    Attributes:
      card (CARD): a judge of the package, or the FILE.toml of a card of your own
      folder (FOLDER): the judge's model (default: a tiny random model of the card's family, with
        reference scores by the authors' code)
      dtype: of activations, compared with float32 (default: bfloat16 for a FOLDER, else float32)
      references (JSONL): scores of the pairs by the judge's own code with the published model:
        {"pair": 1, "score": 0.93} on each line
      tolerance (NUMBER): the largest difference that is certified (default: 0.0001 from references,
        0.05 for bfloat16, 0.2 for bfloat16 with the tiny model, which is more sensitive)
      vocabulary (FOLDER): of the tokenizer, if it is not with the model
      write_pairs (JSONL): write the 200 pairs, for the judge's own code
      write_model (FOLDER): write the tiny random model, to try any card of its family with
      json (OUT.json): write all figures and scores
    """

    card: str
    folder: str = ""
    _: dataclasses.KW_ONLY
    dtype: Literal["float32", "bfloat16"] | None = None
    references: str = ""
    tolerance: OpenShare | None = None
    vocabulary: str = ""
    write_pairs: OutputPath = ""
    write_model: OutputPath = ""
    json: Json = ""


@dataclasses.dataclass(frozen=True)
class ExportScorerOptions:
    """The judge, its model, and the output folder.

    Attributes:
      card (CARD): a judge of the package, or the FILE.toml of a card of your own
      folder (FOLDER): the judge's model
      output (OUT): the folder to write
      option (NAME=VALUE): an option of the judge, as in score's --scorer-option (repeatable)
    """

    card: str
    folder: str
    output: OutputPath
    _: dataclasses.KW_ONLY
    option: tuple[str, ...] = ()
