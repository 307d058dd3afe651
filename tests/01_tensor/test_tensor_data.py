"""What a tensor holds, and how it answers Python."""

import copy

import numpy as np
import pytest

from tinytorch.core.tensor import Tensor, as_array, hollow, shape_only


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32"])
def test_a_chosen_type_is_kept_and_its_memory_shared(dtype):
    array = np.ones((2, 3), dtype)
    assert Tensor(array).dtype == dtype
    assert np.shares_memory(Tensor(array).data, array)


@pytest.mark.parametrize(
    "data", [1, 1.5, True, [1, 2], [True, False], [[1.0], [2.0]], (1, 2), np.float64(2.0), np.zeros(3), []]
)
def test_python_numbers_lists_and_float64_become_float32(data):
    assert Tensor(data).dtype == np.float32


def test_dtype_wins_over_everything():
    assert Tensor([1, 2], dtype=np.int8).data.tolist() == [1, 2]
    assert Tensor(np.zeros(2, np.int8), dtype=np.float64).dtype == np.float64
    assert Tensor(Tensor([1.0]), dtype=np.float16).dtype == np.float16


def test_numpy_scalars_keep_a_chosen_type():
    assert Tensor(np.int8(3)).nbytes == 1
    assert Tensor(np.float16(3)).nbytes == 2


def test_a_tensor_of_a_tensor_shares_memory_and_forgets_its_gradient():
    inner = Tensor(np.ones(3, np.float64), requires_grad=True, dtype=np.float64)
    outer = Tensor(inner)
    assert outer.dtype == np.float64
    assert np.shares_memory(outer.data, inner.data)
    assert not outer.requires_grad


@pytest.mark.parametrize("data", ["abc", ["a"], None, object(), {"a": 1}, [[1, 2], [3]], 1j, np.array([None])])
def test_what_is_no_number_is_refused_in_one_sentence(data):
    with pytest.raises(TypeError, match="^[^\n]+$"):
        Tensor(data)


def test_integers_cannot_want_a_gradient():
    with pytest.raises(TypeError, match="int8 cannot have a gradient; give a floating dtype"):
        Tensor(np.zeros(2, np.int8), requires_grad=True)


def test_a_tensor_has_no_attributes_beyond_its_own():
    with pytest.raises(AttributeError):
        Tensor([1.0]).color = "red"


def test_non_contiguous_and_read_only_arrays_are_taken_as_they_are():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert np.shares_memory(Tensor(array[:, ::2]).data, array)
    array.flags.writeable = False
    assert (Tensor(array) + 1).data[0, 0] == 1


def test_attributes_agree_with_the_array():
    x = Tensor(np.zeros((2, 0, 3), np.int16))
    assert (x.shape, x.ndim, x.size, x.nbytes, x.dtype) == ((2, 0, 3), 3, 0, 0, np.int16)


# --- Python's protocols


def test_item_gives_the_python_number_of_one_element():
    assert type(Tensor([[2.5]]).item()) is float
    assert type(Tensor(np.int64(2)).item()) is int
    assert type((Tensor([1.0]) > 0).item()) is bool


@pytest.mark.parametrize("shape", [(2,), (0,), (1, 2)])
def test_item_bool_float_int_need_exactly_one_element(shape):
    x = Tensor(np.zeros(shape))
    for ask in (x.item, lambda: bool(x), lambda: float(x), lambda: int(x)):
        with pytest.raises(ValueError, match="want exactly one element"):
            ask()


def test_bool_float_and_int():
    assert bool(Tensor([1.0])) is True
    assert bool(Tensor([0.0])) is False
    assert float(Tensor([[1.5]])) == 1.5
    assert int(Tensor(2.9)) == 2


def test_a_shape_only_run_has_no_values_to_decide_by():
    with shape_only():
        x = Tensor([1.0]) * 2
        with pytest.raises(ValueError, match="shape-only run has no values"):
            if x > 0:
                pass


def test_len_and_iteration_follow_the_first_axis():
    x = Tensor([[1, 2], [3, 4], [5, 6]])
    assert len(x) == 3
    assert [row.data.tolist() for row in x] == [[1, 2], [3, 4], [5, 6]]
    assert all(isinstance(row, Tensor) for row in x)
    with pytest.raises(TypeError, match="no length"):
        len(Tensor(1.0))
    with pytest.raises(TypeError, match="no length"):
        iter(Tensor(1.0)).__next__()


