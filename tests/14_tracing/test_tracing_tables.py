"""Averages and the layer tree: self and total time, recursion, FLOPs and bytes, and how they are drawn."""

import numpy as np
import pytest

from tinytorch.core.activations import ReLU, exp
from tinytorch.core.layers import Layer, Linear, Sequential
from tinytorch.core.tensor import Tensor, op
from tinytorch.perf.profiling import flop_report
from tinytorch.perf.tracing import SORTABLE, fitted, profile, record_function

ONE = Tensor(np.ones((2, 3), np.float32))


@op(shape=lambda a: a)
def unpriced(a):
    """An op without a cost rule."""
    return a.copy()


def rows_of(p, **how):
    return {(row.kind, row.key): row for row in p.key_averages(**how)}


def test_self_and_total(ticking):
    clock = ticking(0)
    with profile(clock=clock) as p:
        clock.wait(5_000_000)  # 5 ms outside
        with record_function("a"):
            clock.wait(1_000_000)
            with record_function("b"):
                clock.wait(2_000_000)
            clock.wait(4_000_000)
    rows = p.key_averages()
    assert [(row.key, row.calls, row.self_ms, row.total_ms) for row in rows] == [("a", 1, 5.0, 7.0), ("b", 1, 2.0, 2.0)]
    assert (rows.wall_ms, rows.outside_ms) == (12.0, 5.0)
    assert [row.self_percent for row in rows] == [500 / 7, 200 / 7]


def test_recursion_counts_calls_all_and_time_once(ticking):
    clock = ticking(0)

    @record_function("down")
    def down(n):
        clock.wait(1_000_000)
        ONE + ONE
        if n:
            down(n - 1)

    with profile(clock=clock) as p:
        down(3)
    row = rows_of(p)["region", "down"]
    # four calls of 1 ms each; the outermost lasts 4 ms, the inner ones 3, 2, 1 are inside it; 6 FLOPs an addition
    assert (row.calls, row.self_ms, row.total_ms, row.flops) == (4, 4.0, 4.0, 4 * 6)
    assert row.num_bytes == 4 * 3 * 24


def test_a_region_and_an_op_of_one_name_stay_apart(ticking):
    with profile(clock=ticking()) as p, record_function("add"):  # 0, 1
        ONE + ONE  # 2, 3; closes at 4
    rows = rows_of(p)
    assert (rows["region", "add"].total_ms, rows["region", "add"].self_ms) == (0.003, 0.002)
    assert rows["op", "add"].total_ms == 0.001 and len(p.key_averages()) == 2
    assert "[add]" in p.key_averages().table()


def test_layers_are_no_rows_and_their_own_time_goes_to_the_region_around(ticking):
    class Slow(Layer):
        def forward(self, x):
            clock.wait(3_000_000)
            return x + x

    clock = ticking(0)
    with profile(clock=clock) as p:
        Slow()(ONE)
        with record_function("r"):
            Slow()(ONE)
    rows = p.key_averages()
    assert [(row.key, row.self_ms) for row in rows] == [("r", 3.0), ("add", 0.0)]
    assert rows.outside_ms == 3.0  # the first Slow: in a layer, in no op and no region
    assert p.by_layer().total_ms == 6.0


def test_flops_and_bytes_of_ops_and_regions(ticking):
    model = Linear(3, 2)
    with profile(clock=ticking()) as p:
        with record_function("r"):
            model(ONE)  # 2 * 2 * 3 * 2 = 24 FLOPs in 1 µs; (6 + 6 + 2 + 4) * 4 bytes
        exp(ONE)
    rows = rows_of(p)
    assert (rows["op", "linear"].flops, rows["op", "linear"].num_bytes) == (24, 72)
    assert rows["op", "linear"].gflops_per_second == 24 / 1000
    assert rows["region", "r"].flops == 24 and rows["op", "exp"].flops == 6
    assert rows["op", "linear"].input_shapes == ((2, 3), (3, 2), (2,))
    assert rows["region", "r"].input_shapes is None


