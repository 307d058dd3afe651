"""Wrong and right solutions of module 15; see matrix.py for what the fields mean."""

WRONG = [
    {"name": "truncated", "cell": "quantize",
     "old": "np.rint(x / scale)", "new": "np.trunc(x / scale)",
     "caught": "test-quantize: scale 0.5, zero point 3", "says": "cut towards 0"},
    {"name": "floored", "cell": "quantize",
     "old": "np.rint(x / scale)", "new": "np.floor(x / scale)",
     "caught": "test-quantize: scale 0.5, zero point 3", "says": "rounded down"},
    {"name": "multiplied", "cell": "quantize",
     "old": "np.rint(x / scale)", "new": "np.rint(x * scale)",
     "caught": "test-quantize: scale 0.5, zero point 3", "says": "multiplied by the scale"},
    {"name": "zero-point-left-out", "cell": "quantize",
     "old": "np.rint(x / scale) + zero_point", "new": "np.rint(x / scale)",
     "caught": "test-quantize: scale 0.5, zero point 3", "says": "the zero point is left out"},
    {"name": "zero-point-subtracted", "cell": "quantize",
     "old": "np.rint(x / scale) + zero_point", "new": "np.rint(x / scale) - zero_point",
     "caught": "test-quantize: scale 0.5, zero point 3", "says": "the zero point is subtracted"},
    {"name": "unsigned", "cell": "quantize",
     "old": "as_int8(np.clip(steps, FIRST, LAST))", "new": "np.clip(steps, 0, 255).astype(np.uint8).view(np.int8)",
     "caught": "test-quantize: scale 0.5, zero point 3", "says": "cut off at 0 and 255"},
    {"name": "clipped-too-early", "cell": "quantize",
     "old": "        steps = np.rint(x / scale) + zero_point\n        return as_int8(np.clip(steps, FIRST, LAST))",
     "new": "        steps = np.clip(np.rint(x / scale), FIRST, LAST) + zero_point\n"
            "        return steps.astype(int).astype(np.int8)",
     "caught": "test-quantize: scale 0.5, zero point 3", "says": "before the zero point was added"},
    {"name": "wraps-around", "cell": "quantize",
     "old": "as_int8(np.clip(steps, FIRST, LAST))", "new": "steps.astype(int).astype(np.int8)",
     "caught": "test-quantize: scale 0.5, zero point 3", "says": "wraps around"},
    {"name": "difference-in-int8", "cell": "quantize",
     "old": "    out = q.astype(np.float32)\n    out -= zero_point  # in place: no second array of floats\n",
     "new": "    out = (q - zero_point.astype(np.int8)).astype(np.float32)\n",
     "caught": "test-quantize: and back", "says": "was computed in int8"},
    {"name": "back-without-zero-point", "cell": "quantize",
     "old": "    out -= zero_point  # in place: no second array of floats\n", "new": "",
     "caught": "test-quantize: and back", "says": "the zero point is left out"},
    {"name": "256-steps", "cell": "affine-parameters",
     "old": "(high - low) / 255", "new": "(high - low) / 256",
     "caught": "test-affine-parameters: scale of -1 to 4.1", "says": "255 steps"},
    {"name": "symmetric", "cell": "affine-parameters",
     "old": "low, high = -maximum(-low, 0.0), maximum(high, 0.0)",
     "new": "high = maximum(-low, high)\n    low = -high",
     "caught": "test-affine-parameters: scale of -1 to 4.1", "says": "from -4.1 to 4.1"},
    {"name": "zero-not-in-the-range", "cell": "affine-parameters",
     "old": "    low, high = -maximum(-low, 0.0), maximum(high, 0.0)\n", "new": "",
     "caught": "test-affine-parameters: 1 to 2.55 must hold 0", "says": "0 is not in the range"},
    {"name": "counted-from-zero", "cell": "affine-parameters",
     "old": "quantize(-low, scale, FIRST)", "new": "quantize(-low, scale, 0)",
     "caught": "test-affine-parameters: zero point of -1 to 4.1", "says": "counted from 0"},
    {"name": "low-for-minus-low", "cell": "affine-parameters",
     "old": "quantize(-low, scale, FIRST)", "new": "quantize(low, scale, FIRST)",
     "caught": "test-affine-parameters: zero point of -1 to 4.1", "says": "not at it"},
    {"name": "step-of-nothing", "cell": "affine-parameters",
     "old": "maximum((high - low) / 255, TINY)", "new": "(high - low) / 255",
     "caught": "test-affine-parameters: ValueError: quantize: (), (), (): a scale is 0; want steps longer than 0, "
               "and finite"},
    {"name": "rows-for-columns", "cell": "quantize-int8",
     "old": "    low, high =", "new": "    others = axis\n    low, high =",
     "caught": "test-quantize-int8: one for each column", "says": "one for each row"},
    {"name": "axis-not-used", "cell": "quantize-int8",
     "old": "    keep = axis is not None\n", "new": "    keep, others = False, None\n",
     "caught": "test-quantize-int8: one for each column", "says": "the axis is not used"},
    {"name": "lowest-is-zero", "cell": "quantize-int8",
     "old": "-(-x).max(axis=others, keepdims=keep), x.max", "new": "0.0 * x.max(axis=others, keepdims=keep), x.max",
     "caught": "test-quantize-int8: one step for all", "says": "the lowest is taken for 0"},
    {"name": "always-kept", "cell": "quantize-int8",
     "old": "keep = axis is not None", "new": "keep = True",
     "caught": "test-quantize-int8: its scale, its shape", "says": "keepdims only with one"},
    {"name": "int8-in-name-only", "cell": "quantized-linear",
     "old": "    self.weight, scale, zero_point = quantize_int8(linear.weight, axis=1 if per_channel else None)\n",
     "new": "    self.weight, scale, zero_point = quantize_int8(linear.weight, axis=1 if per_channel else None)\n"
            "        self.weight = self.weight.astype(np.float32)\n",
     "caught": "test-quantized-linear: the weight is stored as", "says": "four bytes each"},
    {"name": "both-kept", "cell": "quantized-linear",
     "old": "        self.scale, self.zero_point =", "new": "        self.original = linear.weight.detach()\n"
                                                           "        self.scale, self.zero_point =",
     "caught": "test-quantized-linear: bytes of Linear(256, 128), per_channel=True, found by the Profiler",
     "says": "the float weight as well"},
    {"name": "step-for-each-row", "cell": "quantized-linear",
     "old": "axis=1 if per_channel", "new": "axis=0 if per_channel",
     "caught": "test-quantized-linear: the weight", "says": "one for each row"},
    {"name": "per-channel-not-used", "cell": "quantized-linear",
     "old": "axis=1 if per_channel else None", "new": "axis=1",
     "caught": "test-quantized-linear: bytes of Linear(256, 128), per_channel=False, found by the Profiler",
     "says": "per_channel is not used"},
    {"name": "not-dequantized", "cell": "quantized-linear",
     "old": "dequantize(self.weight, self.scale, self.zero_point)", "new": "self.weight.astype(np.float32)",
     "caught": "test-quantized-linear: two inputs", "says": "dequantize first"},
    {"name": "stored-without-bias", "cell": "quantized-linear",
     "old": "return linear(x, weight) if self.bias is None else linear(x, weight, self.bias)",
     "new": "return linear(x, weight)",
     "caught": "test-quantized-linear: two inputs", "says": "the bias is left out"},
    {"name": "products-in-int8", "cell": "integer-linear",
     "old": "np.subtract(x, x_zero_point, dtype=np.int32) @ np.subtract(weight, weight_zero_point, dtype=np.int32)",
     "new": "(x - x_zero_point) @ (weight - weight_zero_point)",
     "caught": "test-integer-linear: 255 · 255", "says": "computed in int8"},
    {"name": "sums-in-int16", "cell": "integer-linear",
     "old": "np.subtract(x, x_zero_point, dtype=np.int32) @ np.subtract(weight, weight_zero_point, dtype=np.int32)",
     "new": "np.subtract(x, x_zero_point, dtype=np.int16) @ np.subtract(weight, weight_zero_point, dtype=np.int16)",
     "caught": "test-integer-linear: 255 · 255", "says": "held in int16"},
    {"name": "sums-in-float32", "cell": "integer-linear",
     "old": "np.subtract(x, x_zero_point, dtype=np.int32) @ np.subtract(weight, weight_zero_point, dtype=np.int32)",
     "new": "np.subtract(x, x_zero_point, dtype=np.float32) @ np.subtract(weight, weight_zero_point, dtype=np.float32)",
     "caught": "test-integer-linear: 999 of them, exactly"},
    {"name": "zero-points-stay", "cell": "integer-linear",
     "old": "np.subtract(x, x_zero_point, dtype=np.int32) @ np.subtract(weight, weight_zero_point, dtype=np.int32)",
     "new": "x.astype(np.int32) @ weight.astype(np.int32)",
     "caught": "test-integer-linear: 255 · 255", "says": "the zero points are left out"},
    {"name": "input-step-left-out", "cell": "integer-linear",
     "old": "total * (self.input_scale * self.scale)", "new": "total * self.scale",
     "caught": "test-integer-linear: the layer: 7.2 + 1 and 0.6 + 2; nothing; cut off at 2.55",
     "says": "the input's step is left out"},
    {"name": "floats-in-disguise", "cell": "integer-linear",
     "old": "        total = integer_linear(q, self.input_zero_point, self.weight, self.zero_point)\n"
            "        out = total * (self.input_scale * self.scale)\n",
     "new": "        x = dequantize(q, self.input_scale, self.input_zero_point)\n"
            "        out = linear(x, dequantize(self.weight, self.scale, self.zero_point))\n",
     "caught": "test-integer-linear: ops that see the weight", "says": "both went back to float"},
    {"name": "last-batch-only", "cell": "range-observer",
     "old": "np.minimum(self.low, -(-x).max().item())", "new": "-(-x).max().item()",
     "caught": "test-range-observer: three batches"},
    {"name": "nan-forgotten", "cell": "range-observer",
     "old": "        self.low = float(np.minimum(self.low, -(-x).max().item()))\n"
            "        self.high = float(np.maximum(self.high, x.max().item()))\n",
     "new": "        self.low = min(self.low, -(-x).max().item())\n"
            "        self.high = max(self.high, x.max().item())\n",
     "caught": "test-range-observer: a NaN that was seen is not forgotten"},
    {"name": "observer-swallows", "cell": "range-observer",
     "old": "return self.layer(x)", "new": "return x",
     "caught": "test-range-observer: the layer's own output passes", "says": "the input came out"},
    {"name": "calibrated-in-training", "cell": "quantize-model",
     "old": "with in_mode(watched, False), no_grad():", "new": "with no_grad():",
     "caught": "test-quantize-model: of the second: 10.955 / 255", "says": "dropout was at work"},
    {"name": "calibrated-with-a-graph", "cell": "quantize-model",
     "old": "with in_mode(watched, False), no_grad():", "new": "with in_mode(watched, False):",
     "caught": "tests: test_quantization.py::TestModels::test_calibration_runs_without_a_graph"},
    {"name": "left-in-evaluation", "cell": "quantize-model",
     "old": "    with in_mode(watched, False), no_grad():", "new": "    watched.eval()\n    with no_grad():",
     "caught": "test-quantize-model: the modes are as before", "says": "the copy was left in evaluation mode"},
    {"name": "observers-stay", "cell": "quantize-model",
     "old": "    return replace_layers(watched, lambda one: one.quantized(per_channel) "
            "if isinstance(one, RangeObserver) else one)",
     "new": "    return watched",
     "caught": "test-quantize-model: without calibration", "says": "the observers are still there"},
    {"name": "how-not-handed-on", "cell": "quantize-model",
     "old": "one.quantized(per_channel)", "new": "one.quantized()",
     "caught": "test-quantize-model: per_channel=False: shapes of the scales", "says": "per_channel is not handed on"},
    {"name": "derived-classes-too", "cell": "quantize-model",
     "old": "type(one) is Linear", "new": "isinstance(one, Linear)",
     "caught": "tests: test_quantization.py::TestModels::test_a_class_derived_from_linear_is_left_alone"},
    {"name": "whole-step", "cell": "error-bound",
     "old": "* scale / 2", "new": "* scale",
     "caught": "test-error-bound: an exact input", "says": "a whole step"},
    {"name": "signs-cancel", "cell": "error-bound",
     "old": "(np.abs(x) + error)", "new": "(x + error)",
     "caught": "test-error-bound: an exact input", "says": "signs cancel"},
    {"name": "not-carried-on", "cell": "error-bound",
     "old": "error @ np.abs(weight) + ", "new": "",
     "caught": "test-error-bound: an input that is off by 0.1", "says": "not carried on"},
]