def test_numpy_reads_a_tensor_and_its_memory():
    x = Tensor([1.0, 2.0])
    assert np.shares_memory(np.asarray(x), x.data)
    assert not np.shares_memory(np.array(x), x.data)
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert x.numpy() is x.data


def test_comparison_is_elementwise_and_hashing_by_identity():
    x, y = Tensor([1.0, 2.0]), Tensor([1.0, 3.0])
    assert (x == y).data.tolist() == [True, False]
    assert (x != y).data.tolist() == [False, True]
    assert len({x, y, x}) == 2


def test_repr_shows_numbers_shape_and_type():
    assert repr(Tensor([1.0, 2.0])) == "Tensor([1. 2.], shape=(2,), dtype=float32)"
    assert repr(Tensor([1.0], requires_grad=True)).endswith("dtype=float32, requires_grad=True)")
    assert len(repr(Tensor(np.zeros((1000, 1000))))) < 600


def test_repr_of_a_hollow_tensor_says_so():
    assert repr(Tensor(hollow((20_000, 20_000)))) == "Tensor(hollow, shape=(20000, 20000), dtype=float32)"
    assert "shape=(0, 3)" in repr(Tensor(hollow((0, 3))))


def test_copying_a_tensor_copies_its_numbers():
    x = Tensor([1.0, 2.0])
    y = copy.deepcopy(x)
    y.data[0] = 9
    assert x.data[0] == 1


def test_detach_shares_memory_and_forgets():
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = (x * 2).detach()
    assert y.made_by is None
    assert not y.requires_grad
    assert np.shares_memory(x.detach().data, x.data)
    double = Tensor([1.0], dtype=np.float64)
    assert double.detach().dtype == np.float64


def test_made_by_is_kept_only_where_a_gradient_is_wanted():
    x, w = Tensor([1.0, 2.0]), Tensor([3.0, 4.0], requires_grad=True)
    assert (x * x).made_by is None
    made = (x * w).made_by
    assert made.op.name == "multiply"
    assert made.inputs == (x, w) or (made.inputs[0] is x and made.inputs[1] is w)
    assert (x > w).made_by is None  # a bool has no gradient
    assert not w.argmax().requires_grad


def test_as_array_returns_the_array_itself_when_nothing_changes():
    array = np.ones(3, np.int8)
    assert as_array(array) is array


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_numpy_float_beside_a_tensor_takes_its_type(dtype):
    """np.sqrt(2) is a Python float by inheritance: neither rounded beside float64 nor widening float16."""
    x = Tensor(np.ones(2), dtype=dtype)
    for out in (x * np.sqrt(2), np.sqrt(2) * x, x / np.float64(1 / np.sqrt(2))):
        assert out.dtype == dtype
    assert (Tensor(np.ones(2), dtype=np.float64) * np.sqrt(2)).data[0] == np.sqrt(2)


def test_a_copied_view_is_a_view_of_the_copy():
    table = Tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    pair = copy.deepcopy([table, table.T])
    assert np.shares_memory(pair[0].data, pair[1].data) and not np.shares_memory(pair[0].data, table.data)
    assert pair[1].made_by.inputs[0] is pair[0] and pair[1].shape == (3, 2)
    pair[0].data[0, 1] = 9
    assert pair[1].data[1, 0] == 9 and table.data[0, 1] == 1


def test_a_copied_hollow_tensor_stays_hollow():
    with shape_only():
        wide = Tensor(hollow((10**6, 10**6)), requires_grad=True)  # 4 TB if it were real
    twin = copy.deepcopy(wide)
    assert twin.shape == wide.shape and twin.requires_grad and not any(twin.data.strides)


def test_a_copied_stretched_array_has_a_memory_of_its_own():
    one = np.ones(1, np.float32)
    stretched = Tensor(np.broadcast_to(one, (3,)))
    twin = copy.deepcopy(stretched)
    one[0] = 5
    assert stretched.data.tolist() == [5, 5, 5] and twin.data.tolist() == [1, 1, 1]
