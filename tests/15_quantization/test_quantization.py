"""Steps, ranges, int8 layers, models: edges, refusals, closed forms, torch's numbers."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tinytorch.core.activations import ReLU
from tinytorch.core.autograd import VJP, no_grad, without_gradient
from tinytorch.core.layers import Dropout, Linear, Sequential
from tinytorch.core.spatial import Conv2d, Flatten
from tinytorch.core.tensor import Tensor, listen, shape_only
from tinytorch.core.transformers import GPT
from tinytorch.perf.profiling import count_flops, event_bytes, measure_memory, trace_memory, weight_bytes
from tinytorch.perf.quantization import (
    LONGEST,
    IntegerLinear,
    QuantizedLinear,
    RangeObserver,
    affine_parameters,
    dequantize,
    dequantize_int8,
    error_bound,
    integer_linear,
    quantize,
    quantize_int8,
    quantize_model,
)

BYTES = np.arange(-128, 128).astype(np.int8)


def gauss(*shape, seed=0):
    """Return float32 normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class TestSteps:
    @given(st.integers(-128, 127), st.floats(1e-30, 1e30))
    def test_every_int8_comes_back_as_itself(self, zero_point, scale):
        """Off to a float and back: 256 marks, 256 numbers."""
        zero = Tensor(np.int8(zero_point))
        there = dequantize(Tensor(BYTES), Tensor(np.float32(scale)), zero)
        assert np.array_equal(quantize(there, Tensor(np.float32(scale)), zero).data, BYTES)

    def test_halves_go_to_the_even_number(self):
        assert quantize(Tensor([0.5, 1.5, 2.5, -0.5, -1.5]), 1.0, 0).data.tolist() == [0, 2, 2, 0, -2]

    def test_infinities_saturate_and_overflow_is_silent(self):
        assert quantize(Tensor([np.inf, -np.inf, 3e38]), 1e-30, 5).data.tolist() == [127, -128, 127]

    def test_nan_is_refused(self):
        with pytest.raises(ValueError, match="quantize.*NaN came"):
            quantize(Tensor([1.0, np.nan]), 1.0, 0)

    @pytest.mark.parametrize("shape", [(3,), (2, 2, 2), (0,)])
    def test_a_scale_must_not_make_x_larger(self, shape):
        for call in (lambda: quantize(Tensor(np.ones((2, 2))), Tensor(np.ones(shape)), 0),
                     lambda: dequantize(Tensor(np.ones((2, 2), np.int8)), 1.0, Tensor(np.ones(shape, np.int8)))):
            with pytest.raises(ValueError, match="stretches to x's"):
                call()

    @pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.bool_])
    def test_only_int8_is_dequantized(self, dtype):
        with pytest.raises(TypeError, match=f"q is {np.dtype(dtype)}; want int8"):
            dequantize(Tensor(np.ones(3, dtype), dtype=dtype), 1.0, 0)

    @pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
    def test_a_step_is_longer_than_0(self, scale):
        for call in (quantize, lambda x, *how: dequantize(x.astype(np.int8), *how)):
            with pytest.raises(ValueError, match=f"a scale is {scale:g}; want steps longer than 0, and finite"):
                call(Tensor(np.ones((2, 2))), Tensor(np.float32([1, scale])), 0)

    @pytest.mark.parametrize("zero_point", [128, -129, 2.5, np.nan])
    def test_a_zero_point_is_one_of_the_256(self, zero_point):
        """With 300, 0.0 would become 127 and come back as (127 - 300) · 0.5 = -86.5."""
        x, q = Tensor([0.0, 1.0]), Tensor(np.zeros((1, 1), np.int8))
        for call in (lambda: quantize(x, 0.5, Tensor([0, zero_point])), lambda: dequantize(q, 0.5, zero_point),
                     lambda: integer_linear(q, zero_point, q, 0), lambda: integer_linear(q, 0, q, zero_point)):
            with pytest.raises(ValueError, match=f"a zero point is {zero_point:g}; want whole numbers from -128 to"):
                call()

    def test_an_empty_tensor_stays_one(self):
        q = quantize(Tensor(np.ones((0, 3))), 1.0, 0)
        assert (q.shape, q.dtype, dequantize(q, 1.0, 0).shape) == ((0, 3), np.int8, (0, 3))

    def test_no_gradient_passes(self):
        assert all(VJP[op] is without_gradient for op in (quantize, dequantize, integer_linear))
        assert not quantize(Tensor([1.0], requires_grad=True), 1.0, 0).requires_grad


