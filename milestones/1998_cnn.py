"""Convolution: small weights, used at every place, forgive a small step.

Yann LeCun and others, LeNet-5, 1998, here on 8x8 digits. A convolution looks for the same strokes everywhere and pools
what it finds: few weights, many FLOPs. On pictures as taken, an MLP is close; moved by a pixel, as none was when they
learned, they part. By two pixels, both fail: pooling forgives a little.
"""

import numpy as np

from tinytorch.core.activations import ReLU
from tinytorch.core.dataloader import load_digits
from tinytorch.core.layers import Linear, Sequential, manual_seed
from tinytorch.core.optimizers import Adam
from tinytorch.core.spatial import Conv2d, Flatten, MaxPool2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.profiling import Profiler
from tito.stories import BLUE, RED, answers, claim, image, mosaic, profiled, sheet, sign_test, tell, trained

SHIFTS = range(-2, 3)


def moved(images, right):
    """Return pictures (N, 1, 8, 8) moved by so many pixels to the right; what is left free is empty paper."""
    padded = np.pad(images, ((0, 0), (0, 0), (0, 0), (2, 2)))
    return padded[..., 2 - right:10 - right]


def measure():
    """Train both on pictures as they are; test both on held-out pictures, moved to the side."""
    manual_seed(1998)
    (images, digits), (new, new_digits) = ((x.reshape(-1, 1, 8, 8), y) for x, y in map(load_digits, ("train", "test")))
    mlp = Sequential(Flatten(), Linear(64, 32), ReLU(), Linear(32, 10))
    cnn = Sequential(Conv2d(1, 16, 3, padding=1), ReLU(), MaxPool2d(2),
                     Conv2d(16, 32, 3, padding=1), ReLU(), MaxPool2d(2), Flatten(), Linear(128, 10))
    for model, epochs in ((mlp, 20), (cnn, 8)):
        trained(model, images, digits, epochs, Adam(model.parameters(), 0.005))
    right = {name: [answers(model, Tensor(moved(new, shift))) == new_digits for shift in SHIFTS]
             for name, model in (("mlp", mlp), ("cnn", cnn))}
    after_one = [(a, b) for shift, a, b in zip(SHIFTS, right["mlp"], right["cnn"]) if abs(shift) == 1]
    profiler = Profiler()
    return {"profile": [profiled("MLP", mlp, Tensor(new[:1])), profiled("CNN", cnn, Tensor(new[:1]))],
            "right": {name: [int(one.sum()) for one in each] for name, each in right.items()},
            "only_cnn": int(sum((b & ~a).sum() for a, b in after_one)),
            "only_mlp": int(sum((a & ~b).sum() for a, b in after_one)),
            "convolution": profiler.count_parameters(cnn.layers[0]),
            "dense": profiler.count_parameters(Linear(64, 16 * 64)),
            "filters": cnn.layers[0].weight.data[:, 0].tolist(),
            "example": [moved(new[3:4], shift)[0, 0].tolist() for shift in SHIFTS]}


def claims(found):
    """Few weights, many FLOPs, and a step to the side forgiven."""
    mlp, cnn = found["profile"]
    right = found["right"]
    return [claim("as taken: CNN right, of 355", right["cnn"][2], ">", 0.95 * 355),
            claim("as taken: MLP right, of 355", right["mlp"][2], ">", 0.95 * 355),
            claim("moved by a pixel: only the CNN right, not only the MLP", found["only_cnn"], ">", found["only_mlp"]),
            claim("such a lead by chance, sign test", sign_test(found["only_cnn"], found["only_mlp"]), "<", 0.001),
            claim("moved by two pixels: CNN right, of 710", right["cnn"][0] + right["cnn"][4], "<", 0.6 * 710),
            claim("parameters of the first convolution", found["convolution"], "==", 16 * 9 + 16),
            claim("parameters of a dense layer with as many outputs", found["dense"], "==", 64 * 1024 + 1024),
            claim("FLOPs of the CNN over those of the MLP", cnn["flops"] / mlp["flops"], ">", 10),
            claim("parameters of the CNN over those of the MLP", cnn["parameters"] / mlp["parameters"], "<", 10)]


def draw(found):
    """Draw how many are right at each step to the side, a digit so moved, and the filters."""
    left = {key: sum(number[i] for i in (1, 3)) / 710 for key, number in found["right"].items()}
    figure, (curve, filters) = sheet(f"1998: of digits moved by a pixel, a CNN reads {left['cnn']:.0%}, an MLP "
                                     f"{left['mlp']:.0%}", "right: the first convolution's filters of 3x3", (2, 1))
    for key, colour in (("mlp", RED), ("cnn", BLUE)):
        shares = [100 * number / 355 for number in found["right"][key]]
        curve.plot(SHIFTS, shares, "o-", color=colour, label=key.upper())
    curve.set(xlabel="pixels to the right", ylabel="right of 355 held-out pictures, %",
              xlim=(-2.3, 2.3), ylim=(-32, 103), yticks=range(0, 101, 25))
    curve.legend(frameon=False, loc="upper right")
    for shift, pixels in zip(SHIFTS, found["example"]):
        image(curve.inset_axes((shift - 0.2, -30, 0.4, 26), transform=curve.transData), pixels, cmap="Blues")
    image(filters, mosaic(found["filters"], 4), cmap="gray")
    return figure


if __name__ == "__main__":
    tell(__file__)
