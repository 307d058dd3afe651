"""Backpropagation: hidden units are learned, and XOR and even-or-odd with them.

David Rumelhart, Geoffrey Hinton and Ronald Williams, 1986. The chain rule, walked backward through the layers, gives
the derivatives by all weights for about the price of a forward pass; trying one weight at a time takes a pass for each.
What a line could not do is learned. On the ten digits, a line for each was nearly as good before.
"""

import numpy as np

from tinytorch.core.activations import Tanh
from tinytorch.core.dataloader import load_digits
from tinytorch.core.layers import Linear, Sequential, manual_seed
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.optimizers import SGD
from tinytorch.core.tensor import Tensor
from tinytorch.perf.profiling import Profiler
from tito.stories import BLUE, RED, answers, claim, image, mosaic, profiled, sheet, sign_test, tell, trained

BITS, XOR = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32), np.array([0, 1, 1, 0])


def learned(inputs, targets, epochs, *layers):
    """Train these layers by gradient descent with momentum; return the model and its loss after each epoch."""
    model = Sequential(*layers)
    return model, trained(model, inputs, targets, epochs, SGD(model.parameters(), 0.05, 0.9))


def measure():
    """Learn XOR, even or odd, and the ten digits; count what the walk back costs."""
    manual_seed(1986)
    (images, digits), (new, new_digits) = load_digits("train"), load_digits("test")
    xor, _ = learned(BITS, XOR, 200, Linear(2, 4), Tanh(), Linear(4, 2))
    line, line_loss = learned(images, digits % 2, 20, Linear(64, 2))
    parity, parity_loss = learned(images, digits % 2, 20, Linear(64, 32), Tanh(), Linear(32, 2))
    lines, _ = learned(images, digits, 20, Linear(64, 10))
    mlp, _ = learned(images, digits, 20, Linear(64, 32), Tanh(), Linear(32, 10))
    cost = Profiler().profile_backward_pass(mlp, Tensor(images[:1]), lambda out: CrossEntropyLoss()(out, digits[:1]))
    by_line, by_hidden = (answers(model, Tensor(new)) == new_digits % 2 for model in (line, parity))
    ten_lines, ten_hidden = (answers(model, Tensor(new)) == new_digits for model in (lines, mlp))
    return {"profile": [profiled("a line for each digit", lines, Tensor(new[:1])),
                        profiled("32 hidden units", mlp, Tensor(new[:1]))],
            "xor": int((answers(xor, Tensor(BITS)) == XOR).sum()), "pictures": len(new),
            "parity": {"line": int(by_line.sum()), "hidden": int(by_hidden.sum()),
                       "only_line": int((by_line & ~by_hidden).sum()),
                       "only_hidden": int((by_hidden & ~by_line).sum()),
                       "line_loss": line_loss, "hidden_loss": parity_loss},
            "digits": {"lines": int(ten_lines.sum()), "hidden": int(ten_hidden.sum())},
            "backward": {"forward_flops": cost["forward_flops"], "backward_flops": cost["backward_flops"]},
            "features": parity.layers[0].weight.data.T.reshape(32, 8, 8).tolist()}


def claims(found):
    """What 1969 and 1957 could not do is learned, and the gradient is cheap."""
    parity, digits, cost = found["parity"], found["digits"], found["backward"]
    return [claim("XOR learned from a random start: right, of 4", found["xor"], "==", 4),
            claim("even or odd, a line: right, of 355", parity["line"], "<", 0.95 * 355),
            claim("even or odd, 32 hidden units: right, of 355", parity["hidden"], ">", 0.95 * 355),
            claim("the same by chance, sign test", sign_test(parity["only_hidden"], parity["only_line"]), "<", 0.05),
            claim("ten digits, 32 hidden units: right, of 355", digits["hidden"], ">", 0.95 * 355),
            claim("ten digits, a line for each: right, of 355", digits["lines"], ">", 0.93 * 355),
            claim("parameters", found["profile"][1]["parameters"], "==", 64 * 32 + 32 + 32 * 10 + 10),
            claim("all their derivatives cost so many forward passes",
                  cost["backward_flops"] / cost["forward_flops"], "<", 2)]


def draw(found):
    """Draw both losses for even or odd, and what the hidden units look at."""
    figure, (curve, units) = sheet(f"1986: even or odd: a line is right on {found['parity']['line']} of 355, hidden "
                                   f"units on {found['parity']['hidden']}", "right: the weights of the 32 units, "
                                   "each a picture of 8x8 (where red, ink makes it answer more)", (1, 1))
    for key, name, colour in (("line_loss", "a line", RED), ("hidden_loss", "32 hidden units", BLUE)):
        losses = found["parity"][key]
        curve.plot(range(1, len(losses) + 1), losses, "o-", color=colour, markersize=3.5, label=name)
    curve.set(xlabel="epoch", ylabel="cross entropy on the training pictures", ylim=(0, None))
    curve.legend(frameon=False)
    most = np.abs(found["features"]).max()
    image(units, mosaic(found["features"], 8), cmap="RdBu_r", vmin=-most, vmax=most)
    return figure


if __name__ == "__main__":
    tell(__file__)
