"""Wrong and right solutions of module 09, as small edits of the reference."""

WRONG = [
    {"name": "size-by-stride", "cell": "out-size",
     "old": "return (size + 2 * padding - reach) // stride + 1", "new": "return (size + 2 * padding) // stride",
     "caught": "test-out-size: 3 on 32", "says": "size / stride"},
    {"name": "first-stop-forgotten", "cell": "out-size",
     "old": "// stride + 1", "new": "// stride",
     "caught": "test-out-size: 3 on 32", "says": "the first stop is forgotten"},
    {"name": "frame-on-one-side", "cell": "out-size",
     "old": "return (size + 2 * padding - reach)", "new": "return (size + padding - reach)",
     "caught": "test-out-size: 3 on 10, padding 1", "says": "the frame is on both sides"},
    {"name": "dilation-ignored", "cell": "out-size",
     "old": "reach = dilation * (kernel - 1) + 1", "new": "reach = kernel",
     "caught": "test-out-size: 5 on 17, stride 2, dilation 2", "says": "the dilation is ignored"},
    {"name": "dilation-times-kernel", "cell": "out-size",
     "old": "dilation * (kernel - 1) + 1", "new": "dilation * kernel",
     "caught": "test-out-size: 5 on 17, stride 2, dilation 2", "says": "not 2 · 5"},
    {"name": "rounded-up", "cell": "out-size",
     "old": "(size + 2 * padding - reach) // stride + 1", "new": "-(-(size + 2 * padding - reach) // stride) + 1",
     "caught": "test-out-size: 3 on 8, stride 2", "says": "rounded up"},
    {"name": "window-turned-over", "cell": "conv2d-by-loops",
     "old": "* weight[o]).sum()", "new": "* weight[o][:, ::-1, ::-1]).sum()",
     "caught": "test-conv2d-by-loops: one channel", "says": "the window is turned over"},
    {"name": "stride-left-out", "cell": "conv2d-by-loops",
     "old": "top, left = r * stride, c * stride", "new": "top, left = r, c",
     "caught": "test-conv2d-by-loops: stride 2", "says": "multiplied by the stride"},
    {"name": "first-channel-only", "cell": "conv2d-by-loops",
     "old": "(x[:, top : top + kh, left : left + kw] * weight[o]).sum()",
     "new": "(x[0, top : top + kh, left : left + kw] * weight[o, 0]).sum()",
     "caught": "test-conv2d-by-loops: both channels go into one sum", "says": "only the first channel"},
    {"name": "mean-for-sum", "cell": "conv2d-by-loops",
     "old": "* weight[o]).sum()", "new": "* weight[o]).mean()",
     "caught": "test-conv2d-by-loops: one channel", "says": "the mean of the window"},
    {"name": "strides-in-elements", "cell": "windows",
     "old": "batch, channel, row, pixel = x.strides",
     "new": "batch, channel, row, pixel = (step // x.itemsize for step in x.strides)",
     "caught": "test-windows: bytes to walk along each axis", "says": "counted in elements"},
    {"name": "dilation-exchanged", "cell": "windows",
     "old": "dilation[0] * row, dilation[1] * pixel", "new": "dilation[1] * row, dilation[0] * pixel",
     "caught": "test-windows: dilation (3, 2)", "says": "rows and columns of the dilation are exchanged"},
    {"name": "stride-and-dilation-swapped", "cell": "windows",
     "old": "dilation[0] * row, dilation[1] * pixel, stride[0] * row, stride[1] * pixel",
     "new": "stride[0] * row, stride[1] * pixel, dilation[0] * row, dilation[1] * pixel",
     "caught": "test-windows: stride (1, 2)", "says": "the stride belongs to the stops"},
    {"name": "dilation-left-out", "cell": "windows",
     "old": "dilation[0] * row, dilation[1] * pixel", "new": "row, pixel",
     "caught": "test-windows: dilation (3, 2)", "says": "the dilation is left out"},
    {"name": "one-stride-for-both", "cell": "windows",
     "old": "stride[0] * row, stride[1] * pixel)", "new": "stride[0] * row, stride[0] * pixel)",
     "caught": "test-windows: stride (1, 2)", "says": "the stride is left out"},
    {"name": "groups-ignored", "cell": "columns",
     "old": "seen.reshape(x.shape[0], groups, x.shape[1] // groups * prod(kernel), prod(stops))",
     "new": "seen.reshape(x.shape[0], 1, x.shape[1] * prod(kernel), prod(stops))",
     "caught": "test-columns: two groups", "says": "the groups are ignored"},
    {"name": "a-row-per-stop", "cell": "columns",
     "old": "prod(kernel), prod(stops))", "new": "prod(kernel), prod(stops)).swapaxes(2, 3)",
     "caught": "test-columns: shape", "says": "a column per stop, not a row"},
    {"name": "reshaped-without-transposing", "cell": "columns",
     "old": "seen = windows(x, kernel, stops, stride, dilation)",
     "new": "seen = windows(x, kernel, stops, stride, dilation).transpose(0, 1, 4, 5, 2, 3)",
     "caught": "test-columns: the first column is the first window"},
    {"name": "dilation-not-handed-on", "cell": "columns",
     "old": "windows(x, kernel, stops, stride, dilation)", "new": "windows(x, kernel, stops, stride, (1, 1))",
     "caught": "test-columns: stride and dilation", "says": "the dilation is not handed on"},
    {"name": "first-product-only", "cell": "products",
     "old": "        total += weights[i] @ cut[i]\n", "new": "        weights[i] @ cut[i]\n",
     "caught": "test-products: the example", "says": "only the first product"},
    {"name": "bias-once-per-product", "cell": "products",
     "old": "    total += bias\n", "new": "    total += bias * len(cut)\n",
     "caught": "test-products: the example", "says": "once per product"},
    {"name": "bias-added-in-place", "cell": "products",
     "old": "    if bias.dtype != total.dtype:\n        return total + bias\n    total += bias\n",
     "new": "    total += bias.astype(total.dtype)\n",
     "caught": "test-products: a float64 bias is not rounded", "says": "added in place"},
    {"name": "bias-in-turns", "cell": "products",
     "old": "bias.reshape(*weights[0].shape[:2], 1)", "new": "bias.reshape(*weights[0].shape[1::-1]).T[..., None]",
     "caught": "test-products: group 1, channel 4", "says": "group by group"},
    {"name": "all-channels-in-every-group", "cell": "conv2d-layer",
     "old": "he_std(prod(shape[1:]))", "new": "he_std(self.in_channels * prod(self.kernel_size))",
     "caught": "test-conv2d-layer: drawn from rng with the fan in of one output, 30",
     "says": "the fan in counts all channels"},
    {"name": "fan-in-without-the-window", "cell": "conv2d-layer",
     "old": "he_std(prod(shape[1:]))", "new": "he_std(shape[1])",
     "caught": "test-conv2d-layer: drawn from rng with the fan in of one output, 30", "says": "the window counts too"},
    {"name": "stride-not-handed-on", "cell": "conv2d-layer",
     "old": "stride=self.stride, padding", "new": "padding",
     "caught": "test-conv2d-layer: every setting reaches the op", "says": "the stride is not handed on"},
    {"name": "in-and-out-exchanged", "cell": "conv2d-layer",
     "old": "shape = (self.out_channels, self.in_channels // self.groups, *self.kernel_size)",
     "new": "shape = (self.in_channels, self.out_channels // self.groups, *self.kernel_size)",
     "caught": "test-conv2d-layer: weight with groups", "says": "in and out are exchanged"},
    {"name": "bias-by-name", "cell": "conv2d-layer",
     "old": "        given = (x, self.weight) if self.bias is None else (x, self.weight, self.bias)\n"
            "        return conv2d(*given, ",
     "new": "        more = {} if self.bias is None else {'bias': self.bias.data}\n"
            "        return conv2d(x, self.weight, **more, ",
     "caught": "test-conv2d-layer: the gradient reaches the bias: 3 pictures with 3 by 8 places",
     "says": "by position"},
    {"name": "starts-from-zero", "cell": "max-pooling",
     "old": "np.full(shape, lowest(x.dtype), x.dtype)", "new": "np.zeros(shape, x.dtype)",
     "caught": "test-pooling: padding never wins", "says": "a zero won"},
    {"name": "nan-passes", "cell": "max-pooling",
     "old": "np.maximum(out[to], x[frm])", "new": "np.where(x[frm] > out[to], x[frm], out[to])",
     "caught": "test-pooling: NaN wins, in its window", "says": "a comparison let NaN pass"},
    {"name": "smallest", "cell": "max-pooling",
     "old": "np.full(shape, lowest(x.dtype), x.dtype)\n    for to, frm in places:\n"
            "        out[to] = np.maximum(out[to], x[frm])",
     "new": "np.full(shape, 127, x.dtype)\n    for to, frm in places:\n        out[to] = np.minimum(out[to], x[frm])",
     "caught": "test-pooling: maxima of 2 by 2", "says": "the smallest number"},
    {"name": "sums-not-averages", "cell": "avg-pooling",
     "old": "    out /= prod(kernel)\n", "new": "",
     "caught": "test-pooling: averages of 2 by 2", "says": "sums, not averages"},
    {"name": "existing-pixels-only", "cell": "avg-pooling",
     "old": "    for to, frm in places:\n        out[to] += x[frm]\n    out /= prod(kernel)\n",
     "new": "    count = np.zeros(shape[2:], x.dtype)\n    for to, frm in places:\n        out[to] += x[frm]\n"
            "        count[to] += 1\n    out /= count\n",
     "caught": "test-pooling: averages count the frame: a corner of 3 by 2 holds 2 of 6",
     "says": "the frame counts as zeros"},
    {"name": "integers-wrap-around", "cell": "avg-pooling",
     "old": "    x = in_floats(x)\n    out = np.zeros(shape, x.dtype)\n    for to, frm in places:\n"
            "        out[to] += x[frm]\n    out /= prod(kernel)\n    return out",
     "new": "    out = np.zeros(shape, x.dtype)\n    for to, frm in places:\n        out[to] += x[frm]\n"
            "    return in_floats(out) / prod(kernel)",
     "caught": "test-pooling: an average of integers", "says": "wraps around"},
    {"name": "unbiased-in-training", "cell": "batch-norm",
     "old": "scale = self.weight.reshape(shape) / sqrt(var + self.eps)",
     "new": "scale = self.weight.reshape(shape) / sqrt(var * (n / (n - 1) if self.training else 1) + self.eps)",
     "caught": "test-batch-norm: training: 1, 3, 5, 7", "says": "unbiased variance"},
    {"name": "running-statistics-in-training", "cell": "batch-norm",
     "old": "            self.remember(mean, var, n)\n        else:\n",
     "new": "            self.remember(mean, var, n)\n        if True:\n",
     "caught": "test-batch-norm: training: 1, 3, 5, 7", "says": "the running statistics were used in training"},
    {"name": "plain-variance-remembered", "cell": "batch-norm",
     "old": "var.detach() * (n / (n - 1))", "new": "var.detach()",
     "caught": "test-batch-norm: running mean and variance", "says": "takes the unbiased one"},
    {"name": "momentum-the-other-way", "cell": "batch-norm",
     "old": "* (1 - self.momentum) + found * self.momentum", "new": "* self.momentum + found * (1 - self.momentum)",
     "caught": "test-batch-norm: running mean and variance", "says": "the share of the new"},
    {"name": "updated-in-evaluation", "cell": "batch-norm",
     "old": "        return centred * scale + self.bias.reshape(shape)",
     "new": "        out = centred * scale + self.bias.reshape(shape)\n        if not self.training:\n"
            "            own = x.mean(axis=(0, 2, 3), keepdims=True)\n"
            "            self.remember(own, ((x - own) * (x - own)).mean(axis=(0, 2, 3), keepdims=True), n)\n"
            "        return out",
     "caught": "test-batch-norm: and the company makes no difference", "says": "nothing is remembered"},
    {"name": "own-statistics-in-evaluation", "cell": "batch-norm",
     "old": "        if self.training:\n            mean", "new": "        if n > 1:\n            mean",
     "caught": "test-batch-norm: evaluation uses what is remembered", "says": "the batch's own statistics"},
    {"name": "eps-outside-the-root", "cell": "batch-norm",
     "old": "sqrt(var + self.eps)", "new": "(sqrt(var) + self.eps)",
     "caught": "test-batch-norm: a channel that is nearly constant, 0 and 0.002, and one that is",
     "says": "eps belongs under the root"},
    {"name": "squares-not-centred", "cell": "batch-norm",
     "old": "var = (centred * centred).mean(", "new": "var = (x * x).mean(",
     "caught": "test-batch-norm: training: 1, 3, 5, 7", "says": "the mean of x², not of (x - mean)²"},
    {"name": "batch-flattened-too", "cell": "flatten",
     "old": "x.reshape(x.shape[0], prod(x.shape[1:]))", "new": "x.reshape(prod(x.shape))",
     "caught": "test-flatten: shape", "says": "the batch must stay"},
    {"name": "minus-one", "cell": "flatten",
     "old": "x.reshape(x.shape[0], prod(x.shape[1:]))", "new": "x.reshape(x.shape[0], -1)",
     "caught": "test-flatten: ValueError: reshape: (0, 3, 4) to (0, -1): 0 elements do not fill that shape"},
]

