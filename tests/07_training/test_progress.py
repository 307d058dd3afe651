"""The bar with a clock that is handed in: exact lines, in a terminal, in a file, in too little room."""

import io
import re

import numpy as np
import pytest

from tinytorch.core.layers import Layer, Linear
from tinytorch.core.losses import CrossEntropyLoss, MSELoss
from tinytorch.core.optimizers import SGD, Adam
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import Progress, ProgressBar, Trainer, progress_line


class Clock:
    """Seconds that go on by a fixed step each time they are asked for."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def run(stream=None, step=1.0, batches=3, epochs=2, samples=4, width=None, **more):
    """Train nothing of interest with a bar; return what it wrote."""
    stream = stream or io.StringIO()
    model = Linear(2, 1, rng=np.random.default_rng(0))
    model.weight.data[...], x = 1.0, np.ones((samples, 2))
    trainer = Trainer(model, SGD(model.parameters(), lr=0.0), MSELoss())
    bar = ProgressBar(stream, Clock(step), width)
    trainer.fit([(x, np.zeros((samples, 1)))] * batches, epochs, progress=bar, **more)
    return stream.getvalue()


def progress(batch=22, batches=46, epoch=1, epochs=15, loss=0.25, samples=32):
    return Progress(epoch, batch, batches, 100, 0.5, 0.01, None, loss, samples, epochs)


def test_in_a_file_there_is_one_line_an_epoch():
    # the clock goes on by 1 s at the start and at each of 3 batches: 3 s for 12 samples; the loss is (1 + 1)² = 4
    line = "3/3  loss 4.0000  3.00 s  4 samples/s\n"
    assert run() == f"epoch 1/2  {line}epoch 2/2  {line}"


def test_in_a_terminal_the_line_moves():
    lines = run(Terminal(), epochs=1, width=70).split("\r")
    assert lines == [
        "",
        "epoch 1/1  [###--------]  1/3  loss 4.0000  0:00:02 left  4 samples/s",
        "epoch 1/1  [#######----]  2/3  loss 4.0000  0:00:01 left  4 samples/s",
        "epoch 1/1  [#################]  3/3  loss 4.0000  3.00 s  4 samples/s\n",
    ]
    assert all(len(line.rstrip("\n")) == 69 for line in lines[1:])  # the last column stays free


@pytest.mark.parametrize("width", range(1, 120))
def test_no_line_is_wider_than_its_room(width):
    for line in re.split(r"[\r\n]+", run(Terminal(), width=width)):
        assert len(line) <= width - 1 or width == 1


def test_the_least_needed_goes_first():
    full = "epoch 2/15  23/46  loss 0.2500  0:00:02 left  320 samples/s"
    assert progress_line(progress(), 23, 736, 2.3, False) == full
    for width, line in [(80, "epoch 2/15  [########---------]  23/46  loss 0.2500  0:00:02 left  320 samples/s"),
                        (60, full), (50, "epoch 2/15  23/46  loss 0.2500  0:00:02 left"),
                        (35, "epoch 2/15  23/46  loss 0.2500"), (20, "epoch 2/15  23/46"), (5, "epoch")]:
        assert progress_line(progress(), 23, 736, 2.3, False, width) == line


def test_the_terminal_says_how_wide_it_is(monkeypatch):
    monkeypatch.setenv("COLUMNS", "33")
    assert {len(line) for line in run(Terminal()).replace("\n", "").split("\r")[1:]} == {32}


def test_a_terminal_is_drawn_ten_times_a_second_at_most():
    calls = run(Terminal(), step=0.01, batches=100, epochs=1, width=60).count("\r")
    assert calls == 11  # after batches 1, 11, 21, ... 91 and at the end


def test_without_a_length_the_end_is_seen_when_it_is_over():
    out = io.StringIO()
    bar = ProgressBar(out, Clock(1.0))
    for epoch in range(2):
        for batch in range(2):
            bar(progress(batch, None, epoch, None))
    assert out.getvalue() == "epoch 1  2 batches  loss 0.2500  2.00 s  32 samples/s\n"
    bar.close()
    bar.close()  # only once
    assert out.getvalue().splitlines()[1].startswith("epoch 2  2 batches  loss 0.2500")
    assert out.getvalue().count("\n") == 2


def test_an_error_leaves_a_line_that_is_ended():
    def stop(progress):
        if progress.steps == 2:
            raise KeyboardInterrupt

    for stream in (Terminal(), io.StringIO()):
        with pytest.raises(KeyboardInterrupt):
            run(stream, on_batch=stop)
        assert stream.getvalue().endswith("\n")
        assert "2/3" in stream.getvalue()


def test_epochs_are_counted_on_from_where_the_run_stands():
    model, out = Linear(2, 1), io.StringIO()
    trainer, data = Trainer(model, SGD(model.parameters(), lr=0.0), MSELoss()), [(np.ones((4, 2)), np.zeros((4, 1)))]
    trainer.fit(data, 2)
    trainer.fit(data, 3, progress=ProgressBar(out))
    assert [line[:9] for line in out.getvalue().splitlines()] == ["epoch 3/5", "epoch 4/5", "epoch 5/5"]


def test_true_writes_to_standard_output_and_false_nothing(capsys):
    model = Linear(2, 1)
    trainer, data = Trainer(model, SGD(model.parameters(), lr=0.0), MSELoss()), [(np.ones((4, 2)), np.zeros((4, 1)))]
    trainer.fit(data, 1, progress=True)
    out, err = capsys.readouterr()
    assert out.startswith("epoch 1/1  1/1  loss ")
    assert "\r" not in out
    assert (out.count("\n"), err) == (1, "")
    for off in (False, None):
        trainer.fit(data, 1, progress=off)
    assert capsys.readouterr() == ("", "")
    with pytest.raises(TypeError, match="progress is a str; want True, False or a ProgressBar"):
        trainer.fit(data, 1, progress="yes")


def test_without_standard_output_there_is_silence(monkeypatch):
    monkeypatch.setattr("sys.stdout", None)
    bar = ProgressBar()
    bar(progress(45))
    bar.close()


def test_the_time_of_validation_is_not_the_epochs(capsys):
    clock, out = Clock(1.0), io.StringIO()
    model = Linear(2, 1)

    def slow():
        clock.now += 1000
        yield np.ones((4, 2)), np.zeros((4, 1))

    class Slow:
        def __iter__(self):
            return slow()

    trainer = Trainer(model, SGD(model.parameters(), lr=0.0), MSELoss())
    trainer.fit([(np.ones((4, 2)), np.zeros((4, 1)))] * 2, 2, validation=Slow(), progress=ProgressBar(out, clock))
    assert out.getvalue().count("2.00 s") == 2


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00:00"), (7.9, "0:00:07"), (754, "0:12:34"), (3723, "1:02:03")])
def test_times(seconds, text):
    assert f"{text} left" in progress_line(progress(), 23, 736, seconds, False)  # as many batches to do as were done


@pytest.mark.parametrize(("loss", "text"), [
    (0.25, "0.2500"), (1e-5, "1e-05"), (0.0, "0"), (12345.6, "1.23e+04"), (float("inf"), "inf")])
def test_losses_of_any_size(loss, text):
    assert f"loss {text}  " in progress_line(progress(loss=loss), 23, 736, 2.3, False)


# --- what the trainer reports -------------------------------------------------------------------------------------

class Words(Layer):
    """Scores (B, T, 3) for numbers (B, T), through layers in lists in lists."""

    def __init__(self, dtype=np.float32):
        rng = np.random.default_rng(0)
        self.blocks = [[Linear(2, 4, rng=rng)], {"head": [Linear(4, 3, rng=rng)]}]
        for p in self.parameters():
            p.data = p.data.astype(dtype)

    def forward(self, x):
        return self.blocks[1]["head"][0](self.blocks[0][0](x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sequences_nested_lists_and_a_small_last_batch(dtype):
    rng = np.random.default_rng(0)
    data = [(Tensor(rng.standard_normal((b, t, 2)), dtype=dtype), Tensor(rng.integers(0, 3, (b, t))))
            for b, t in ((4, 5), (4, 5), (1, 2))]
    model, heard = Words(dtype), []
    trainer = Trainer(model, Adam(model.parameters(), lr=0.01), CrossEntropyLoss(), grad_clip_norm=1.0)
    loss = trainer.train_epoch(data, heard.append)
    assert {p.dtype for p in model.parameters()} == {np.dtype(dtype)}
    assert {a.dtype for a in trainer.optimizer.state_arrays()} == {np.dtype(dtype)}
    # 20, 20 and 2 targets: they count, not the batches
    assert loss == pytest.approx((20 * heard[0].loss + 20 * heard[1].loss + 2 * heard[2].loss) / 42)
    assert heard[1].mean_loss == pytest.approx((heard[0].loss + heard[1].loss) / 2)
    assert heard[2].mean_loss == loss
    assert [(p.samples, p.epochs) for p in heard] == [(4, None), (4, None), (1, None)]
    found = trainer.evaluate(data)
    assert 0 <= found.accuracy <= 1
    assert found.accuracy * 42 == pytest.approx(round(found.accuracy * 42))