def test_ops_without_a_price_are_unknown_not_zero():
    with profile() as p:
        with record_function("only unknown"):
            unpriced(ONE)
        with record_function("mixed"):
            unpriced(ONE) + ONE
        with record_function("empty"):
            pass
    rows = rows_of(p)
    assert rows["op", "unpriced"][4:7] == (None, 2 * 2 * 24, None)
    assert rows["region", "only unknown"].flops is None and rows["region", "only unknown"].gflops_per_second is None
    assert (rows["region", "mixed"].flops, rows["region", "mixed"].uncounted) == (6, 1)
    assert (rows["region", "empty"].flops, rows["region", "empty"].uncounted) == (0, 0)
    drawn = p.key_averages().table()
    assert "no cost rule, not in any sum of FLOPs: unpriced" in drawn.replace("\n", " ")
    assert next(line for line in drawn.split("\n") if line.startswith("unpriced")).split()[-1] == "?"
    assert "6+?" in next(line for line in drawn.split("\n") if line.startswith("[mixed]"))
    tree = p.by_layer()
    assert (tree.flops, tree.uncounted, tree.children[0].flops) == (6, 2, None)


def test_by_shape():
    with profile() as p:
        for n in (1, 2, 1):
            exp(Tensor(np.ones((n, 3), np.float32)))
        ONE * ONE
    assert rows_of(p)["op", "exp"].input_shapes is None  # they differ
    assert rows_of(p)["op", "multiply"].input_shapes == ((2, 3), (2, 3))
    grouped = p.key_averages(group_by_input_shape=True)
    assert sorted((row.key, row.input_shapes, row.calls, row.flops) for row in grouped) == [
        ("exp", ((1, 3),), 2, 6), ("exp", ((2, 3),), 1, 6), ("multiply", ((2, 3), (2, 3)), 1, 6)]
    assert "(1, 3)" in grouped.table()
    with profile(record_shapes=False) as bare:
        exp(ONE)
    assert bare.key_averages()[0].flops == 6 and bare.key_averages()[0].input_shapes is None
    assert bare.events[0].in_shapes is None
    with pytest.raises(ValueError, match="shapes were not recorded"):
        bare.key_averages(group_by_input_shape=True)


def test_per_cents_add_to_a_hundred_drawn_and_undrawn():
    with profile() as p:
        for i in range(30):
            with record_function(f"region {i}"):
                ONE + ONE
    averages = p.key_averages()
    assert abs(sum(row.self_percent for row in averages) - 100) < 1e-9
    for limit in (1, 7, None):
        lines = averages.table(row_limit=limit).split("\n")
        body = [line for line in lines if line.startswith(("[", "add", "("))]
        assert len(body) == (limit + 1 if limit else 31)
        shares = [float(line[20:].split()[2]) for line in body]
        assert abs(sum(shares) - 100) <= 0.05 * len(body) + 1e-9


def test_sorting_and_what_is_refused():
    with profile() as p:
        for _ in range(3):
            ONE + ONE
        unpriced(Tensor(np.ones((50, 50))))
    averages = p.key_averages()
    assert [row.key for row in averages.ordered("calls")] == ["add", "unpriced"]
    assert [row.key for row in averages.ordered("num_bytes")] == ["unpriced", "add"]
    assert [row.key for row in averages.ordered("flops")] == ["add", "unpriced"]
    assert [row.key for row in averages.ordered("key")] == ["add", "unpriced"]
    for choice in SORTABLE:
        assert averages.table(sort_by=choice)
    with pytest.raises(ValueError, match="choose one of key, calls, self_ms, total_ms"):
        averages.table(sort_by="cuda_time")
    for limit in (0, -1, True, 2.5):
        with pytest.raises((ValueError, TypeError), match="row_limit"):
            averages.table(row_limit=limit)


