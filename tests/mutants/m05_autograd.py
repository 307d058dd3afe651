"""Wrong and right solutions of module 05, as small edits of the reference."""

WRONG = [
    {"name": "divided-by-eps", "cell": "differences",
     "old": "/ (2 * eps)", "new": "/ eps",
     "caught": "test-differences: slopes of x²", "says": "divide by 2 eps"},
    {"name": "weights-left-out", "cell": "differences",
     "old": "np.sum(weights * (above - below))", "new": "np.sum(above - below)",
     "caught": "test-differences: weights count", "says": "the weights were left out"},
    {"name": "not-put-back", "cell": "differences",
     "old": "        x.data[place] = here\n", "new": "",
     "caught": "test-differences: x is as before", "says": "put the old value back"},
    {"name": "a-view-not-a-copy", "cell": "differences",
     "old": "above = np.array(function().data)", "new": "above = function().data",
     "caught": "test-differences: a view of x", "says": "copy it"},
    {"name": "only-upwards", "cell": "differences",
     "old": "        x.data[place] = here - eps\n        below = np.array(function().data)\n"
            "        x.data[place] = here\n        slopes[place] = np.sum(weights * (above - below)) / (2 * eps)",
     "new": "        x.data[place] = here\n        below = np.array(function().data)\n"
            "        slopes[place] = np.sum(weights * (above - below)) / eps",
     "caught": "test-differences: x² at 2, a wiggle of 0.5", "says": "only upwards"},
    {"name": "sign-forgotten", "cell": "negative-rule",
     "old": "lambda: -g", "new": "lambda: g",
     "caught": "test-negative-rule: negative", "says": "the sign"},
    {"name": "computed-before", "cell": "negative-rule",
     "old": "    return (lambda: -g,)", "new": "    dx = -g\n    return (lambda: dx,)",
     "caught": "test-negative-rule: ops heard before the recipe is called (the work belongs behind lambda)"},
    {"name": "past-the-door", "cell": "negative-rule",
     "old": "lambda: -g", "new": "lambda: Tensor(-g.data)",
     "caught": "test-negative-rule: the recipe is heard at the door", "says": "computed with NumPy"},
    {"name": "mean-for-sum", "cell": "unbroadcast",
     "old": "reshape(reduce_sum(g, axis=(*range(extra), *stretched)), shape=shape)",
     "new": "reshape(g.mean(axis=(*range(extra), *stretched)), shape=shape)",
     "caught": "test-unbroadcast: (2,3) down to (3,)", "says": "every use counts in full"},
    {"name": "ones-vanish", "cell": "unbroadcast",
     "old": "return reshape(reduce_sum(g, axis=(*range(extra), *stretched)), shape=shape)",
     "new": "return reduce_sum(g, axis=(*range(extra), *stretched))",
     "caught": "test-unbroadcast: (2,3) down to (2,1)", "says": "the 1 is gone"},
    {"name": "last-axis-for-a-missing-one", "cell": "unbroadcast",
     "old": "axis=(*range(extra), *stretched)", "new": "axis=(*range(len(shape), g.ndim), *stretched)",
     "caught": "test-unbroadcast: ValueError: reshape: (2,) to (3,): 2 elements do not fill that shape"},
    {"name": "always-summed", "cell": "unbroadcast",
     "old": "    if g.shape == shape:\n        return g\n", "new": "",
     "caught": "test-unbroadcast: nothing stretched: g itself, no op", "says": "return g"},
    {"name": "its-own-factor", "cell": "arithmetic-rules",
     "old": "lambda: unbroadcast(g * b, a.shape), lambda: unbroadcast(g * a, b.shape)",
     "new": "lambda: unbroadcast(g * a, a.shape), lambda: unbroadcast(g * b, b.shape)",
     "caught": "test-arithmetic-rules: multiply, for a", "says": "g times the OTHER"},
    {"name": "g-left-out", "cell": "arithmetic-rules",
     "old": "lambda: unbroadcast(g * b, a.shape)", "new": "lambda: unbroadcast(b + g * 0.0, a.shape)",
     "caught": "test-arithmetic-rules: multiply, for a", "says": "g was left out"},
    {"name": "difference-like-a-sum", "cell": "arithmetic-rules",
     "old": "unbroadcast(-g, b.shape)", "new": "unbroadcast(g, b.shape)",
     "caught": "test-arithmetic-rules: subtract, for b", "says": "the sign"},
    {"name": "divided-once", "cell": "arithmetic-rules",
     "old": "-g * out / b", "new": "-g * out",
     "caught": "test-arithmetic-rules: divide, for b", "says": "divided by b once"},
    {"name": "not-unbroadcast", "cell": "arithmetic-rules",
     "old": "lambda: unbroadcast(g, a.shape), lambda: unbroadcast(g, b.shape)", "new": "lambda: g, lambda: g",
     "caught": "test-arithmetic-rules: add, (2,1) with (3,): the gradients' shapes",
     "says": "both are still stretched"},
    {"name": "factor-n-missing", "cell": "power-rule",
     "old": " * float(exponent)", "new": "",
     "caught": "test-arithmetic-rules: power 3", "says": "the factor n is missing"},
    {"name": "exponent-not-lowered", "cell": "power-rule",
     "old": "a ** (exponent - 1)", "new": "a ** exponent",
     "caught": "test-arithmetic-rules: power 3", "says": "the exponent goes down by 1"},
    {"name": "bias-keeps-its-row", "cell": "linear-rule",
     "old": "lambda: reduce_sum(rows(g), axis=0),", "new": "lambda: reduce_sum(rows(g), axis=0, keepdims=True),",
     "caught": "test-product-rules: linear, for the bias", "says": "the bias has one axis"},
    {"name": "bias-averaged", "cell": "linear-rule",
     "old": "lambda: reduce_sum(rows(g), axis=0),", "new": "lambda: rows(g).mean(axis=0),",
     "caught": "test-product-rules: two rows, for the bias", "says": "the mean over the rows"},
    {"name": "stack-of-products", "cell": "linear-rule",
     "old": "lambda: rows(x).T @ rows(g),",
     "new": "lambda: rows(x).T @ rows(g) if x.ndim < 3 else reduce_sum(transpose(x, axes=(*range(x.ndim - 2), -1, "
            "-2)) @ g, axis=tuple(range(x.ndim - 2))),",
     "caught": "test-product-rules: the weight's is one tall product", "says": "a stack of products"},
    {"name": "batch-not-summed", "cell": "matmul-rule",
     "old": "reshape(unbroadcast(a2.T @ g2, b2.shape), shape=b.shape)", "new": "a2.T @ g2",
     "caught": "test-product-rules: a stack of five times a stack of one, for the one",
     "says": "one for each of the five"},
    {"name": "tie-counts-twice", "cell": "reduction-rules",
     "old": "        share = kept(g, a, axis) / reduce_sum(largest, axis=axis, keepdims=True)\n",
     "new": "        share = kept(g, a, axis)\n",
     "caught": "test-shape-rules: the largest of each row; a tie is shared", "says": "the parts must add up to g"},
    {"name": "to-everybody", "cell": "reduction-rules",
     "old": "return where(largest, share, 0.0)", "new": "return broadcast_to(kept(g, a, axis), shape=a.shape)",
     "caught": "test-shape-rules: the largest of each row; a tie is shared", "says": "only the largest element gets g"},
    {"name": "axes-once-more", "cell": "view-rules",
     "old": "axes=tuple(order.index(i) for i in range(a.ndim))", "new": "axes=order",
     "caught": "test-shape-rules: transpose, the way back", "says": "axes was applied once more"},
    {"name": "stretch-not-summed", "cell": "view-rules",
     "old": "return (lambda: unbroadcast(g, a.shape),)",
     "new": "return (lambda: reshape(index(g, key=tuple(0 if i < g.ndim - a.ndim else slice(0, a.shape[i - g.ndim + "
            "a.ndim]) for i in range(g.ndim))), shape=a.shape),)",
     "caught": "test-shape-rules: a row stretched to two", "says": "every copy counts"},
    {"name": "passes-at-zero", "cell": "activation-rules",
     "old": "where(a > 0.0, g, 0.0)", "new": "where(a >= 0.0, g, 0.0)",
     "caught": "test-activation-rules: relu", "says": "at 0 we say 0"},
    {"name": "s-not-s-times-1-minus-s", "cell": "activation-rules",
     "old": "g * out * (1.0 - out)", "new": "g * out",
     "caught": "test-activation-rules: sigmoid at 0", "says": "s, not s (1 - s)"},
    {"name": "slope-of-a", "cell": "activation-rules",
     "old": "g * out * (1.0 - out)", "new": "g * a * (1.0 - a)",
     "caught": "test-activation-rules: sigmoid at 0", "says": "made of the result"},
    {"name": "tanh-not-squared", "cell": "activation-rules",
     "old": "(1.0 - out * out)", "new": "(1.0 - out)",
     "caught": "test-activation-rules: tanh where it is 0.5", "says": "the square of the result"},
    {"name": "log-times-a", "cell": "exponential-rules",
     "old": "g / a", "new": "g * a",
     "caught": "test-activation-rules: log at 4", "says": "1 / a, not a"},
    {"name": "root-without-the-half", "cell": "exponential-rules",
     "old": "g / (out * 2.0)", "new": "g / out",
     "caught": "test-activation-rules: sqrt at 4", "says": "the half is missing"},
    {"name": "exp-of-the-result", "cell": "exponential-rules",
     "old": "g * out", "new": "g * exp(out)",
     "caught": "test-activation-rules: exp at 0", "says": "e to the power of a already"},
    {"name": "once-for-each-use", "cell": "graph-order",
     "old": "elif id(one) not in seen:", "new": "elif id(one) not in seen or one.made_by is None:",
     "caught": "test-graph-order: each once", "says": "once for each use"},
    {"name": "the-other-way-round", "cell": "graph-order",
     "old": "return order", "new": "return order[::-1]",
     "caught": "test-graph-order: sources first", "says": "sources come first"},
    {"name": "before-its-sources", "cell": "graph-order",
     "old": "            stack.append((one, True))\n", "new": "            order.append(one)\n",
     "caught": "test-graph-order: sources first", "says": "sources come first"},
    {"name": "recursion", "cell": "graph-order",
     "old": "    order, seen, stack = [], set(), [(tensor, False)]\n    while stack:\n"
            "        one, finished = stack.pop()\n        if finished:\n            order.append(one)\n"
            "        elif id(one) not in seen:\n            seen.add(id(one))\n"
            "            stack.append((one, True))\n            stack += [(x, False) for x in sources(one)]\n"
            "    return order",
     "new": "    order, seen = [], set()\n\n    def visit(one):\n        if id(one) not in seen:\n"
            "            seen.add(id(one))\n            for x in sources(one):\n                visit(x)\n"
            "            order.append(one)\n\n    visit(tensor)\n    return order",
     "caught": "tests: test_backward_walk.py::test_a_chain_far_longer_than_the_recursion_limit"},
    {"name": "uses-overwrite", "cell": "backward",
     "old": "gradients[id(x)] = gradients[id(x)] + dx if id(x) in gradients else dx", "new": "gradients[id(x)] = dx",
     "caught": "test-backward: x² + 2x at 3: three uses, one sum", "says": "overwrote the others"},
    {"name": "calls-overwrite", "cell": "backward",
     "old": "one.grad = g if one.grad is None else one.grad + g", "new": "one.grad = g",
     "caught": "test-backward: a second call adds", "says": "a second call must add"},
    {"name": "graph-not-freed", "cell": "backward",
     "old": "                release(one)\n", "new": "",
     "caught": "test-backward: the graph is freed", "says": "release each tensor"},
    {"name": "walked-before-all-uses", "cell": "backward",
     "old": "        order = graph_order(tensor)\n        while order:\n            one = order.pop()\n"
            "            g = gradients.pop(id(one), None)\n            if one.made_by is None:\n"
            "                if g is not None:\n"
            "                    one.grad = g if one.grad is None else one.grad + g\n            else:\n"
            "                for x, dx in pull_back(one, g) if g is not None else ():\n"
            "                    gradients[id(x)] = gradients[id(x)] + dx if id(x) in gradients else dx\n"
            "                release(one)\n",
     "new": "        found = [(tensor, gradients[id(tensor)])]\n        while found:\n"
            "            one, g = found.pop()\n            if one.made_by is None:\n"
            "                one.grad = g if one.grad is None else one.grad + g\n"
            "            elif one.made_by is not FREED:\n                found += pull_back(one, g)\n"
            "                release(one)\n",
     "caught": "test-backward: a result in the middle that is used three times: x⁴ + x² at 3",
     "says": "the walk went on before they had come"},
    {"name": "forwards", "cell": "backward",
     "old": "one = order.pop()", "new": "one = order.pop(0)",
     "caught": "test-backward: x² + 2x at 3: three uses, one sum", "says": "the walk begins at the end"},
    {"name": "order-held", "cell": "backward",
     "old": "        while order:\n            one = order.pop()\n", "new": "        for one in reversed(order):\n",
     "caught": "test-backward: of five results in the middle, held when the walk ends: at most 2",
     "says": "pop from the order"},
]

