"""Layers replaced in a copy: wherever they are held, once, ties and modes kept, the model untouched."""

import numpy as np
import pytest

from tinytorch.core.activations import GELU, ReLU
from tinytorch.core.layers import Dropout, Layer, Linear, Sequential
from tinytorch.core.tensor import Tensor, shape_only
from tinytorch.core.transformers import GPT
from tinytorch.perf.profiling import count_parameters, things_in
from tinytorch.perf.quantization import replace_layers


class Wrapped(Layer):
    """Holds another layer and adds nothing."""

    def __init__(self, inner):
        self.inner = inner

    def forward(self, x):
        """Return what the inner layer makes of x."""
        return self.inner(x)


def wrap(layer):
    """Wrap every Linear."""
    return Wrapped(layer) if isinstance(layer, Linear) else layer


def apart(model, new):
    """Say whether no array of one model lies in an array of the other."""
    here, there = ([thing.data for thing in things_in(one) if isinstance(thing, Tensor)] for one in (model, new))
    return not any(np.shares_memory(a, b) for a in here for b in there)


def test_attribute_list_dict_tuple_and_nested():
    layer = Linear(2, 2)
    model = Sequential(layer, Sequential(ReLU(), layer))
    model.extra, model.pair, model.alone = {"a": [layer]}, (1, layer), layer
    new = replace_layers(model, wrap)
    held = [new.layers[0], new.layers[1].layers[1], new.extra["a"][0], new.pair[1], new.alone]
    assert all(one is held[0] for one in held)
    assert type(held[0]) is Wrapped
    assert type(held[0].inner) is Linear
    assert model.layers[0] is model.alone is layer
    assert apart(model, new)


def test_every_layer_is_shown_once_and_new_ones_never():
    shown, shared = [], ReLU()
    model = Sequential(Linear(2, 2), shared, Sequential(shared))

    def change(layer):
        shown.append(layer)
        return Sequential(ReLU(), GELU()) if layer is shared else layer

    replace_layers(model, change)
    assert len(shown) == len({id(layer) for layer in shown}) == 4
    assert shown[0] is model


def test_nothing_to_change_is_a_copy():
    model = Sequential(Linear(2, 3), ReLU())
    new = replace_layers(model, lambda layer: layer)
    x = Tensor(np.ones((1, 2)))
    assert apart(model, new)
    assert np.array_equal(new(x).data, model(x).data)


def test_the_model_itself():
    new = replace_layers(Linear(2, 3), wrap)
    assert (type(new), type(new.inner)) == (Wrapped, Linear)


def test_a_layer_that_knows_its_parent():
    model = Sequential(Linear(2, 2), Linear(2, 2))
    for layer in model.layers:
        layer.parent, layer.next = model, model.layers[1]
    new = replace_layers(model, wrap)
    assert all(type(layer) is Wrapped and layer.inner.parent is new for layer in new.layers)
    assert new.layers[0].inner.next is new.layers[1]


def test_inside_of_what_is_replaced_too():
    """An outer layer is wrapped and so is the one in it, in whatever order they are met."""
    inner = Linear(2, 2)
    outer = Sequential(inner)
    for model in (Sequential(outer, inner), Sequential(inner, outer)):
        new = replace_layers(model, lambda layer, model=model: layer if layer is model else Wrapped(layer))
        assert [type(layer) for layer in new.layers] == [Wrapped, Wrapped]
        kept = next(layer.inner for layer in new.layers if type(layer.inner) is Sequential)
        alone = next(layer for layer in new.layers if type(layer.inner) is Linear)
        assert kept.layers[0] is alone


def test_two_layers_may_become_one():
    one = GELU()
    new = replace_layers(Sequential(ReLU(), ReLU()), lambda layer: one if isinstance(layer, ReLU) else layer)
    assert new.layers[0] is new.layers[1] is not one
    assert type(new.layers[0]) is GELU


def test_layers_of_the_model_in_each_others_place():
    """Swapped, moved up by one: each place holds a copy of the very layer that ``change`` gave for it."""
    first, second, third = Linear(2, 2), Linear(2, 2), ReLU()
    model = Sequential(first, second, third)
    for order in ((second, first, third), (third, first, second), (second, third, third), (second, second, second)):
        new = replace_layers(model, lambda one, order=order: one if one is model else order[model.layers.index(one)])
        for i, one in enumerate(order):
            assert type(new.layers[i]) is type(one)
            assert one is third or np.array_equal(new.layers[i].weight.data, one.weight.data)
            assert all((new.layers[i] is new.layers[j]) == (one is other) for j, other in enumerate(order))
        assert apart(model, new)


