"""Zeros and fewer units: exact numbers, ties, what is shared, what is refused, what is left as it was."""

from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.core.activations import GELU, ReLU, Sigmoid, Softmax, Tanh
from tinytorch.core.embeddings import Embedding
from tinytorch.core.layers import Dropout, Layer, Linear, Sequential, default_generator
from tinytorch.core.optimizers import SGD
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.compression import (
    hidden_chains,
    keep_units,
    keep_zeros,
    magnitude_prune,
    sparsity,
    structured_prune,
    unit_scores,
    units_to_keep,
    weight_matrices,
)
from tinytorch.perf.profiling import Profiler


def chain(*sizes, activation=ReLU, seed=0, bias=True):
    """Linear layers of these sizes with an activation between each two, biases drawn as well."""
    rng, layers = np.random.default_rng(seed), []
    for wide, narrow in zip(sizes, sizes[1:]):
        layers += [Linear(wide, narrow, bias, rng), activation()]
        if bias:
            layers[-2].bias.data[:] = rng.standard_normal(narrow)
    return Sequential(layers[:-1])


def inputs(*shape, seed=1):
    """Normal numbers in float32."""
    return Tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.floats(0, 1), st.booleans())
@settings(max_examples=60, deadline=None)
def test_exactly_the_asked_number_goes_and_none_larger_stays_behind(a, b, c, fraction, coarse):
    """However many are equal: round(fraction n) zeros, and each of them is at most as large as each that stays."""
    model = chain(a, b, c)
    for w in weight_matrices(model):
        w.data[:] = np.round(w.data * 4) / 4 + 0.125 if coarse else w.data + np.float32(1e-3)
    before = np.concatenate([w.data.ravel() for w in weight_matrices(model)])
    after = np.concatenate([w.data.ravel() for w in weight_matrices(magnitude_prune(model, fraction))])
    gone = after != before
    assert gone.sum() == round(fraction * (a * b + b * c))
    assert (after[gone] == 0).all()
    assert not gone.any() or gone.all() or np.abs(before[gone]).max() <= np.abs(before[~gone]).min()


def test_as_torch_does():
    """torch 2.13.0, l1_unstructured with amount 0.45: 5 of 12 go (0.0625, 0.125, 0.25 and both of size 0.5)."""
    layer = Linear(4, 3, bias=False)
    layer.weight.data = np.float32([[0.5, -1.5, 0.25], [2, -0.125, 0.75], [-3, 1, 0.0625], [-0.5, 1.25, -2.5]])
    want = [[0, -1.5, 0], [2, 0, 0.75], [-3, 1, 0], [0, 1.25, -2.5]]
    assert magnitude_prune(layer, 0.45).weight.data.tolist() == want


def test_biases_and_gains_stay_and_windows_and_tables_go():
    """Two axes or more make a matrix: (6, 2, 3, 3) and (5, 4) have 108 + 20 numbers, half are 64."""
    model = {"conv": Conv2d(2, 6, 3), "table": Embedding(5, 4), "gain": Tensor(np.zeros(7))}
    pruned = magnitude_prune(model, 0.5)
    assert sum(int((w.data == 0).sum()) for w in weight_matrices(pruned)) == 64
    assert sparsity(pruned) == 0.5 and sparsity(model) == 0.0
    assert np.array_equal(pruned["conv"].bias.data, model["conv"].bias.data)


def test_what_is_tied_counts_once_and_stays_tied():
    """A table used as the head as well: one memory of 12 numbers, 3 of them go, in both."""
    head = Linear(3, 4, bias=False)
    model = {"head": head, "table": head.weight}
    pruned = magnitude_prune(model, 0.25)
    assert (pruned["table"].data == 0).sum() == 3
    assert pruned["table"] is pruned["head"].weight
    assert sparsity(pruned) == 0.25


def test_whole_numbers_are_no_weights_to_prune():
    """A table of int8 has another meaning of small; a model with nothing else is refused."""
    with pytest.raises(ValueError, match="no float weights of two axes"):
        sparsity({"q": Tensor(np.zeros((2, 2), np.int8), dtype=np.int8)})
    with pytest.raises(ValueError, match="a Sequential has no float weights"):
        magnitude_prune(Sequential(ReLU()), 0.5)


@pytest.mark.parametrize("prune", [magnitude_prune, structured_prune])
@pytest.mark.parametrize(("fraction", "error", "says"), [
    (1.5, ValueError, "share from 0 to 1"), (-0.1, ValueError, "share from 0 to 1"), (float("nan"), ValueError, "NaN"),
    ("half", TypeError, "want a number"), (True, TypeError, "want a number")])
def test_what_is_no_share_is_refused(prune, fraction, error, says):
    """In one sentence, and the model is as it was."""
    model = chain(3, 4, 2)
    before = model.state_dict()
    with pytest.raises(error, match=says):
        prune(model, fraction)
    assert all(np.array_equal(array, before[name]) for name, array in model.state_dict().items())


