"""A layer's state: names and arrays out, names and arrays in, all or nothing."""

import io

import numpy as np
import pytest

from tinytorch.core.layers import Dropout, Layer, Linear, Sequential
from tinytorch.core.tensor import Tensor, shape_only


class Tied(Layer):
    """One table, read forwards and backwards; the second tensor looks at the first one's memory."""

    def __init__(self, together=True):
        self.table = Tensor(np.arange(6.0).reshape(2, 3))
        self.head = Tensor(self.table.data.T if together else self.table.data.T.copy())
        self.again = self.table


class Running(Layer):
    """A parameter, a buffer (a plain array) and a number."""

    def __init__(self):
        self.scale, self.running_mean, self.steps = Tensor([1.0, 1.0]), np.zeros(2, np.float32), 3


def arrays(layer):
    return {name: array.tolist() for name, array in layer.state_dict().items()}


def refused(layer, state, *words, error=ValueError):
    """The state is refused in one sentence with these words, and the layer is as it was."""
    before = arrays(layer)
    with pytest.raises(error) as told:
        layer.load_state_dict(state)
    assert arrays(layer) == before
    for word in ("load_state_dict", *words):
        assert word in str(told.value)
    assert "\n" not in str(told.value)


def test_names_are_those_of_named_parameters():
    model = Sequential(Linear(4, 3), Dropout(0.5), Linear(3, 2, bias=False))
    assert list(model.state_dict()) == [name for name, _ in model.named_parameters()]
    assert list(model.state_dict()) == ["layers.0.weight", "layers.0.bias", "layers.2.weight"]


def test_the_same_state_gives_the_same_output():
    first, second = Sequential(Linear(4, 3), Linear(3, 2)), Sequential(Linear(4, 3), Linear(3, 2))
    second.load_state_dict(first.state_dict())
    x = Tensor(np.random.default_rng(0).standard_normal((5, 4)))
    np.testing.assert_array_equal(first(x).data, second(x).data)


def test_a_state_is_a_copy():
    layer = Linear(2, 1)
    state = layer.state_dict()
    layer.weight.data[...] = 7
    assert not (state["weight"] == 7).any()
    layer.load_state_dict(state)
    state["weight"][...] = 9
    assert not (layer.weight.data == 9).any()


def test_loading_writes_in_place():
    """An optimizer, or a graph, that holds the tensors goes on holding the right ones."""
    layer = Linear(2, 1)
    weight, memory = layer.weight, layer.weight.data
    layer.load_state_dict({"weight": np.full((2, 1), 3.0), "bias": [4.0]})
    assert layer.weight is weight
    assert weight.data is memory
    assert (memory.tolist(), memory.dtype) == ([[3.0], [3.0]], np.float32)
    assert weight.requires_grad


def test_buffers_are_part_of_the_state():
    source, target = Running(), Running()
    source.running_mean[:] = 5
    target.load_state_dict(source.state_dict())
    assert list(target.state_dict()) == ["scale", "running_mean"]
    assert target.running_mean.tolist() == [5.0, 5.0]


def test_what_is_shared_is_named_once_and_stays_shared():
    source, target = Tied(), Tied()
    source.table.data[...] *= 10
    assert list(source.state_dict()) == ["table", "head"]  # `again` is `table`
    target.load_state_dict(source.state_dict())
    assert target.again is target.table
    target.table.data[0, 1] = -1
    assert target.head.data[1, 0] == -1
    assert target.head.data[2, 1] == 50  # row 1, column 2 of 0..5 is 5, times 10


def test_two_values_for_one_memory_are_refused():
    apart = Tied(together=False)
    apart.head.data[...] = 8
    refused(Tied(), apart.state_dict(), "shares its memory")


def test_names_must_be_the_same():
    layer = Linear(2, 1)
    state = layer.state_dict()
    refused(layer, {"weight": state["weight"]}, "missing bias")
    refused(layer, {**state, "scale": np.ones(1)}, "unexpected scale")
    refused(layer, {"w": state["weight"], "bias": state["bias"]}, "missing weight", "unexpected w")
    refused(layer, {}, "missing weight, bias")


def test_nothing_is_written_when_the_last_array_does_not_fit():
    layer = Linear(2, 1)
    refused(layer, {"weight": np.full((2, 1), 3.0), "bias": np.ones(2)}, "bias is (2,), want (1,)")
    refused(layer, {"weight": np.full((1, 2), 3.0), "bias": np.ones(1)}, "weight is (1, 2), want (2, 1)")
    refused(layer, {"weight": np.full((2, 1), 3.0), "bias": np.ones(1, complex)}, "bias is complex128", "float32")
    refused(layer, {"weight": np.full((2, 1), 3.0), "bias": np.array(["1"])}, "bias is <U1")


@pytest.mark.parametrize("state", [None, [np.ones(1)], "weight", 3])
def test_a_state_is_a_mapping(state):
    refused(Linear(2, 1), state, type(state).__name__, error=TypeError)


def test_a_hollow_layer_holds_nothing_to_write_to():
    with shape_only():
        layer = Linear(2, 3)
    refused(layer, Linear(2, 3).state_dict(), "weight cannot be written")


def test_tensors_and_npz_files_are_states_too():
    source, target, file = Linear(2, 3), Linear(2, 3), io.BytesIO()
    target.load_state_dict(dict(source.named_parameters()))
    assert arrays(target) == arrays(source)
    np.savez(file, **source.state_dict())
    file.seek(0)
    again = Linear(2, 3)
    again.load_state_dict(np.load(file))
    assert arrays(again) == arrays(source)


def test_nan_and_cycles_pass():
    layer = Linear(1, 1)
    layer.child = Linear(1, 1)
    layer.child.parent = layer
    state = {name: np.full_like(array, np.nan) for name, array in layer.state_dict().items()}
    layer.load_state_dict(state)
    assert all(np.isnan(p.data).all() for p in layer.parameters())


def test_an_empty_layer_has_an_empty_state():
    empty = Sequential()
    empty.load_state_dict(empty.state_dict())
    assert empty.state_dict() == {}


@pytest.mark.parametrize(("value", "says"), [([[1.0, 2.0], [3.0]], "ragged"), (np.full((2, 1), 1e300), "too large")])
def test_what_cannot_be_kept_changes_nothing(value, says):
    layer = Linear(2, 1)
    before = {name: array.copy() for name, array in layer.state_dict().items()}
    with pytest.raises(ValueError, match=f"load_state_dict: weight .*{says}"):
        layer.load_state_dict({"bias": [7.0], "weight": value})
    for name, array in layer.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
    layer.load_state_dict({"bias": [7.0], "weight": np.array([[np.inf], [1.0]])})  # inf came, inf stays
    assert layer.weight.data.tolist() == [[np.inf], [1.0]]
