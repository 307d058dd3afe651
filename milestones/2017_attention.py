"""Attention: look up what matters, wherever it stands.

Ashish Vaswani and others, 2017. Each made-up sequence is a small dictionary: eight keys with a value each, new every
time, then a key whose value is asked for. Attention weighs the values by how well their keys fit the question; the same
model with equal weights has one blurred summary of all. What is learned holds for twice as many pairs. The price: each
is compared with each, and the order is not seen at all.
"""

import numpy as np

from tinytorch.core.attention import MultiHeadAttention, attention_weights
from tinytorch.core.autograd import no_grad
from tinytorch.core.embeddings import Embedding
from tinytorch.core.layers import Layer, Linear, manual_seed
from tinytorch.core.optimizers import Adam
from tinytorch.core.tensor import Tensor
from tinytorch.perf.profiling import Profiler
from tito.stories import RED, SKY, answers, claim, profiled, sheet, tell, trained

KEYS, VALUES, WIDTH, PAIRS = 16, 10, 32, 8
LENGTHS = range(128, 1025, 128)


class Lookup(Layer):
    """T keys, their T values and the key asked for, (B, 2 T + 1) -> scores of the values (B, VALUES)."""

    def __init__(self, attends):
        self.keys, self.values, self.head = Embedding(KEYS, WIDTH), Embedding(VALUES, WIDTH), Linear(WIDTH, VALUES)
        self.attends = attends

    def weights(self, tokens):
        """Return how much the question looks at each pair: (B, 2 T + 1) -> (B, 1, T)."""
        B, T = tokens.shape[0], tokens.shape[1] // 2
        if not self.attends:
            return Tensor(np.full((B, 1, T), 1 / T))
        return attention_weights(self.keys(tokens[:, 2 * T:]), self.keys(tokens[:, :T]))

    def forward(self, tokens):
        """Take the values by these weights: (B, 1, T) @ (B, T, WIDTH) -> (B, VALUES)."""
        T = tokens.shape[1] // 2
        return self.head((self.weights(tokens) @ self.values(tokens[:, T:2 * T]))[:, 0])


def made_up(number, pairs, seed=0):
    """Return tokens (number, 2 pairs + 1) and the values asked for (number,)."""
    rng = np.random.default_rng(seed)
    keys = rng.permuted(np.tile(np.arange(KEYS), (number, 1)), axis=1)[:, :pairs]
    values, at = rng.integers(0, VALUES, (number, pairs)), rng.integers(0, pairs, (number, 1))
    asked, wanted = np.take_along_axis(keys, at, 1), np.take_along_axis(values, at, 1)
    return np.concatenate([keys, values, asked], axis=1), wanted[:, 0]


def measure():
    """Train both; test on new sequences, on longer ones, on the same in reverse; count what length costs."""
    models, profiler, layer = {}, Profiler(), MultiHeadAttention(64, 4)
    for name in ("equal weights", "attention"):
        manual_seed(2017)
        model = models[name] = Lookup(attends=name == "attention")
        trained(model, *made_up(3072, PAIRS), 5, Adam(model.parameters(), 0.02), batch=64)
    (tokens, wanted), (longer, wanted_longer) = made_up(1000, PAIRS, 1), made_up(1000, 2 * PAIRS, 1)
    reverse = [*range(PAIRS)[::-1], *range(PAIRS, 2 * PAIRS)[::-1], 2 * PAIRS]
    in_turn = np.tile(tokens[0], (PAIRS, 1))
    in_turn[:, -1] = tokens[0, :PAIRS]  # one sequence, each of its keys asked for
    with no_grad():
        change = model(Tensor(tokens)) - model(Tensor(tokens[:, reverse]))
        weights = model.weights(Tensor(in_turn)).data[:, 0]
    return {"profile": [profiled(name, one, Tensor(tokens[:1])) for name, one in models.items()],
            "right": {name: int((answers(one, Tensor(tokens)) == wanted).sum()) for name, one in models.items()},
            "longer": int((answers(model, Tensor(longer)) == wanted_longer).sum()),
            "order": float(abs(change.data).max()), "keys": in_turn[:, -1].tolist(), "weights": weights.tolist(),
            "flops": [profiler.flop_report(layer, (1, length, 64)).contractions for length in LENGTHS]}


def claims(found):
    """Attention finds the pair, also among more; it is blind to order, and quadratic."""
    return [claim("attention: right, of 1,000", found["right"]["attention"], ">", 950),
            claim("attention, twice the pairs it trained on: right, of 1,000", found["longer"], ">", 950),
            claim("equal weights: right, of 1,000", found["right"]["equal weights"], "<", 500),
            claim("the pairs in reverse: largest change of a score", found["order"], "<", 1e-3),
            claim("parameters", found["profile"][1]["parameters"], "==", (16 + 10 + 10) * 32 + 10),
            claim("FLOPs of 1,024 tokens, width 64", found["flops"][-1], "==", 8 * 1024 * 64**2 + 4 * 1024**2 * 64),
            claim("8 times the tokens, so many times the FLOPs", found["flops"][-1] / found["flops"][0], ">", 8)]


def draw(found):
    """Draw where each question looks, and what a longer sequence costs."""
    right = found["right"]
    figure, (look, cost) = sheet(
        f"2017: of 1,000 questions, attention answers {right['attention']:,}, equal weights {right['equal weights']:,}",
        "left: how each question of a sequence weighs its pairs; right: multi-head attention of width 64", (1, 1.3))
    look.imshow(found["weights"], cmap="Blues", vmin=0, vmax=1)
    look.set(xticks=range(PAIRS), yticks=range(PAIRS), xticklabels=found["keys"], yticklabels=found["keys"],
             xlabel="the pair of key ...", ylabel="asked for key ...")
    linear, whole = [8 * length * 64**2 / 1e6 for length in LENGTHS], [flops / 1e6 for flops in found["flops"]]
    cost.fill_between(LENGTHS, linear, color=SKY, label="projections: linear")
    cost.fill_between(LENGTHS, linear, whole, color=RED, label="each with each: quadratic")
    cost.set(xlabel="tokens", ylabel="millions of FLOPs", xlim=(128, 1024), ylim=(0, None))
    cost.legend(frameon=False, loc="upper left", fontsize=9)
    return figure


if __name__ == "__main__":
    tell(__file__)
