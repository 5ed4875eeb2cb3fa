"""SummaC-Conv's reading of a sentence: how many chunks support it how much (Laban et al. 2022).

In place of the largest support alone, a layer of weights reads the histogram of all, as in the
authors' summac/model_summac.py.
"""

import dataclasses
import pathlib

import numpy as np
import scipy.special

from faith_jax.checkpoints.tensors import read_header
from faith_jax.core.errors import ConfigError
from faith_jax.scoring.judges.card import Histogram

_LINEAR, _FINAL = "mlp", "layer_final"  # as the authors' code names its layers
_CLASSES, _FEATURES = 2, 3
_SUPPORTED = 1


@dataclasses.dataclass(frozen=True)
class HistogramWeights:
    """The weights of SummaC-Conv behind its NLI model.

    Attributes:
      edges: of the bins of support, float64 [bins + 1], in [0, 1].
      linear: of the counts, float64 [bins].
      bias: added to their sum.
      final: logits of "not supported" and "supported" by three features of a response, [2, 3].
      final_bias: [2].
    """

    edges: np.ndarray
    linear: np.ndarray
    bias: float
    final: np.ndarray
    final_bias: np.ndarray

    def feature(self, support: np.ndarray) -> float:
        """Returns the feature of a sentence; whether a higher one is better, the weights say.

        Args:
          support: of the sentence by each chunk, [chunks] in [0, 1].
        """
        counts, _ = np.histogram(support, self.edges)
        return float(counts @ self.linear) + self.bias

    def probability(self, feature: float) -> float:
        """Returns the probability of support by a feature, in [0, 1]; higher = more faithful."""
        # The features are the smallest, the mean and the largest where they are trained on all
        # three; the published weights have been trained on the mean in place of each.
        logits = self.final @ np.full(_FEATURES, feature) + self.final_bias
        return float(scipy.special.softmax(logits)[_SUPPORTED])


def read_histogram(card: Histogram, folder: pathlib.Path) -> HistogramWeights:
    """Returns the weights that lie beside a model.

    Raises:
      ConfigError: the file is not there, or its tensors are not those of the card's bins.
      CheckpointError: the file is malformed.
    """
    path = folder / card.file
    if not path.is_file():
        raise ConfigError(
            f"{path}: there is no such file, from which the card reads the weights of its "
            "histogram; docs/judges.md says how to make it."
        )
    bins = len(card.edges) - 1
    shapes = {
        f"{_LINEAR}.weight": (1, bins),
        f"{_LINEAR}.bias": (1,),
        f"{_FINAL}.weight": (_CLASSES, _FEATURES),
        f"{_FINAL}.bias": (_CLASSES,),
    }
    stored, _ = read_header(path)
    for name, shape in shapes.items():
        actual = stored[name].shape if name in stored else None
        if actual != shape:
            raise ConfigError(
                f"{path}: {name}: expected a tensor {list(shape)}, of {bins} bins, "
                f"{'got none' if actual is None else f'got {list(actual)}'}."
            )
    arrays = {name: np.asarray(stored[name].floats(), np.float64) for name in shapes}
    return HistogramWeights(
        np.array(card.edges),
        arrays[f"{_LINEAR}.weight"][0],
        float(arrays[f"{_LINEAR}.bias"][0]),
        arrays[f"{_FINAL}.weight"],
        arrays[f"{_FINAL}.bias"],
    )
