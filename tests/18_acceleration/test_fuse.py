"""A model rebuilt with fused layers: what is changed, what is not, and that nothing else differs."""

import numpy as np
import pytest

from tinytorch.core.activations import GELU, ReLU, gelu
from tinytorch.core.layers import Dropout, Layer, Linear, Sequential
from tinytorch.core.optimizers import SGD
from tinytorch.core.tensor import Tensor, listen
from tinytorch.core.transformers import GPT, MLP, TransformerBlock
from tinytorch.perf.acceleration import FusedGELU, LinearGELU, fuse, fuse_pairs
from tinytorch.perf.profiling import Profiler, count_flops, count_parameters, storage
from tinytorch.perf.quantization import QuantizedLinear


def generator():
    return np.random.default_rng(3)


def network():
    rng = generator()
    return Sequential(Linear(4, 6, rng=rng), GELU(), Linear(6, 6, bias=False, rng=rng), GELU(), Linear(6, 2, rng=rng))


def kinds(layers):
    return [type(layer).__name__ for layer in layers]


def rows(n=5, features=4):
    return Tensor(generator().standard_normal((n, features)))


def ops_of(model, *inputs):
    events = []
    with listen(events.append):
        model(*inputs)
    return [event.op.name for event in events]


def test_the_model_itself_is_untouched():
    model = network()
    before, text = model.state_dict(), repr(model)
    fused = fuse(model)
    assert repr(model) == text
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
    for parameter in fused.parameters():
        parameter.data[...] = 9
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array, before[name])


def test_same_names_same_numbers_same_price():
    model = network()
    fused = fuse(model)
    assert kinds(fused.layers) == ["LinearGELU", "Sequential", "LinearGELU", "Sequential", "Linear"]
    assert list(fused.state_dict()) == list(model.state_dict())
    assert count_parameters(fused) == count_parameters(model) == 4 * 6 + 6 + 36 + 14
    assert count_flops(fused, (1, 4)) == count_flops(model, (1, 4)) == 2 * (24 + 36 + 12) + 9 * 12
    np.testing.assert_allclose(fused(rows()).data, model(rows()).data, rtol=1e-5, atol=1e-6)
    assert ops_of(fused, rows()) == ["linear_gelu", "linear_gelu", "linear"]
    other = fuse(Sequential(Linear(4, 6), GELU(), Linear(6, 6, bias=False), GELU(), Linear(6, 2)))
    other.load_state_dict(model.state_dict())
    np.testing.assert_array_equal(other(rows()).data, fused(rows()).data)


def test_nothing_to_fuse_is_a_copy():
    model = Sequential(Linear(4, 3, rng=generator()), ReLU())
    same = fuse(model)
    assert repr(same) == repr(model) and same is not model
    np.testing.assert_array_equal(same(rows()).data, model(rows()).data)


def test_pairs_that_are_none():
    """Something between; the other way round; at the ends; empty."""
    rng = generator()
    layers = [GELU(), Linear(4, 4, rng=rng), Dropout(0.1), GELU(), Linear(4, 4, rng=rng), ReLU(), Linear(4, 4, rng=rng)]
    assert all(new is old for new, old in zip(fuse_pairs(layers), layers, strict=True))
    assert fuse_pairs([]) == []
    assert kinds(fuse_pairs((Linear(2, 2), GELU()))) == ["LinearGELU", "Sequential"]


def test_a_gelu_alone_is_fused_wherever_it_is():
    class Net(Layer):
        def __init__(self):
            self.first, self.bends = Linear(4, 4, rng=generator()), {"a": GELU(), "b": [GELU(), ReLU()]}
            self.again = self.bends["a"]

        def forward(self, x):
            return self.again(self.bends["b"][0](self.bends["a"](self.first(x))))

    model = Net()
    fused = fuse(model)
    assert kinds([fused.bends["a"], *fused.bends["b"]]) == ["FusedGELU", "FusedGELU", "ReLU"]
    assert fused.again is fused.bends["a"] and type(model.bends["a"]) is GELU
    assert ops_of(fused, rows()) == ["linear"] + ["fused_gelu"] * 3
    np.testing.assert_allclose(fused(rows()).data, model(rows()).data, rtol=1e-5, atol=1e-6)
    assert isinstance(fuse(GELU()), FusedGELU)


