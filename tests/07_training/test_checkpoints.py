"""A run that stops and goes on equals one that never stopped, bit for bit; a wrong file changes nothing."""

import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinytorch
from tinytorch.core import training
from tinytorch.core.activations import ReLU
from tinytorch.core.layers import Dropout, Layer, Linear, Sequential, manual_seed
from tinytorch.core.losses import CrossEntropyLoss, MSELoss
from tinytorch.core.optimizers import SGD, Adam, AdamW, Optimizer
from tinytorch.core.tensor import Tensor, is_shape_only, shape_only
from tinytorch.core.training import (
    CosineSchedule,
    Trainer,
    arrays_of,
    load_checkpoint,
    packed,
    reachable,
    read_state,
    restore_state,
    save_checkpoint,
    training_state,
    unpacked,
)


class Turns:
    """Batches in an order that (seed, epoch) decides; every picture gets a little noise when it is fetched."""

    def __init__(self, batches, seed, rng=None):
        self.batches, self.seed, self.epoch, self.first_batch, self.rng = batches, seed, 0, 0, rng

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        order = np.random.default_rng((self.seed, self.epoch)).permutation(len(self))[self.first_batch:]
        self.epoch, self.first_batch = self.epoch + 1, 0
        for i in order:
            x, y = self.batches[i]
            yield x if self.rng is None else Tensor(x.data + 0.1 * self.rng.standard_normal(x.shape)), y


class Running(Layer):
    """Subtracts a running mean, a buffer."""

    def __init__(self, size):
        self.mean = np.zeros(size, np.float32)

    def forward(self, x):
        if self.training and not is_shape_only():
            self.mean[...] = 0.9 * self.mean + 0.1 * x.data.mean(axis=0)
        return x - Tensor(self.mean.copy())


KINDS = {"momentum": lambda p: SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
         "adam": lambda p: Adam(p, lr=0.05), "adamw": lambda p: AdamW(p, lr=0.05)}


def build(kind="adam", seed=0, dtype=np.float32, sizes=(4, 6, 3)):
    """Return a trainer and a loader with all that can go wrong: dropout, a buffer, a tied weight, noise, sizes."""
    rng, manual = np.random.default_rng(3), np.random.default_rng
    data = [(Tensor(rng.standard_normal((n, sizes[0])), dtype=dtype), Tensor(rng.integers(0, sizes[2], n)))
            for n in (5, 5, 5, 2)]
    inside, wide, out = sizes
    model = Sequential(Linear(inside, wide, rng=rng), [Running(wide), ReLU()][0], Dropout(0.3),
                       Linear(wide, out, rng=rng), Dropout(0.1, manual(seed)))
    model.extras = [{"tied": model.layers[0].weight}]
    for p in model.parameters():
        p.data = p.data.astype(dtype)
    trainer = Trainer(model, KINDS[kind](model.parameters()), CrossEntropyLoss(), CosineSchedule(0.05, 0.001, 14), 0.7)
    return trainer, Turns(data, seed, manual(seed + 50))


def trace(trainer, loader, epochs):
    """Train; return all that can be seen: losses, norms, rates, history, weights, buffers, memory."""
    heard = []
    trainer.fit(loader, epochs, heard.append)
    return [p[:-1] for p in heard], everything(trainer, loader)


def everything(trainer, loader=None):
    arrays = {}
    text = json.dumps(packed(training_state(trainer, loader), "", arrays))
    return text, {name: (array.dtype.str, array.tobytes()) for name, array in arrays.items()}


# --- bit for bit --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_resumed_equals_uninterrupted(kind, dtype, tmp_path):
    manual_seed(1)
    trainer, loader = build(kind, dtype=dtype)
    trainer.fit(loader, 1)
    trainer.save_checkpoint(tmp_path / "c.npz", loader)
    expected = trace(trainer, loader, 2)
    manual_seed(99)
    other, turns = build(kind, seed=8, dtype=dtype)
    other.load_checkpoint(tmp_path / "c.npz", turns)
    assert trace(other, turns, 2) == expected
    assert other.model.layers[0].weight.dtype == dtype