RIGHT = [
    {"name": "unbroadcast-axis-by-axis", "cell": "unbroadcast", "code": '''
#| export
def unbroadcast(g, shape):
    """Sum ``g`` over the axes along which an input of ``shape`` was stretched; the result has that shape."""
    while g.ndim > len(shape):
        g = reduce_sum(g, axis=0)
    for i, n in enumerate(shape):
        if n == 1 and g.shape[i] != 1:
            g = reduce_sum(g, axis=i, keepdims=True)
    return g
'''},
    {"name": "division-by-powers", "cell": "arithmetic-rules", "code": '''
#| export
@vjp(add)
def add_vjp(g, out, a, b):
    """Gradients of a + b."""
    return tuple(lambda x=x: unbroadcast(g, x.shape) for x in (a, b))


@vjp(subtract)
def subtract_vjp(g, out, a, b):
    """Gradients of a - b."""
    return lambda: unbroadcast(g, a.shape), lambda: -unbroadcast(g, b.shape)


@vjp(multiply)
def multiply_vjp(g, out, a, b):
    """Gradients of a * b."""
    return lambda: unbroadcast(b * g, a.shape), lambda: unbroadcast(a * g, b.shape)


@vjp(divide)
def divide_vjp(g, out, a, b):
    """Gradients of a / b."""
    return lambda: unbroadcast(g / b, a.shape), lambda: unbroadcast(-(g * a) / (b * b), b.shape)
'''},
    {"name": "order-by-two-stacks", "cell": "graph-order", "code": '''
#| export
def graph_order(tensor):
    """Return every tensor that a gradient reaches from ``tensor``, each once, its sources before it."""
    order, seen = [], {id(tensor)}
    walk = [(tensor, iter(sources(tensor)))]
    while walk:
        one, rest = walk[-1]
        for source in rest:
            if id(source) not in seen:
                seen.add(id(source))
                walk.append((source, iter(sources(source))))
                break
        else:
            walk.pop()
            order.append(one)
    return order
'''},
]
