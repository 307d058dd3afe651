"""Layers: parameters wherever they hide, scopes, modes, seeds, refusals, hollow weights."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinytorch.core.activations import ReLU, Softmax
from tinytorch.core.layers import (
    Dropout,
    Layer,
    Linear,
    Sequential,
    default_generator,
    dropout_mask,
    generator,
    he_normal,
    he_std,
    linear,
    linear_shape,
    manual_seed,
    named_tensors,
    parts,
    positive,
    xavier_limit,
    xavier_uniform,
    zeros,
)
from tinytorch.core.tensor import Tensor, hollow, listen, shape_only, thread_state

few = settings(max_examples=60, deadline=None)


class Box:
    """A plain object that holds what is put on it."""


@pytest.fixture(autouse=True)
def same_default_generator():
    """Tests draw from the default generator; leave it as it was."""
    before = default_generator().bit_generator.state
    yield
    default_generator().bit_generator.state = before


# --- named_tensors


def test_plain_objects_tuples_and_numbers_as_keys_are_looked_into():
    a, b, c = Tensor([1.0]), Tensor([2.0]), Tensor([3.0])
    box = Box()
    box.pair, box.table = (a, {"x": [b]}), {7: c}
    assert [name for name, _ in named_tensors(box)] == ["pair.0", "pair.1.x.0", "table.7"]


def test_a_bare_tensor_list_or_dict_is_a_model_too():
    a, b = Tensor([1.0]), Tensor([2.0])
    assert [(n, t is a) for n, t in named_tensors(a)] == [("", True)]
    assert [n for n, _ in named_tensors([a, b])] == ["0", "1"]
    assert [n for n, _ in named_tensors({"w": a})] == ["w"]


@pytest.mark.parametrize(
    "thing", [None, 3, "text", np.ones(3), np.float32(1), len, Tensor, np, np.random.default_rng(0), object()]
)
def test_what_holds_no_tensor_is_passed_by(thing):
    assert named_tensors(thing) == []
    box = Box()
    box.thing, box.weight = thing, Tensor([1.0])
    assert [n for n, _ in named_tensors(box)] == ["weight"]


def test_gradients_and_history_are_no_parameters():
    weight = Tensor([1.0], requires_grad=True)
    weight.grad = Tensor([5.0])
    box = Box()
    box.weight, box.bound = weight, weight.sum
    assert len(named_tensors(box)) == 1


def test_equal_tensors_are_two_and_one_tensor_is_one():
    box = Box()
    box.a, box.b = Tensor([1.0]), Tensor([1.0])
    box.c = box.a
    assert [n for n, _ in named_tensors(box)] == ["a", "b"]


def test_cycles_of_every_kind_end():
    box, ring = Box(), []
    ring.append(ring)
    box.me, box.ring, box.weight = box, [ring, box], Tensor([1.0])
    table = {"box": box}
    table["self"] = table
    box.table = table
    assert [n for n, _ in named_tensors(box)] == ["weight"]


def test_frozen_tensors_are_parameters_and_buffers_are_not():
    layer = Linear(2, 2)
    layer.bias.requires_grad = False
    layer.running_mean = np.zeros(2)
    assert [n for n, _ in layer.named_parameters()] == ["weight", "bias"]


def test_parts_of_a_class_function_or_array_are_none():
    assert parts(Layer) == parts(len) == parts(np.zeros(2)) == parts(lambda: 0) == []
    assert parts((1, 2)) == [("0", 1), ("1", 2)]


# --- children, train, eval


def test_children_are_found_through_lists_dicts_and_plain_objects_but_not_through_layers():
    class Net(Layer):
        def __init__(self):
            self.first = Linear(2, 2)
            self.blocks = [ReLU(), {"a": Sequential(Linear(2, 2), Dropout())}]
            self.box = Box()
            self.box.head = Softmax()
            self.again = self.first
            self.parent = self

    net = Net()
    assert [n for n, _ in net.children()] == ["first", "blocks.0", "blocks.1.a", "box.head"]
    assert [n for n, _ in net.children()[2][1].children()] == ["layers.0", "layers.1"]


def test_train_and_eval_reach_every_depth_shared_layers_and_cycles():
    drop = Dropout()
    net = Sequential(Sequential(Linear(2, 2), drop, ReLU()), drop)
    net.layers[0].parent = net
    everything = [net, net.layers[0], *net.layers[0].layers]
    assert net.eval() is net
    assert not any(one.training for one in everything)
    assert net.train() is net
    assert all(one.training for one in everything)
    del net.layers[0].parent
    net.layers[0].eval()
    assert net.training
    assert not drop.training
    assert Dropout().training  # the class default is untouched


def test_a_model_can_be_nested_deeply():
    net = Linear(2, 2)
    for _ in range(60):
        net = Sequential(net)
    assert len(net.parameters()) == 2
    assert net.eval()(Tensor([[1.0, 1.0]])).shape == (1, 2)


# --- scopes


def paths(function):
    """Return the scope path of each op, as names."""
    events = []
    with listen(events.append):
        function()
    return [[s.name for s in e.scope] for e in events]


def test_paths_name_the_layers_from_the_outside_in():
    net = Sequential(Linear(2, 2), Sequential(ReLU(), Linear(2, 1)))
    want = [["Sequential", "Linear"], ["Sequential", "Sequential", "ReLU"], ["Sequential", "Sequential", "Linear"]]
    x = Tensor([[1.0, 1.0]])
    assert paths(lambda: net(x)) == paths(lambda: net.forward(x)) == want


def test_super_forward_does_not_open_the_scope_twice():
    class Wide(Linear):
        def forward(self, x):
            return super().forward(x) + 1

    class Wider(Wide):
        def forward(self, x):
            return super().forward(x)

    assert paths(lambda: Wider(2, 2)(Tensor([[1.0, 1.0]]))) == [["Wider"], ["Wider"]]


def test_a_subclass_without_forward_opens_its_scope_under_its_own_name():
    class Mine(Linear):
        pass

    assert paths(lambda: Mine(2, 2)(Tensor([[1.0, 1.0]]))) == [["Mine"]]


def test_owners_tell_two_layers_of_one_kind_apart():
    a, b = Linear(2, 2), Linear(2, 2)
    events = []
    with listen(events.append):
        b(a(Tensor([[1.0, 1.0]])))
    assert [e.scope[0].owner for e in events] == [id(a), id(b)]


def test_a_layer_that_calls_itself_is_one_scope():
    class Down(Layer):
        def forward(self, x, depth=2):
            return self(x + 1, depth - 1) if depth else x * 2

    assert paths(lambda: Down()(Tensor([1.0]))) == [["Down"]] * 3


def test_scopes_close_when_a_layer_raises():
    class Broken(Layer):
        def forward(self, x):
            raise KeyError("half way")

    with pytest.raises(KeyError, match="half way"):
        Sequential(ReLU(), Broken())(Tensor([1.0]))
    assert thread_state().path == ()


def test_a_layer_without_forward_says_so():
    class Empty(Layer):
        pass

    with pytest.raises(TypeError, match="Empty has no forward of its own; write one"):
        Empty()(Tensor([1.0]))


# --- linear


@few
@given(
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    st.integers(1, 4),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
)
def test_linear_is_a_matrix_product_for_any_leading_axes(lead, wide, out, bias, spread):
    rng = np.random.default_rng(0)
    x = (
        rng.standard_normal((*lead, wide * 2)).astype(np.float32)[..., ::2]
        if spread
        else np.ones((*lead, wide), np.float32)
    )
    w, b = rng.standard_normal((wide, out)).astype(np.float32), rng.standard_normal(out).astype(np.float32)
    inputs = [Tensor(a) for a in ((x, w, b) if bias else (x, w))]
    real = linear(*inputs)
    np.testing.assert_allclose(real.data, x @ w + (b if bias else 0), rtol=1e-5, atol=1e-6)
    with shape_only():
        thin = linear(*inputs)
    assert linear_shape(*[i.shape for i in inputs]) == real.shape == thin.shape == (*lead, out)
    assert real.dtype == thin.dtype == np.float32


@pytest.mark.parametrize(
    "kinds",
    [
        ("float16", "float16", "float16"),
        ("float16", "float32", "float32"),
        ("int8", "float32", "float32"),
        ("float32", "int8", "float32"),
        ("float32", "float32", "float64"),
        ("int8", "int8", "int8"),
    ],
)
def test_types_of_linear_are_what_the_rule_says(kinds):
    x, w, b = (Tensor(np.ones(s, k), dtype=k) for s, k in zip(((2, 3), (3, 4), (4,)), kinds))
    real = linear(x, w, b)
    with shape_only():
        assert linear(x, w, b).dtype == real.dtype == linear.out_dtype(x.dtype, w.dtype, b.dtype)
    assert real.data.tolist() == [[4.0] * 4] * 2  # three products and the bias


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (((2, 5), (4, 3)), r"(?=.*\(2, 5\)).*\(4, 3\)"),
        (((), (4, 3)), r"(?=.*\(\)).*\(4, 3\)"),
        (((2, 4), (4,)), r"\(4,\)"),
        (((2, 4), (4, 3), (4,)), r"(?=.*\(4,\)).*\(3,\)"),
        (((2, 4), (4, 3), (1, 3)), r"(?=.*\(1, 3\)).*\(3,\)"),
        (((2, 4), (4, 3), (1,)), r"(?=.*\(1,\)).*\(3,\)"),
        (((2, 4), (4, 3), ()), r"(?=.*\(\)).*\(3,\)"),
    ],
)
def test_what_does_not_fit_linear_is_refused_on_shapes(shapes, words):
    with pytest.raises(ValueError, match=words):
        linear_shape(*shapes)
    with shape_only(), pytest.raises(ValueError, match=f"linear: .*{words}"):
        linear(*[Tensor(hollow(s)) for s in shapes])


@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 5), (4, 3)),
        ((), (4, 3)),
        ((2, 4), (4,)),
        ((2, 4), (4, 3), (4,)),
        ((2, 4), (4, 3), (1, 3)),
        ((2, 4), (4, 3), (1,)),
        ((2, 4), (4, 3), ()),
    ],
)
def test_what_does_not_fit_linear_is_refused_with_numbers(shapes):
    with pytest.raises(ValueError, match="linear: "):
        linear(*[Tensor(np.ones(s)) for s in shapes])


def test_linear_leaves_its_inputs_alone():
    x, w, b = Tensor(np.ones((2, 3))), Tensor(np.ones((3, 3))), Tensor(np.ones(3))
    linear(x, w, b)
    assert x.data.sum() == 6
    assert w.data.sum() == 9
    assert b.data.sum() == 3


@pytest.mark.parametrize(
    ("size", "error"),
    [
        (0, ValueError),
        (-3, ValueError),
        (2.5, TypeError),
        (True, TypeError),
        ("4", TypeError),
        (None, TypeError),
        (np.float32(4), TypeError),
        (np.True_, TypeError),
    ],
)
def test_sizes_are_positive_integers(size, error):
    for make, name in ((lambda: Linear(size, 3), "in_features"), (lambda: Linear(3, size), "out_features")):
        with pytest.raises(error, match=f"{name} is .*; want a positive integer"):
            make()


def test_numpy_integers_are_integers():
    layer = Linear(np.int64(3), np.uint8(2))
    assert type(layer.in_features) is int
    assert layer.weight.shape == (3, 2)
    assert positive("size", np.int32(7)) == 7


def test_repr_names_the_sizes():
    net = Sequential(Linear(4, 3), ReLU(), Dropout(0.25), Linear(3, 2, bias=False))
    assert repr(net) == "Sequential(Linear(4, 3), ReLU(), Dropout(0.25), Linear(3, 2, bias=False))"


# --- initial weights


def test_weights_are_trainable_float32():
    for tensor in (xavier_uniform(3, 4), he_normal(3, 4), zeros(3, 4)):
        assert (tensor.shape, tensor.dtype, tensor.requires_grad) == ((3, 4), np.float32, True)


@few
@given(st.integers(1, 9999), st.integers(1, 9999))
def test_the_spread_follows_from_the_fans(fan_in, fan_out):
    assert 6 / xavier_limit(fan_in, fan_out) ** 2 == pytest.approx(fan_in + fan_out)
    assert 2 / he_std(fan_in) ** 2 == pytest.approx(fan_in)


def test_xavier_fills_its_interval_and_he_has_its_spread():
    w = xavier_uniform(300, 200, np.random.default_rng(0)).data
    limit = xavier_limit(300, 200)
    assert 0.99 * limit < np.abs(w).max() <= np.float32(limit)
    assert abs(w.std() - limit / 3**0.5) < 0.02 * limit  # the spread of a uniform distribution
    assert abs(he_normal(200, 300, np.random.default_rng(0)).data.std() - 0.1) < 0.002  # sqrt(2 / 200)


def test_a_seed_repeats_weights_and_masks():
    def everything():
        manual_seed(3)
        return [Linear(3, 4).weight.data.tolist(), Dropout(0.5)(Tensor(np.ones(50))).data.tolist()]

    assert everything() == everything()
    manual_seed(4)
    assert Linear(3, 4).weight.data.tolist() != everything()[0]


def test_a_generator_of_ones_own_leaves_the_default_one_alone():
    before = default_generator().bit_generator.state
    Linear(3, 4, rng=np.random.default_rng(0))
    Dropout(0.5, rng=np.random.default_rng(0))(Tensor(np.ones(5)))
    assert default_generator().bit_generator.state == before


def test_two_layers_are_not_alike():
    assert not np.array_equal(Linear(3, 4).weight.data, Linear(3, 4).weight.data)


# --- shapes only


def test_layers_of_any_size_are_built_and_run_without_memory_or_random_numbers():
    before = default_generator().bit_generator.state
    with shape_only():
        tracemalloc.start()
        try:
            net = Sequential(*[Linear(20_000, 20_000) for _ in range(10)], Dropout(0.5), ReLU())
            out = net(Tensor(hollow((64, 20_000))))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert out.shape == (64, 20_000)
    assert peak < 200_000  # 16 GB of weights
    assert default_generator().bit_generator.state == before
    assert sum(p.size for p in net.parameters()) == 10 * (20_000 * 20_000 + 20_000)
    assert not any(np.shares_memory(a.weight.data, b.weight.data) for a, b in zip(net.layers[:9], net.layers[1:10]))


def test_dropout_draws_nothing_on_shapes_only():
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    with shape_only():
        assert Dropout(0.5, rng)(Tensor(hollow((3, 4)))).shape == (3, 4)
    assert rng.bit_generator.state == before


# --- dropout, sequential


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan"), True])
def test_dropout_wants_a_probability(p):
    with pytest.raises(ValueError, match="want a probability from 0 to 1"):
        Dropout(p)


def test_dropout_at_its_ends():
    x = Tensor(np.ones(100))
    assert Dropout(0)(x) is x
    assert Dropout(1)(x).data.tolist() == [0] * 100
    assert Dropout(1).eval()(x) is x


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dropout_keeps_the_type_and_drops_every_call_anew(dtype):
    x = Tensor(np.ones(200, dtype), dtype=dtype)
    drop = Dropout(0.5, np.random.default_rng(0))
    one, two = drop(x), drop(x)
    assert one.dtype == dtype
    assert set(one.data.tolist()) == {0, 2}
    assert not np.array_equal(one.data, two.data)


def test_a_mask_is_an_op_without_a_gradient_of_its_own():
    mask = dropout_mask(Tensor(np.ones((2, 0, 3))), p=0.5, rng=np.random.default_rng(0))
    assert mask.shape == (2, 0, 3)


def test_sequential_takes_layers_lists_tuples_and_plain_functions_of_tensors():
    a, b = Linear(2, 2), ReLU()
    assert Sequential(a, b).layers == Sequential([a, b]).layers == Sequential((a, b)).layers == [a, b]
    x = Tensor([[1.0, -1.0]])
    assert Sequential(a, lambda t: t * 0)(x).data.tolist() == [[0, 0]]
    assert Sequential()(x) is x
    assert Sequential([]).parameters() == []


def test_a_layer_used_twice_runs_twice_and_is_listed_once():
    a = Linear(2, 2)
    net = Sequential(a, a)
    x = Tensor([[1.0, -1.0]])
    np.testing.assert_array_equal(net(x).data, a(a(x)).data)
    assert len(net.parameters()) == 2
    assert [n for n, _ in net.children()] == ["layers.0"]


@pytest.mark.parametrize("wrong", [0, 1, "a", 0.5])
def test_only_a_generator_draws(wrong):
    """0 is no generator, and must not quietly mean the default one."""
    with pytest.raises(TypeError, match="default_rng"):
        generator(wrong)
    with pytest.raises(TypeError, match="default_rng"):
        Dropout(0.5, rng=wrong)
    mine = np.random.default_rng(3)
    assert generator(mine) is mine and generator() is generator(None) is default_generator()


def test_layers_held_in_slots_are_found():
    class Held:
        __slots__ = ("first", "unset", "__weakref__")

        def __init__(self):
            self.first = Linear(2, 3)

    class Deeper(Held):
        __slots__ = "second"

        def __init__(self):
            super().__init__()
            self.second = [Linear(3, 1)]

    assert [name for name, _ in named_tensors(Deeper())] == [
        "first.weight", "first.bias", "second.0.weight", "second.0.bias"]
