"""The perceptron learns what one line can divide.

Frank Rosenblatt, 1957. Each pixel has a weight; the sum says yes or no. After a wrong answer the picture is added to
the weights, or taken away. On two digits the mistakes end. Asked which digits are even, it goes on making them.
"""

import numpy as np

from tinytorch.core.dataloader import load_digits
from tinytorch.core.layers import Linear, manual_seed
from tinytorch.core.tensor import Tensor
from tito.stories import BLUE, RED, claim, image, profiled, sheet, tell

PASSES = 40


def learn(machine, images, wanted, passes):
    """Show all pictures (N, 64) with their answers, 1 or -1, until a pass is right; return the mistakes of each."""
    mistakes = []
    while len(mistakes) < passes and (not mistakes or mistakes[-1]):
        mistakes.append(0)
        for x, y in zip(images, wanted):
            if y * machine(Tensor(x)).item() <= 0:
                machine.weight.data += y * x[:, None]
                machine.bias.data += y
                mistakes[-1] += 1
    return mistakes


def right(machine, images, wanted):
    """Return the share of right answers."""
    return float(np.mean(wanted * machine(Tensor(images)).data[:, 0] > 0))


def measure():
    """Tell 1 from 8, then even from odd; test both on pictures that were held out."""
    (images, digits), (new, new_digits) = load_digits("train"), load_digits("test")
    pair, new_pair = np.isin(digits, (1, 8)), np.isin(new_digits, (1, 8))
    wanted = np.where(digits[pair] == 8, 1, -1)
    manual_seed(1957)
    eight, even = Linear(64, 1), Linear(64, 1)
    learned = learn(eight, images[pair], wanted, PASSES)
    never = learn(even, images, np.where(digits % 2 == 0, 1, -1), PASSES)
    return {"profile": [profiled("perceptron", eight, Tensor(images[:1]))],
            "pair": {"pictures": int(pair.sum()), "mistakes": learned,
                     "held_out": right(eight, new[new_pair], np.where(new_digits[new_pair] == 8, 1, -1)),
                     "weights": eight.weight.data.reshape(8, 8).tolist()},
            "even": {"pictures": len(digits), "mistakes": never,
                     "held_out": right(even, new, np.where(new_digits % 2 == 0, 1, -1))}}


def claims(found):
    """A line divides 1 from 8; none is found that divides even from odd."""
    pair, even, row = found["pair"], found["even"], found["profile"][0]
    return [claim("weights and a threshold", row["parameters"], "==", 64 + 1),
            claim("FLOPs for an answer", row["flops"], "==", 2 * 64),
            claim("1 or 8: mistakes in the last pass", pair["mistakes"][-1], "==", 0),
            claim("1 or 8: share right of held-out pictures", pair["held_out"], ">=", 0.8),
            claim(f"even or odd: fewest mistakes in any of {PASSES} passes", min(even["mistakes"]), ">", 0),
            claim("even or odd: share right of held-out pictures", even["held_out"], "<", 0.95)]


def draw(found):
    """Draw the mistakes of each pass, and the weights as a picture."""
    pair, even = found["pair"], found["even"]
    figure, (curve, weights) = sheet(
        f"1957: told 1 from 8 after {len(pair['mistakes'])} passes, even from odd not in {PASSES}", "left: mistakes "
        "in percent of the pictures; right: the weights that tell 8 (where red, ink speaks for it) from 1", (2, 1))
    for one, name, colour in ((even, "even or odd", RED), (pair, "1 or 8", BLUE)):
        shares = [100 * number / one["pictures"] for number in one["mistakes"]]
        curve.plot(range(1, len(shares) + 1), shares, "o-", color=colour, markersize=3.5, label=name)
    curve.set(xlabel="pass over all pictures", ylabel="mistakes, %", ylim=(0, None))
    curve.legend(frameon=False)
    most = max(abs(weight) for row in pair["weights"] for weight in row)
    image(weights, pair["weights"], cmap="RdBu_r", vmin=-most, vmax=most)
    return figure


if __name__ == "__main__":
    tell(__file__)