class TestRange:
    @given(st.floats(-(2.0**100), 2.0**100, width=32), st.floats(-(2.0**100), 2.0**100, width=32))
    @example(0.0, 0.0)
    @example(-0.0, -0.0)
    @example(0.0, 1e-45)
    @example(-1e-40, 0.0)
    @example(5.0, 5.0)
    @settings(max_examples=200)
    def test_zero_is_exact_and_nothing_moves_by_more_than_half_a_step(self, a, b):
        low, high = min(a, b), max(a, b)
        scale, zero_point = affine_parameters(low, high)
        x = np.array([low, high, (low + high) / 2, 0.0], np.float32)
        back = dequantize(quantize(Tensor(x), scale, zero_point), scale, zero_point).data
        assert back[3] == 0.0
        assert (scale.dtype, zero_point.dtype) == (np.float32, np.int8)
        assert 0 < scale.item() < np.inf
        assert np.abs(back - x).max() <= 0.5001 * scale.item()

    @pytest.mark.parametrize("low, high", [(1.0, -1.0), (np.nan, 1.0), (0.0, np.inf), (-3e38, 3e38), (-np.inf, np.inf)])
    def test_what_is_no_range(self, low, high):
        with pytest.raises(ValueError, match="want two finite numbers, the lower first"):
            affine_parameters(low, high)

    def test_the_bad_one_of_many_is_shown(self):
        with pytest.raises(ValueError, match="a range from 5 to 2"):
            affine_parameters(Tensor([0.0, 5.0]), Tensor([1.0, 2.0]))

    def test_torch_says_the_same(self):
        """torch 2.13: MinMaxObserver(dtype=qint8, affine) and PerChannelMinMaxObserver(ch_axis=1) on these numbers."""
        x = np.array([[-0.62, 0.31, 2.0], [1.05, -1.4, 0.5], [0.25, 0.125, 3.25]], np.float32)
        q, scale, zero_point = quantize_int8(x)
        assert (round(scale.item(), 8), zero_point.item()) == (0.01823529, -51)  # 4.65 / 255; 1.4 / scale = 76.8
        assert q.data.tolist() == [[-85, -34, 59], [7, -128, -24], [-37, -44, 127]]
        q, scale, zero_point = quantize_int8(x, axis=1)
        assert np.allclose(scale.data, [[1.67 / 255, 1.71 / 255, 3.25 / 255]])
        assert zero_point.data.tolist() == [[-33, 81, -128]]  # 94.67 and 208.77 steps above -128; none
        assert q.data.tolist() == [[-128, 127, 29], [127, -128, -89], [5, 100, 127]]


class TestTensors:
    @given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.sampled_from([None, 0, 1, 2, -1, -3]))
    @settings(max_examples=50)
    def test_each_place_on_the_axis_has_its_own_step(self, a, b, c, axis):
        x = gauss(a, b, c, seed=a + 7 * b + 31 * c) * np.float32(3)
        q, scale, zero_point = quantize_int8(x, axis)
        want = () if axis is None else tuple(n if i == axis % 3 else 1 for i, n in enumerate((a, b, c)))
        assert scale.shape == zero_point.shape == want
        assert (np.abs(dequantize_int8(q, scale, zero_point).data - x) <= 0.5001 * scale.data).all()
        assert q.nbytes == x.size

    def test_one_axis(self):
        q, scale, _ = quantize_int8([1.0, -2.0, 0.0], axis=0)  # each alone: its range is from 0 to itself
        assert (q.data.tolist(), scale.shape) == ([127, -128, -128], (3,))

    def test_transposed_and_every_second(self):
        x = gauss(6, 4)
        for view in (x.T, x[::2, ::-1]):
            assert np.array_equal(quantize_int8(view, 1)[0].data, quantize_int8(view.copy(), 1)[0].data)

    @pytest.mark.parametrize("dtype", [np.float16, np.float64])
    def test_other_floats(self, dtype):
        x = Tensor(gauss(3, 4).astype(dtype), dtype=dtype)
        q, scale, zero_point = quantize_int8(x)
        assert scale.dtype == np.float32
        assert np.abs(dequantize(q, scale, zero_point).data - x.data).max() <= 0.51 * scale.item()

    def test_refusals(self):
        whole = Tensor(np.ones(3, np.int8))
        for x, kind, words in ((whole, TypeError, "int8; want floats"), (np.ones((0, 2)), ValueError, "empty"),
                               ([1.0, np.nan], ValueError, "nan"), ([1.0, np.inf], ValueError, "inf")):
            with pytest.raises(kind, match=words):
                quantize_int8(x)
        with pytest.raises(ValueError, match="axis 2 does not exist"):
            quantize_int8(np.ones((2, 3)), axis=2)


