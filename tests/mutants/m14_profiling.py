"""Wrong and right solutions of module 14, as small edits of the reference."""

WRONG = [
    # count_parameters: bias, layers, sharing, views, frozen weights
    {"name": "parameters-without-bias", "cell": "count-parameters",
     "old": "for weight in weights_of(model):", "new": "for weight in [w for w in weights_of(model) if w.ndim > 1]:",
     "caught": "test-count-parameters: Linear(128, 64)", "says": "the bias is left out"},
    {"name": "parameters-in-bytes", "cell": "count-parameters", "old": "weight.size", "new": "weight.nbytes",
     "caught": "test-count-parameters: Linear(128, 64)", "says": ".size, not .nbytes"},
    {"name": "parameters-of-the-first-layer", "cell": "count-parameters",
     "old": "for weight in weights_of(model):", "new": "for weight in weights_of(model)[:2]:",
     "caught": "test-count-parameters: two layers", "says": "only the first layer"},
    {"name": "parameters-keyed-by-shape", "cell": "count-parameters",
     "old": """            sizes_by_storage[storage(weight.data)] = weight.size
    return sum(sizes_by_storage.values()) - shown_twice(sizes_by_storage)""",
     "new": """            sizes_by_storage[weight.shape] = weight.size
    return sum(sizes_by_storage.values())""",
     "caught": "test-count-parameters: two layers of one shape", "says": "one shape"},
    {"name": "parameters-of-shared-layers-twice", "cell": "count-parameters",
     "old": """    sizes_by_storage = {}
    for weight in weights_of(model):
        if weight.requires_grad or not trainable_only:
            sizes_by_storage[storage(weight.data)] = weight.size
    return sum(sizes_by_storage.values()) - shown_twice(sizes_by_storage)""",
     "new": """    weights = [w for layer in getattr(model, "layers", [model]) for w in weights_of(layer)]
    return sum(w.size for w in weights if w.requires_grad or not trainable_only)""",
     "caught": "test-count-parameters: a layer used twice", "says": "the shared layer was counted twice"},
    {"name": "parameters-keyed-by-tensor", "cell": "count-parameters",
     "old": """            sizes_by_storage[storage(weight.data)] = weight.size
    return sum(sizes_by_storage.values()) - shown_twice(sizes_by_storage)""",
     "new": """            sizes_by_storage[id(weight)] = weight.size
    return sum(sizes_by_storage.values())""",
     "caught": "test-count-parameters: a table tied to its transpose", "says": "tied weights were counted twice"},
    {"name": "parameters-keyed-by-base", "cell": "count-parameters",
     "old": """            sizes_by_storage[storage(weight.data)] = weight.size
    return sum(sizes_by_storage.values()) - shown_twice(sizes_by_storage)""",
     "new": """            base = weight.data if weight.data.base is None else weight.data.base
            sizes_by_storage[id(base)] = weight.size
    return sum(sizes_by_storage.values())""",
     "caught": "test-count-parameters: two halves of one memory", "says": "use storage(), not the base"},
    {"name": "parameters-shown-twice", "cell": "count-parameters",
     "old": " - shown_twice(sizes_by_storage)", "new": "",
     "caught": "test-count-parameters: a packed weight and a slice of it", "says": "take off shown_twice"},
    {"name": "parameters-frozen-counted", "cell": "count-parameters",
     "old": "if weight.requires_grad or not trainable_only:", "new": "if True:",
     "caught": "test-count-parameters: trainable only, one weight of 12 frozen", "says": "frozen weights were counted"},
    {"name": "parameters-trainable-inverted", "cell": "count-parameters",
     "old": "if weight.requires_grad or", "new": "if not weight.requires_grad or",
     "caught": "test-count-parameters: trainable only, one weight of 12 frozen", "says": "the frozen part"},
    {"name": "parameters-hidden-by-a-frozen-view", "cell": "count-parameters",
     "old": """    sizes_by_storage = {}
    for weight in weights_of(model):
        if weight.requires_grad or not trainable_only:
            sizes_by_storage[storage(weight.data)] = weight.size
    return sum(sizes_by_storage.values()) - shown_twice(sizes_by_storage)""",
     "new": """    found = {storage(weight.data): weight for weight in weights_of(model)}
    counted = {key: w.size for key, w in found.items() if w.requires_grad or not trainable_only}
    return sum(counted.values()) - shown_twice(counted)""",
     "caught": "test-count-parameters: trainable memory with a frozen view of it", "says": "the frozen view hid it"},
    {"name": "parameters-of-a-bare-tensor", "cell": "count-parameters",
     "old": "weights_of(model):", "new": "([model] if isinstance(model, Tensor) else weights_of(model)):",
     "caught": "test-count-parameters: a bare Tensor is data", "says": "a bare Tensor is not a model"},
    {"name": "parameters-as-a-numpy-number", "cell": "count-parameters",
     "old": "sum(sizes_by_storage.values())", "new": "np.sum(list(sizes_by_storage.values()))",
     "caught": "test-count-parameters: a Python int comes back", "says": "NumPy's number"},

    # matmul_flops
    {"name": "matmul-multiply-adds", "cell": "matmul-flops", "old": "2 * a[-1]", "new": "a[-1]",
     "caught": "test-matmul-flops: (2,3) @ (3,4)", "says": "multiply-adds, not FLOPs"},
    {"name": "matmul-first-axis", "cell": "matmul-flops", "old": "a[-1]", "new": "a[0]",
     "caught": "test-matmul-flops: (2,3) @ (3,4)", "says": "last axis of a, not its first"},
    {"name": "matmul-width-for-depth", "cell": "matmul-flops", "old": "a[-1]", "new": "b[-1]",
     "caught": "test-matmul-flops: (2,3) @ (3,4)", "says": "not of b"},
    {"name": "matmul-first-addition-free", "cell": "matmul-flops", "old": "2 * a[-1]", "new": "(2 * a[-1] - 1)",
     "caught": "test-matmul-flops: (2,3) @ (3,4)", "says": "one addition less"},
    {"name": "matmul-stack-left-out", "cell": "matmul-flops",
     "old": "matmul_shape(a, b)", "new": "matmul_shape(a, b)[-2:]",
     "caught": "test-matmul-flops: (2,3,4) @ (2,4,5)", "says": "the stack is left out"},
    {"name": "matmul-stack-twice", "cell": "matmul-flops",
     "old": "2 * a[-1] * prod(matmul_shape(a, b))", "new": "2 * prod(a) * prod(b) // a[-1]",
     "caught": "test-matmul-flops: (2,3,4) @ (2,4,5)", "says": "multiplied in twice"},
    {"name": "matmul-vector-for-a-matrix", "cell": "matmul-flops",
     "old": "prod(matmul_shape(a, b))", "new": "prod(a[:-1]) * b[-1]",
     "caught": "test-matmul-flops: (2,3) @ a column (3,)", "says": "only axis"},
    {"name": "matmul-broadcast-left-out", "cell": "matmul-flops",
     "old": "prod(matmul_shape(a, b))", "new": "prod(a[:-1]) * (b[-1] if len(b) > 1 else 1)",
     "caught": "test-matmul-flops: broadcast (8,1,5,4) @ (3,4,2)", "says": "broadcast stack is left out"},
    {"name": "matmul-any-sizes", "cell": "matmul-flops",
     "old": "prod(matmul_shape(a, b))",
     "new": "prod(np.broadcast_shapes(a[:-2], b[:-2])) * (a[-2] if a[1:] else 1) * (b[-1] if b[1:] else 1)",
     "caught": "test-matmul-flops: inner sizes differ"},

    # linear_flops
    {"name": "linear-multiply-adds", "cell": "linear-flops", "old": "2 * prod", "new": "prod",
     "caught": "test-linear-flops: (1,128) to 64", "says": "multiply-adds, not FLOPs"},
    {"name": "linear-bias", "cell": "linear-flops",
     "old": "* out_features", "new": "* out_features + prod(shape[:-1]) * out_features",
     "caught": "test-linear-flops: (1,128) to 64", "says": "the bias was counted"},
    {"name": "linear-batch-left-out", "cell": "linear-flops", "old": "prod(shape)", "new": "prod(shape[1:])",
     "caught": "test-linear-flops: (32,128) to 64, the whole batch", "says": "the batch is left out"},
    {"name": "linear-middle-axes-dropped", "cell": "linear-flops",
     "old": "prod(shape)", "new": "prod(shape[:1] + shape[1:][-1:])",
     "caught": "test-linear-flops: (5,7,8) to 4", "says": "the middle axis was dropped"},
    {"name": "linear-features-from-the-second-axis", "cell": "linear-flops",
     "old": "prod(shape)", "new": "prod(shape[:-1]) * shape[len(shape) > 1]",
     "caught": "test-linear-flops: (5,7,8) to 4", "says": "the last axis, not the second"},
    {"name": "linear-in-32-bits", "cell": "linear-flops", "old": "return 2 * prod(shape) * out_features",
     "new": "return (2 * prod(shape) * out_features) % 2**32",
     "caught": "test-linear-flops: GPT-2's feed-forward, 32 x 512 tokens", "says": "counted in 32 bits"},
    {"name": "flops-divided-by-a-fixed-batch", "cell": "count-flops",
     "old": "events, samples = one_sample(model, shape)",
     "new": "events, samples = run_on_shapes(model, shape).events, 32",
     "caught": "test-count-flops: and at batch 1", "says": "divided by 32"},
    {"name": "kept-only-what-an-op-made", "cell": "kept-arrays", "old": "if id(own) not in left_out:",
     "new": "if id(own) not in left_out and tensor.made_by:",
     "caught": "test-kept-arrays: without a graph only the output itself", "says": "no op has made"},
    {"name": "row-taken-for-a-height", "cell": "matmul-flops", "old": "prod(matmul_shape(a, b))",
     "new": "prod(matmul_shape(a, b)) * (a[0] if len(a) == 1 else 1)",
     "caught": "test-matmul-flops: a row (3,) @ (3,4)", "says": "taken for a height"},
    {"name": "profile-contractions-are-all-flops", "cell": "profile-forward-pass",
     "old": "\"batch_flops\": work.flops,", "new": "\"batch_flops\": work.flops, \"contractions\": work.flops,",
     "caught": "test-profile-forward-pass: contractions", "says": "those are all FLOPs"},
    {"name": "profile-layers-in-seconds", "cell": "profile-forward-pass",
     "old": "events, limits, latency[\"median\"], clock)", "new": "events, limits, latency[\"median\"] / 1e3, clock)",
     "caught": "test-profile-forward-pass: GFLOP/s of the first row, the whole model", "says": "milliseconds"},
    {"name": "linear-no-batch-axis", "cell": "linear-flops",
     "old": "prod(shape)", "new": "(prod(shape) if len(shape) > 1 else 1)",
     "caught": "test-linear-flops: no batch axis: (8,) to 4", "says": "taken for the batch"},

    # conv2d_flops
    {"name": "conv-output-is-input-over-stride", "cell": "conv2d-flops",
     "old": "(n + 2 * p - d * (k - 1) - 1) // s + 1", "new": "n // s",
     "caught": "test-conv2d-flops: 3 to 16, k3, on 32x32", "says": "input size / stride"},
    {"name": "conv-multiply-adds", "cell": "conv2d-flops", "old": "return 2 * ", "new": "return ",
     "caught": "test-conv2d-flops: 3 to 16, k3, on 32x32", "says": "multiply-adds, not FLOPs"},
    {"name": "conv-bias", "cell": "conv2d-flops", "old": "* prod(kernel)", "new": "* prod(kernel) + results",
     "caught": "test-conv2d-flops: 3 to 16, k3, on 32x32", "says": "the bias was counted"},
    {"name": "conv-one-stop-too-few", "cell": "conv2d-flops", "old": "// s + 1", "new": "// s",
     "caught": "test-conv2d-flops: 3 to 16, k3, on 32x32", "says": "one stop too few"},
    {"name": "conv-input-channels-left-out", "cell": "conv2d-flops",
     "old": " * (channels // groups)", "new": "",
     "caught": "test-conv2d-flops: 3 to 16, k3, on 32x32", "says": "input channels are left out"},
    {"name": "conv-output-channels-left-out", "cell": "conv2d-flops",
     "old": "batch * out_channels * prod", "new": "batch * prod",
     "caught": "test-conv2d-flops: 3 to 16, k3, on 32x32", "says": "output channels are left out"},
    {"name": "conv-padding-left-out", "cell": "conv2d-flops", "old": "n + 2 * p - d", "new": "n - d",
     "caught": "test-conv2d-flops: 3 to 8, k3, padding 1, on 10x12", "says": "padding left out"},
    {"name": "conv-padding-on-one-side", "cell": "conv2d-flops", "old": "2 * p -", "new": "p -",
     "caught": "test-conv2d-flops: 3 to 8, k3, padding 1, on 10x12", "says": "one side only"},
    {"name": "conv-square-output", "cell": "conv2d-flops", "old": "prod(stops)", "new": "stops[0] ** 2",
     "caught": "test-conv2d-flops: 3 to 8, k3, padding 1, on 10x12", "says": "the height was taken for the width"},
    {"name": "conv-dilation-ignored", "cell": "conv2d-flops", "old": "d * (k - 1)", "new": "(k - 1)",
     "caught": "test-conv2d-flops: kernel (3,5), stride 2, dilation 2, on 15x17", "says": "dilation ignored"},
    {"name": "conv-reach-is-d-times-k", "cell": "conv2d-flops", "old": "d * (k - 1) - 1", "new": "d * k",
     "caught": "test-conv2d-flops: kernel (3,5), stride 2, dilation 2, on 15x17", "says": "d·(k-1) + 1 pixels"},
    {"name": "conv-square-kernel", "cell": "conv2d-flops", "old": "prod(kernel)", "new": "kernel[0] ** 2",
     "caught": "test-conv2d-flops: kernel (3,5), stride 2, dilation 2, on 15x17",
     "says": "height was taken for its width"},
    {"name": "conv-kernel-swapped", "cell": "conv2d-flops", "old": "zip(image, kernel",
     "new": "zip(image, kernel[::-1]",
     "caught": "test-conv2d-flops: kernel (3,5), stride 2, dilation 2, on 15x17", "says": "kernel swapped"},
    {"name": "conv-stride-swapped", "cell": "conv2d-flops", "old": "kernel, stride,", "new": "kernel, stride[::-1],",
     "caught": "test-conv2d-flops: kernel (1,7), stride (2,3), padding (0,3)", "says": "stride axes swapped"},
    {"name": "conv-padding-swapped", "cell": "conv2d-flops", "old": "stride, padding, dil",
     "new": "stride, padding[::-1], dil",
     "caught": "test-conv2d-flops: kernel (1,7), stride (2,3), padding (0,3)", "says": "padding axes swapped"},
    {"name": "conv-batch-left-out", "cell": "conv2d-flops", "old": "batch * out_channels *", "new": "out_channels *",
     "caught": "test-conv2d-flops: kernel (1,7), stride (2,3), padding (0,3)", "says": "the batch left out"},
    {"name": "conv-rounded-up", "cell": "conv2d-flops",
     "old": "(n + 2 * p - d * (k - 1) - 1) // s", "new": "ceil((n + 2 * p - d * (k - 1) - 1) / s)",
     "caught": "test-conv2d-flops: kernel (1,7), stride (2,3), padding (0,3)", "says": "rounded up"},
    {"name": "conv-groups-ignored", "cell": "conv2d-flops", "old": "(channels // groups)", "new": "channels",
     "caught": "test-conv2d-flops: 4 to 6, groups 2, k3, on 8x8", "says": "groups ignored"},
    {"name": "conv-groups-twice", "cell": "conv2d-flops", "old": "batch * out_channels",
     "new": "batch * (out_channels // groups)",
     "caught": "test-conv2d-flops: 4 to 6, groups 2, k3, on 8x8", "says": "divided by groups twice"},

    # attention_flops
    {"name": "attention-projections-only", "cell": "attention-flops",
     "old": "return projections + scores + mixed", "new": "return projections",
     "caught": "test-attention-flops: d64, 4 heads, (1,10,64)", "says": "projections only"},
    {"name": "attention-one-product", "cell": "attention-flops", "old": " + mixed", "new": "",
     "caught": "test-attention-flops: d64, 4 heads, (1,10,64)", "says": "one of the two products"},
    {"name": "attention-three-projections", "cell": "attention-flops", "old": "4 * linear", "new": "3 * linear",
     "caught": "test-attention-flops: d64, 4 heads, (1,10,64)", "says": "the output projection is missed"},
    {"name": "attention-projections-as-multiply-adds", "cell": "attention-flops", "old": "4 * linear",
     "new": "2 * linear",
     "caught": "test-attention-flops: d64, 4 heads, (1,10,64)", "says": "projections counted as multiply-adds"},
    {"name": "attention-products-only", "cell": "attention-flops", "old": "return projections +", "new": "return",
     "caught": "test-attention-flops: d64, 4 heads, (1,10,64)", "says": "the projections are left out"},
    {"name": "attention-heads-of-full-width", "cell": "attention-flops", "old": "dim // heads", "new": "dim",
     "caught": "test-attention-flops: d64, 4 heads, (1,10,64)", "says": "heads multiplied in once too often"},
    {"name": "attention-scores-without-length", "cell": "attention-flops",
     "old": "(batch, heads, head, length))", "new": "(batch, heads, head, head))",
     "caught": "test-attention-flops: d64, 4 heads, (1,10,64)", "says": "each query meets each key"},
    {"name": "attention-products-of-one-sample", "cell": "attention-flops",
     "old": "projections + scores + mixed", "new": "projections + (scores + mixed) // batch",
     "caught": "test-attention-flops: batch 3 is three times", "says": "left out of the two products"},

    # run_on_shapes
    {"name": "shapes-listen-too-early", "cell": "run-on-shapes",
     "old": "untouched(model), shape_only(), no_grad(), listen(heard.op, heard.scope)",
     "new": "listen(heard.op, heard.scope), untouched(model), shape_only(), no_grad()",
     "caught": "test-run-on-shapes: ops in order", "says": "nothing was heard"},
    {"name": "shapes-run-twice", "cell": "run-on-shapes",
     "old": "        heard.output = run(",
     "new": "        run(Tensor(hollow(input_shape, dtype), dtype=dtype))\n        heard.output = run(",
     "caught": "test-run-on-shapes: ops in order", "says": "the model ran twice"},
    {"name": "shapes-output-forgotten", "cell": "run-on-shapes", "old": "heard.output = run", "new": "run",
     "caught": "test-run-on-shapes: the output was kept", "says": "heard.output is not filled in"},
    {"name": "shapes-scopes-unheard", "cell": "run-on-shapes", "old": "listen(heard.op, heard.scope)",
     "new": "listen(heard.op)",
     "caught": "test-run-on-shapes: scopes opened", "says": "scopes were not listened to"},
    {"name": "shapes-really-computed", "cell": "run-on-shapes",
     "old": "shape_only(), ", "new": "",
     "caught": "test-run-on-shapes: nothing was computed: the output holds one number", "says": "really computed"},
    {"name": "shapes-real-input", "cell": "run-on-shapes", "old": "hollow(input_shape, dtype)",
     "new": "np.zeros(input_shape, dtype)",
     "caught": "test-run-on-shapes: the input is hollow, too: it holds one number",
     "says": "an input of full size was made"},
    {"name": "shapes-type-changed", "cell": "run-on-shapes", "old": ", dtype=dtype))", "new": "))",
     "caught": "test-run-on-shapes: a float64 run stays one", "says": "changed the type"},
    {"name": "shapes-type-not-noted", "cell": "run-on-shapes", "old": "    heard.dtype = np.dtype(dtype)\n", "new": "",
     "caught": "test-run-on-shapes: and the input's type is noted", "says": "heard.dtype is not filled in"},
    {"name": "shapes-graph-kept", "cell": "run-on-shapes", "old": "no_grad(), ", "new": "",
     "caught": "test-run-on-shapes: no graph is kept", "says": "no_grad() is missing"},
    {"name": "shapes-model-touched", "cell": "run-on-shapes", "old": "untouched(model), ", "new": "",
     "caught": "test-run-on-shapes: a restless model is as before", "says": "untouched(model) is missing"},
    {"name": "shapes-left-on", "cell": "run-on-shapes",
     "old": "    with untouched(model), shape_only(), no_grad(),",
     "new": "    heard.room = shape_only()\n    heard.room.__enter__()\n    with untouched(model), no_grad(),",
     "caught": "test-run-on-shapes: nobody listens any more", "says": "entered and never left"},

    # count_flops
    {"name": "flops-of-the-batch", "cell": "count-flops",
     "old": "one_sample(model, shape)", "new": "run_on_shapes(model, shape).events, 1",
     "caught": "test-count-flops: Linear(128, 64) at batch 32", "says": "the batch is in it"},
    {"name": "flops-halved", "cell": "count-flops", "old": "// samples", "new": "// samples // 2",
     "caught": "test-count-flops: Linear(128, 64) at batch 32", "says": "half: multiply-adds"},
    {"name": "flops-divided-twice", "cell": "count-flops", "old": "// samples", "new": "// samples // shape[0]",
     "caught": "test-count-flops: Linear(128, 64) at batch 32", "says": "divided by the batch twice"},
    {"name": "flops-as-a-float", "cell": "count-flops", "old": "total // samples", "new": "total / samples",
     "caught": "test-count-flops: a Python int comes back", "says": "use //"},
    {"name": "flops-of-contractions-only", "cell": "count-flops",
     "old": "for event in events)", "new": "for event in events if is_contraction(event.op))",
     "caught": "test-count-flops: 24 + 3 + 12", "says": "the ReLU is missed"},
    {"name": "flops-of-the-first-layer", "cell": "count-flops", "old": "for event in events)",
     "new": "for event in events[:1])",
     "caught": "test-count-flops: 24 + 3 + 12", "says": "only the first layer"},
    {"name": "flops-middle-axis-dropped", "cell": "count-flops",
     "old": "one_sample(model, shape)", "new": "one_sample(model, shape[:1] + shape[1:][-1:])",
     "caught": "test-count-flops: every position of (7,5,4) counts", "says": "the middle axis was dropped"},
    {"name": "flops-no-batch-axis", "cell": "count-flops",
     "old": "one_sample(model, shape)", "new": "run_on_shapes(model, shape).events, shape[0]",
     "caught": "test-count-flops: no batch axis", "says": "taken for the batch"},
    {"name": "flops-unknown-price-hides-all", "cell": "count-flops",
     "old": "sum(event_flops(event) or 0 for event in events)",
     "new": "0 if None in map(event_flops, events) else sum(map(event_flops, events))",
     "caught": "test-count-flops: an op without a rule adds nothing (event_flops(event) or 0)",
     "says": "the priced op is missed"},
    {"name": "flops-samples-ignored", "cell": "count-flops",
     "old": "    return total // samples", "new": "    return total",
     "caught": "test-count-flops: a batch of 32 written into the model", "says": "not divided by the samples"},
    {"name": "flops-remainder-dropped", "cell": "count-flops", "old": "if total % samples:", "new": "if False:",
     "caught": "test-count-flops: a total that cannot be shared"},

    # sum_by_scope
    {"name": "scopes-without-everything", "cell": "sum-by-scope", "old": "sums = {(): 0}", "new": "sums = {}",
     "caught": "test-sum-by-scope: no events: everything is 0", "says": "with no events"},
    {"name": "scopes-own-path-missing", "cell": "sum-by-scope", "old": "len(event.scope) + 1",
     "new": "len(event.scope)",
     "caught": "test-sum-by-scope: the example: the paths", "says": "own scope is missing"},
    {"name": "scopes-by-their-ends", "cell": "sum-by-scope", "old": "event.scope[:depth]", "new": "event.scope[depth:]",
     "caught": "test-sum-by-scope: the example: the paths", "says": "the beginning was cut off"},
    {"name": "scopes-own-events-only", "cell": "sum-by-scope", "old": "range(len(event.scope) + 1)",
     "new": "{0, len(event.scope)}",
     "caught": "test-sum-by-scope: the example: (A,)", "says": "own events only"},
    {"name": "scopes-nothing-at-the-top", "cell": "sum-by-scope", "old": "range(len", "new": "range(1, len",
     "caught": "test-sum-by-scope: the example: everything", "says": "nothing was paid into ()"},
    {"name": "scopes-paid-twice-at-the-top", "cell": "sum-by-scope",
     "old": "        value = amount(event)\n", "new": "        value = amount(event)\n        sums[()] += value\n",
     "caught": "test-sum-by-scope: the example: everything", "says": "paid into () twice"},
    {"name": "scopes-replaced", "cell": "sum-by-scope", "old": "sums.get(path, 0) + value", "new": "value",
     "caught": "test-sum-by-scope: the example: (A,)", "says": "a later event replaced"},
    {"name": "scopes-always-flops", "cell": "sum-by-scope", "old": "value = amount(event)",
     "new": "value = event_flops(event) or 0",
     "caught": "test-sum-by-scope: counting events instead", "says": "handed in to be called"},

    # trace_memory
    {"name": "traced-swapped", "cell": "trace-memory",
     "old": "Traced(result, now - before, max(0, peak - before))",
     "new": "Traced(result, max(0, peak - before), now - before)",
     "caught": "test-trace-memory: n*n + n*n keeps one array", "says": "the peak was taken for the growth"},
    {"name": "traced-result-dropped", "cell": "trace-memory", "old": "result = function()",
     "new": "function()\n        result = None",
     "caught": "test-trace-memory: n*n + n*n keeps one array", "says": "the result was dropped"},
    {"name": "traced-growth-twice", "cell": "trace-memory", "old": "max(0, peak - before)",
     "new": "max(0, now - before)",
     "caught": "test-trace-memory: and peaks at two", "says": "the growth was taken for the peak"},
    {"name": "traced-result-not-returned", "cell": "trace-memory", "old": "return Traced(result,",
     "new": "return Traced(None,",
     "caught": "test-trace-memory: what the function returned comes back", "says": "the result is not in it"},
    {"name": "traced-left-on", "cell": "trace-memory", "old": "tracemalloc.stop()", "new": "pass",
     "caught": "test-trace-memory: tracing is off again", "says": "tracing was left on"},
    {"name": "traced-error-swallowed", "cell": "trace-memory", "old": "result = function()",
     "new": "try:\n            result = function()\n        except Exception:\n            result = None",
     "caught": "test-trace-memory: an error passes through"},
    {"name": "traced-without-finally", "cell": "trace-memory",
     "old": """    try:
        before, outer_peak = _clean_baseline()
        result = function()
        now, peak = tracemalloc.get_traced_memory()
        return Traced(result, now - before, max(0, peak - before))
    finally:
        if outer:
            _fold_back(outer_peak)
        else:
            tracemalloc.stop()""",
     "new": """    before, outer_peak = _clean_baseline()
    result = function()
    now, peak = tracemalloc.get_traced_memory()
    if outer:
        _fold_back(outer_peak)
    else:
        tracemalloc.stop()
    return Traced(result, now - before, max(0, peak - before))""",
     "caught": "test-trace-memory: and tracing is off again", "says": "finally is missing"},
    {"name": "traced-growth-without-baseline", "cell": "trace-memory", "old": "now - before", "new": "now",
     "caught": "test-trace-memory: inside a session that holds one array already: growth",
     "says": "baseline was not subtracted"},
    {"name": "traced-peak-without-baseline", "cell": "trace-memory", "old": "peak - before", "new": "peak",
     "caught": "test-trace-memory: and peak", "says": "baseline was not subtracted from the peak"},
    {"name": "traced-peak-of-the-session", "cell": "trace-memory",
     "old": "before, outer_peak = _clean_baseline()", "new": "before, outer_peak = tracemalloc.get_traced_memory()",
     "caught": "test-trace-memory: and peak", "says": "_clean_baseline() starts a new one"},
    {"name": "traced-session-ended", "cell": "trace-memory",
     "old": """        if outer:
            _fold_back(outer_peak)
        else:
            tracemalloc.stop()""",
     "new": "        tracemalloc.stop()",
     "caught": "test-trace-memory: the session goes on", "says": "the caller's tracing was ended"},
    {"name": "traced-outer-peak-lost", "cell": "trace-memory", "old": "_fold_back(outer_peak)", "new": "pass",
     "caught": "test-trace-memory: its peak was folded back", "says": "the caller's peak was lost"},

    # kept_arrays
    {"name": "kept-graph-not-walked", "cell": "kept-arrays",
     "old": "            todo += tensor.made_by.inputs if tensor.made_by else ()\n", "new": "",
     "caught": "test-kept-arrays: hidden, rectified, output", "says": "the graph was not walked"},
    {"name": "kept-without-the-output", "cell": "kept-arrays",
     "old": "    return list(", "new": "    kept.pop(id(buffer(output.data)), None)\n    return list(",
     "caught": "test-kept-arrays: hidden, rectified, output", "says": "the output's own buffer is missing"},
    {"name": "kept-with-the-input", "cell": "kept-arrays",
     "old": "if id(own) not in left_out:", "new": "if tensor.made_by or not tensor.requires_grad:",
     "caught": "test-kept-arrays: hidden, rectified, output", "says": "the input was not left out"},
    {"name": "kept-exclude-ignored", "cell": "kept-arrays", "old": "if id(own) not in left_out:", "new": "if True:",
     "caught": "test-kept-arrays: hidden, rectified, output", "says": "`exclude` was not left out"},
    {"name": "kept-every-view", "cell": "kept-arrays", "old": "buffer(tensor.data)", "new": "tensor.data",
     "caught": "test-kept-arrays: views share one buffer (and .T.reshape copies)", "says": "every view was counted"},
    {"name": "kept-stops-at-views", "cell": "kept-arrays",
     "old": """        if id(tensor) not in seen:
            seen.add(id(tensor))
            own = buffer(tensor.data)
""",
     "new": """        own = buffer(tensor.data)
        if id(own) not in seen:
            seen.add(id(own))
""",
     "caught": "test-kept-arrays: views share one buffer (and .T.reshape copies)", "says": "remember id(tensor)"},
    {"name": "kept-once-per-path", "cell": "kept-arrays",
     "old": """    kept, seen = {}, set()
    while todo:
        tensor = todo.pop()
        if id(tensor) not in seen:
            seen.add(id(tensor))
            own = buffer(tensor.data)
            if id(own) not in left_out:
                kept[id(own)] = own
            todo += tensor.made_by.inputs if tensor.made_by else ()
    return list(kept.values())""",
     "new": """    kept, before = [], None
    while todo:
        tensor = todo.pop()
        own = buffer(tensor.data)
        if id(own) not in left_out and own is not before:
            kept.append(own)
        before = own
        todo += tensor.made_by.inputs if tensor.made_by else ()
    return kept""",
     "caught": "test-kept-arrays: reached twice, counted once", "says": "once per path"},
    {"name": "kept-exclude-by-array", "cell": "kept-arrays", "old": "id(buffer(array))", "new": "id(array)",
     "caught": "test-kept-arrays: what is left out may be given as a view", "says": "id(buffer(array))"},
    {"name": "kept-every-path-walked", "cell": "kept-arrays", "old": "if id(tensor) not in seen:", "new": "if True:",
     "caught": "test-kept-arrays: 1,024 paths lead to one tensor, walked once", "says": "`seen` is missing"},
    {"name": "kept-by-recursion", "cell": "kept-arrays",
     "old": """    while todo:
        tensor = todo.pop()
        if id(tensor) not in seen:
            seen.add(id(tensor))
            own = buffer(tensor.data)
            if id(own) not in left_out:
                kept[id(own)] = own
            todo += tensor.made_by.inputs if tensor.made_by else ()
""",
     "new": """
    def walk(tensor):
        if id(tensor) not in seen:
            seen.add(id(tensor))
            own = buffer(tensor.data)
            if id(own) not in left_out:
                kept[id(own)] = own
            for source in tensor.made_by.inputs if tensor.made_by else ():
                walk(source)

    for tensor in todo:
        walk(tensor)
""",
     "caught": "test-kept-arrays: for 100 ops, how much deeper in Python's stack", "says": "not by recursion"},

    # time_calls
    {"name": "timed-warmup-read", "cell": "time-calls", "old": "for _ in range(warmup):\n        call()",
     "new": "for _ in range(warmup):\n        clock()\n        call()\n        clock()",
     "caught": "test-time-calls: reads of the clock", "says": "read during warmup"},
    {"name": "timed-one-read-a-call", "cell": "time-calls",
     "old": """    for _ in range(iterations):
        start = clock()
        call()
        times.append(clock() - start)""",
     "new": """    last = clock()
    for _ in range(iterations):
        call()
        now = clock()
        times.append(now - last)
        last = now""",
     "caught": "test-time-calls: reads of the clock", "says": "one read a call"},
    {"name": "timed-by-another-clock", "cell": "time-calls",
     "old": "    for _ in range(iterations):", "new": "    clock = perf_counter_ns\n    for _ in range(iterations):",
     "caught": "test-time-calls: reads of the clock", "says": "another clock"},
    {"name": "timed-all-at-once", "cell": "time-calls",
     "old": """    for _ in range(iterations):
        start = clock()
        call()
        times.append(clock() - start)""",
     "new": """    start = clock()
    for _ in range(iterations):
        call()
    times = [(clock() - start) / iterations] * iterations if iterations else []""",
     "caught": "test-time-calls: reads of the clock", "says": "only their sum"},
    {"name": "timed-one-too-few", "cell": "time-calls", "old": "range(iterations)", "new": "range(1, iterations)",
     "caught": "test-time-calls: reads of the clock", "says": "one sample too few"},
    {"name": "timed-warmup-kept", "cell": "time-calls", "old": "range(warmup)", "new": "range(0)",
     "caught": "test-time-calls: five samples after two warmup calls, ns", "says": "the warmup calls were kept"},
    {"name": "timed-warmup-one-too-few", "cell": "time-calls", "old": "range(warmup)", "new": "range(1, warmup)",
     "caught": "test-time-calls: five samples after two warmup calls, ns", "says": "one warmup call too few"},
    {"name": "timed-in-milliseconds", "cell": "time-calls", "old": "clock() - start", "new": "(clock() - start) / 1e6",
     "caught": "test-time-calls: five samples after two warmup calls, ns", "says": "milliseconds"},
    {"name": "timed-sorted", "cell": "time-calls", "old": "return times", "new": "return sorted(times)",
     "caught": "test-time-calls: five samples after two warmup calls, ns", "says": "sorted"},
    {"name": "timed-backwards", "cell": "time-calls", "old": "clock() - start", "new": "start - clock()",
     "caught": "test-time-calls: five samples after two warmup calls, ns", "says": "start minus end"},

    # percentile
    {"name": "percentile-is-the-mean", "cell": "percentile",
     "old": "    return ordered[low]", "new": "    if p == 50:\n        return fmean(ordered)\n    return ordered[low]",
     "caught": "test-percentile: median of 5.1, 5.2, 5.0, 5.3, 50.0", "says": "that is the mean"},
    {"name": "percentile-unsorted", "cell": "percentile", "old": "sorted(samples)", "new": "list(samples)",
     "caught": "test-percentile: median of 5.1, 5.2, 5.0, 5.3, 50.0", "says": "not sorted"},
    {"name": "percentile-of-n", "cell": "percentile",
     "old": "p / 100 * (len(ordered) - 1)", "new": "min(p / 100 * len(ordered), len(ordered) - 1)",
     "caught": "test-percentile: median of 5.1, 5.2, 5.0, 5.3, 50.0", "says": "p/100 * n;"},
    {"name": "percentile-off-by-one", "cell": "percentile", "old": "low = floor(position)",
     "new": "low = position = floor(position) + 1",
     "caught": "test-percentile: median of 5.1, 5.2, 5.0, 5.3, 50.0", "says": "off by one"},
    {"name": "percentile-rounded-up", "cell": "percentile", "old": "low = floor(position)",
     "new": "low = position = ceil(position)",
     "caught": "test-percentile: percentile 90 of the same", "says": "rounded up"},
    {"name": "percentile-rounded-down", "cell": "percentile", "old": "low = floor(position)",
     "new": "low = position = floor(position)",
     "caught": "test-percentile: percentile 90 of the same", "says": "rounded down"},
    {"name": "percentile-midpoint", "cell": "percentile",
     "old": "(position - low)", "new": "(0.5 if position > low else 0)",
     "caught": "test-percentile: percentile 90 of the same", "says": "the middle of the two neighbours"},
    {"name": "percentile-weights-swapped", "cell": "percentile",
     "old": "(position - low)", "new": "(1 - position + low if position > low else 0)",
     "caught": "test-percentile: percentile 90 of the same", "says": "weights are swapped"},
    {"name": "percentile-sorts-in-place", "cell": "percentile",
     "old": "ordered = sorted(samples)", "new": "samples.sort()\n    ordered = samples",
     "caught": "test-percentile: the samples stay in their order", "says": "sorted in place"},
    {"name": "percentile-of-nothing", "cell": "percentile", "old": "not ordered or not", "new": "not",
     "caught": "test-percentile: no samples"},
    {"name": "percentile-above-100", "cell": "percentile", "old": " or not 0 <= p <= 100", "new": "",
     "caught": "test-percentile: percentile 101"},

    # median_interval
    {"name": "interval-one-step-too-far", "cell": "median-interval",
     "old": "ordered[j - 1], ordered[n - j]", "new": "ordered[j], ordered[n - j - 1]",
     "caught": "test-median-interval: 6 samples", "says": "one step too far in"},
    {"name": "interval-unsorted", "cell": "median-interval", "old": "sorted(samples)", "new": "list(samples)",
     "caught": "test-median-interval: 6 samples", "says": "not sorted"},
    {"name": "interval-from-k-1", "cell": "median-interval",
     "old": "j, count, term = 0, 0, comb(n, 0)", "new": "j, count, term = 0, 0, comb(n, 1)",
     "caught": "test-median-interval: 6 samples", "says": "k starts at 0"},
    {"name": "interval-not-symmetric", "cell": "median-interval", "old": "ordered[n - j]", "new": "ordered[n - j - 1]",
     "caught": "test-median-interval: 6 samples", "says": "not symmetric"},
    {"name": "interval-lower-end-off-by-one", "cell": "median-interval", "old": "ordered[j - 1]", "new": "ordered[j]",
     "caught": "test-median-interval: 6 samples", "says": "not symmetric"},
    {"name": "interval-of-the-mean", "cell": "median-interval",
     "old": "    return (ordered[j - 1], ordered[n - j]) if j else None",
     "new": """    mean, wide = fmean(samples), 1.96 * stdev(samples) / n**0.5
    return (mean - wide, mean + wide) if j else None""",
     "caught": "test-median-interval: 6 samples", "says": "the mean's interval"},
    {"name": "interval-always", "cell": "median-interval", "old": " if j else None",
     "new": " if j else (ordered[0], ordered[-1])",
     "caught": "test-median-interval: 5 samples", "says": "five samples cannot say"},
    {"name": "interval-tails-of-a-twentieth", "cell": "median-interval", "old": "40 * (count", "new": "20 * (count",
     "caught": "test-median-interval: 5 samples", "says": "five samples cannot say"},
    {"name": "interval-not-cumulative", "cell": "median-interval", "old": "count += term\n", "new": "count = 0\n",
     "caught": "test-median-interval: 100 samples", "says": "weighed alone"},
    {"name": "interval-stops-early", "cell": "median-interval", "old": "40 * (count + term)",
     "new": "80 * (count + term)",
     "caught": "test-median-interval: 6 samples"},
    {"name": "interval-from-end-to-end", "cell": "median-interval",
     "old": "(ordered[j - 1], ordered[n - j])", "new": "(ordered[0], ordered[-1])",
     "caught": "test-median-interval: 10 samples", "says": "a closer interval is allowed"},

    # roofline
    {"name": "roof-memory-in-seconds", "cell": "roofline", "old": "bytes_moved / bandwidth / 1e6",
     "new": "bytes_moved / bandwidth / 1e9",
     "caught": "test-roofline: ReLU on 10⁹ floats: ms to move", "says": "seconds, not milliseconds"},
    {"name": "roof-memory-in-microseconds", "cell": "roofline", "old": "bytes_moved / bandwidth / 1e6",
     "new": "bytes_moved / bandwidth / 1e3",
     "caught": "test-roofline: ReLU on 10⁹ floats: ms to move", "says": "microseconds, not milliseconds"},
    {"name": "roof-gibibytes", "cell": "roofline", "old": "bytes_moved / bandwidth / 1e6",
     "new": "bytes_moved / bandwidth / 1024**3 * 1e3",
     "caught": "test-roofline: ReLU on 10⁹ floats: ms to move", "says": "not 1024³"},
    {"name": "roof-compute-in-seconds", "cell": "roofline", "old": "limits.peak_gflops / 1e6",
     "new": "limits.peak_gflops / 1e9",
     "caught": "test-roofline: ms to compute (10⁹ FLOPs at 10⁵ GFLOP/s)", "says": "seconds, not milliseconds"},
    {"name": "roof-fixed-peak", "cell": "roofline", "old": "flops / limits.peak_gflops", "new": "flops / 100",
     "caught": "test-roofline: ms to compute (10⁹ FLOPs at 10⁵ GFLOP/s)", "says": "a fixed peak of 100"},
    {"name": "roof-intensity-inverted", "cell": "roofline", "old": "flops / bytes_moved if",
     "new": "bytes_moved / flops if flops and",
     "caught": "test-roofline: intensity, FLOPs per byte", "says": "bytes per FLOP"},
    {"name": "roof-ridge-inverted", "cell": "roofline", "old": "limits.peak_gflops / bandwidth",
     "new": "bandwidth / limits.peak_gflops",
     "caught": "test-roofline: ridge point, FLOPs per byte", "says": "the other way round"},
    {"name": "roof-ridge-of-a-fixed-peak", "cell": "roofline", "old": "limits.peak_gflops / bandwidth",
     "new": "100 / bandwidth",
     "caught": "test-roofline: ridge point, FLOPs per byte", "says": "a fixed peak of 100"},
    {"name": "roof-nothing-moved-is-zero", "cell": "roofline", "old": "else inf if flops else 0.0", "new": "else 0.0",
     "caught": "test-roofline: nothing moved, something computed: intensity", "says": "infinitely much work"},
    {"name": "roof-nothing-at-all-is-infinite", "cell": "roofline", "old": "else inf if flops else 0.0",
     "new": "else inf",
     "caught": "test-roofline: nothing at all: intensity", "says": "nothing was computed either"},
    {"name": "roof-bills-added", "cell": "roofline", "old": "max(memory_ms, compute_ms)",
     "new": "memory_ms + compute_ms",
     "caught": "test-roofline: time floor", "says": "not the sum"},
    {"name": "roof-smaller-bill", "cell": "roofline", "old": "max(memory_ms", "new": "min(memory_ms",
     "caught": "test-roofline: time floor", "says": "the smaller bill"},
    {"name": "roof-always-the-peak", "cell": "roofline", "old": "min(limits.peak_gflops, intensity * bandwidth)",
     "new": "limits.peak_gflops",
     "caught": "test-roofline: attainable GFLOP/s", "says": "the lower of the two"},
    {"name": "roof-higher-roof", "cell": "roofline", "old": "min(limits", "new": "max(limits",
     "caught": "test-roofline: attainable GFLOP/s", "says": "the lower of the two"},
    {"name": "roof-wrong-side-of-the-ridge", "cell": "roofline", "old": "intensity < ridge", "new": "intensity > ridge",
     "caught": "test-roofline: regime", "says": "the other way round"},
    {"name": "roof-on-the-ridge", "cell": "roofline", "old": "intensity < ridge", "new": "intensity <= ridge",
     "caught": "test-roofline: exactly at the ridge point", "says": "not on it"},
    {"name": "roof-ridge-of-no-machine", "cell": "roofline", "old": "intensity < ridge", "new": "intensity < 5",
     "caught": "test-roofline: the same on a machine with a slow processor", "says": "the verdict must move"},
    {"name": "roof-footprint-ignored", "cell": "roofline",
     "old": "    intensity = ", "new": "    bandwidth = limits.bandwidth(bytes_moved)\n    intensity = ",
     "caught": "test-roofline: a megabyte, 1,000 bytes at a time: ms to move", "says": "the footprint was ignored"},

    # verdict
    {"name": "verdict-above-the-model", "cell": "verdict", "old": "latency_ms > 2 * (", "new": "latency_ms > (",
     "caught": "test-verdict: a product of 2·10⁸ FLOPs in 2.2 ms", "says": "above twice the model"},
    {"name": "verdict-without-overhead", "cell": "verdict", "old": "sorted(floors,",
     "new": "sorted((\"compute\", \"memory\"),",
     "caught": "test-verdict: one plus one in 6 µs", "says": "dispatch is missing"},
    {"name": "verdict-model-without-overhead", "cell": "verdict", "old": "(floors[\"overhead\"] + max(", "new": "(max(",
     "caught": "test-verdict: one plus one in 6 µs", "says": "dispatch is missing from the model"},
    {"name": "verdict-bottleneck-of-three", "cell": "verdict",
     "old": "roofline(work.flops, work.bytes_moved, limits, work.footprint)[\"regime\"]", "new": "first",
     "caught": "test-verdict: its nearer roof is all the same", "says": "two roofs only"},
    {"name": "verdict-fraction-inverted", "cell": "verdict",
     "old": "min(1.0, floors[\"overhead\"] / latency_ms)", "new": "latency_ms / floors[\"overhead\"]",
     "caught": "test-verdict: its overhead", "says": "the other way round"},
    {"name": "verdict-fraction-of-the-model", "cell": "verdict",
     "old": "floors[\"overhead\"] / latency_ms)",
     "new": "floors[\"overhead\"] / (floors[\"overhead\"] + floors[\"memory\"]))",
     "caught": "test-verdict: its overhead", "says": "the measured time counts"},
    {"name": "verdict-advice-empty", "cell": "verdict", "old": "advise(limited_by, work, latency_ms, limits)",
     "new": "\"\"",
     "caught": "test-verdict: its advice", "says": "empty"},
    {"name": "verdict-advice-for-the-bottleneck", "cell": "verdict",
     "old": "advise(limited_by,", "new": "advise(roofline(work.flops, work.bytes_moved, limits)[\"regime\"],",
     "caught": "test-verdict: its advice", "says": "want limited_by's"},
    {"name": "verdict-floors-added", "cell": "verdict", "old": "max(floors[\"compute\"], floors[\"memory\"])",
     "new": "floors[\"compute\"] + floors[\"memory\"]",
     "caught": "test-verdict: 2·10⁸ FLOPs and 16 MB in 4.6 ms", "says": "overlap"},
    {"name": "verdict-footprint-forgotten", "cell": "verdict", "old": ", limits, work.footprint)", "new": ", limits)",
     "caught": "test-verdict: 2 MB, but 1,000 bytes at a time, from the cache", "says": "footprint was not passed"},
    {"name": "verdict-time-ignored", "cell": "verdict", "old": "latency_ms > 2 *", "new": "False and latency_ms > 2 *",
     "caught": "test-verdict: 2·10⁸ FLOPs and 16 MB in 4.6 ms"},
    {"name": "verdict-never-mixed", "cell": "verdict", "old": "floors[first] / 2", "new": "floors[first]",
     "caught": "test-verdict: 400 small ops, 2 ms of each", "says": "mixed is missing"},
    {"name": "verdict-mixed-before-unexplained", "cell": "verdict",
     "old": "    if latency_ms > 2", "new": "    elif latency_ms > 2",
     "caught": "test-verdict: the same in 9 ms", "says": "unexplained comes first"},
    {"name": "verdict-half-is-mixed", "cell": "verdict", "old": "floors[second] > floors",
     "new": "floors[second] >= floors",
     "caught": "test-verdict: 1 ms of memory beside 2 ms of compute", "says": "exactly half"},
    {"name": "verdict-fixed-machine", "cell": "verdict",
     "old": "roofline(work.flops, work.bytes_moved, limits,",
     "new": "roofline(work.flops, work.bytes_moved, MachineLimits(100, 20, 5),",
     "caught": "test-verdict: 2 MB, but 1,000 bytes at a time, from the cache"},
    {"name": "verdict-bottleneck-by-floors", "cell": "verdict",
     "old": "roofline(work.flops, work.bytes_moved, limits, work.footprint)[\"regime\"]",
     "new": "max((\"memory\", \"compute\"), key=floors.get)",
     "caught": "test-verdict: and the nearer of the two roofs", "says": "not the larger floor"},
    {"name": "verdict-fraction-above-one", "cell": "verdict",
     "old": "min(1.0, floors[\"overhead\"] / latency_ms)", "new": "floors[\"overhead\"] / latency_ms",
     "caught": "test-verdict: an overhead never above 1", "says": "more than all of it"},
    {"name": "verdict-no-time-no-overhead", "cell": "verdict", "old": "if latency_ms > 0 else 1.0",
     "new": "if latency_ms > 0 else 0.0",
     "caught": "test-verdict: a time of 0", "says": "1.0 when the time is 0"},

    # amdahl
    {"name": "amdahl-all-of-it", "cell": "amdahl", "old": "1 - fraction + fraction / speedup", "new": "1 / speedup",
     "caught": "test-amdahl: 70 % twice as fast", "says": "did not change"},
    {"name": "amdahl-time-saved", "cell": "amdahl", "old": "1 / new_time if new_time else inf", "new": "2 - new_time",
     "caught": "test-amdahl: 70 % twice as fast", "says": "the time saved"},
    {"name": "amdahl-new-time", "cell": "amdahl", "old": "1 / new_time if new_time else inf", "new": "new_time",
     "caught": "test-amdahl: 70 % twice as fast", "says": "the new time"},
    {"name": "amdahl-swapped", "cell": "amdahl", "old": "1 - fraction + fraction / speedup",
     "new": "fraction + (1 - fraction) / speedup",
     "caught": "test-amdahl: 70 % twice as fast", "says": "swapped"},
    {"name": "amdahl-times-for-over", "cell": "amdahl", "old": "fraction / speedup", "new": "fraction * speedup",
     "caught": "test-amdahl: 70 % twice as fast", "says": "not fraction * speedup"},
    {"name": "amdahl-mean-of-speeds", "cell": "amdahl",
     "old": "1 / new_time if new_time else inf", "new": "1 - fraction + fraction * speedup",
     "caught": "test-amdahl: 70 % twice as fast", "says": "speeds do not"},
    {"name": "amdahl-any-fraction", "cell": "amdahl", "old": "0 <= fraction <= 1", "new": "0 <= fraction",
     "caught": "test-amdahl: a fraction of 1.5"},
    {"name": "amdahl-negative-fraction", "cell": "amdahl", "old": "0 <= fraction <= 1", "new": "fraction <= 1",
     "caught": "tests: test_limits.py::test_amdahl"},
    {"name": "amdahl-no-speed-at-all", "cell": "amdahl", "old": " and speedup > 0", "new": "",
     "caught": "test-amdahl: a speedup of 0"},

    # profile_forward_pass
    {"name": "profile-sample-over-batch-time", "cell": "profile-forward-pass",
     "old": "**rates(work, latency[\"median\"], limits),",
     "new": "**rates(work._replace(flops=work.flops // len(input_tensor.data)), latency[\"median\"], limits),",
     "caught": "test-profile-forward-pass: FLOPs of the batch", "says": "those of one sample"},
    {"name": "profile-rate-of-one-sample", "cell": "profile-forward-pass",
     "old": """            "flops_per_sample\"""",
     "new": """            "gflops_per_second": work.flops / 32 / latency["median"] / 1e6,
            "flops_per_sample\"""",
     "caught": "test-profile-forward-pass: GFLOP/s", "says": "32x too slow"},
    {"name": "profile-batch-flops-of-one-sample", "cell": "profile-forward-pass",
     "old": "\"batch_flops\": work.flops", "new": "\"batch_flops\": flops_of_one(model, input_tensor, work.flops)",
     "caught": "test-profile-forward-pass: batch_flops is the same number", "says": "those of one sample"},
    {"name": "profile-flops-per-sample-of-the-batch", "cell": "profile-forward-pass",
     "old": "flops_of_one(model, input_tensor, work.flops)", "new": "work.flops",
     "caught": "test-profile-forward-pass: FLOPs of one sample", "says": "those of the batch"},
    {"name": "profile-workload-of-the-memory-pass", "cell": "profile-forward-pass",
     "old": " \"workload\": latency[\"workload\"],", "new": "",
     "caught": "test-profile-forward-pass: the workload says how many samples were timed", "says": "the memory pass's"},
    {"name": "profile-another-clock", "cell": "profile-forward-pass",
     "old": "time_forward(model, input_tensor, clock, iterations)",
     "new": "time_forward(model, input_tensor, iterations=iterations)",
     "caught": "test-profile-forward-pass: the workload says how many samples were timed",
     "says": "the clock is not handed on"},
    {"name": "profile-seconds", "cell": "profile-forward-pass",
     "old": "rates(work, latency[\"median\"], limits)", "new": "rates(work, latency[\"median\"] / 1e3, limits)",
     "caught": "test-profile-forward-pass: latency, ms", "says": "seconds"},
    {"name": "profile-latency-without-statistics", "cell": "profile-forward-pass", "old": "\"latency\": latency,",
     "new": "\"latency\": latency[\"median\"],",
     "caught": "test-profile-forward-pass: latency holds the statistics", "says": "not its median only"},
    {"name": "profile-fixed-peak", "cell": "profile-forward-pass",
     "old": "rates(work, latency[\"median\"], limits)",
     "new": "rates(work, latency[\"median\"], MachineLimits(100, 20, 5))",
     "caught": "test-profile-forward-pass: of this machine's peak", "says": "a fixed peak of 100"},
    {"name": "profile-mean", "cell": "profile-forward-pass",
     "old": "rates(work, latency[\"median\"], limits)", "new": "rates(work, latency[\"mean\"], limits)",
     "caught": "test-profile-forward-pass: calls of 1, 1, 1 and 9 ms, again and again", "says": "that is the mean"},
    {"name": "profile-iterations-ignored", "cell": "profile-forward-pass", "old": "input_tensor, clock, iterations)",
     "new": "input_tensor, clock)",
     "caught": "test-profile-forward-pass: iterations asked for", "says": "iterations is not handed on"},
    {"name": "profile-verdict-in-seconds", "cell": "profile-forward-pass",
     "old": "verdict(work, latency[\"median\"], limits)", "new": "verdict(work, latency[\"median\"] / 1e3, limits)",
     "caught": "test-profile-forward-pass: limited by", "says": "the measured time has a say"},
    {"name": "profile-bools-of-limited-by", "cell": "profile-forward-pass",
     "old": "found[\"bottleneck\"] == \"memory\", \"is_compute_bound\": found[\"bottleneck\"]",
     "new": "found[\"limited_by\"] == \"memory\", \"is_compute_bound\": found[\"limited_by\"]",
     "caught": "test-profile-forward-pass: the two bools", "says": "not limited_by"},
    {"name": "profile-bools-swapped", "cell": "profile-forward-pass",
     "old": "== \"memory\", \"is_compute_bound\": found[\"bottleneck\"] == \"compute\"",
     "new": "== \"compute\", \"is_compute_bound\": found[\"bottleneck\"] == \"memory\"",
     "caught": "test-profile-forward-pass: the two bools", "says": "swapped"},
    {"name": "profile-another-machine", "cell": "profile-forward-pass",
     "old": "verdict(work, latency[\"median\"], limits)",
     "new": "verdict(work, latency[\"median\"], MachineLimits(500, 20, 5))",
     "caught": "test-profile-forward-pass: on another machine", "says": "the verdict must move"},
    {"name": "profile-layers-on-another-machine", "cell": "profile-forward-pass",
     "old": "events, limits, latency", "new": "events, MachineLimits(500, 20, 5), latency",
     "caught": "test-profile-forward-pass: the first rows, here and there", "says": "limits is not handed on"},
    {"name": "profile-memory-forgotten", "cell": "profile-forward-pass", "old": "**memory, ", "new": "",
     "caught": "test-profile-forward-pass: keys that are missing"},
    {"name": "profile-nothing-uncounted", "cell": "profile-forward-pass", "old": "list(work.uncounted)", "new": "[]",
     "caught": "test-profile-forward-pass: an op without a rule is named", "says": "nothing is named"},
    {"name": "profile-samples-by-division", "cell": "profile-forward-pass",
     "old": "flops_of_one(model, input_tensor, work.flops)", "new": "work.flops // input_tensor.shape[0]",
     "caught": "test-profile-forward-pass: FLOPs of one sample where there is no batch axis", "says": "flops_of_one"},

    # count_both_passes
    {"name": "both-swapped", "cell": "count-both-passes",
     "old": "work_of(forward_events), work_of(backward_events)",
     "new": "work_of(backward_events), work_of(forward_events)",
     "caught": "test-count-both-passes: 784-128-10 forward, contractions", "says": "swapped"},
    {"name": "both-twice-the-forward", "cell": "count-both-passes",
     "old": "work_of(backward_events)", "new": "work_of(forward_events * 2)",
     "caught": "test-count-both-passes: forward and backward", "says": "folklore"},
    {"name": "both-forward-heard-twice", "cell": "count-both-passes", "old": "observe(lambda: back(loss))",
     "new": "observe(forward)",
     "caught": "test-count-both-passes: forward and backward", "says": "heard twice"},
    {"name": "both-backward-unheard", "cell": "count-both-passes",
     "old": "backward_events, _ = observe(lambda: back(loss))", "new": "backward_events = []\n        back(loss)",
     "caught": "test-count-both-passes: forward and backward", "says": "the backward pass was not heard"},
    {"name": "both-another-forward", "cell": "count-both-passes", "old": "back(loss))", "new": "back(forward()))",
     "caught": "test-count-both-passes: forward and backward", "says": "a second forward pass"},
    {"name": "both-input-wants-a-gradient", "cell": "count-both-passes",
     "old": "both_passes(model, input_tensor, loss_fn)",
     "new": "both_passes(model, Tensor(input_tensor.data, requires_grad=True), loss_fn)",
     "caught": "test-count-both-passes: forward and backward", "says": "the input needs no gradient"},
    {"name": "both-input-never-wants-one", "cell": "count-both-passes",
     "old": "both_passes(model, input_tensor, loss_fn)",
     "new": "both_passes(model, Tensor(input_tensor.data), loss_fn)",
     "caught": "test-count-both-passes: if the input wants a gradient", "says": "the input's wish"},
    {"name": "both-loss-left-out", "cell": "count-both-passes", "old": "input_tensor, loss_fn)", "new": "input_tensor)",
     "caught": "test-count-both-passes: a loss is part of the forward pass", "says": "the loss was not heard"},
    {"name": "both-without-gradients", "cell": "count-both-passes", "old": ", gradients(True)", "new": "",
     "caught": "test-count-both-passes: also where the caller has gradients off", "says": "gradients(True) is missing"},
    {"name": "both-model-touched", "cell": "count-both-passes", "old": "untouched(model), ", "new": "",
     "caught": "test-count-both-passes: a restless model is as before", "says": "untouched(model) is missing"},

    # the bonus: timed_round and paired_ratio are graded by no cell
    {"name": "round-a-b-a-b", "cell": "timed-round",
     "old": "(a_first, not a_first, not a_first, a_first)", "new": "(a_first, not a_first, a_first, not a_first)",
     "caught": "tests: test_compare.py::test_both_orders_occur_and_the_seed_repeats_them"},
    {"name": "round-whoever-began-first", "cell": "timed-round",
     "old": "return took[True], took[False]", "new": "return took[a_first], took[not a_first]",
     "caught": "tests: test_compare.py::test_half_the_time_is_a_ratio_of_a_half"},
    {"name": "ratio-inverted", "cell": "paired-ratio", "old": "np.log(b / a)", "new": "np.log(a / b)",
     "caught": "tests: test_compare.py::test_half_the_time_is_a_ratio_of_a_half"},
    {"name": "ratio-interval-in-logarithms", "cell": "paired-ratio",
     "old": "(float(np.exp(interval[0])), float(np.exp(interval[1])))", "new": "interval",
     "caught": "tests: test_compare.py::test_half_the_time_is_a_ratio_of_a_half"},
    {"name": "ratio-median-of-ratios", "cell": "paired-ratio",
     "old": "float(np.exp(percentile(logs, 50)))", "new": "percentile([b / a for a, b in rounds], 50)",
     "caught": "tests: test_compare.py::test_the_interval_and_the_resolution_by_hand"},

    # the transfer: a rule, and a prediction
    {"name": "distance-one-flop-a-triple", "cell": "distance-cost", "old": "3 * ", "new": "",
     "caught": "test-distance-cost: 3 and 2 rows of 2", "says": "there are three operations"},
    {"name": "distance-sums-free", "cell": "distance-cost", "old": "3 * ", "new": "2 * ",
     "caught": "test-distance-cost: 3 and 2 rows of 2", "says": "additions of the sum are missing"},
    {"name": "distance-columns-forgotten", "cell": "distance-cost", "old": " * a[1]", "new": "",
     "caught": "test-distance-cost: 3 and 2 rows of 2", "says": "the columns are missing"},
    {"name": "distance-rows-for-columns", "cell": "distance-cost", "old": "a[1]", "new": "a[0]",
     "caught": "test-distance-cost: 3 and 2 rows of 2", "says": "not its first"},
    {"name": "distance-first-addition-free", "cell": "distance-cost", "old": "3 * out[0] * out[1] * a[1]",
     "new": "out[0] * out[1] * (3 * a[1] - 1)",
     "caught": "test-distance-cost: 3 and 2 rows of 2", "says": "one addition less"},
    {"name": "prediction-in-elements", "cell": "predict-distance", "old": "4 * (", "new": "(",
     "caught": "test-predict-distance: 300 to 200 rows of 64", "says": "elements, not bytes"},
    {"name": "prediction-without-the-output", "cell": "predict-distance", "old": " + n * m)", "new": ")",
     "caught": "test-predict-distance: 300 to 200 rows of 64", "says": "the output is written, too"},
    {"name": "prediction-of-one-flop", "cell": "predict-distance", "old": "3 * n", "new": "n",
     "caught": "test-predict-distance: 300 to 200 rows of 64", "says": "three operations"},
    {"name": "prediction-in-float64", "cell": "predict-distance", "old": "4 * (", "new": "8 * (",
     "caught": "test-predict-distance: 300 to 200 rows of 64", "says": "4 bytes, not 8"},
    {"name": "prediction-read-for-each-pair", "cell": "predict-distance", "old": "(n * d + m * d + n * m)",
     "new": "(2 * n * m * d + n * m)",
     "caught": "test-predict-distance: 300 to 200 rows of 64", "says": "not once for each pair"},
    {"name": "prediction-of-one-machine", "cell": "predict-distance",
     "old": "roofline(flop_count, bytes_moved, limits)[\"regime\"]",
     "new": "\"compute\"",
     "caught": "test-predict-distance: the same where memory is slow", "says": "the verdict must move"},
    {"name": "prediction-by-flops-alone", "cell": "predict-distance",
     "old": "roofline(flop_count, bytes_moved, limits)[\"regime\"]",
     "new": "\"compute\" if flop_count > 10**5 and limits.bandwidth_gbs > 2 else \"memory\"",
     "caught": "test-predict-distance: rows of 2", "says": "few columns"},
]