def test_from_every_batch_of_an_epoch(tmp_path):
    manual_seed(1)
    trainer, loader = build()
    files, heard = [], []

    def note(progress):
        heard.append(progress)
        files.append(tmp_path / f"step {progress.steps}.npz")
        save_checkpoint(files[-1], trainer, loader)

    trainer.fit(loader, 2, note)
    end = everything(trainer, loader)
    for done, file in enumerate(files, start=1):
        manual_seed(99)
        other, turns = build(seed=8)
        load_checkpoint(file, other, turns)
        assert other.steps == done
        again = []
        other.fit(turns, 2 - other.epochs, again.append)  # after the last batch of an epoch there is still its end
        assert again == heard[done:]
        assert everything(other, turns) == end


def test_a_list_of_batches_goes_on_in_the_middle_too(tmp_path):
    def make():
        model = Sequential(Linear(4, 3, rng=np.random.default_rng(0)), Dropout(0.5))
        return Trainer(model, Adam(model.parameters()), CrossEntropyLoss())

    data, files = build()[1].batches, [tmp_path / f"{i}.npz" for i in range(4)]
    trainer = make()
    trainer.fit(data, 1, lambda p: trainer.save_checkpoint(files[p.batch], data))
    end = everything(trainer, data)
    for file in files:
        other = make()
        other.load_checkpoint(file, data)
        other.fit(data, 1)
        assert everything(other, data) == end


PROGRAM = """
import importlib.util, json, os, sys
spec = importlib.util.spec_from_file_location("here", sys.argv[1])
here = importlib.util.module_from_spec(spec)
spec.loader.exec_module(here)
path, dies_at, end = sys.argv[2], int(sys.argv[3]), sys.argv[4]
trainer, loader = here.build("adam")
if os.path.exists(path):
    trainer.load_checkpoint(path, loader)
else:
    here.manual_seed(1)

def note(progress):
    if progress.steps % 3 == 0:
        trainer.save_checkpoint(path, loader)
    if progress.steps == dies_at:
        os._exit(9)  # as if killed: nothing is tidied up

trainer.fit(loader, 3 - trainer.epochs, note)
trainer.save_checkpoint(end, loader)
"""


def test_killed_and_resumed_in_other_processes(tmp_path):
    def run(path, dies_at, end):
        environment = {**os.environ, "PYTHONPATH": str(Path(tinytorch.__file__).parents[1])}
        return subprocess.run([sys.executable, "-c", PROGRAM, __file__, str(path), str(dies_at), str(end)], timeout=60,
                              env=environment, capture_output=True, text=True, encoding="utf-8", check=False)

    one, many = tmp_path / "never stopped.npz", tmp_path / "gestört é.npz"
    assert run(tmp_path / "unused.npz", 0, one).returncode == 0
    deaths = [run(tmp_path / "c.npz", dies_at, many).returncode for dies_at in (4, 8, 0)]
    assert deaths == [9, 9, 0]
    states = [read_state(file)[0] for file in (one, many)]
    assert states[0]["epochs"] == 3
    assert repr(states[0]) == repr(states[1])
    for name, array in states[0]["arrays"].items():
        assert array.tobytes() == states[1]["arrays"][name].tobytes()


def test_fit_writes_after_every_epoch(tmp_path):
    path, (trainer, loader), found = tmp_path / "c.npz", build(), []
    def look(progress):
        found.append(read_state(path)[0]["epochs"] if path.exists() else None)

    trainer.fit(loader, 3, look, checkpoint=path)
    assert found == [None] * 4 + [1] * 4 + [2] * 4
    assert [len(read_state(path)[0]["history"][name]) for name in trainer.history] == [3] * 4


def test_a_folder_that_is_missing_is_found_before_training(tmp_path):
    trainer, loader = build()
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        trainer.fit(loader, 3, checkpoint=tmp_path / "no" / "c.npz")
    assert trainer.steps == 0


# --- in place -----------------------------------------------------------------------------------------------------

