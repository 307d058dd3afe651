"""The shipped digits: the right numbers, a split without overlap, and a network that reads them."""

import hashlib
from importlib.resources import files

import numpy as np
import pytest

from tinytorch.core.activations import ReLU
from tinytorch.core.dataloader import DataLoader, TensorDataset, held_out, load_digits, read_digits
from tinytorch.core.layers import Linear, Sequential
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.optimizers import Adam
from tinytorch.core.training import CosineSchedule, Trainer


def test_the_file_is_the_one_that_was_shipped():
    images, labels = read_digits()
    assert (images.shape, images.dtype, labels.shape, labels.dtype) == ((1797, 8, 8), np.uint8, (1797,), np.uint8)
    assert (images.min(), images.max()) == (0, 16)
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    # the first zero, row by row, as in the data set's own file
    assert images[0, 0].tolist() == [0, 0, 5, 13, 9, 1, 0, 0]
    assert images[0, 7].tolist() == [0, 0, 6, 13, 10, 0, 0, 0]
    assert int(images.astype(np.int64).sum()) == 561718
    digest = hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()
    assert digest == "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"


def test_the_source_is_named_beside_the_file():
    text = files("tinytorch.data").joinpath("README.md").read_text(encoding="utf-8")
    for words in ("Alpaydin", "Kaynak", "10.24432/C50P49", "CC BY 4.0"):
        assert words in text


def test_the_split_has_everything_once():
    (x, y), (z, w), (both, labels) = load_digits("train"), load_digits("test"), load_digits(None)
    assert (len(x), len(z), len(both)) == (1442, 355, 1797)
    assert sorted(r.tobytes() for r in np.concatenate([x, z])) == sorted(r.tobytes() for r in both)
    assert np.bincount(w).tolist() == [n // 5 for n in np.bincount(labels)]  # every fifth, none of an incomplete five
    assert (np.bincount(y) + np.bincount(w)).tolist() == np.bincount(labels).tolist()


def test_no_test_image_is_in_the_training_set_by_accident():
    train = {row.tobytes() for row in load_digits("train")[0]}
    assert not [row for row in load_digits("test")[0] if row.tobytes() in train]


def test_what_is_loaded_is_ones_own():
    first, labels = load_digits("train")
    first[...], labels[...] = -1, -1
    again, targets = load_digits("train")
    assert (again.min(), targets.min()) == (0, 0)
    assert first.flags.c_contiguous


def test_values_are_exact_sixteenths():
    images, _ = load_digits(None)
    np.testing.assert_array_equal(images.reshape(-1, 8, 8) * 16, read_digits()[0])


@pytest.mark.parametrize("split", ["Train", "validation", "", 0, True, ("train",), ["train"]])
def test_other_splits_are_refused(split):
    with pytest.raises(ValueError, match="want 'train', 'test' or None"):
        load_digits(split)


def test_held_out_with_labels_that_are_no_digits():
    labels = np.array([-7] * 11 + [1000] * 4)
    assert np.flatnonzero(held_out(labels)).tolist() == [4, 9]


def run(seed):
    rng = np.random.default_rng(seed)
    model = Sequential(Linear(64, 32, rng=rng), ReLU(), Linear(32, 10, rng=rng))
    train = DataLoader(TensorDataset(*load_digits("train")), 64, shuffle=True, seed=seed)
    schedule = CosineSchedule(0.01, 0, 15 * len(train))
    trainer = Trainer(model, Adam(model.parameters(), lr=0.01), CrossEntropyLoss(), schedule)
    trainer.fit(train, 15)
    found = trainer.evaluate(DataLoader(TensorDataset(*load_digits("test")), 100))
    return found, b"".join(p.data.tobytes() for p in model.parameters())


def test_the_digits_network_reads_more_than_94_percent_and_repeats():
    found, weights = run(seed=0)
    assert found.accuracy > 0.94
    assert run(seed=0) == (found, weights)  # bit for bit
