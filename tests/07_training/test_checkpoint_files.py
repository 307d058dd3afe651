"""Checkpoints: files under two writers, modes of files, optimizers in another order, books that were tampered with."""

import os
import stat
import sys
import threading
import zipfile

import numpy as np
import pytest

from tinytorch.core.activations import ReLU
from tinytorch.core.layers import Linear, Sequential
from tinytorch.core.losses import MSELoss
from tinytorch.core.optimizers import Adam
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import ProgressBar, Trainer, clip_grad_norm, in_mode

BATCH = [(Tensor(np.ones((2, 4))), Tensor(np.zeros((2, 4))))]


def run(size=4, backwards=False):
    model = Sequential(Linear(4, size, bias=False), ReLU(), Linear(size, 4, bias=False))
    params = model.parameters()
    return Trainer(model, Adam(params[::-1] if backwards else params, 0.01), MSELoss())


def test_two_writers_publish_whole_files(tmp_path):
    """Each save is a file of its own until it is complete, so that whichever came last is whole."""
    path, broken = tmp_path / "t.npz", []

    def save(trainer):
        for _ in range(20):
            trainer.save_checkpoint(path)
            try:
                broken.extend(filter(None, [zipfile.ZipFile(path).testzip()]))
            except zipfile.BadZipFile as error:
                broken.append(error)

    threads = [threading.Thread(target=save, args=(run(size),)) for size in (4, 400)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert broken == [] and [file.name for file in tmp_path.iterdir()] == ["t.npz"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_a_private_file_stays_private(tmp_path):
    path = tmp_path / "t.npz"
    run().save_checkpoint(path)
    os.chmod(path, 0o600)
    run().save_checkpoint(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_parameters_in_another_order_are_refused(tmp_path):
    """Both weights are 4x4, so that shapes alone would not tell."""
    saved, other = run(), run(backwards=True)
    saved.fit(BATCH, 1)
    saved.save_checkpoint(tmp_path / "t.npz")
    before = [p.data.copy() for p in other.model.parameters()]
    with pytest.raises(ValueError, match=r"layers\.2\.weight here.*layers\.0\.weight in the checkpoint"):
        other.load_checkpoint(tmp_path / "t.npz")
    assert all((p.data == old).all() for p, old in zip(other.model.parameters(), before))
    assert other.optimizer.state == [{}, {}]


@pytest.mark.parametrize("spoil", [
    lambda o: o.state[1].update(m=np.zeros((2, 2), np.float32)), lambda o: o.state[0].update(v=np.zeros((4, 4), int)),
    lambda o: setattr(o, "lr", -1.0), lambda o: setattr(o, "lr", float("nan")), lambda o: setattr(o, "lr", "fast")])
def test_books_that_do_not_fit_are_refused(tmp_path, spoil):
    saved, other = run(), run()
    saved.fit(BATCH, 1)
    spoil(saved.optimizer)
    saved.save_checkpoint(tmp_path / "t.npz")
    with pytest.raises(ValueError, match=r"t\.npz"):
        other.load_checkpoint(tmp_path / "t.npz")
    assert other.optimizer.lr == 0.01 and other.optimizer.state == [{}, {}] and other.steps == 0


def test_an_epoch_whose_evaluation_fails_is_in_the_history():
    trainer = run()
    with pytest.raises(ValueError, match="no batch"):
        trainer.fit(BATCH, 2, validation=[])
    assert trainer.epochs == 1 and len(trainer.history["loss"]) == 1
    assert trainer.history["validation_loss"] == [None]


def test_a_progress_bar_that_nobody_can_read_does_not_stop_training(tmp_path):
    closed = (tmp_path / "bar").open("w", encoding="utf-8")
    closed.close()
    trainer = run()
    trainer.fit(BATCH, 2, progress=ProgressBar(closed))
    assert trainer.epochs == 2


def test_a_flag_that_is_right_is_left_alone():
    """Two threads that evaluate a model in evaluation mode write nothing, so neither can disturb the other."""
    writes = []

    class Watched(Linear):
        def __setattr__(self, name, value):
            writes.append(name)
            super().__setattr__(name, value)

    model = Sequential(Watched(2, 2)).eval()
    writes.clear()
    with in_mode(model, False):
        assert writes == []
    assert not model.layers[0].training


def test_clipping_counts_a_parameter_once():
    """The gradient (3, 4) has the length 5; named twice it is still 5."""
    w = Tensor(np.zeros(2), requires_grad=True)
    w.grad = Tensor(np.array([3.0, 4.0]))
    assert clip_grad_norm([w, w], 1.0) == 5.0
    np.testing.assert_allclose(w.grad.data, [0.6, 0.8], rtol=1e-6)
    with pytest.raises(TypeError, match="want a list of Tensors"):
        clip_grad_norm(w, 1.0)


@pytest.mark.parametrize("wrong", [None, "sgd"])
def test_an_optimizer_is_asked_for_at_once(wrong):
    with pytest.raises(TypeError, match="optimizer"):
        Trainer(Linear(2, 2), wrong, MSELoss())