def test_loading_writes_in_place_and_keeps_ties(tmp_path):
    first, loader = build()
    first.fit(loader, 1)
    first.save_checkpoint(tmp_path / "c")
    trainer, _ = build()
    table = Tensor(np.ones((6, 4), np.float32), requires_grad=True)
    before = {name: array for name, array in arrays_of(trainer).items()}
    params = list(trainer.optimizer.params)
    trainer.load_checkpoint(tmp_path / "c")
    assert all(arrays_of(trainer)[name] is array for name, array in before.items())
    assert all(p is q for p, q in zip(params, trainer.optimizer.params))
    assert trainer.model.extras[0]["tied"] is trainer.model.layers[0].weight
    assert table.requires_grad


def test_two_tensors_on_one_memory_stay_one(tmp_path):
    def make(value):
        model = Sequential(Linear(3, 2, rng=np.random.default_rng(0)))
        model.layers[0].weight.data[...] = value
        model.head = Tensor(model.layers[0].weight.data.T, requires_grad=True)  # a transposed view
        return Trainer(model, SGD(model.parameters(), lr=0.1), MSELoss())

    make(5.0).save_checkpoint(tmp_path / "c")
    other = make(1.0)
    other.load_checkpoint(tmp_path / "c")
    assert (other.model.head.data == 5).all()
    assert np.shares_memory(other.model.head.data, other.model.layers[0].weight.data)


def test_a_loss_and_an_optimizer_may_learn_too(tmp_path):
    class Warm(Layer):
        """A loss with a parameter, and noise."""

        def __init__(self, seed):
            self.scale, self.rng = Tensor([2.0], requires_grad=True), np.random.default_rng(seed)

        def forward(self, output, y):
            return ((output - y) * self.scale * float(self.rng.uniform(0.5, 1))).mean() ** 2

    class Averaging(Optimizer):
        """Remembers in an attribute instead of its memory."""

        def __init__(self, params, lr):
            super().__init__(params, lr)
            self.average, self.calls = np.zeros(1), 0

        def update(self, p, g, memory):
            self.average[...] = 0.5 * self.average + float(g.data.mean())
            self.calls += 1
            return p - self.lr * float(self.average[0]) * g, {}

    def make(seed):
        weight = Tensor([1.0], requires_grad=True)
        loss_fn = Warm(seed)  # the model is a function: only the optimizer knows its weight
        return Trainer(lambda x: x * weight, Averaging([weight, loss_fn.scale], 1e-4), loss_fn)

    data = [(Tensor([[1.0], [2.0]]), Tensor([[0.5], [3.0]]))] * 3
    trainer, other = make(0), make(1)
    trainer.fit(data, 2)
    assert {"loss_fn.scale", "optimizer.params.0", "optimizer.average"} <= set(arrays_of(trainer))
    trainer.save_checkpoint(tmp_path / "c")
    trainer.fit(data, 2)
    other.load_checkpoint(tmp_path / "c")
    other.fit(data, 2)
    assert everything(other) == everything(trainer)


@pytest.mark.parametrize("kind", [np.random.MT19937, np.random.Philox, np.random.SFC64, np.random.PCG64DXSM])
def test_every_kind_of_generator(kind, tmp_path):
    def make(seed):
        model = Sequential(Linear(2, 2, rng=np.random.default_rng(0)), Dropout(0.5, np.random.Generator(kind(seed))))
        return Trainer(model, SGD(model.parameters(), lr=0.1), MSELoss())

    trainer, other = make(1), make(2)
    trainer.model.layers[1].rng.integers(2**16, dtype=np.uint16)  # half of a number is left over in the generator
    trainer.save_checkpoint(tmp_path / "c")
    other.load_checkpoint(tmp_path / "c")
    draws = [t.model.layers[1].rng.integers(2**16, size=9, dtype=np.uint16).tolist() for t in (trainer, other)]
    assert draws[0] == draws[1]
    model = Sequential(other.model.layers[0], Dropout(0.5, np.random.default_rng(0)))
    wrong = Trainer(model, other.optimizer, MSELoss())
    with pytest.raises(ValueError, match=f"model.layers.1.rng is PCG64 here, {kind.__name__} in the checkpoint"):
        wrong.load_checkpoint(tmp_path / "c")


