"""Wrong and right solutions of module 01, as small edits of the reference."""

WRONG = [
    {"name": "numpys-guess-kept", "cell": "as-array",
     "old": "dtype = array.dtype if chosen else np.float32", "new": "dtype = array.dtype",
     "caught": "test-as-array: a list of integers", "says": "NumPy's guess"},
    {"name": "float64-kept", "cell": "as-array",
     "old": " and array.dtype != np.float64", "new": "",
     "caught": "test-as-array: a float64 array", "says": "float64 was kept"},
    {"name": "everything-float32", "cell": "as-array",
     "old": "dtype = array.dtype if chosen else np.float32", "new": "dtype = np.float32",
     "caught": "test-as-array: an int8 array", "says": "int8 was turned into float32"},
    {"name": "always-a-copy", "cell": "as-array",
     "old": "return np.asarray(array, dtype=dtype)", "new": "return np.array(array, dtype=dtype)",
     "caught": "test-as-array: float32 memory is shared", "says": "a copy was made"},
    {"name": "text-let-through", "cell": "as-array",
     "old": 'if array.dtype.kind not in "fiub":', "new": "if array.dtype == object:",
     "caught": "test-as-array: text is refused"},
    {"name": "aligned-at-the-left", "cell": "broadcast-shape",
     "old": "(1,) * (rank - len(out)) + out, (1,) * (rank - len(shape)) + tuple(shape)",
     "new": "out + (1,) * (rank - len(out)), tuple(shape) + (1,) * (rank - len(shape))",
     "caught": "test-broadcast-shape: (2,1) with (2,)", "says": "aligned at the left"},
    {"name": "padded-at-the-wrong-end", "cell": "broadcast-shape",
     "old": "(1,) * (rank - len(shape)) + tuple(shape)", "new": "tuple(shape) + (1,) * (rank - len(shape))",
     "caught": "test-broadcast-shape: (2,1) with (2,)", "says": "aligned at the left"},
    {"name": "the-larger-size", "cell": "broadcast-shape",
     "old": "tuple(n if m == 1 else m for", "new": "tuple(max(m, n) for",
     "caught": "test-broadcast-shape: size 0 with 1", "says": "max(0, 1) is not the rule"},
    {"name": "only-the-last-two-shapes", "cell": "broadcast-shape",
     "old": "    for shape in shapes:", "new": "    for shape in shapes[-2:]:",
     "caught": "test-broadcast-shape: three shapes", "says": "the first shape was left out"},
    {"name": "row-kept", "cell": "matmul-shape",
     "old": "(1, *a)[-2:-1] if len(a) > 1 else ()", "new": "(1, *a)[-2:-1]",
     "caught": "test-matmul-shape: (3,) @ (3,4)", "says": "borrowed row"},
    {"name": "column-kept", "cell": "matmul-shape",
     "old": "b[-1:] if len(b) > 1 else ()", "new": "b[-1:] if len(b) > 1 else (1,)",
     "caught": "test-matmul-shape: (2,3) @ (3,)", "says": "borrowed column"},
    {"name": "leading-axes-of-a-only", "cell": "matmul-shape",
     "old": "*broadcast_shape(a[:-2], b[:-2])", "new": "*a[:-2]",
     "caught": "test-matmul-shape: (8,1,5,4) @ (3,4,2)", "says": "leading axes of b were left out"},
    {"name": "inner-sizes-not-compared", "cell": "matmul-shape",
     "old": "if a[-1] != inner:", "new": "if False:",
     "caught": "test-matmul-shape: (2,3) @ (4,5) is refused, naming (2, 3)"},
    {"name": "keepdims-ignored", "cell": "reduce-shape",
     "old": "    if keepdims:\n        return tuple(1 if i in axes else n for i, n in enumerate(a))\n", "new": "",
     "caught": "test-reduce-shape: axis 1, kept", "says": "keepdims was ignored"},
    {"name": "the-other-axes", "cell": "reduce-shape",
     "old": "if i not in axes)", "new": "if i in axes)",
     "caught": "test-reduce-shape: all of (2,3,4)", "says": "the axes that go were kept"},
    {"name": "negative-axis-not-counted", "cell": "reduce-shape",
     "old": "axes = normalize_axes(len(a), axis)",
     "new": "axes = range(len(a)) if axis is None else axis if isinstance(axis, tuple) else (axis,)",
     "caught": "test-reduce-shape: axis -1 of (2,3,4)", "says": "a negative axis counts from the end"},
    {"name": "minus-one-kept", "cell": "reshape-shape",
     "old": "return tuple(size // known if n == -1 else n for n in shape)", "new": "return tuple(shape)",
     "caught": "test-reshape-shape: (2,3,4) to (4,-1)", "says": "the -1 was not filled in"},
    {"name": "rest-rounded-down", "cell": "reshape-shape",
     "old": "unknown == 1 and known > 0 and size % known == 0", "new": "unknown == 1 and known > 0",
     "caught": "test-reshape-shape: 6 into (4,-1)"},
    {"name": "sides-swapped", "cell": "arithmetic",
     "old": "return a - b", "new": "return b - a",
     "caught": "test-arithmetic: b - a", "says": "sides are swapped"},
    {"name": "divided-the-other-way", "cell": "arithmetic",
     "old": "return a / b", "new": "return b / a",
     "caught": "test-arithmetic: 1 / b", "says": "sides are swapped"},
    {"name": "division-warns", "cell": "arithmetic",
     "old": '    with np.errstate(divide="ignore", invalid="ignore"):\n        return a / b', "new": "    return a / b",
     "caught": "test-arithmetic: what NumPy said to it", "says": "np.errstate"},
    {"name": "np-dot-for-stacks", "cell": "products-and-sums",
     "old": "return a @ b", "new": "return np.dot(a, b)",
     "caught": "test-products-and-sums: a stack of matrices", "says": "every matrix with every other"},
    {"name": "keepdims-forgotten", "cell": "products-and-sums",
     "old": "return np.max(a, axis=axis, keepdims=keepdims)", "new": "return np.max(a, axis=axis)",
     "caught": "test-products-and-sums: the largest of each row, kept", "says": "keepdims was not passed on"},
    {"name": "zeros-for-a-stretch", "cell": "views",
     "old": "return np.broadcast_to(a, shape)", "new": "return np.zeros(shape, a.dtype)",
     "caught": "test-views: broadcast_to", "says": "the numbers are not those of the input"},
    {"name": "stretch-copied", "cell": "views",
     "old": "return np.broadcast_to(a, shape)", "new": "return np.broadcast_to(a, shape).copy()",
     "caught": "test-views: stretching shares memory", "says": "a copy was made"},
    {"name": "transposed-without-axes", "cell": "views",
     "old": "return np.transpose(a, axes)", "new": "return np.transpose(a)",
     "caught": "test-views: axes in another order", "says": "axes was ignored"},
    {"name": "listens-outside", "cell": "count-ops",
     "old": "with shape_only(), listen(hear):", "new": "with listen(hear), shape_only():",
     "caught": "test-count-ops: three ops", "says": "listen inside shape_only()"},
    {"name": "each-op-once", "cell": "count-ops",
     "old": "counts.get(event.op.name, 0) + 1", "new": "1",
     "caught": "test-count-ops: the same op three times", "says": "every op was counted once"},
    {"name": "counts-of-all-calls", "cell": "count-ops",
     "old": "    counts = {}\n", "new": "    counts = count_ops.__dict__\n",
     "caught": "test-count-ops: three ops", "says": "the counts of the cell above"},
]

