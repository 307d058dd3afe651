"""Batches of any data, orders that repeat, refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.core.dataloader import DataLoader, Dataset, TensorDataset, collate, cut_batches, epoch_order
from tinytorch.core.layers import manual_seed
from tinytorch.core.tensor import Tensor, listen


def numbers(n):
    return TensorDataset(np.arange(n))


def seen(loader):
    return [int(v) for (x,) in loader for v in x.data]


@settings(max_examples=80, deadline=None)
@given(n=st.integers(0, 60), size=st.integers(1, 70), shuffle=st.booleans(), drop=st.booleans(), seed=st.integers(0, 5))
def test_length_and_contents_agree(n, size, shuffle, drop, seed):
    loader = DataLoader(numbers(n), size, shuffle=shuffle, seed=seed, drop_last=drop)
    batches = [x.data.tolist() for (x,) in loader]
    assert len(batches) == len(loader)
    assert all(len(batch) == size for batch in batches[:-1])
    flat = [v for batch in batches for v in batch]
    assert len(set(flat)) == len(flat)
    kept = n - n % size if drop else n
    assert len(flat) == kept
    assert set(flat) <= set(range(n))
    if not shuffle:
        assert flat == list(range(kept))


@settings(max_examples=40, deadline=None)
@given(n=st.integers(0, 50), size=st.integers(1, 60))
def test_pieces_put_together_are_the_order(n, size):
    order = epoch_order(n, shuffle=True, seed=1, epoch=2)
    pieces = cut_batches(order, size)
    assert [v for piece in pieces for v in piece] == order.tolist()
    assert all(1 <= len(piece) <= size for piece in pieces)


def test_the_order_of_an_epoch_is_fixed_for_ever():
    # NumPy's PCG64 from (seed, epoch): a change here would change everybody's results
    assert epoch_order(6, shuffle=True, seed=0, epoch=0).tolist() == [3, 2, 5, 4, 0, 1]
    assert epoch_order(6, shuffle=True, seed=0, epoch=1).tolist() == [1, 4, 3, 0, 2, 5]


def test_a_run_goes_on_where_another_stopped():
    whole = DataLoader(numbers(20), 6, shuffle=True, seed=4)
    epochs = [seen(whole) for _ in range(4)]
    second = DataLoader(numbers(20), 6, shuffle=True, seed=4)
    second.epoch = 2
    assert [seen(second), seen(second)] == epochs[2:]


def test_every_epoch_is_another_order_and_has_everything():
    loader = DataLoader(numbers(30), 7, shuffle=True, seed=0)
    epochs = [tuple(seen(loader)) for _ in range(10)]
    assert len(set(epochs)) == 10
    assert all(sorted(epoch) == list(range(30)) for epoch in epochs)


def test_drop_last_drops_others_in_the_next_epoch():
    loader = DataLoader(numbers(10), 4, shuffle=True, seed=0, drop_last=True)
    assert {v for _ in range(20) for v in seen(loader)} == set(range(10))


def test_without_a_seed_manual_seed_decides():
    def orders():
        manual_seed(3)
        return [seen(DataLoader(numbers(12), 5, shuffle=True)) for _ in range(2)]

    first = orders()
    assert first == orders()
    assert first[0] != first[1]  # two loaders of one program differ


def test_a_loader_that_does_not_shuffle_draws_nothing():
    manual_seed(3)
    expected = DataLoader(numbers(12), 5, shuffle=True).seed
    manual_seed(3)
    DataLoader(numbers(12), 5)
    assert DataLoader(numbers(12), 5, shuffle=True).seed == expected


def test_two_loops_at_once_do_not_disturb_each_other():
    loader = DataLoader(numbers(8), 3)
    pairs = [(a[0].data.tolist(), b[0].data.tolist()) for a, b in zip(loader, loader)]
    assert pairs == [([0, 1, 2], [0, 1, 2]), ([3, 4, 5], [3, 4, 5]), ([6, 7], [6, 7])]


def test_batches_are_copies():
    data = np.zeros((4, 2), np.float32)
    for (x,) in DataLoader(TensorDataset(data), 3):
        x.data[...] = 9.0
    assert (data == 0).all()


def test_loading_is_not_heard_at_the_door():
    events = []
    with listen(events.append):
        list(DataLoader(TensorDataset(np.zeros((9, 2)), np.arange(9)), 4, shuffle=True, seed=0))
    assert events == []


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.bool_, np.float16, np.float32])
def test_types_stay(dtype):
    data = TensorDataset(np.ones((5, 2), dtype))
    assert data[0][0].dtype == dtype
    assert next(iter(DataLoader(data, 2)))[0].dtype == dtype
    assert Dataset.batch(data, [0, 1])[0].dtype == dtype  # one by one


def test_one_by_one_equals_at_once():
    rng = np.random.default_rng(0)
    data = TensorDataset(rng.standard_normal((9, 3, 2)), np.arange(9), Tensor(rng.standard_normal(9), dtype=np.float64))
    for slow, fast in zip(Dataset.batch(data, [8, 0, 0]), data.batch([8, 0, 0])):
        assert (slow.dtype, slow.shape) == (fast.dtype, fast.shape)
        np.testing.assert_array_equal(slow.data, fast.data)


def test_a_slice_shares_memory_a_list_does_not():
    x = np.zeros((4, 2), np.float32)
    data = TensorDataset(x)
    assert np.shares_memory(data[1:3][0].data, x)
    assert not np.shares_memory(data[[1, 2]][0].data, x)


def test_a_dataset_can_be_looped_over():
    assert [x.item() for (x,) in numbers(3)] == [0, 1, 2]  # ends by IndexError, as lists do


def test_a_dataset_of_ones_own():
    class Squares(Dataset):
        def __len__(self):
            return 5

        def __getitem__(self, i):
            assert type(i) is int
            return float(i), i * i

    batches = list(DataLoader(Squares(), 2))
    assert [y.data.tolist() for _, y in batches] == [[0, 1], [4, 9], [16]]
    assert (batches[0][0].dtype, batches[0][1].dtype) == (np.float32, np.int64)


def test_examples_that_are_no_tuples():
    batch = next(iter(DataLoader([np.zeros(3), np.ones(3)], 2)))
    assert (type(batch), batch.shape) == (Tensor, (2, 3))


def test_a_dataset_without_its_methods_says_so():
    with pytest.raises(TypeError, match="Dataset has no __len__ of its own"):
        len(Dataset())
    with pytest.raises(TypeError, match="Dataset has no __getitem__ of its own"):
        Dataset()[0]


def test_text_is_no_batch():
    with pytest.raises(TypeError, match="want numbers"):
        collate(["a", "b"])


def test_an_error_in_the_dataset_passes_through():
    class Broken(Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, i):
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        list(DataLoader(Broken(), 2))


@pytest.mark.parametrize(("more", "error", "words"), [
    ({"batch_size": 0}, ValueError, "batch_size is 0"),
    ({"batch_size": -3}, ValueError, "batch_size is -3"),
    ({"batch_size": 2.0}, TypeError, "batch_size is 2.0"),
    ({"batch_size": True}, TypeError, "batch_size is True"),
    ({"seed": -1}, ValueError, "seed -1"),
    ({"seed": 1.5}, ValueError, "seed 1.5"),
    ({"seed": True}, ValueError, "seed True"),
])
def test_refused_settings(more, error, words):
    with pytest.raises(error, match=words):
        DataLoader(numbers(3), **{"batch_size": 2, "shuffle": True, **more})


@pytest.mark.parametrize("dataset", [3, None, iter([1, 2]), {1, 2}])
def test_what_is_no_dataset(dataset):
    with pytest.raises(TypeError, match="want a dataset"):
        DataLoader(dataset)