class TestLayers:
    @pytest.mark.parametrize("per_channel", [True, False])
    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("size", [(1, 1), (7, 3), (64, 10)])
    def test_bytes_are_the_closed_form(self, size, bias, per_channel):
        inside, out = size
        layer = QuantizedLinear(Linear(*size, bias=bias), per_channel)
        want = inside * out + 5 * (out if per_channel else 1) + (4 * out if bias else 0)
        assert weight_bytes(layer) == want
        assert round(measure_memory(layer, (2, inside))["parameter_memory_mb"] * 2**20) == want
        calibrated = IntegerLinear(Linear(*size, bias=bias), 0.0, 1.0, per_channel)
        assert weight_bytes(calibrated) == want + 5

    @pytest.mark.parametrize("lead", [(), (1,), (5,), (2, 3), (0,)])
    @pytest.mark.parametrize("per_channel", [True, False])
    def test_leading_axes(self, lead, per_channel):
        plain, x = Linear(6, 4), Tensor(gauss(*lead, 6) * 0.3)
        plain.bias.data[:] = gauss(4)
        for layer in (QuantizedLinear(plain, per_channel), IntegerLinear(plain, -2.0, 2.0, per_channel)):
            got = layer(x)
            assert (got.shape, got.dtype) == ((*lead, 4), np.float32)
            assert np.allclose(got.data, plain(x).data, atol=0.1)

    @pytest.mark.parametrize("per_channel", [True, False])
    def test_integers_and_floats_are_the_same_sum(self, per_channel):
        """With steps that are powers of two, float32 sums are exact here as well: not a bit differs."""
        layer = IntegerLinear(Linear(40, 9, bias=False), -1.0, 1.0, per_channel)
        for step in (layer.scale, layer.input_scale):
            step.data = np.exp2(np.rint(np.log2(step.data)))
        x = Tensor(gauss(5, 40))
        how = layer.input_scale, layer.input_zero_point
        rounded = dequantize(quantize(x, *how), *how)
        weight = dequantize(layer.weight, layer.scale, layer.zero_point)
        assert np.array_equal(layer(x).data, (rounded @ weight).data)

    def test_the_largest_sum_fits_and_a_longer_one_is_refused(self):
        """33,025 · 255 · 255 = 2,147,450,625 < 2³¹ = 2,147,483,648 < 33,026 · 65,025."""
        assert LONGEST == 33_025
        x, weight = Tensor(np.full(LONGEST, 127, np.int8)), Tensor(np.full((LONGEST, 1), 127, np.int8))
        assert integer_linear(x, -128, weight, -128).item() == 2_147_450_625
        with shape_only(), pytest.raises(ValueError, match="33,026 products.*33,025 fit"):
            IntegerLinear(Linear(LONGEST + 1, 1), 0.0, 1.0)

    def test_one_range_for_all_inputs(self):
        """A step for each input would be multiplied to the outputs instead, wrongly, where there are as many."""
        for low, high in (([0.0, 1.0], [1.0, 2.0]), ([0.0], [1.0])):
            with pytest.raises(ValueError, match="a range of shape .* came for the inputs; want one low and one high"):
                IntegerLinear(Linear(2, 2), low, high)

    def test_sums_of_nothing(self):
        x, weight = Tensor(np.ones((2, 0), np.int8)), Tensor(np.ones((0, 3), np.int8))
        assert integer_linear(x, 0, weight, 0).data.tolist() == [[0] * 3] * 2

    def test_factors_must_be_int8(self):
        with pytest.raises(TypeError, match="weight is float32; want int8"):
            integer_linear(Tensor(np.ones((1, 2), np.int8)), 0, Tensor(np.ones((2, 1))), 0)
        with pytest.raises(ValueError, match="want 2"):
            integer_linear(Tensor(np.ones((1, 3), np.int8)), 0, Tensor(np.ones((2, 1), np.int8)), 0)

    def test_only_a_linear(self):
        with pytest.raises(TypeError, match="a ReLU came; want a Linear"):
            QuantizedLinear(ReLU())

    def test_what_it_costs(self):
        """Stored: 2 · 6 · 4 products and 24 weights undone; computed: those products, 6 inputs, 1 + 4 + 4 outputs."""
        plain = Linear(6, 4)
        assert count_flops(QuantizedLinear(plain), (1, 6)) == 48 + 24
        assert count_flops(IntegerLinear(plain, 0.0, 1.0), (1, 6)) == 48 + 6 + 4 + 4 + 4

    def test_bytes_inside(self):
        """A dequantized 8x8: 64 + 4 + 1 in, 256 out; its two passes more take 4 · 64 · 4 bytes."""
        events = []
        with listen(events.append):
            dequantize(Tensor(np.ones((8, 8), np.int8)), Tensor(np.float32(1)), Tensor(np.int8(0)))
        assert events[0].num_bytes == 325
        assert event_bytes(events[0]) == pytest.approx(325 + 1024, rel=0.02)

    def test_the_float_weight_is_gone_after_the_call(self):
        """It, and perhaps one array of its size, live for the length of a call."""
        layer, size = QuantizedLinear(Linear(512, 512)), 512 * 512
        x = Tensor(gauss(1, 512))
        with no_grad():
            memory = measure_memory(layer, (1, 512), x)
            grown = trace_memory(lambda: layer(x)).growth
        assert 4 * size <= memory["temporaries_mb"] * 2**20 < 9 * size
        assert grown < size

    def test_a_gradient_reaches_the_input(self):
        layer, x = QuantizedLinear(Linear(3, 2)), Tensor(gauss(4, 3), requires_grad=True)
        layer(x).sum().backward()
        weight = dequantize(layer.weight, layer.scale, layer.zero_point).data
        assert np.allclose(x.grad.data, weight.sum(axis=1))
        assert all(not p.requires_grad for p in layer.parameters())

    def test_saved_and_loaded(self):
        layer, other = QuantizedLinear(Linear(3, 2)), QuantizedLinear(Linear(3, 2))
        other.load_state_dict(layer.state_dict())
        assert other.weight.dtype == np.int8
        assert np.array_equal(other(Tensor(np.eye(3))).data, layer(Tensor(np.eye(3))).data)