def test_unwrapped_while_the_inner_layer_is_wrapped_elsewhere():
    """Wrapped(inner) becomes inner, and inner by itself becomes another Wrapped(inner): in either order, tied."""
    inner = Linear(2, 2)
    for model in (Sequential(inner, Wrapped(inner)), Sequential(Wrapped(inner), inner)):
        new = replace_layers(model, lambda one: one.inner if isinstance(one, Wrapped) else wrap(one))
        kinds = [Linear if type(one) is Wrapped else Wrapped for one in model.layers]
        assert [type(one) for one in new.layers] == kinds
        bare, wrapped = new.layers[kinds.index(Linear)], new.layers[kinds.index(Wrapped)]
        assert wrapped.inner is bare
        assert sorted(vars(wrapped)) == ["inner", "training"]


def test_one_layer_for_two_may_hold_both():
    model = Sequential(Linear(2, 2), Linear(2, 2))
    both = Sequential(*model.layers)
    new = replace_layers(model, lambda one: both if isinstance(one, Linear) else one)
    assert new.layers[0] is new.layers[1]
    assert [type(one) for one in new.layers[0].layers] == [Linear, Linear]


def test_a_class_with_ways_of_its_own():
    """``__new__`` wants an argument, ``__setattr__`` needs what ``__init__`` made: neither is asked for the copy."""
    class Own(Layer):
        def __new__(cls, size):
            return super().__new__(cls)

        def __init__(self, size):
            object.__setattr__(self, "log", [])
            self.size = size

        def __setattr__(self, name, value):
            self.log.append(name)
            object.__setattr__(self, name, value)

        def forward(self, x):
            return x

    own = Own(3)
    own.training, own.extra = True, own.log
    new = replace_layers(Sequential(ReLU()), lambda one: own if isinstance(one, ReLU) else one).layers[0]
    assert (new.size, own.log) == (3, ["size", "training", "extra"])
    assert new.log is new.extra is not own.log


def test_ties_are_kept():
    model = Sequential(Linear(3, 3, bias=False), Linear(3, 3, bias=False))
    model.layers[1].weight = model.layers[0].weight
    view = Sequential(*model.layers)
    view.head = view.layers[0].weight.T
    new = replace_layers(view, wrap)
    first = new.layers[0].inner.weight
    assert first is new.layers[1].inner.weight
    assert np.shares_memory(new.head.data, first.data)
    assert count_parameters(new) == count_parameters(view) == 9
    model = GPT(20, 8, 1, 2)
    assert count_parameters(replace_layers(model, wrap)) == count_parameters(model)


def test_what_a_new_layer_takes_over_keeps_its_mode():
    """A layer frozen in evaluation inside a model in training stays so, also where its parent is replaced."""
    model = Sequential(Linear(2, 2), ReLU())
    model.layers[1].eval()
    new = replace_layers(model, lambda one: Sequential(ReLU(), *model.layers) if one is model else one)
    assert [one.training for one in (new, *new.layers)] == [True, True, True, False]


@pytest.mark.parametrize("training", [True, False])
def test_modes(training):
    model = Sequential(Linear(2, 2), ReLU()).train(training)
    two = Sequential(Linear(2, 2), Dropout())
    new = replace_layers(model, lambda layer: two if isinstance(layer, Linear) else layer)
    assert new.training == new.layers[0].training == new.layers[0].layers[1].training == training
    assert model.training == training
    assert two.training


def test_slots_are_copied():
    class Slotted(Layer):
        __slots__ = ("kept",)

        def forward(self, x):
            return x

    replacement = Slotted()
    replacement.kept = Tensor([1.0, 2.0])
    new = replace_layers(Sequential(ReLU()), lambda layer: replacement if isinstance(layer, ReLU) else layer)
    assert new.layers[0].kept.data.tolist() == [1.0, 2.0]
    assert new.layers[0].kept is not replacement.kept


def test_generators_draw_the_same_and_apart():
    model = Sequential(Dropout(0.5, rng=np.random.default_rng(0)), Linear(4, 4))
    new, x = replace_layers(model, wrap), Tensor(np.ones((5, 4)))
    assert np.array_equal(new(x).data, model(x).data)
    assert np.array_equal(new(x).data, model(x).data)


def test_an_error_leaves_everything_as_it_was():
    model = Sequential(Linear(2, 2), ReLU())
    before = repr(model)
    with pytest.raises(TypeError, match=r"change gave a NoneType for Linear\(2, 2\); want a layer, or the same one"):
        replace_layers(model, lambda layer: None if isinstance(layer, Linear) else layer)
    with pytest.raises(ZeroDivisionError):
        replace_layers(model, lambda layer: 1 / 0)
    assert repr(model) == before


def test_on_shapes_nothing_is_allocated():
    with shape_only():
        model = Sequential(Linear(10**6, 10**6), Linear(10**6, 10**6))  # 8 TB
        new = replace_layers(model, wrap)
        assert count_parameters(new) == 2 * (10**12 + 10**6)
