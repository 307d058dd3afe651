"""The loader's part in going on: its place in a checkpoint, its first batch, settings that must agree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.core.activations import ReLU
from tinytorch.core.dataloader import DataLoader, Dataset, TensorDataset, load_digits
from tinytorch.core.layers import Dropout, Linear, Sequential, manual_seed
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.optimizers import Adam
from tinytorch.core.training import CosineSchedule, Trainer, training_state


class Noisy(Dataset):
    """Digits with noise that is drawn when they are fetched; it counts how many were."""

    def __init__(self, seed, n=40):
        (self.x, self.y), self.rng, self.fetched = load_digits("train"), np.random.default_rng(seed), 0
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        self.fetched += 1
        return self.x[i] + 0.1 * self.rng.standard_normal(64), self.y[i]


def build(seed, **more):
    """Return a trainer with dropout from the default generator, and a loader without a seed of its own."""
    rng = np.random.default_rng(0)
    model = Sequential(Linear(64, 8, rng=rng), ReLU(), Dropout(0.2), Linear(8, 10, rng=rng))
    optimizer = Adam(model.parameters(), lr=0.01)
    trainer = Trainer(model, optimizer, CrossEntropyLoss(), CosineSchedule(0.01, 0, 12), grad_clip_norm=1.0)
    return trainer, DataLoader(Noisy(seed), 12, **{"shuffle": True, **more})


def test_going_on_from_every_batch_is_exact(tmp_path):
    manual_seed(1)
    trainer, loader = build(0)
    files, heard = [], []

    def note(progress):
        heard.append(progress)
        files.append(tmp_path / f"{progress.steps}.npz")
        trainer.save_checkpoint(files[-1], loader)

    trainer.fit(loader, 2, note)
    end = repr(training_state(trainer, loader))
    for done, file in enumerate(files, start=1):
        manual_seed(50 + done)  # another seed for the loader, too
        other, again = build(9)
        assert again.seed != loader.seed
        other.load_checkpoint(file, again)
        found = []
        other.fit(again, 2 - other.epochs, found.append)
        assert found == heard[done:]
        assert repr(training_state(other, again)) == end
        # of 2 · 40 pictures, 40 for each epoch that is done and 12 for each batch of the one under way
        assert again.dataset.fetched == 80 - 40 * (done // 4) - 12 * (done % 4)


@pytest.mark.parametrize(("more", "words"), [
    ({"shuffle": False}, "shuffle of the loader is False here, True in the checkpoint"),
    ({"batch_size": 8}, "batch_size of the loader is 8 here, 12 in the checkpoint"),
    ({"drop_last": True}, "drop_last of the loader is True here, False in the checkpoint"),
])
def test_a_loader_with_other_settings_is_refused(more, words, tmp_path):
    trainer, loader = build(0)
    trainer.save_checkpoint(tmp_path / "c", loader)
    settings = {"batch_size": 12, "shuffle": True, **more}
    other = DataLoader(Noisy(0), **settings)
    before = repr(training_state(trainer, other))
    with pytest.raises(ValueError, match=words):
        trainer.load_checkpoint(tmp_path / "c", other)
    assert repr(training_state(trainer, other)) == before
    longer = DataLoader(Noisy(0, n=60), 12, shuffle=True)
    with pytest.raises(ValueError, match="batches of the loader is 5 here, 4 in the checkpoint"):
        trainer.load_checkpoint(tmp_path / "c", longer)


def test_the_data_is_not_in_the_checkpoint(tmp_path):
    trainer, _ = build(0)
    loader = DataLoader(TensorDataset(*load_digits("train")), 32)
    trainer.save_checkpoint(tmp_path / "c", loader)
    assert (tmp_path / "c").stat().st_size < 20_000  # 610 numbers; the pictures weigh 370 kB


@given(n=st.integers(0, 30), size=st.integers(1, 10), first=st.integers(0, 12), drop=st.booleans())
def test_first_batch_leaves_out_the_first_ones_once(n, size, first, drop):
    def batches(loader):
        return [x.data.tolist() for (x,) in loader]

    data = TensorDataset(np.arange(n))
    loader, whole = (DataLoader(data, size, shuffle=True, seed=1, drop_last=drop) for _ in range(2))
    loader.first_batch = first
    assert batches(loader) == batches(whole)[first:]
    assert batches(loader) == batches(whole)
    assert (loader.epoch, loader.first_batch, len(loader)) == (2, 0, len(whole))
