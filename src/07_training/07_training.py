# %%
#| default_exp core.training

# %%
#| export
from contextlib import contextmanager
from math import cos, isfinite, pi
from typing import NamedTuple

import numpy as np

from tinytorch.core.autograd import no_grad
from tinytorch.core.tensor import Tensor, scope, sqrt

# %%
#| export
@contextmanager
def in_mode(model, training):
    """Put every layer of ``model`` in training or evaluation mode, and back into its own afterwards."""
    before, todo = {}, [model]
    while todo:
        one = todo.pop()
        if id(one) not in before:
            before[id(one)] = (one, getattr(one, "training", True))
            todo += [child for _, child in getattr(one, "children", list)()]
    try:
        for one, _ in before.values():
            one.training = training
        yield
    finally:
        for one, mode in before.values():
            one.training = mode


def clip_grad_norm(params, max_norm):
    """Clip."""
    with no_grad(), scope("clip"):
        grads = [p.grad for p in params if p.grad is not None]
        squares = [(g.astype(np.float64) * g.astype(np.float64)).sum() for g in grads]
        norm = sqrt(sum(squares, Tensor(0.0, dtype=np.float64))).item()
        if not isfinite(norm):
            raise ValueError(f"clip_grad_norm: norm {norm}")
        if norm > max_norm:
            for p in params:
                if p.grad is not None:
                    p.grad = p.grad * (max_norm / norm)
    return norm


class CosineSchedule:
    """Cosine."""

    def __init__(self, max_lr, min_lr, total_steps):
        self.max_lr, self.min_lr, self.total_steps = max_lr, min_lr, total_steps

    def __call__(self, step):
        part = min(step / self.total_steps, 1.0)
        return self.min_lr + 0.5 * (self.max_lr - self.min_lr) * (1 + cos(pi * part))


class Evaluation(NamedTuple):
    """What ``evaluate`` found."""

    loss: float
    accuracy: float


class Progress(NamedTuple):
    """What a callback hears after every batch."""

    epoch: int
    batch: int
    steps: int
    loss: float
    lr: float
    grad_norm: float | None


class Trainer:
    """Trainer."""

    def __init__(self, model, optimizer, loss_fn, scheduler=None, grad_clip_norm=None):
        self.model, self.optimizer, self.loss_fn = model, optimizer, loss_fn
        self.scheduler, self.grad_clip_norm = scheduler, grad_clip_norm
        self.steps, self.epochs, self.history = 0, 0, {"loss": [], "lr": []}

    def train_epoch(self, loader, on_batch=None):
        """Train."""
        total, rows = 0.0, 0
        with in_mode(self.model, True):
            for i, (x, y) in enumerate(loader):
                if self.scheduler:
                    self.optimizer.lr = float(self.scheduler(self.steps))
                self.optimizer.zero_grad()
                loss = self.loss_fn(self.model(x), y)
                loss.backward()
                norm = clip_grad_norm(self.optimizer.params, self.grad_clip_norm) if self.grad_clip_norm else None
                self.optimizer.step()
                self.steps += 1
                total, rows = total + loss.item() * len(x), rows + len(x)
                if on_batch:
                    on_batch(Progress(self.epochs, i, self.steps, loss.item(), self.optimizer.lr, norm))
        self.epochs += 1
        self.history["loss"].append(total / rows)
        self.history["lr"].append(self.optimizer.lr)
        return total / rows

    def fit(self, loader, epochs, on_batch=None):
        """Fit."""
        for _ in range(epochs):
            self.train_epoch(loader, on_batch)
        return self.history

    def evaluate(self, loader):
        """Evaluate."""
        total, right, rows = 0.0, 0, 0
        with in_mode(self.model, False), no_grad():
            for x, y in loader:
                out = self.model(x)
                total += self.loss_fn(out, y).item() * len(x)
                right += (out.argmax(axis=-1) == y).sum().item()
                rows += len(x)
        return Evaluation(total / rows, right / rows)