def test_names_that_meet_or_look_odd(tmp_path):
    def make(value):
        model = Sequential()
        model.box = {"a.b": Tensor([value]), "a": {"b": Tensor([value + 1])}, 1: Tensor([value + 2]),
                     "1": Tensor([value + 3]), "x": Tensor([value + 4]), "x.npy": Tensor([value + 5]),
                     "new\nline\0": Tensor([value + 6]), "\ud800": Tensor([value + 7]), "é/..": Tensor([value + 8]),
                     "file": Tensor([value + 9]), "json": np.array([value])}
        return Trainer(model, SGD([Tensor([0.0])], lr=0.1), MSELoss())

    trainer, other = make(10.0), make(0.0)
    trainer.save_checkpoint(tmp_path / "c")
    other.load_checkpoint(tmp_path / "c")
    found = reachable(other.model.box, lambda one: isinstance(one, (Tensor, np.ndarray))).values()
    values = [(t.data if isinstance(t, Tensor) else t).tolist() for t in found]
    assert values == [[10.0 + i] for i in range(10)] + [[10.0]]


LEAVES = (st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
          | st.sampled_from([np.float32(0.1), np.int64(3), np.bool_(True), np.zeros(()), np.arange(3, dtype=np.uint8)]))


@settings(max_examples=40)
@given(st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner)
                    | st.dictionaries(st.text(max_size=3), inner, max_size=3), max_leaves=12))
def test_what_is_packed_comes_back(value):
    arrays = {}
    text = json.dumps(packed({"it": value}, "", arrays))
    back = unpacked(text, arrays)["it"]
    assert repr(back) == repr(value)


# --- files --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", ["run", "run.npz", "run.ckpt", "mein Lauf é 漢.npz", "a.npz.npz"])
def test_the_file_has_exactly_the_name_that_was_asked_for(name, tmp_path):
    folder = tmp_path / "with a space é"
    folder.mkdir()
    trainer, loader = build()
    for path in (folder / name, str(folder / name), os.fsencode(folder / name)):
        trainer.save_checkpoint(path, loader)
        assert [file.name for file in folder.iterdir()] == [name]
        trainer.load_checkpoint(path, loader)


def test_a_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trainer, _ = build()
    trainer.save_checkpoint("c")
    trainer.load_checkpoint("c")
    assert os.listdir() == ["c"]


def test_a_link_stays_a_link(tmp_path):
    trainer, _ = build()
    (tmp_path / "real").mkdir()
    (tmp_path / "latest").symlink_to(tmp_path / "real" / "c.npz")
    trainer.save_checkpoint(tmp_path / "latest")
    assert (tmp_path / "latest").is_symlink()
    assert (tmp_path / "real" / "c.npz").is_file()


def test_the_same_state_makes_the_same_bytes(tmp_path):
    trainer, loader = build()
    trainer.fit(loader, 1)
    for name in "ab":
        trainer.save_checkpoint(tmp_path / name, loader)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_others_may_read_it_as_any_new_file(tmp_path):
    trainer, _ = build()
    trainer.save_checkpoint(tmp_path / "c")
    (tmp_path / "plain").write_text("", encoding="utf-8")
    assert (tmp_path / "c").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_numpy_alone_reads_it(tmp_path):
    trainer, loader = build()
    trainer.save_checkpoint(tmp_path / "c.npz", loader)
    with np.load(tmp_path / "c.npz", allow_pickle=False) as found:
        np.testing.assert_array_equal(found["arrays/model.layers.0.weight"], trainer.model.layers[0].weight.data)
        assert json.loads(str(found["json"]))["state"]["kind"] == "Adam"


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(error, tmp_path, monkeypatch):
    trainer, loader = build()
    trainer.save_checkpoint(tmp_path / "c.npz", loader)
    old = (tmp_path / "c.npz").read_bytes()

    def half(file, **arrays):
        file.write(b"PK half of it")
        raise error

    trainer.fit(loader, 1)
    monkeypatch.setattr(training.np, "savez", half)
    with pytest.raises(type(error)):
        trainer.save_checkpoint(tmp_path / "c.npz", loader)
    assert (tmp_path / "c.npz").read_bytes() == old
    assert len(list(tmp_path.iterdir())) == 1


