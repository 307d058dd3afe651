"""Trained for real: a tiny GPT copies and reverses sequences it has never seen, all of them right."""

import numpy as np
import pytest

from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.optimizers import Adam
from tinytorch.core.training import CosineSchedule, Trainer
from tinytorch.core.transformers import GPT, next_token_pairs

LENGTH, SIGN = 5, 10  # five digits, the sign, five digits: 100,000 texts


def texts(count, task, rng):
    digits = rng.integers(0, 10, (count, LENGTH))
    answers = digits if task == "copy" else digits[:, ::-1]
    return np.concatenate([digits, np.full((count, 1), SIGN), answers], axis=1)


def answers_only(logits, targets):
    return CrossEntropyLoss()(logits[:, LENGTH:], targets[:, LENGTH:])


@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_a_tiny_gpt_learns_it_perfectly(task):
    rng = np.random.default_rng(0)
    model = GPT(11, 32, 2, 2, max_seq_len=2 * LENGTH, dropout_prob=0.0, rng=rng)
    seen = texts(150 * 64, task, rng)
    batches, rate = [next_token_pairs(seen[i:i + 64]) for i in range(0, len(seen), 64)], 0.005
    schedule = CosineSchedule(rate, rate / 20, len(batches))
    Trainer(model, Adam(model.parameters(), rate), answers_only, schedule, grad_clip_norm=1.0).fit(batches, 1)
    known = set(map(tuple, seen.tolist()))
    held_out = np.array([text for text in texts(2200, task, rng).tolist() if tuple(text) not in known][:1000])
    assert len(held_out) == 1000
    written = model.generate(held_out[:, :LENGTH + 1], LENGTH, temperature=0)
    assert (written == held_out).all(axis=1).sum() == 1000
    assert model.generate(held_out[0, :LENGTH + 1].tolist(), LENGTH, temperature=0) == held_out[0].tolist()
