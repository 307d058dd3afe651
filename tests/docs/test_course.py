"""What the tier pages draw of the course: two layers of one class are two lines."""

import sys
from pathlib import Path

import numpy as np

from tinytorch import Tensor
from tinytorch.zoo import digits_cnn

EXTENSIONS = str(Path(__file__).parents[2] / "docs" / "_ext")
sys.path.insert(0, EXTENSIONS)
import course  # noqa: E402

sys.path.remove(EXTENSIONS)


def test_every_layer_has_a_line():
    model, image = digits_cnn(), Tensor(np.zeros((1, 1, 8, 8), np.float32))
    lines = [line.split(maxsplit=1) for line in course.layer_lines(lambda: model(image)).splitlines()]
    assert [name for name, _ in lines] == ["Sequential", *(type(layer).__name__ for layer in model.layers)]
    assert [shape for name, shape in lines if name == "Conv2d"] == ["(1, 16, 8, 8)", "(1, 32, 4, 4)"]