@pytest.mark.parametrize("width", [80, 60, 47, 46, 45, 40])
def test_tables_fit(width):
    model = Sequential(Sequential(Linear(3, 2), ReLU(), Sequential(Linear(2, 2))), Linear(2, 1))
    with profile() as p:
        with record_function("a label that is longer than any table is wide, which happens, with 漢字 and é\n" * 2):
            out = model(ONE)
            out.sum().backward()
        for n in range(1, 4):
            exp(Tensor(np.ones((n, 1, 1, 1, 1, 1, 12345 // n))))
    for drawn in (p.key_averages().table(width=width), p.key_averages(True).table(width=width, row_limit=None),
                  p.by_layer(model).table(width=width), p.by_layer().table(width=width, max_rows=3)):
        assert max(map(len, drawn.split("\n"))) <= width
        assert "\x1b" not in drawn
        drawn.encode("utf-8")


@pytest.mark.parametrize("width", [39, 10, 1])
def test_forty_columns_are_the_least(width):
    with profile() as p:
        ONE + ONE
    assert p.key_averages().table(width=width) == p.key_averages().table(width=40)
    assert p.by_layer().table(width=width) == p.by_layer().table(width=40)


def test_hostile_labels_are_drawn_on_one_line():
    labels = ['"quoted"', "two\nlines", "tab\t", "<b>&", "\udcff half", "漢字" * 20, "", "\x1b[31mred", "NaN"]
    with profile() as p:
        for label in labels:
            with record_function(label):
                pass
    assert sorted(row.key for row in p.key_averages()) == sorted(labels)
    drawn, drawn_html = p.key_averages().table(), p.key_averages()._repr_html_()
    assert len([line for line in drawn.split("\n") if line.startswith("[")]) == len(labels)
    for text in (drawn, drawn_html, str(p.by_layer()), p.by_layer()._repr_html_()):
        assert "\x1b" not in text
        text.encode("utf-8")
    assert "<b>" not in drawn_html and "&lt;b&gt;&amp;" in drawn_html


def test_nothing_at_all_and_no_time_at_all(ticking):
    with profile(clock=ticking(0)) as p:
        pass
    assert p.key_averages() == [] and p.by_layer().children == [] and p.wall_ms == 0.0
    assert p.key_averages().table() and str(p.by_layer()) and p.key_averages()._repr_html_()
    with profile(clock=ticking(0)) as p:
        ONE + ONE
    row, = p.key_averages()
    assert (row.self_ms, row.self_percent, row.gflops_per_second) == (0.0, 0.0, 0.0)


def test_a_clock_that_runs_backwards_gives_no_negative_time(chrome, speedscope):
    readings = iter([100, 50, 120, 110, 40, 90])
    with profile(clock=lambda: next(readings)) as p, record_function("a"):
        ONE + ONE
    for row in p.key_averages():
        assert row.self_ms >= 0 and row.total_ms >= 0
    assert p.wall_ms == 0.0 and len(chrome(p)) > 2 and speedscope(p)


def test_regions_nested_deeper_than_python_calls_go(chrome):
    deep = 3000
    with profile() as p:
        regions = [record_function("deep") for _ in range(deep)]
        for region in regions:
            region.__enter__()
        ONE + ONE
        for region in reversed(regions):
            region.__exit__(None, None, None)
    row = rows_of(p)["region", "deep"]
    assert (row.calls, row.flops) == (deep, 6) and row.total_ms <= p.wall_ms
    tree = p.by_layer()
    assert sum(1 for _ in tree.walk()) == deep + 1 and tree.flops == 6 and "deeper" in tree.table()
    assert sum(event["ph"] == "X" for event in chrome(p)) == deep + 1


# ---------------------------------------------------------------- the tree


def total(node, field):
    return getattr(node, field) or 0


def adds_up(node):
    for field in ("flops", "num_bytes", "uncounted"):
        assert total(node, field) >= sum(total(child, field) for child in node.children)
    assert abs(node.total_ms - node.self_ms - sum(child.total_ms for child in node.children)) < 1e-9
    assert node.self_ms >= 0
    for child in node.children:
        adds_up(child)


def test_the_tree_forward_and_backward(ticking):
    model = Sequential(Linear(3, 4), ReLU(), Linear(4, 2))
    with profile(clock=ticking()) as p, record_function("step"):
        out = model(ONE)
        (out * out).sum().backward()
    tree = p.by_layer(model)
    adds_up(tree)
    step, = tree.children
    forward, backward = step.children
    assert (forward.name, forward.type, backward.name, backward.type) == ("Sequential", "Sequential", "backward",
                                                                          "region")
    assert [(child.name, child.type) for child in forward.children] == [
        ("layers.0", "Linear"), ("layers.1", "ReLU"), ("layers.2", "Linear")]
    assert forward.flops == flop_report(model, (2, 3)).total  # closed form and what ran are the same
    inner, = [child for child in backward.children if child.type == "Sequential"]  # not inside a second "step"
    assert [child.name for child in inner.children] == ["layers.2", "layers.1", "layers.0"]
    by_name = {child.name: child for child in inner.children}
    # layers.2: the gradients of x and weight, 2 * 2 * 4 * 2 each, and a sum over (2, 2) for the bias
    assert by_name["layers.2"].flops == 2 * 32 + 4
    # layers.0: the input wants no gradient: weight 2 * 2 * 3 * 4, bias (2, 4)
    assert by_name["layers.0"].flops == 48 + 8
    assert {row.key for row in p.key_averages() if row.kind == "region"} == {"step", "backward"}
    assert rows_of(p)["region", "step"].calls == 1
    assert rows_of(p)["region", "backward"].flops == backward.flops


def test_a_region_around_the_forward_pass_is_opened_once_though_its_backward_ops_are_under_it():
    with profile() as p:
        x = Tensor(np.ones((2, 2), np.float32), requires_grad=True)
        with record_function("forward"):
            y = (x * x).sum()
        y.backward()
    assert rows_of(p)["region", "forward"].calls == 1
    forward, backward = p.by_layer().children
    assert (forward.name, backward.name) == ("forward", "backward")
    assert [(child.name, child.type) for child in backward.children] == [("forward", "region")]
    assert rows_of(p)["region", "forward"].flops == forward.flops == 4 + 4


def test_ops_between_the_backward_ops_of_one_layer_keep_their_times(ticking, chrome):
    """Both gradients of a tensor that is used twice are added outside of any layer, between ops that are inside one."""
    with profile(clock=ticking()) as p:
        x = Tensor(np.ones((2, 2), np.float32), requires_grad=True)
        with record_function("L"):
            y = exp(x)
            z = (y * y + y).sum()
        z.backward()
    ops = [event for event in p.events if event.kind == "op" and "backward" in event.scope]
    assert [event.end_ns - event.start_ns for event in ops] == [1000] * len(ops)
    assert [event.start_ns for event in ops] == sorted(event.start_ns for event in ops)
    assert {event.scope for event in ops} == {("backward",), ("backward", "L")}
    direct = [event.name for event in ops if event.scope == ("backward",)]
    assert direct == ["add", "add"]  # three gradients of y
    backward, = [node for node in p.by_layer().children if node.name == "backward"]
    assert backward.children[0].name == "L" and backward.children[0].calls > 1
    adds_up(backward)
    chrome(p)


def test_a_layer_used_twice_and_a_layer_inside_itself(ticking):
    shared = Linear(3, 3)

    class Inside(Layer):
        def __init__(self):
            self.one = shared

        def forward(self, x, depth=2):
            x = self.one(x)
            return Inside.again(self, x, depth)

        def again(self, x, depth):
            return x if not depth else self.one(self.one(x))

    model = Inside()
    with profile(clock=ticking()) as p:
        model(ONE)
        model(ONE)
    tree = p.by_layer(model)
    adds_up(tree)
    top, = tree.children
    assert (top.calls, top.children[0].name, top.children[0].calls) == (2, "one", 6)
    assert top.flops == 6 * 2 * 2 * 3 * 3


def test_layers_made_in_forward_are_one_node_when_the_model_is_known():
    class Makes(Layer):
        def forward(self, x):
            keep.append(ReLU())
            return keep[-1](x)

    keep, model = [], Makes()
    with profile() as p:
        for _ in range(5):
            model(ONE)
    assert [(child.name, child.calls) for child in p.by_layer(model).children[0].children] == [("ReLU", 5)]
    assert len(p.by_layer().children[0].children) == 5  # without it, five objects
    assert [child.name for child in p.by_layer().children[0].children][:2] == ["ReLU", "ReLU #2"]


def test_a_tree_deeper_than_the_lines_allowed_is_folded():
    model = ReLU()
    for _ in range(6):
        model = Sequential(model, ReLU())
    with profile() as p:
        model(ONE)
    tree = p.by_layer(model)
    drawn = tree.table(max_rows=6)
    assert len(drawn.split("\n")) <= 8 and "deeper" in drawn
    shares = [float(line.split()[-4]) for line in drawn.split("\n")[1:] if not line.startswith("(")]
    assert abs(sum(shares) - 100) <= 0.05 * len(shares) + 1e-9


def test_what_a_table_cannot_be_is_one_sentence():
    with profile() as p:
        ONE + ONE
    for drawn in (p.key_averages().table, p.by_layer().table):
        with pytest.raises(ValueError, match="width is 0; want at least 1"):
            drawn(width=0)
        with pytest.raises(TypeError, match="width is None"):
            drawn(width=None)
    with pytest.raises(ValueError, match="max_rows is 0"):
        p.by_layer().table(max_rows=0)


def test_a_long_name_is_cut_in_one_pass():
    looked = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tinytorch.perf.tracing.combining", lambda c: looked.append(c) or 0)
        assert fitted("漢" * 10_000, 11) == "漢" * 4 + ".. "  # two columns a sign: 8, dots 10, one is left
    assert len(looked) < 21_000