def test_a_killed_write_leaves_the_old_file(tmp_path):
    program = PROGRAM.split("def note")[0] + """
trainer.save_checkpoint(path, loader)
import numpy as np
savez, trainer.steps = np.savez, 77
def half(file, **arrays):
    file.write(b"PK half of it"); file.flush(); os._exit(9)
np.savez = half
trainer.save_checkpoint(path, loader)
"""
    path, environment = tmp_path / "c.npz", {**os.environ, "PYTHONPATH": str(Path(tinytorch.__file__).parents[1])}
    arguments = [sys.executable, "-c", program, __file__, str(path), "0", ""]
    died = subprocess.run(arguments, env=environment, check=False, timeout=60)
    assert died.returncode == 9
    assert read_state(path)[0]["steps"] == 0


@pytest.mark.parametrize(("path", "error", "words"), [
    ("no/c.npz", FileNotFoundError, "there is no folder .*no; make it first"), ("", IsADirectoryError, "is a folder"),
])
def test_places_that_are_none(path, error, words, tmp_path):
    trainer, _ = build()
    with pytest.raises(error, match=words):
        trainer.save_checkpoint(tmp_path / path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", [3, None, io.BytesIO()])
def test_what_is_no_path(path):
    trainer, _ = build()
    for act in (trainer.save_checkpoint, trainer.load_checkpoint):
        with pytest.raises(TypeError):
            act(path)


def test_what_cannot_be_saved(tmp_path):
    trainer, loader = build()
    trainer.model.names = np.array(["a", None], dtype=object)
    with pytest.raises(TypeError, match=r"model.names is a ndarray; want .* \(not of Python objects\)"):
        trainer.save_checkpoint(tmp_path / "c")
    trainer, _ = build()
    trainer.optimizer.state[1]["note"] = Tensor([1.0])
    with pytest.raises(TypeError, match="memory/1/note is a Tensor"):
        trainer.save_checkpoint(tmp_path / "c")
    trainer, _ = build()
    trainer.history[3] = []
    with pytest.raises(TypeError, match="history is a dict; want .* with text as keys"):
        trainer.save_checkpoint(tmp_path / "c")
    with shape_only():
        hollow = Linear(4, 4)
    with pytest.raises(ValueError, match=r"model.weight is read-only; was the model built under shape_only\(\)"):
        save_checkpoint(tmp_path / "c", Trainer(hollow, SGD(hollow.parameters(), lr=0.1), MSELoss()))
    assert list(tmp_path.iterdir()) == []


# --- what does not fit changes nothing ----------------------------------------------------------------------------

class Trap:
    """What would run if the file were unpickled."""

    def __reduce__(self):
        return os.abort, ()


def remade(tmp_path, change=None, **more):
    """Write a checkpoint of one epoch, changed by ``change(json)``, with more entries; return its path."""
    manual_seed(1)
    trainer, loader = build()
    trainer.fit(loader, 1)
    trainer.save_checkpoint(tmp_path / "c", loader)
    with np.load(tmp_path / "c") as found:
        arrays = {**{name: found[name] for name in found.files}, **more}
    text = json.loads(str(arrays["json"]))
    if change is not None:
        change(text)
    np.savez(tmp_path / "changed.npz", **{**arrays, "json": np.array(json.dumps(text))})
    return tmp_path / "changed.npz"


def refused(path, words, make=build, loader=True, error=ValueError):
    """Loading raises one sentence with these words, and nothing has moved, not even a random number."""
    manual_seed(7)
    trainer, turns = make()
    trainer.fit(turns, 1)
    before = everything(trainer, turns)
    with pytest.raises(error, match=words) as caught:
        load_checkpoint(path, trainer, turns if loader else None)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    assert everything(trainer, turns) == before
    trainer.fit(turns, 1)  # and it goes on


def test_the_untouched_copy_loads(tmp_path):
    trainer, loader = build()
    trainer.load_checkpoint(remade(tmp_path), loader)
    assert trainer.epochs == 1


def test_files_that_are_no_checkpoints(tmp_path):
    good = remade(tmp_path).read_bytes()
    file = tmp_path / "wrong é.npz"
    array = io.BytesIO()
    np.save(array, np.ones(3))
    for content in (b"", b"hello", array.getvalue(), pickle.dumps(Trap())):
        file.write_bytes(content)
        refused(file, "it is no .npz file")
    for content in (good[: len(good) // 2], good[:-30], b"PK\x03\x04"):
        file.write_bytes(content)
        refused(file, "cannot be read")
    np.savez(file, weights=np.ones(3))
    refused(file, "its format is None, version None; this program reads tinytorch checkpoint, version 1")
    np.savez(file, json=np.array("{"), x=np.ones(2))
    refused(file, "cannot be read")
    np.savez(file, json=np.array([Trap()], dtype=object))
    refused(file, "pickled objects")


def test_a_file_that_is_not_there(tmp_path):
    refused(tmp_path / "none.npz", "none.npz", error=FileNotFoundError)


@settings(max_examples=40)
@given(place=st.integers(0, 10**9), bit=st.integers(0, 7))
def test_a_flipped_bit_is_found_or_harmless(tmp_path_factory, place, bit):
    folder = tmp_path_factory.mktemp("flipped")
    data = bytearray(remade(folder).read_bytes())
    data[place % len(data)] ^= 1 << bit
    (folder / "c").write_bytes(bytes(data))
    trainer, loader = build()
    whole, _ = build()
    whole.load_checkpoint(folder / "changed.npz", loader)
    trainer_before = everything(trainer)
    try:
        trainer.load_checkpoint(folder / "c", build()[1])
    except ValueError:
        assert everything(trainer)[1] == trainer_before[1]
    else:
        assert everything(trainer) == everything(whole)


def test_pickled_arrays_inside_are_not_read(tmp_path):
    trap = {"arrays/model.layers.0.bias": np.array([Trap()], dtype=object)}
    refused(remade(tmp_path, **trap), "pickled objects, and reading those would run")


def test_a_later_version(tmp_path):
    words = "version 2; this program reads tinytorch checkpoint, version 1"
    refused(remade(tmp_path, lambda text: text.update(version=2)), words)


def without(key, *path):
    def change(text):
        inside = text["state"]
        for step in path:
            inside = inside[step]
        del inside[key]
    return change


def put(value, *path):
    def change(text):
        inside = text["state"]
        for step in path[:-1]:
            inside = inside[step]
        inside[path[-1]] = value
    return change


@pytest.mark.parametrize(("change", "words"), [
    (lambda text: text.pop("version"), "cannot be read"),
    (lambda text: text.update(state=[]), "damaged"),
    (without("memory"), r"it is damaged: KeyError\('memory'\)"),
    (put(3, "memory"), "damaged"),
    (put(True, "steps"), "the number of steps is int here, bool in the checkpoint"),
    (put("3", "epochs"), "the number of epochs is int here, str in the checkpoint"),
    (put([], "memory"), "the optimizer is Adam of 4 parameters here, Adam of 0 parameters in the checkpoint"),
    (put([1, 2, 3, 4], "memory"), "Adam of 0 parameters in the checkpoint"),
    (without("model.layers.0.weight", "arrays"),
     r"array model.layers.0.weight is \(4, 6\) float32 here, missing in the checkpoint"),
    (put({"array()": "arrays/model.layers.0.weight"}, "arrays", "model.extra"),
     r"array model.extra is missing here, \(4, 6\) float32 in the checkpoint"),
    (put({"array()": "arrays/model.layers.0.bias"}, "arrays", "model.layers.0.weight"),
     r"array model.layers.0.weight is \(4, 6\) float32 here, \(6,\) float32 in the checkpoint"),
    (put("text", "arrays", "model.layers.0.weight"), "damaged"),
    (put({"array()": "arrays/none"}, "arrays", "model.layers.0.weight"), "cannot be read"),
    (put("SGD", "kind"), "the optimizer is Adam of 4 parameters here, SGD of 4 parameters in the checkpoint"),
    (without("lr", "settings"), "the optimizer's lr is known here, missing in the checkpoint"),
    (without("default", "generators"), "random generator default is PCG64 here, missing in the checkpoint"),
    (put({"bit_generator": "PCG64"}, "generators", "default"), "damaged"),
    (put(-1, "generators", "loader.rng", "state", "state"), "damaged"),
    (put(5, "generators", "default"), "damaged"),
    (put("MT19937", "generators", "default", "bit_generator"),
     "random generator default is PCG64 here, MT19937 in the checkpoint"),
    (put({"loss": []}, "history"), "damaged"),
    (put(3, "history", "lr"), "the history of lr is list here, int in the checkpoint"),
    (put({"batches": 1}, "sums"), r"the books of an epoch is .* here, \['batches'\] in the checkpoint"),
    (put({}, "sums"), r"the books of an epoch is .* here, \[\] in the checkpoint"),
    (put(None, "loader"), "the loader is given here, missing in the checkpoint"),
    (put(["epoch", "seed"], "loader", "place"), "damaged"),
    (put({}, "loader"), "batches of the loader is 4 here, missing in the checkpoint"),
    (put(5, "loader", "place"), "damaged"),
    (put(9, "loader", "recipe", "batches"), "batches of the loader is 4 here, 9 in the checkpoint"),
])
def test_states_that_do_not_fit(change, words, tmp_path):
    refused(remade(tmp_path, change), words)


@pytest.mark.parametrize(("make", "words"), [
    (lambda: build(sizes=(4, 5, 3)),
     r"array model.layers.0.weight is \(4, 5\) float32 here, \(4, 6\) float32 in the checkpoint"),
    (lambda: build(dtype=np.float64), "array model.layers.0.weight is .* float64 here, .* float32 in the checkpoint"),
    (lambda: build("momentum"), "the optimizer is SGD of 4 parameters here, Adam of 4 parameters in the checkpoint"),
    (lambda: build("adamw"), "the optimizer is AdamW of 4 parameters here, Adam of 4 parameters in the checkpoint"),
])
def test_runs_that_are_others(make, words, tmp_path):
    refused(remade(tmp_path), words, make)


def test_a_loader_that_was_forgotten(tmp_path):
    refused(remade(tmp_path), "the loader is missing here, given in the checkpoint", loader=False)


def test_a_state_in_memory_is_a_copy_both_ways():
    trainer, loader = build()
    trainer.fit(loader, 1)
    state = training_state(trainer, loader)
    first = trace(trainer, loader, 1)
    for _ in range(2):
        restore_state(trainer, state, loader)
        assert trace(trainer, loader, 1) == first


def test_an_epoch_that_broke_off_here_is_not_gone_on_with():
    trainer, loader = build()

    def stop(progress):
        if progress.steps == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer.fit(loader, 1, stop)
    heard = []
    trainer.fit(loader, 1, heard.append)  # a whole new epoch, as it is told
    assert [p.batch for p in heard] == [0, 1, 2, 3]


def test_a_run_stopped_by_hand_in_a_callback_can_still_be_saved(tmp_path):
    manual_seed(1)
    whole, loader = build()
    expected = trace(whole, loader, 2)
    manual_seed(1)
    trainer, turns = build()

    def stop(progress):
        if progress.steps == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer.fit(turns, 2, stop)
    trainer.save_checkpoint(tmp_path / "c", turns)
    other, again = build(seed=4)
    other.load_checkpoint(tmp_path / "c", again)
    heard = []
    other.fit(again, 2 - other.epochs, heard.append)
    assert ([p[:-1] for p in heard], everything(other, again)) == (expected[0][6:], expected[1])


def test_a_written_state_is_read_back(tmp_path):
    trainer, loader = build()
    trainer.fit(loader, 1)
    state = training_state(trainer, loader)
    trainer.save_checkpoint(tmp_path / "c", loader)
    read, order = read_state(tmp_path / "c")
    assert repr(read) == repr(state)
    assert order == [name for name, _ in trainer.model.named_parameters()]


def test_it_is_a_zip_that_holds_no_pickle(tmp_path):
    trainer, loader = build()
    trainer.fit(loader, 1)
    trainer.save_checkpoint(tmp_path / "c", loader)
    with zipfile.ZipFile(tmp_path / "c") as box:
        for name in box.namelist():
            assert np.lib.format.read_magic(io.BytesIO(box.read(name)))
            np.lib.format.read_array(io.BytesIO(box.read(name)), allow_pickle=False)
