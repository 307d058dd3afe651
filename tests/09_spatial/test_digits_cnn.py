"""A convolutional network trained on the shipped digits, for real."""

import numpy as np

from tinytorch.core.activations import ReLU
from tinytorch.core.dataloader import DataLoader, TensorDataset, load_digits
from tinytorch.core.layers import Linear, Sequential
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.optimizers import Adam
from tinytorch.core.spatial import BatchNorm2d, Conv2d, Flatten, MaxPool2d
from tinytorch.core.training import CosineSchedule, Trainer


def digits(split):
    images, labels = load_digits(split)
    return TensorDataset(images.reshape(-1, 1, 8, 8), labels)


def trained(model, epochs, rate):
    """Train with Adam on a falling rate; return the share of held-out digits that are read rightly."""
    train = DataLoader(digits("train"), 64, shuffle=True, seed=0)
    schedule = CosineSchedule(rate, 0, epochs * len(train))
    trainer = Trainer(model, Adam(model.parameters(), lr=rate), CrossEntropyLoss(), schedule)
    trainer.fit(train, epochs)
    return trainer.evaluate(DataLoader(digits("test"), 355)).accuracy


def test_the_digits_cnn_reads_more_than_97_percent():
    rng = np.random.default_rng(0)
    model = Sequential(Conv2d(1, 16, 3, padding=1, rng=rng), ReLU(), MaxPool2d(2),
                       Conv2d(16, 32, 3, padding=1, rng=rng), ReLU(), MaxPool2d(2), Flatten(), Linear(128, 10, rng=rng))
    assert sum(p.size for p in model.parameters()) == 160 + 4_640 + 1_290
    assert trained(model, 12, 0.005) > 0.97


def test_with_batch_norm_it_trains_and_evaluates_alike():
    rng = np.random.default_rng(0)
    model = Sequential(Conv2d(1, 8, 3, padding=1, bias=False, rng=rng), BatchNorm2d(8), ReLU(), MaxPool2d(2), Flatten(),
                       Linear(128, 10, rng=rng))
    assert trained(model, 4, 0.01) > 0.9
