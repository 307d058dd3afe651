"""XOR: of 16 questions about two bits, a perceptron learns 14.

Marvin Minsky and Seymour Papert, Perceptrons, 1969. No line divides pairs of bits that differ from those that do not.
Nor does it take patience to see that this is never learned: weights come back that were there before, and from then on
all repeats. Two hidden units, set by hand, answer at once; how to learn them is a story of 1986.
"""

import numpy as np

from tinytorch.core.activations import ReLU
from tinytorch.core.layers import Linear, Sequential
from tinytorch.core.tensor import Tensor
from tito.stories import BLUE, GRID, INK, RED, YELLOW, claim, profiled, sheet, tell

BITS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)
XOR, SAME = 0b0110, 0b1001  # a question is the number whose bits are its four answers


def unit(weights, bias):
    """Return a Linear with these weights, a row for each input."""
    layer = Linear(*np.shape(weights))
    layer.weight.data[:], layer.bias.data[:] = weights, bias
    return layer


def learn(question):
    """Teach it one question from weights 0: passes until all is right, or until weights come back; and the weights."""
    machine, seen, wanted = unit([[0], [0]], 0), [], [1 if question >> i & 1 else -1 for i in range(4)]
    while True:
        before, mistakes = (*machine.weight.data[:, 0].tolist(), *machine.bias.data.tolist()), 0
        if before in seen:
            return {"question": question, "learned": False, "passes": len(seen), "weights": before}
        seen.append(before)
        for x, y in zip(BITS, wanted):
            if y * machine(Tensor(x)).item() <= 0:
                machine.weight.data += y * x[:, None]
                machine.bias.data += y
                mistakes += 1
        if not mistakes:
            return {"question": question, "learned": True, "passes": len(seen), "weights": before}


def measure():
    """Teach all 16 questions, each to a new machine; then ask two hidden units that were set by hand."""
    by_hand = Sequential(unit([[1, 1], [1, 1]], [0, -1]), ReLU(), unit([[1], [-2]], 0))  # relu(s) - 2 relu(s - 1)
    return {"questions": [learn(question) for question in range(16)],
            "by_hand": by_hand(Tensor(BITS)).data[:, 0].tolist(),
            "profile": [profiled("perceptron", unit([[0], [0]], 0), Tensor(BITS[:1])),
                        profiled("two hidden units", by_hand, Tensor(BITS[:1]))]}


def claims(found):
    """All but XOR and its opposite are learned; those two go round for ever."""
    failed = [one["question"] for one in found["questions"] if not one["learned"]]
    one, two = found["profile"]
    return [claim("questions learned, of 16", 16 - len(failed), "==", 14),
            claim("not learned: do they differ, are they the same", sum(one in failed for one in (XOR, SAME)), "==", 2),
            claim("XOR: passes until the weights come back", found["questions"][XOR]["passes"], "<=", 100),
            claim("XOR with two hidden units set by hand: right, of 4",
                  sum(float(came) == float(XOR >> i & 1) for i, came in enumerate(found["by_hand"])), "==", 4),
            claim("parameters of a perceptron", one["parameters"], "==", 2 + 1),
            claim("parameters with two hidden units", two["parameters"], "==", (4 + 2) + (2 + 1)),
            claim("FLOPs with two hidden units", two["flops"], "==", 8 + 2 + 4)]


def draw(found):
    """Draw each question as four points, with the line that was learned; no line where there is none."""
    figure, panels = sheet("1969: of 16 questions about two bits, a perceptron learns 14",
                           "a point for each pair of bits: yellow is yes, blue no; shaded: where the machine says yes; "
                           "XOR and its opposite have no such line, and its weights go round for ever", [1] * 8, rows=2)
    side = np.linspace(-0.4, 1.4, 60)
    for panel, one in zip(panels, found["questions"]):
        first, second, bias = one["weights"]
        yes = first * side[None] + second * side[:, None] + bias > 0
        panel.imshow(yes & one["learned"], origin="lower", extent=(-0.4, 1.4, -0.4, 1.4), cmap="Greys", vmin=0, vmax=5)
        panel.scatter(*BITS.T, c=[YELLOW if one["question"] >> i & 1 else BLUE for i in range(4)], s=60, edgecolors=INK)
        colour, width = (GRID, 1) if one["learned"] else (RED, 3)
        panel.spines[:].set(visible=True, color=colour, linewidth=width)
        panel.set(xticks=[], yticks=[])
        panel.set_title({XOR: "XOR: do they differ?", SAME: "the same?"}.get(one["question"]), fontsize=8, color=RED)
    return figure


if __name__ == "__main__":
    tell(__file__)