def test_all_units_cannot_go():
    """A share of 1 is refused; of a single unit none goes, whatever the share."""
    with pytest.raises(ValueError, match="below 1"):
        structured_prune(chain(3, 4, 2), 1)
    assert repr(structured_prune(chain(3, 1, 2), 0.9)) == "Sequential(Linear(3, 1), ReLU(), Linear(1, 2))"


def test_zeros_are_kept_through_training_steps():
    """SGD moves the weights; the function puts back those that were 0, and no others: 12 of 25."""
    model = magnitude_prune(chain(3, 5, 2), 0.5)
    put_back, zeros = keep_zeros(model), [w.data == 0 for w in weight_matrices(model)]
    optimizer = SGD(model.parameters(), 0.1)
    (model(inputs(7, 3)) * inputs(7, 2)).sum().backward()
    optimizer.step()
    assert sparsity(model) < 0.48
    moved = [w.data.copy() for w in weight_matrices(model)]
    put_back()
    assert sparsity(model) == 0.48
    for w, flags, was in zip(weight_matrices(model), zeros, moved):
        assert not w.data[flags].any() and np.array_equal(w.data[~flags], was[~flags])


def test_a_mask_makes_nothing_smaller():
    """The same bytes, parameters and FLOPs: 4 * (3*8 + 8 + 8*2 + 2) = 200 bytes."""
    model, profiler = chain(3, 8, 2), Profiler()
    pruned = magnitude_prune(model, 0.9)
    for one in (model, pruned):
        assert profiler.count_parameters(one) == 50
        assert profiler.measure_memory(one, (1, 3))["parameter_memory_mb"] * 1024**2 == 200
    assert profiler.count_flops(model, (1, 3)) == profiler.count_flops(pruned, (1, 3)) == 2 * 3 * 8 + 8 + 2 * 8 * 2


def test_fewer_units_are_fewer_bytes_and_flops():
    """Half of 8 units: 3*4 + 4 + 4*2 + 2 = 26 numbers, 104 bytes, 2*3*4 + 4 + 2*4*2 = 44 FLOPs."""
    small, profiler = structured_prune(chain(3, 8, 2), 0.5), Profiler()
    assert profiler.count_parameters(small) == 26
    assert profiler.measure_memory(small, (1, 3))["parameter_memory_mb"] * 1024**2 == 104
    assert profiler.count_flops(small, (1, 3)) == 44
    assert all(p.data.base is None or p.data.base.nbytes == p.nbytes for p in small.parameters())


@given(st.lists(st.integers(1, 7), min_size=3, max_size=5), st.floats(0, 0.99), st.booleans(),
       st.sampled_from((ReLU, Sigmoid, Tanh, GELU)))
@settings(max_examples=40, deadline=None)
def test_a_unit_that_is_gone_is_a_unit_nobody_listens_to(sizes, fraction, bias, activation):
    """The small model equals the large one with zeros where the next layer listens to the units that went."""
    model = chain(*sizes, activation=activation, bias=bias)
    silent, linears = deepcopy(model), model.layers[::2]
    for number, (first, second) in enumerate(zip(linears, linears[1:])):
        kept = units_to_keep(unit_scores(first, second), fraction)
        assert len(kept) == max(1, sizes[number + 1] - round(fraction * sizes[number + 1]))
        silent.layers[2 * number + 2].weight.data[np.setdiff1d(np.arange(sizes[number + 1]), kept)] = 0
    x = inputs(5, sizes[0])
    np.testing.assert_allclose(structured_prune(model, fraction)(x).data, silent(x).data, rtol=1e-4, atol=1e-5)


def test_the_lowest_go_the_first_among_equals_and_order_stays():
    """Of scores 3 1 2 1 5 two go: both ones; of five equal ones the first two."""
    assert units_to_keep(np.array([3, 1, 2, 1, 5]), 0.4).tolist() == [0, 2, 4]
    assert units_to_keep(np.ones(5), 0.4).tolist() == [2, 3, 4]
    assert units_to_keep(np.ones(4), 0).tolist() == [0, 1, 2, 3]


def test_chains_go_through_dropout_and_into_nested_models():
    """Two pairs in one model: through an activation and dropout, and inside another Sequential in a list."""
    inner = chain(4, 6, 4)
    model = Sequential(Linear(3, 8), ReLU(), Dropout(0.5), Linear(8, 4), inner)
    outer = {"blocks": [model]}
    small = structured_prune(outer, 0.5)["blocks"][0]
    assert repr(small) == ("Sequential(Linear(3, 4), ReLU(), Dropout(0.5), Linear(4, 4), "
                           "Sequential(Linear(4, 3), ReLU(), Linear(3, 4)))")
    assert len(hidden_chains(outer)) == 2