RIGHT = [
    {"name": "broadcast-from-the-end", "cell": "broadcast-shape", "code": '''
#| export
def broadcast_shape(*shapes):
    """Return the shape that all ``shapes`` broadcast to: aligned at the right, a 1 stretches."""
    rank = max(map(len, shapes), default=0)
    sizes = []
    for back in range(1, rank + 1):
        size = 1
        for shape in shapes:
            if len(shape) < back or shape[-back] in (1, size):
                continue
            if size != 1:
                raise ValueError(f"{' and '.join(map(str, shapes))}: sizes {size} and {shape[-back]} differ")
            size = shape[-back]
        sizes.append(size)
    return tuple(reversed(sizes))
'''},
    {"name": "matmul-by-borrowed-axes", "cell": "matmul-shape", "code": '''
#| export
def matmul_shape(a, b):
    """Return the shape of ``a @ b``: (..., m, k) @ (..., k, n) -> (..., m, n); leading axes broadcast."""
    if len(a) == 0 or len(b) == 0:
        raise ValueError(f"{a} @ {b}: one side is a scalar")
    a2 = (1, *a) if len(a) == 1 else a
    b2 = (*b, 1) if len(b) == 1 else b
    if a2[-1] != b2[-2]:
        raise ValueError(f"{a} @ {b}: {a2[-1]} columns meet {b2[-2]} rows")
    result = list(broadcast_shape(a2[:-2], b2[:-2]))
    if len(a) > 1:
        result.append(a2[-2])
    if len(b) > 1:
        result.append(b2[-1])
    return tuple(result)
'''},
    {"name": "counter", "cell": "count-ops", "code": '''
#| export
def count_ops(function):
    """Call ``function()`` on shapes only and return how often each op ran, by name."""
    heard = []
    with shape_only():
        with listen(heard.append):
            function()
    names = [event.op.name for event in heard]
    return {name: names.count(name) for name in names}
'''},
]