RIGHT = [
    {"name": "steps-as-they-stand", "cell": "quantize", "code": '''
#| export
@op(shape=affine_shape, dtype=np.int8)
def quantize(x, scale, zero_point):
    """Count in steps: x (...) -> int8 (...), x / scale rounded, plus zero_point, cut off at -128 and 127."""
    affine_shape(x.shape, scale.shape, zero_point.shape)
    above_zero(scale)
    one_of_256(zero_point)
    with np.errstate(over="ignore"):
        q = np.round(np.divide(x, scale))
        q = q + zero_point
        q = np.minimum(np.maximum(q, -128), 127)
        return as_int8(q)


@op(shape=affine_shape, dtype=np.float32)
def dequantize(q, scale, zero_point):
    """Go back: int8 q (...) -> float32 (...), scale · (q - zero_point); other types are a ``TypeError``."""
    affine_shape(q.shape, scale.shape, zero_point.shape)
    if q.dtype != np.int8:
        raise TypeError(f"q is {q.dtype}; want int8, as quantize makes it")
    above_zero(scale)
    one_of_256(zero_point)
    return scale * (q.astype(np.int32) - zero_point).astype(np.float32)
'''},
    {"name": "zero-point-from-the-top", "cell": "affine-parameters", "code": '''
#| export
def affine_parameters(low, high):
    """Return (scale float32, zero_point int8) of the range low to high, extended to hold 0; Tensors of its shape."""
    low, high = checked_range(low, high)
    below, above = maximum(-low, 0.0), maximum(0.0, high)
    scale = maximum((below + above) / 255.0, TINY)
    return scale, quantize(below / scale, 1.0, -128)
'''},
    {"name": "least-by-numpy-order", "cell": "quantize-int8", "code": '''
#| export
def quantize_int8(x, axis=None):
    """Quantize floats by their own range: x (...) -> (q int8 (...), scale float32, zero_point int8)."""
    x = floats_of(x)
    others = other_axes(x.ndim, axis)
    if axis is None:
        high, low = x.max(), -((-x).max())
    else:
        high, low = x.max(axis=others, keepdims=True), -((-x).max(axis=others, keepdims=True))
    how = affine_parameters(low, high)
    return (quantize(x, *how), *how)


def dequantize_int8(q, scale, zero_point):
    """Undo ``quantize_int8``, up to half a step: int8 q (...) -> float32 (...)."""
    return dequantize(q, scale, zero_point)
'''},
    {"name": "bound-by-matrix-products", "cell": "error-bound", "code": '''
#| export
def error_bound(x, weight, scale, error=0.0):
    """Bound how far a quantized layer's output may be off: x (..., in) -> (..., out)."""
    e = np.zeros_like(x) + error
    half = np.zeros_like(weight) + scale / 2
    return e @ abs(weight) + (abs(x) + e) @ half
'''},
]