RIGHT = [
    {"name": "loops-over-offsets", "cell": "conv2d-by-loops", "code": '''
def conv2d_by_loops(x, weight, stride=1, padding=0):
    """One picture, window by window: x (C, H, W), weight (O, C, kh, kw) -> (O, H', W')."""
    kh, kw = weight.shape[2:]
    rows, columns = out_size(x.shape[1], kh, stride, padding), out_size(x.shape[2], kw, stride, padding)
    padded = np.pad(x.astype(float), [(0, 0), (padding, padding), (padding, padding)])
    out = np.zeros((len(weight), rows, columns))
    for i in range(kh):
        for j in range(kw):
            seen = padded[:, i : i + (rows - 1) * stride + 1 : stride, j : j + (columns - 1) * stride + 1 : stride]
            out += np.tensordot(weight[:, :, i, j], seen, axes=1)
    return out
'''},
    {"name": "windows-by-an-array-of-steps", "cell": "windows", "code": '''
#| export
def windows(x, kernel, stops, stride, dilation):
    """View x (B, C, H, W), in one piece of memory, as its windows (B, C, kh, kw, H', W'); nothing is copied."""
    outer, inner = x.strides[:2], np.array(x.strides[2:])
    steps = *outer, *(inner * dilation).tolist(), *(inner * stride).tolist()
    return np.ndarray(shape=x.shape[:2] + tuple(kernel) + tuple(stops), dtype=x.dtype, buffer=x, strides=steps)
'''},
    {"name": "sum-of-products", "cell": "products", "code": '''
#| export
def products(weights, cut, bias=None):
    """Add up (groups, O/groups, K) @ (B, groups, K, H'W') over both lists, and the bias (O,)."""
    total = sum((w @ c for w, c in zip(weights[1:], cut[1:])), weights[0] @ cut[0])
    groups, each = weights[0].shape[:2]
    return total if bias is None else total + bias.reshape(groups, each)[:, :, None]
'''},
]
