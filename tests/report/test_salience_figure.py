import dataclasses

import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.report.salience_figure import save_heat_map
from faith_jax.report.salience_picture import salience_picture
from tests.report.salience_example import EXAMPLE, word_salience


def pixels(path):
    from matplotlib import pyplot

    return pyplot.imread(path)


def test_a_picture_of_the_map(tmp_path):
    path = tmp_path / "map.png"
    save_heat_map(salience_picture(EXAMPLE, word_salience()), path)
    image = pixels(path)
    dark_blue = (image[..., 2] > 0.3) & (image[..., 0] < 0.2) & (image[..., 1] < 0.45)
    assert dark_blue.sum() > 500  # the two copied words
    blank = tmp_path / "blank.png"
    save_heat_map(salience_picture(EXAMPLE, word_salience(values=np.zeros((5, 4)))), blank)
    image = pixels(blank)
    half = image[:, : image.shape[1] * 3 // 4]  # without the colour bar
    assert not ((half[..., 2] > 0.3) & (half[..., 0] < 0.2) & (half[..., 1] < 0.45)).any()
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["blank.png", "map.png"]


def test_signs_of_formulas_are_plain_text(tmp_path):
    example = dataclasses.replace(EXAMPLE, id="$\\frac{1}$", history=("Is $x^2 tea?",))
    save_heat_map(salience_picture(example, word_salience()), tmp_path / "map.png")
    assert (tmp_path / "map.png").exists()


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="cannot be written"):
        save_heat_map(salience_picture(EXAMPLE, word_salience()), tmp_path / "no" / "map.png")