class Between(Layer):
    """Something with a forward of its own, of which nobody knows what it does to units."""

    def forward(self, x):
        """Return x as it came."""
        return x


class Skipping(Sequential):
    """A Sequential with another forward: its units are used twice."""

    def forward(self, x):
        """Add the first layer's units to the last one's."""
        first = self.layers[0](x)
        return self.layers[2](self.layers[1](first)) + first


shared, tied = Linear(4, 4), Linear(4, 4)
tied_to = Linear(4, 4)
tied_to.weight = tied.weight


@pytest.mark.parametrize("model", [
    Sequential(Linear(3, 4), Softmax(), Linear(4, 2)), Sequential(Linear(3, 4), Between(), Linear(4, 2)),
    Skipping(Linear(4, 4), ReLU(), Linear(4, 4)), Sequential(shared, ReLU(), shared), Sequential(tied, ReLU(), tied_to),
    Sequential(Linear(3, 4), ReLU()), Linear(3, 4), [Sequential(shared, ReLU(), Linear(4, 2)), shared]],
    ids=["softmax", "unknown", "own forward", "shared layer", "tied weight", "no second", "lone", "held elsewhere"])
def test_units_that_somebody_else_counts_on_stay(model):
    """No such pair is touched; with no other pair, that is an error."""
    assert hidden_chains(model) == []
    with pytest.raises(ValueError, match="want such a pair"):
        structured_prune(model, 0.5)


def test_the_given_model_is_left_as_it_was_and_shares_nothing():
    """Writing into the small model does not reach the large one; mode, flags and the default generator stay."""
    model = chain(3, 6, 2).eval()
    model.layers[2].weight.requires_grad = False
    before, drawn = model.state_dict(), default_generator().bit_generator.state
    small = structured_prune(model, 0.5)
    assert default_generator().bit_generator.state == drawn
    assert not small.training and not small.layers[0].training
    assert [p.requires_grad for p in small.parameters()] == [True, True, False, True]
    for p in small.parameters():
        p.data[...] = 9
    assert all(np.array_equal(array, before[name]) for name, array in model.state_dict().items())


def test_float64_stays_float64():
    """The type of the weights is that of the model's."""
    model = chain(3, 4, 2)
    for p in model.parameters():
        p.data = p.data.astype(np.float64)
    assert {p.dtype.name for p in structured_prune(model, 0.5).parameters()} == {"float64"}
    assert {p.dtype.name for p in magnitude_prune(model, 0.5).parameters()} == {"float64"}


def test_scores_of_float16_are_not_summed_in_it():
    """8,192 times 0.25² are 512, where steps of float16 are 0.5: summed in it, nothing more would come above 128."""
    first, second = Linear(8192, 2, bias=False), Linear(2, 1, bias=False)
    first.weight.data, second.weight.data = np.full((8192, 2), 0.25, np.float16), np.float16([[1], [300]])
    assert unit_scores(first, second).tolist() == [512**0.5, 300 * 512**0.5]  # 300² is beyond float16


def test_weights_that_do_not_lie_in_one_piece_are_pruned_as_others():
    """A transposed weight and every second column of one: 6 of 12 numbers go, of the transposed one the smallest."""
    model = Sequential(Linear(3, 2), ReLU(), Linear(2, 3))
    model.layers[0].weight.data = np.float32([[1, 8, 3], [10, 5, 12]]).T
    model.layers[2].weight.data = np.float32([[7, 0, 2, 0, 9, 0], [4, 0, 11, 0, 6, 0]])[:, ::2]
    pruned = magnitude_prune(model, 0.5)
    assert pruned.layers[0].weight.data.tolist() == [[0, 10], [8, 0], [0, 12]]
    assert pruned.layers[2].weight.data.tolist() == [[7, 0, 9], [0, 11, 0]]
    assert sparsity(pruned) == 0.5 and sparsity(model) == 0.0


def test_frozen_weights_are_pruned_and_stay_frozen():
    """Zeros do not ask who may train."""
    model = chain(3, 4, 2)
    model.layers[0].weight.requires_grad = False
    pruned = magnitude_prune(model, 1)
    assert sparsity(pruned) == 1.0 and [p.requires_grad for p in pruned.parameters()] == [False, True, True, True]


def test_pruned_units_can_be_trained_on():
    """The small model's own tensors get gradients of their own shapes."""
    small = structured_prune(chain(3, 6, 2), 0.5)
    small(inputs(4, 3)).sum().backward()
    assert [p.grad.shape for p in small.parameters()] == [(3, 3), (3,), (3, 2), (2,)]


def test_keep_units_without_biases():
    """None stays None."""
    first, second = keep_units(Linear(2, 3, bias=False), Linear(3, 4, bias=False), np.array([1]))
    assert (first.bias, second.bias) == (None, None)
    assert (first.weight.shape, second.weight.shape) == ((2, 1), (1, 4))