class TestModels:
    def model(self):
        rng = np.random.default_rng(0)
        return Sequential(Linear(6, 8, rng=rng), ReLU(), Dropout(0.5), Linear(8, 3, rng=rng))

    def test_the_model_shares_nothing_with_the_new_one(self):
        model = self.model()
        before, x = model.state_dict(), Tensor(gauss(4, 6))
        new = quantize_model(model, [x])
        for p in new.parameters():
            p.data[...] = 1
        assert all(np.array_equal(model.state_dict()[name], array) for name, array in before.items())
        assert model.layers[0].weight.requires_grad

    def test_calibration_reads_every_batch_and_keeps_no_graph(self):
        model = self.model()
        batches = (Tensor(gauss(4, 6, seed=seed)) for seed in range(3))  # a generator will do
        layer = quantize_model(model, batches).layers[0]
        seen = np.concatenate([gauss(4, 6, seed=seed) for seed in range(3)])
        assert layer.input_scale.item() == pytest.approx((seen.max() - seen.min()) / 255, rel=1e-5)
        assert all(p.grad is None and p.made_by is None for p in model.parameters())

    def test_calibration_runs_without_a_graph(self):
        class Spy(ReLU):
            def forward(self, x):
                self.graph = x.requires_grad
                return x

        new = quantize_model(Sequential(Linear(6, 8), Spy()), Tensor(gauss(4, 6)))
        assert not new.layers[1].graph

    @pytest.mark.parametrize("calibration", [[np.ones((1, 6))], [(Tensor(np.ones((1, 6))), 3)], ["no"]])
    def test_batches_are_tensors(self, calibration):
        with pytest.raises(TypeError, match="want Tensors, inputs without labels"):
            quantize_model(self.model(), calibration)

    def test_nan_in_a_batch_is_refused(self):
        for x in ([[np.nan] * 6], [[0.0] * 5 + [np.nan]]):
            with pytest.raises(ValueError, match="nan"):
                quantize_model(self.model(), Tensor(x))

    def test_a_layer_that_calibration_does_not_reach_computes_in_floats(self):
        model = self.model()
        model.spare = Linear(2, 2)
        new = quantize_model(model, Tensor(gauss(2, 6)))
        assert [type(layer) for layer in (new.spare, new.layers[0])] == [QuantizedLinear, IntegerLinear]

    def test_a_class_derived_from_linear_is_left_alone(self):
        class Doubled(Linear):
            def forward(self, x):
                return super().forward(x) * 2.0

        new = quantize_model(Sequential(Doubled(2, 2), Linear(2, 2)))
        assert [type(layer) for layer in new.layers] == [Doubled, QuantizedLinear]

    def test_no_model_but_a_layer(self):
        assert type(quantize_model(Linear(2, 3))) is QuantizedLinear
        assert type(quantize_model(Linear(2, 3), Tensor(gauss(1, 2)))) is IntegerLinear

    def test_twice_is_once(self):
        new = quantize_model(quantize_model(self.model()))
        assert [type(layer) for layer in new.layers] == [QuantizedLinear, ReLU, Dropout, QuantizedLinear]

    def test_modes(self):
        model = self.model()
        model.layers[2].eval()  # dropout frozen in a model that trains
        new = quantize_model(model, Tensor(gauss(2, 6)))
        assert [new.training, *(layer.training for layer in new.layers)] == [True, True, True, False, True]

    def test_what_is_no_linear_keeps_its_weights(self):
        model = Sequential(Conv2d(1, 2, 3), Flatten(), Linear(8, 3))
        new, x = quantize_model(model), Tensor(gauss(2, 1, 4, 4))
        assert new.layers[0].weight.dtype == np.float32
        assert np.allclose(new(x).data, model(x).data, atol=0.05)

    def test_a_gpt_stays_a_gpt(self):
        """A tied head goes on being the token table; every Linear becomes a quarter, and logits move a little."""
        model = GPT(40, 16, 2, 2, max_seq_len=8, rng=np.random.default_rng(0)).eval()
        tokens = Tensor(np.random.default_rng(1).integers(0, 40, (2, 8)))
        for calibration in (None, tokens):
            new = quantize_model(model, calibration)
            assert np.abs(new(tokens).data - model(tokens).data).max() < 0.05
        # a block: 4 · (16, 16), (16, 64), (64, 16), outputs 4 · 16 + 64 + 16; a weight saves 3 bytes, an output costs 5
        assert weight_bytes(model) - weight_bytes(quantize_model(model)) == 2 * (3 * (4 * 256 + 2 * 1024) - 5 * 144)

    def test_on_shapes(self):
        with shape_only():
            model = Linear(4000, 5000)
            assert weight_bytes(quantize_model(model)) == 4000 * 5000 + 9 * 5000

    def test_the_observer_is_transparent(self):
        plain, x = Linear(3, 2), Tensor(gauss(4, 3), requires_grad=True)
        observer = RangeObserver(plain)
        assert np.array_equal(observer(x).data, plain(x).data)
        assert observer(x).requires_grad
        assert (observer.low, observer.high) == (x.data.min(), x.data.max())