RIGHT = [
    {"name": "parameters-with-a-set", "cell": "count-parameters", "code": '''
#| export
def count_parameters(model, trainable_only=False):
    """Return how many numbers the model owns: each memory once."""
    wanted = [w for w in weights_of(model) if not trainable_only or w.requires_grad]
    places = {storage(w.data) for w in wanted}
    return sum(size for _, size, _, _ in places) - shown_twice(places)
'''},
    {"name": "matmul-axis-by-axis", "cell": "matmul-flops", "code": '''
#| export
def matmul_flops(a_shape, b_shape):
    """Return the FLOPs of ``a @ b``, 2 per multiply-add."""
    a, b = sizes("a_shape", a_shape), sizes("b_shape", b_shape)
    total = 2
    for length in (*matmul_shape(a, b), a[-1]):
        total *= length
    return total
'''},
    {"name": "linear-as-a-product", "cell": "linear-flops", "code": '''
#| export
def linear_flops(input_shape, out_features):
    """Return the FLOPs of a linear layer on the whole input."""
    shape, out_features = sizes("input_shape", input_shape), positive("out_features", out_features)
    *leading, features = shape
    return matmul_flops((prod(leading), features), (features, out_features))
'''},
    {"name": "conv-with-a-helper", "cell": "conv2d-flops", "code": '''
#| export
def _stops(length, kernel, stride, padding, dilation):
    last = length + 2 * padding - (dilation * (kernel - 1) + 1)
    return len(range(0, last + 1, stride))


def conv2d_flops(input_shape, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1):
    """Return the FLOPs of a 2-D convolution on the whole batch."""
    batch, channels, *image = sizes("input_shape", input_shape, rank=4)
    kernel, stride = pair("kernel_size", kernel_size), pair("stride", stride)
    padding, dilation = pair("padding", padding, least=0), pair("dilation", dilation)
    out_channels, groups = positive("out_channels", out_channels), positive("groups", groups)
    _check_convolution(image, out_channels, kernel, padding, dilation, groups, channels)
    high, wide = (_stops(image[i], kernel[i], stride[i], padding[i], dilation[i]) for i in (0, 1))
    each_group = batch * high * wide * (out_channels // groups) * (channels // groups) * kernel[0] * kernel[1]
    return each_group * groups * 2
'''},
    {"name": "attention-by-letters", "cell": "attention-flops", "code": '''
#| export
def attention_flops(batch, length, embed_dim, heads):
    """Return the contraction FLOPs of multi-head self-attention."""
    B, T, D = positive("batch", batch), positive("length", length), positive("embed_dim", embed_dim)
    if D % positive("heads", heads):
        raise ValueError(f"embed_dim {D} cannot be cut into {heads} heads; choose heads that divide it")
    return 8 * B * T * D * D + 4 * B * T * T * D
'''},
    {"name": "shapes-one-room-in-another", "cell": "run-on-shapes", "code": '''
#| export
def run_on_shapes(model, input_shape, dtype=np.float32):
    """Run the model once on shapes only; return what was ``Heard``."""
    heard, run = Heard(), forward_of(model)
    with no_grad(), untouched(model):
        with shape_only():
            given = Tensor(hollow(tuple(input_shape), dtype), dtype=dtype)
            with listen(heard.op, scopes=heard.scope):
                heard.output = run(given)
    heard.dtype = np.dtype(dtype)
    return heard
'''},
    {"name": "flops-in-a-loop", "cell": "count-flops", "code": '''
#| export
def count_flops(model, input_shape):
    """Return the FLOPs per sample, found on shapes only: a model that reads values reads zeros."""
    shape = sizes("input_shape", input_shape)
    if isinstance(model, Tensor):
        return prod(shape)
    total = 0
    events, samples = one_sample(model, shape)
    for event in events:
        price = event_flops(event)
        if price is not None:
            total += price
    each, rest = divmod(total, samples)
    if rest:
        raise ValueError(f"a total of {total} cannot be shared among {samples} samples")
    return each
'''},
    {"name": "scopes-up-the-path", "cell": "sum-by-scope", "code": '''
#| export
def sum_by_scope(events, amount):
    """Return {path: sum of ``amount(event)``}."""
    sums = {(): 0}
    for event in events:
        path, value = tuple(event.scope), amount(event)
        while path:
            sums.setdefault(path, 0)
            sums[path] += value
            path = path[:-1]
        sums[()] += value
    return sums
'''},
    {"name": "traced-as-a-class", "cell": "trace-memory", "code": '''
#| export
class _Session:
    def __enter__(self):
        self.ours = not tracemalloc.is_tracing()
        if self.ours:
            tracemalloc.start()
        self.before, self.outer_peak = _clean_baseline()
        return self

    def __exit__(self, *error):
        if self.ours:
            tracemalloc.stop()
        else:
            _fold_back(self.outer_peak)


def trace_memory(function):
    """Call ``function()`` and return ``Traced(result, growth, peak)``."""
    with _Session() as session:
        result = function()
        now, peak = (size - session.before for size in tracemalloc.get_traced_memory())
    return Traced(result, now, peak if peak > 0 else 0)
'''},
    {"name": "kept-breadth-first", "cell": "kept-arrays", "code": '''
#| export
def kept_arrays(output, exclude=()):
    """Return the buffers alive because ``output`` is, each once."""
    tensors = {id(tensor): tensor for _, tensor in named_tensors(output)}
    queue = deque(tensors.values())
    while queue:
        made_by = queue.popleft().made_by
        if made_by is None:
            continue
        for source in made_by.inputs:
            if id(source) not in tensors:
                tensors[id(source)] = source
                queue.append(source)
    owners = {id(buffer(tensor.data)): buffer(tensor.data) for tensor in tensors.values()}
    for array in exclude:
        owners.pop(id(buffer(array)), None)
    return list(owners.values())
'''},
    {"name": "timed-by-a-helper", "cell": "time-calls", "code": '''
#| export
def _one_sample_ns(call, clock):
    begin = clock()
    call()
    end = clock()
    return end - begin


def time_calls(call, warmup, iterations, clock):
    """Return the ns of ``iterations`` calls, after a warmup."""
    done = 0
    while done < warmup:
        call()
        done += 1
    return [_one_sample_ns(call, clock) for _ in range(iterations)]
'''},
    {"name": "percentile-by-numpy", "cell": "percentile", "code": '''
#| export
def percentile(samples, p):
    """Return percentile ``p`` (0 to 100), linear between samples."""
    if p < 0 or p > 100:
        raise ValueError("p must be between 0 and 100")
    if len(samples) == 0:
        raise ValueError("there are no samples")
    return float(np.percentile(samples, p))
'''},
    {"name": "interval-by-comb", "cell": "median-interval", "code": '''
#| export
def median_interval(samples):
    """Return (low, high), or None under six samples."""
    n = len(samples)
    allowed = 0
    outcomes = 0
    for k in range(n):
        outcomes += comb(n, k)
        if 40 * outcomes > 2**n:
            break
        allowed = k + 1
    if allowed == 0:
        return None
    ordered = sorted(samples)
    return ordered[allowed - 1], ordered[-allowed]
'''},
    {"name": "roof-by-bills", "cell": "roofline", "code": '''
#| export
def roofline(flops, bytes_moved, limits, footprint=None):
    """Put work under the two roofs of a machine."""
    flops, bytes_moved, limits = amount("flops", flops), amount("bytes_moved", bytes_moved), limits_of(limits)
    bandwidth = limits.bandwidth(bytes_moved if footprint is None else footprint)
    found = {"memory_ms": 1000 * bytes_moved / (bandwidth * 1e9)}
    found["compute_ms"] = 1000 * flops / (limits.peak_gflops * 1e9)
    if bytes_moved == 0:
        found["intensity"] = inf if flops > 0 else 0.0
    else:
        found["intensity"] = flops / bytes_moved
    found["ridge_point"] = limits.peak_gflops / bandwidth
    if found["intensity"] >= found["ridge_point"]:
        found["regime"], found["attainable_gflops"] = "compute", limits.peak_gflops
    else:
        found["regime"], found["attainable_gflops"] = "memory", found["intensity"] * bandwidth
    found["time_floor_ms"] = max(found["memory_ms"], found["compute_ms"])
    return found
'''},
    {"name": "verdict-by-cases", "cell": "verdict", "code": '''
#| export
def _what_limits(floors, latency_ms):
    model_ms = floors["overhead"] + max(floors["compute"], floors["memory"])
    if latency_ms > 2 * model_ms:
        return "unexplained"
    largest = max(floors, key=lambda name: floors[name])
    rest = [ms for name, ms in floors.items() if name != largest]
    return "mixed" if 2 * max(rest) > floors[largest] else largest


def verdict(work, latency_ms, limits):
    """Say what limits ``work`` that took ``latency_ms``."""
    floors = time_floors(work, limits)
    share = 1.0 if latency_ms <= floors["overhead"] or latency_ms == 0 else floors["overhead"] / latency_ms
    said = _what_limits(floors, latency_ms)
    report = dict(limited_by=said, overhead_fraction=share, advice=advise(said, work, latency_ms, limits))
    report["bottleneck"] = roofline(work.flops, work.bytes_moved, limits, footprint=work.footprint)["regime"]
    return report
'''},
    {"name": "amdahl-plain-messages", "cell": "amdahl", "code": '''
#| export
def amdahl_speedup(fraction, speedup):
    """Return the overall speedup."""
    fraction, speedup = real("fraction", fraction), real("speedup", speedup)
    if fraction < 0 or fraction > 1:
        raise ValueError(f"the fraction must lie between 0 and 1, not {fraction}")
    if speedup <= 0:
        raise ValueError(f"the speedup must be positive, not {speedup}")
    if fraction == 1:
        return speedup
    return 1 / ((1 - fraction) + fraction / speedup)
'''},
    {"name": "profile-step-by-step", "cell": "profile-forward-pass", "code": '''
#| export
def profile_forward_pass(model, input_tensor, *, limits=None, clock=None, iterations=None):
    """Profile one forward pass as it ran."""
    input_tensor, limits = _as_input(input_tensor), limits_of(limits)
    events = observe_forward(model, input_tensor)
    work = work_of(events)
    if isinstance(model, Tensor):
        work = work._replace(flops=input_tensor.size)
    report = {}
    report.update(memory_of(model, input_tensor))
    statistics = time_forward(model, input_tensor, clock, iterations)
    ms = statistics["median"]
    report.update(rates(work, ms, limits))
    report.update(verdict(work, ms, limits))
    for nearer in ("memory", "compute"):
        report[f"is_{nearer}_bound"] = report["bottleneck"] == nearer
    report["parameters"] = count_parameters(model)
    report["batch_flops"] = report["flops"]
    report["flops_per_sample"] = flops_of_one(model, input_tensor, report["flops"])
    report["layers"] = layers_of(model, input_tensor, events, limits, ms, clock)
    report["latency"], report["workload"] = statistics, statistics["workload"]
    report["uncounted"] = [name for name in work.uncounted]
    return report
'''},
    {"name": "both-in-a-list", "cell": "count-both-passes", "code": '''
#| export
def count_both_passes(model, input_tensor, loss_fn=None):
    """Return (forward ``Work``, backward ``Work``)."""
    ahead, behind = both_passes(model, input_tensor, loss_fn)
    heard = []
    with gradients(True):
        with untouched(model):
            events, end = observe(ahead)
            heard.append(events)
            heard.append(observe(partial(behind, end))[0])
    return tuple(work_of(events) for events in heard)
'''},
    {"name": "round-turn-by-turn", "cell": "timed-round", "code": '''
#| export
def timed_round(a, b, clock, a_first):
    """Time a b b a, or b a a b."""
    first, second = (a, b) if a_first else (b, a)
    one, two, three, four = (time_calls(side, 0, 1, clock)[0] for side in (first, second, second, first))
    outside, within = [one, four], [two, three]
    return (outside, within) if a_first else (within, outside)
'''},
    {"name": "ratio-by-map", "cell": "paired-ratio", "code": '''
#| export
def paired_ratio(rounds):
    """Return (median of b / a, its interval or None)."""
    logs = [float(np.log(b) - np.log(a)) for a, b in rounds]
    middle = float(np.exp(percentile(logs, 50)))
    ends = median_interval(logs)
    if ends is not None:
        ends = tuple(map(float, np.exp(ends)))
    return middle, ends
'''},
    {"name": "distance-by-parts", "cell": "distance-cost", "code": '''
@flops(pairwise_distance)
def pairwise_distance_cost(out, a, b):
    """Count 1 for each operation."""
    subtractions = prod(out) * b[-1]
    squares = additions = subtractions
    return subtractions + squares + additions
'''},
    {"name": "prediction-by-the-rule", "cell": "predict-distance", "code": '''
def predict_distance(n, m, d, limits):
    """Return (flops, bytes_moved, regime)."""
    shapes = (n, m), (n, d), (m, d)
    work, moved = pairwise_distance_cost(*shapes), sum(4 * prod(shape) for shape in shapes)
    return work, moved, roofline(work, moved, limits)["regime"]
'''},
]
