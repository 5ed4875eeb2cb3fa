"""Tiny random models of the judges' families, with tokenizers in published form."""

import pathlib
import shutil

import pytest

from faith_jax.runs.judges import certify
from faith_jax.runs.judges.reference_models import write_histogram
from tests.checkpoints.hugging_face import test_hhem
from tests.scoring import tiny_models

CLASSES = ("LABEL_0", "LABEL_1", "LABEL_2")
LONG = {"max_positions": 600}
# The model of each card: its family, and the number of classes of its head.
HEADS = {
    "minicheck_roberta_large": ("roberta", 2),
    "minicheck_deberta_v3_large": ("deberta_nli", 2),
    "factcg_deberta_v3_large": ("deberta_nli", 2),
    "wecheck_deberta_v3": ("deberta_nli", 3),
    "summac_zs_vitaminc": ("albert", 3),
    "alignscore": ("roberta", 3),
    "hhem_2_1_open": ("hhem", 2),
}
T5 = (
    "minicheck_flan_t5_large",
    "true_t5_xxl",
    "trueteacher_t5_11b",
    "attrscore_flan_t5",
    "scale_flan_t5",
    "unieval_fact",
    "unieval_sum",
)


class Models:
    """Writes each model at its first use."""

    def __init__(self, folder: pathlib.Path):
        self._folder = folder
        self._paths: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        """Returns the folder of a model for a card."""
        if name == "summac_conv_vitaminc":
            return self._with_histogram()
        if name.startswith("lettucedetect"):
            return self._of_tokens()
        family, classes = HEADS.get(name, ("t5", 0))
        key = f"{family}_{classes}"
        if key not in self._paths:
            folder = self._folder / key
            if family == "t5":
                self._paths[key] = tiny_models.write_judge_t5(folder)
            elif family == "hhem":
                self._paths[key] = test_hhem.write(folder, **test_hhem.DIMENSIONS)
                shutil.copy(f"{self['unieval_sum']}/spiece.model", folder)
            else:
                self._paths[key] = tiny_models.write_model(
                    folder, family, label_names=CLASSES[:classes], **LONG
                )
        return self._paths[key]

    def _with_histogram(self) -> str:
        folder = self._folder / "histogram"
        if not folder.exists():
            shutil.copytree(self["summac_zs_vitaminc"], folder)
            write_histogram(folder / "summac_conv.safetensors", 23)
        return str(folder)

    def _of_tokens(self) -> str:
        folder = self._folder / "modernbert"
        if not folder.exists():
            certify.reference_model(folder, "lettucedetect_qa", "modernbert")
        return str(folder)


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    return Models(tmp_path_factory.mktemp("judges"))