class TestBound:
    @given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 1000), st.booleans())
    @settings(max_examples=40)
    def test_it_holds(self, inside, out, seed, per_channel):
        plain = Linear(inside, out, rng=np.random.default_rng(seed))
        x = gauss(3, inside, seed=seed)
        stored = QuantizedLinear(plain, per_channel)
        bound = error_bound(x, plain.weight.data, stored.scale.data)
        assert (np.abs(stored(Tensor(x)).data - plain(Tensor(x)).data) <= bound + 1e-5).all()
        integer = IntegerLinear(plain, float(x.min()), float(x.max()), per_channel)
        bound = error_bound(x, plain.weight.data, integer.scale.data, integer.input_scale.item() / 2)
        assert (np.abs(integer(Tensor(x)).data - plain(Tensor(x)).data) <= bound + 1e-5).all()

    def test_the_worst_case_is_reached(self):
        """x = [3], W = [[-2]], step 0.1, error 0.5: 0.5 · 2 + 3.5 · 0.05 = 1.175 = |3.5 · -2.05 - 3 · -2|."""
        assert error_bound(np.array([3.0]), np.array([[-2.0]]), np.array([0.1]), 0.5).item() == pytest.approx(1.175)
        assert abs(3.5 * -2.05 - 3 * -2) == pytest.approx(1.175)