def test_what_computes_something_else_stays():
    class Doubled(Linear):
        def forward(self, x):
            return super().forward(x) * 2.0

    class Loud(GELU):
        def forward(self, x):
            return super().forward(x) + 1.0

    class Twice(Sequential):
        def forward(self, x):
            return super().forward(super().forward(x))

    rng = generator()
    model = Sequential(Doubled(4, 4, rng=rng), GELU(), Linear(4, 4, rng=rng), Loud(),
                       Twice(Linear(4, 4, rng=rng), GELU()), QuantizedLinear(Linear(4, 4, rng=rng)), GELU())
    fused = fuse(model)
    assert kinds(fused.layers) == ["Doubled", "FusedGELU", "Linear", "Loud", "Twice", "QuantizedLinear", "FusedGELU"]
    assert kinds(fused.layers[4].layers) == ["Linear", "FusedGELU"]
    np.testing.assert_allclose(fused(rows()).data, model(rows()).data, rtol=1e-5, atol=1e-5)


def test_a_function_called_inside_is_left():
    class Net(Layer):
        def __init__(self):
            self.layer = Linear(4, 4, rng=generator())

        def forward(self, x):
            return gelu(self.layer(x))

    assert len(ops_of(fuse(Net()), rows())) == 10


def test_what_else_a_sequential_holds_comes_along():
    """A layer kept as an attribute beside the list has parameters, too: 4 · 4 + 4 in the pair, 4 · 2 + 2 beside it."""
    model = Sequential(Linear(4, 4, rng=generator()), GELU())
    model.head, model.note = Linear(4, 2, rng=generator()), "kept"
    fused = fuse(model)
    assert (list(fused.state_dict()), fused.note) == (list(model.state_dict()), "kept")
    assert count_parameters(fused) == count_parameters(model) == 30
    assert fused.head is not model.head and kinds(model.layers) == ["Linear", "GELU"]


def test_shared_layers_stay_shared():
    """One Linear before a GELU, before a ReLU, and in a nested pair: three places, one weight."""
    shared = Linear(4, 4, rng=generator())
    model = Sequential(shared, GELU(), shared, ReLU(), Sequential(shared, GELU()))
    fused = fuse(model)
    assert kinds(fused.layers) == ["LinearGELU", "Sequential", "Linear", "ReLU", "Sequential"]
    assert kinds(fused.layers[4].layers) == ["LinearGELU", "Sequential"]
    places = (fused.layers[0], fused.layers[2], fused.layers[4].layers[0])
    assert len({id(place.weight) for place in places}) == 1 and count_parameters(fused) == 20
    np.testing.assert_allclose(fused(rows()).data, model(rows()).data, rtol=1e-5, atol=1e-6)


def test_a_gpt_scores_the_same():
    model = GPT(11, 16, 2, 4, max_seq_len=8, rng=generator()).eval()
    fused = fuse(model)
    tokens = Tensor(np.array([[1, 2, 3, 4, 5], [10, 9, 8, 7, 6]]))
    assert kinds([fused.blocks[0].mlp.fc1, fused.blocks[1].mlp.activation]) == ["LinearGELU", "Sequential"]
    assert list(fused.state_dict()) == list(model.state_dict())
    assert storage(fused.token_embedding.weight.data) != storage(model.token_embedding.weight.data)
    np.testing.assert_allclose(fused(tokens).data, model(tokens).data, rtol=1e-4, atol=1e-5)
    assert fused.generate([1, 2], 5, 0) == model.generate([1, 2], 5, 0)
    assert fused.training is model.training is False


def test_an_mlp_with_another_activation_stays():
    mlp = MLP(4, rng=generator())
    mlp.activation = ReLU()
    assert type(fuse(mlp).fc1) is Linear
    assert type(fuse(TransformerBlock(4, 2).mlp).fc1) is LinearGELU


@pytest.mark.parametrize("training", [True, False])
def test_its_mode_is_the_model_s(training):
    model = Sequential(Linear(4, 4), GELU(), Dropout(0.5)).train(training)
    assert [fuse(model).training, fuse(model).layers[2].training] == [training, training]


def test_it_learns_the_same():
    """Ten steps of SGD from the same start: the same weights, within float32's rounding."""
    model = network()
    fused, x = fuse(model), rows(16)
    for one in (model, fused):
        optimizer = SGD(one.parameters(), lr=0.01)
        for _ in range(10):
            optimizer.zero_grad()
            (one(x) * one(x)).mean().backward()
            optimizer.step()
    for name, array in model.state_dict().items():
        np.testing.assert_allclose(fused.state_dict()[name], array, rtol=1e-3, atol=1e-4)


def test_compare_accepts_it():
    """The default tolerances hold, decisions too; on a handed clock nothing is faster than itself."""
    ticks = iter(range(0, 10**9, 1000))
    told = Profiler(clock=lambda: next(ticks)).compare(network(), fuse(network()), rows(),
                                                       decision=lambda out: out.argmax(axis=-1), rounds=6)
    assert told["verdict"] == "indistinguishable"
    assert told["worst_difference"]["abs"] <= told["worst_difference"]["allowed"]
