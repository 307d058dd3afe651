"""What the recorder hears: ops and scopes of every thread, exactly, and what it leaves behind."""

import asyncio
import gc
import inspect
import sys
import threading
import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest

from tinytorch.core.activations import ReLU, exp
from tinytorch.core.layers import Layer, Linear, Sequential
from tinytorch.core.tensor import Tensor, add, listen, op, scope, shape_only, thread_state
from tinytorch.perf.profiling import count_flops, measure_latency
from tinytorch.perf.tracing import profile, record_function

ONE = Tensor(np.ones((2, 3), np.float32))


def spans(p):
    return [(event.kind, event.name, event.start_ns, event.end_ns) for event in p.events]


def test_every_reading_of_the_clock_is_known(ticking):
    with profile(clock=ticking()) as p, record_function("a"):  # reading 0: the block begins; 1
        ONE + ONE  # 2, 3
        with record_function("b"):  # 4
            exp(ONE)  # 5, 6
        # 7 closes b, 8 closes a
    # 9: the block ends
    assert spans(p) == [("region", "a", 1000, 8000), ("op", "add", 2000, 3000), ("region", "b", 4000, 7000),
                        ("op", "exp", 5000, 6000)]
    assert p.wall_ms == 0.009
    assert [event.scope for event in p.events] == [(), ("a",), ("a",), ("a", "b")]
    assert p.events[1][6:11] == (((2, 3), (2, 3)), (2, 3), 3 * 2 * 3 * 4, 6, {})
    assert p.overhead_per_event is None  # a handed clock: nothing is calibrated


def test_the_row_of_the_specification():
    x = Tensor([1, 2, 3], dtype=np.float64)
    with profile() as p, record_function("lab_forward"):
        y = (2 * x + 1).sum()
    assert y.item() == 15.0
    assert "lab_forward" in [row.key for row in p.key_averages()]
    assert p.overhead_per_event >= 0


def test_layers_have_owners_and_regions_have_none(ticking):
    model = Sequential(Linear(3, 2), ReLU())
    with profile(clock=ticking()) as p:
        model(ONE)
    assert [(event.kind, event.name) for event in p.events] == [
        ("layer", "Sequential"), ("layer", "Linear"), ("op", "linear"), ("layer", "ReLU"), ("op", "relu")]


def test_nested_profiles_are_both_right(ticking):
    clock = ticking()
    with profile(clock=clock) as outer:  # 0
        ONE + ONE  # 1, 2
        with profile() as inner:  # 3: goes by the clock that is in use
            ONE * ONE  # 4, 5
        # 6
        ONE + ONE  # 7, 8
    assert spans(outer) == [("op", "add", 1000, 2000), ("op", "multiply", 4000, 5000), ("op", "add", 7000, 8000)]
    assert spans(inner) == [("op", "multiply", 1000, 2000)]
    assert (inner.wall_ms, outer.wall_ms) == (0.003, 0.009)
    with profile(clock=clock), pytest.raises(ValueError, match="another clock"), profile(clock=ticking()):
        pass


def test_overlapping_profiles_need_not_close_in_order(ticking):
    a, b = profile(clock=ticking()), profile()
    a.__enter__()
    b.__enter__()
    ONE + ONE
    a.__exit__(None, None, None)
    exp(ONE)
    b.__exit__(None, None, None)
    assert [event.name for event in a.events] == ["add"]
    assert [event.name for event in b.events] == ["add", "exp"]


def test_asking_too_early_and_entering_twice():
    p = profile()
    for ask in (p.key_averages, p.by_layer, lambda: p.wall_ms, lambda: p.events, p.memory_timeline, lambda: p.warnings,
                lambda: p.export_chrome_trace("never.json")):
        with pytest.raises(ValueError):
            ask()
    with p:
        ONE + ONE
        with pytest.raises(ValueError, match="still recording"):
            p.key_averages()
        with pytest.raises(ValueError, match="entered before"), p:
            pass
        exp(ONE)
    with pytest.raises(ValueError, match="entered before"), p:
        pass
    assert [event.name for event in p.events] == ["add", "exp"]
    assert "2 slices" in repr(p)


def test_shape_only_runs_and_instruments_are_not_heard():
    model = Sequential(Linear(3, 2), ReLU())
    with profile() as p:
        count_flops(model, (4, 3))
        measure_latency(model, ONE, warmup=1, iterations=2)
        with shape_only():
            exp(ONE)
        ONE + ONE
    assert [event.name for event in p.events] == ["add"]


def test_a_profile_inside_a_shape_only_room_hears_the_room():
    with shape_only(), profile() as p:
        exp(ONE)
    assert [event.name for event in p.events] == ["exp"]


def test_an_error_passes_through_and_what_ran_is_kept(ticking):
    with pytest.raises(ValueError, match="matmul"), profile(clock=ticking()) as p, record_function("region"):  # 0, 1
        ONE + ONE  # 2, 3
        ONE @ ONE  # 4: fails; 5 closes the region
    assert spans(p) == [("region", "region", 1000, 5000), ("op", "add", 2000, 3000)]
    assert not p.warnings


def test_regions_open_at_the_edges_are_cut_and_marked(ticking):
    outer, late = record_function("outer"), record_function("late")
    with outer, profile(clock=ticking()) as p:  # 0
        late.__enter__()  # 1
        ONE + ONE  # 2, 3
    # 4
    late.__exit__(None, None, None)
    assert spans(p) == [("region", "outer", 0, 4000), ("region", "late", 1000, 4000), ("op", "add", 2000, 3000)]
    assert any("edge" in warning for warning in p.warnings)


def test_a_region_that_ends_inside_the_profile_but_began_before(ticking):
    region = record_function("began before")
    region.__enter__()
    with profile(clock=ticking()) as p:  # 0
        region.__exit__(None, None, None)  # 1
        ONE + ONE  # 2, 3
    assert spans(p) == [("region", "began before", 0, 1000), ("op", "add", 2000, 3000)]
    assert p.events[1].scope == ()


@pytest.mark.parametrize("wanted", [{}, {"profile_memory": True, "memory": lambda: 4096}, {"profile_memory": True}])
def test_an_interrupt_at_any_line_of_the_recorder_leaves_a_profile_that_is_right(wanted):
    """Ctrl-C between any two lines loses what was being noted, at most; whatever is noted afterwards is right."""
    wide, line, lines = Tensor(np.ones((5, 4))), 0, 1
    while line < lines:  # the first round interrupts nothing and counts
        seen = 0

        def interrupt(frame, kind, arg, at=line):
            nonlocal seen
            if frame.f_globals["__name__"] != "tinytorch.perf.tracing":
                return None
            seen += kind == "line"
            if at and seen == at:
                raise KeyboardInterrupt
            return interrupt

        tracer = sys.gettrace()
        with profile(**wanted) as p:
            sys.settrace(interrupt)
            try:
                with scope("before"):
                    ONE + ONE
                    wide[1:, 0]
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(tracer)
            with scope("after"):
                ONE * ONE
                wide[:2, 1:3]
                wide.sum(axis=(0, 1))
        lines, line = lines if line else seen, line + 1
        after = [(e.name, e.scope[-1], e.in_shapes, e.out_shape, *e.attrs.values()) for e in p.events if e.kind == "op"]
        assert after[-3:] == [("multiply", "after", ((2, 3), (2, 3)), (2, 3)),
                              ("index", "after", ((5, 4),), (2, 2), "(slice(None, 2, None), slice(1, 3, None))"),
                              ("reduce_sum", "after", ((5, 4),), (), "(0, 1)", "False")], line
        assert [e.memory is not None for e in p.events if e.kind == "op"] == [bool(wanted)] * len(after)
    assert lines > 40


def test_bounds_of_slices_may_be_arrays(ticking):
    with profile() as p:
        for bound in (1, np.int64(1), np.array(1), np.array(2)):
            ONE[:bound], ONE[:, :bound]
    assert [event.out_shape for event in p.events] == [(1, 3), (2, 1)] * 3 + [(2, 3), (2, 2)]


def test_regions_closed_out_of_order_still_nest(ticking, chrome, speedscope):
    a, b = record_function("a"), record_function("b")
    with profile(clock=ticking()) as p:
        a.__enter__()
        b.__enter__()
        ONE + ONE
        a.__exit__(None, None, None)
        b.__exit__(None, None, None)
    assert spans(p) == [("region", "a", 1000, 5000), ("region", "b", 2000, 5000), ("op", "add", 3000, 4000)]
    chrome(p), speedscope(p)


def test_threads_have_lanes_of_their_own():
    both = threading.Barrier(2)
    shared = record_function("shared")

    def work(name):
        for _ in range(20):
            both.wait()
            with shared, record_function(name):
                exp(ONE)

    with profile() as p:
        workers = [threading.Thread(target=work, args=(f"w{i}",), name=f"worker {i}") for i in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    rows = {(row.kind, row.key): row for row in p.key_averages()}
    assert rows["region", "shared"].calls == rows["op", "exp"].calls == 40
    assert rows["region", "w0"].calls == rows["region", "w1"].calls == 20
    assert [lane.name for lane in p.threads][0] == threading.current_thread().name
    assert sorted(lane.name for lane in p.threads[1:]) == ["worker 0", "worker 1"]
    for event in p.events:
        if event.kind == "op":
            assert event.scope in (("shared", "w0"), ("shared", "w1"))
    assert {event.thread for event in p.events} == {1, 2}


def test_a_thread_inside_a_region_when_the_profile_begins():
    inside, go_on = threading.Event(), threading.Event()

    def work():
        with record_function("before"), record_function("inner"):
            inside.set()
            go_on.wait()
            exp(ONE)

    worker = threading.Thread(target=work)
    worker.start()
    inside.wait()
    with profile() as p:
        go_on.set()
        worker.join()
    assert [(event.kind, event.name, event.scope) for event in p.events] == [
        ("region", "before", ()), ("region", "inner", ("before",)), ("op", "exp", ("before", "inner"))]
    assert p.events[0].start_ns == 0 and any("edge" in warning for warning in p.warnings)


def test_no_array_and_no_tensor_is_kept():
    big = Tensor(np.ones((50, 50)))
    key = np.arange(10)
    with profile(profile_memory=True, memory=lambda: 0) as p:
        for _ in range(3):
            big[key] + big[3:13]
    p.key_averages(), p.by_layer()
    seen, todo = set(), [p]
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, (type, type(gc), type(profile.events))) or callable(thing):
            continue
        seen.add(id(thing))
        assert not isinstance(thing, (np.ndarray, Tensor))
        todo += gc.get_referents(thing)
    assert len(seen) > 20


def test_attributes_are_told_as_text_and_keep_their_price():
    @op(shape=lambda a, **attrs: a)
    def odd(a, value):
        return a

    with profile() as p:
        for value in (float("nan"), slice(1, 2), np.arange(4), [1, (2, 3)], np.float32, None, "é\n"):
            odd(ONE, value=value)
        ONE[0:1, np.array([0, 2])]
    told = [event.attrs for event in p.events]
    assert [one["value"] for one in told[:-1]] == ["nan", "slice(1, 2, None)", "int64[4]", "(1, (2, 3))", "float32",
                                                   "None", "'é\\n'"]
    assert told[-1] == {"key": "(slice(0, 1, None), int64[2])"}
    assert [event.flops for event in p.events] == [None] * 7 + [0]


def test_a_price_rule_that_fails_stops_no_program():
    from tinytorch.perf.profiling import FLOPS

    @op(shape=lambda a, **attrs: a)
    def broken(a):
        return a

    FLOPS[broken] = lambda out, a: 1 / 0
    try:
        with profile() as p:
            broken(ONE)
    finally:
        del FLOPS[broken]
    assert p.events[0].flops is None and p.key_averages()[0].uncounted == 1


def test_three_hundred_bytes_an_event_are_enough_even_when_nothing_repeats():
    """Some 115 bytes an event until it is read, 35 then; at most 300 where every op has a shape of its own."""
    one, ops = Tensor(np.ones((1, 1))), 6_000
    kept = {}
    for name, run in (("repeating", lambda i: one + one), ("new attribute", lambda i: one.reshape((1,) * (i % 7) + (1,))
                                                            if i % 2 else _odd(one, value=f"label {i}")),
                      ("new shape", lambda i: add(np.broadcast_to(np.float32(1), (1 + i // 100, 1 + i % 100)), one))):
        gc.collect()
        tracemalloc.start()
        with profile() as p:
            for i in range(ops):
                run(i)
        gc.collect()
        kept[name] = tracemalloc.get_traced_memory()[0] / ops
        assert p.key_averages()[0].calls
        gc.collect()
        kept[f"{name}, read"] = tracemalloc.get_traced_memory()[0] / ops
        tracemalloc.stop()
        assert len(p.events) == ops
    assert kept["repeating"] < 140 and kept["repeating, read"] < 60 and max(kept.values()) < 300, kept


@op(shape=lambda a, **attrs: a)
def _odd(a, value):
    return a


def test_memory_grows_by_the_event_and_stays_right():
    """Bytes an event do not grow with the number of events; all of them are there, in order."""
    one, sizes = Tensor(np.ones((1, 1))), []
    for ops in (5_000, 20_000):
        tracemalloc.start()
        with profile() as p:
            for _ in range(ops):
                one + one
        sizes.append(tracemalloc.get_traced_memory()[0] / ops)
        tracemalloc.stop()
        assert p.key_averages()[0].calls == ops
    assert 0.7 < sizes[1] / sizes[0] < 1.3


def test_more_kinds_than_are_looked_up_at_a_time(monkeypatch):
    from tinytorch.perf import tracing

    monkeypatch.setattr(tracing, "CACHED", 4)
    model = Sequential(Linear(3, 2), ReLU(), Linear(2, 3))
    with profile() as p:
        for rows in (1, 2, 3, 1, 2, 3):
            with record_function(f"rows {rows}"):
                out = model(Tensor(np.ones((rows, 3), np.float32)))
                (out * out).sum().backward()
    rows = {row.key: row for row in p.key_averages()}
    assert rows["rows 3"].calls == 2 and rows["relu"].calls == 6
    # linear forward: 2 * (rows * 3 * 2) twice, rows 1+2+3 twice = 12
    assert rows["linear"].flops == 2 * 12 * 6 * 2
    grouped = [row for row in p.key_averages(group_by_input_shape=True) if row.key == "relu"]
    assert sorted((row.input_shapes, row.calls) for row in grouped) == [(((n, 2),), 2) for n in (1, 2, 3)]
    tree = p.by_layer(model)
    assert [child.name for child in tree.children] == ["rows 1", "rows 2", "rows 3"]


def test_tracing_memory_is_started_and_stopped_only_by_the_profile():
    with profile() as p:
        assert not tracemalloc.is_tracing()
    with profile(profile_memory=True, memory=iter([7, 8]).__next__) as p:  # read once after each op, never else
        assert not tracemalloc.is_tracing()
        ONE + ONE
        with record_function("r"):
            ONE + ONE
    assert [reading[1:] for reading in p.memory_timeline()] == [(7, ()), (8, ("r",))]
    with profile(profile_memory=True) as p:
        assert tracemalloc.is_tracing()
        with profile(profile_memory=True):
            exp(ONE)
        assert tracemalloc.is_tracing()
        kept = Tensor(np.ones(100_000, np.float32)) + 1
    assert not tracemalloc.is_tracing() and kept.size == 100_000
    readings = [num_bytes for _, num_bytes, _ in p.memory_timeline()]
    assert 400_000 <= readings[1] - readings[0] <= 850_000  # the sum, the ones, and what is small
    assert any("disturbed" in warning for warning in p.warnings)
    tracemalloc.start()
    try:
        with profile(profile_memory=True):
            pass
        with profile() as quiet:
            ONE + ONE
        assert tracemalloc.is_tracing() and any("tracemalloc" in warning for warning in quiet.warnings)
    finally:
        tracemalloc.stop()


def test_the_recorder_does_not_count_its_own_memory():
    """Hundreds of new kinds and places, of which it keeps hundreds of bytes each: the program itself keeps nothing."""
    inputs = [Tensor(np.ones((1 + i // 25, 1 + i % 25), np.float32)) for i in range(500)]
    labels = [f"region {i}" for i in range(500)]
    with profile(profile_memory=True) as p:
        for label, x in zip(labels, inputs):
            with record_function(label):
                exp(x)
    readings = [num_bytes for _, num_bytes, _ in p.memory_timeline()]
    assert abs(readings[-1] - readings[250]) < 100 * 250, readings[::100]  # kept: some 900 bytes each


def test_an_inner_reading_of_memory_disturbs_the_outer_profile_too():
    with profile() as outer:
        with profile(profile_memory=True, memory=lambda: 0) as inner:
            ONE + ONE
        with profile() as after:
            ONE + ONE
    assert any("disturbed" in warning for warning in outer.warnings)
    assert any("disturbed" in warning for warning in inner.warnings)
    assert not any("disturbed" in warning for warning in after.warnings)
    with profile(profile_memory=True, memory=lambda: 0), profile() as inside:
        ONE + ONE
    assert any("disturbed" in warning for warning in inside.warnings)


def test_what_is_refused():
    with pytest.raises(TypeError, match="clock is 3"):
        profile(clock=3)
    with pytest.raises(TypeError, match="whole nanoseconds"), profile(clock=lambda: 0.5):
        pass
    with pytest.raises(TypeError, match="whole bytes"), profile(profile_memory=True, memory=lambda: "much"):
        ONE + ONE
    assert not tracemalloc.is_tracing()
    with pytest.raises(ValueError, match="memory was not read"):
        with profile() as p:
            pass
        p.memory_timeline()
    for label in (3, None, ONE, test_what_is_refused):
        with pytest.raises(TypeError, match="label"):
            record_function(label)
    for thing in (int, 3, Layer):
        with pytest.raises(TypeError, match="decorates"):
            record_function("x")(thing)


# ---------------------------------------------------------------- record_function


def calls_of(function, label="r"):
    with profile() as p:
        result = function()
    return result, sum(event.name == label for event in p.events), [event.scope for event in p.events
                                                                    if event.kind == "op"]


def test_one_region_nested_in_itself_and_after_an_error():
    region = record_function("r")
    with profile() as p:
        with region, region:
            ONE + ONE
        with pytest.raises(KeyError), region:
            raise KeyError("r")
        ONE + ONE
    assert [event.scope for event in p.events if event.kind == "op"] == [("r", "r"), ()]
    assert thread_state().path == ()


def test_decorated_functions_keep_name_and_behaviour():
    class Thing:
        @record_function("r")
        def method(self, x):
            """Say x."""
            return self, x

        @record_function("r")
        @staticmethod
        def static_inside(x):
            return x

        @staticmethod
        @record_function("r")
        def static_outside(x):
            return x

        @record_function("r")
        @classmethod
        def class_inside(cls, x):
            return cls, x

        @classmethod
        @record_function("r")
        def class_outside(cls, x):
            return cls, x

    thing = Thing()
    assert (Thing.method.__name__, Thing.method.__doc__) == ("method", "Say x.")
    for call, want in ((lambda: thing.method(1), (thing, 1)), (lambda: thing.static_inside(2), 2),
                       (lambda: Thing.static_inside(2), 2), (lambda: thing.static_outside(x=3), 3),
                       (lambda: Thing.class_inside(4), (Thing, 4)), (lambda: thing.class_outside(5), (Thing, 5))):
        assert calls_of(call)[:2] == (want, 1)
    with pytest.raises(TypeError, match="argument"):
        thing.method()


def test_recursion():
    @record_function("r")
    def down(n):
        ONE + ONE
        return n if n == 0 else down(n - 1)

    assert calls_of(lambda: down(3)) == (0, 4, [("r",) * n for n in (1, 2, 3, 4)])


def test_a_generator_is_inside_its_region_only_while_it_runs():
    got = []

    @record_function("r")
    def talk(first):
        ONE + ONE
        try:
            while True:
                try:
                    got.append((yield first))
                except KeyError as error:
                    got.append(error)
        finally:
            ONE + ONE
            got.append("closed")

    assert inspect.isgeneratorfunction(talk) and talk.__name__ == "talk"

    def use():
        generator = talk(1)
        assert next(generator) == 1
        ONE * ONE
        assert generator.send("sent") == 1
        ONE * ONE
        error = KeyError("thrown")
        assert generator.throw(error) == 1
        generator.close()
        assert got == ["sent", error, "closed"]
        return list(talk.__wrapped__(2) for _ in ())

    _, count, scopes = calls_of(use)
    assert scopes == [("r",), (), (), ("r",)] and count == 4  # next, send, throw, close

    @record_function("r")
    def ends():
        yield 1
        return "returned"

    def all_of_it():
        return (yield from ends())

    def run():
        generator = all_of_it()
        assert next(generator) == 1
        with pytest.raises(StopIteration) as end:
            next(generator)
        return end.value.value

    assert calls_of(run)[:2] == ("returned", 2)


def test_a_generator_that_raises_and_one_that_is_a_context_manager():
    @record_function("r")
    def fails():
        yield 1
        raise KeyError("mine")

    @contextmanager
    @record_function("r")
    def room():
        ONE + ONE
        yield "inside"
        ONE + ONE

    def run():
        with pytest.raises(KeyError, match="mine"):
            list(fails())
        with room() as said:
            ONE * ONE
        return said

    assert calls_of(run) == ("inside", 4, [("r",), (), ("r",)])


def test_async_functions_and_generators_that_take_turns():
    @record_function("r")
    async def work(n):
        ONE + ONE
        await asyncio.sleep(0)
        ONE + ONE
        return n

    @record_function("r")
    async def stream(n):
        for i in range(n):
            ONE + ONE
            got = yield i
            assert got is None
            await asyncio.sleep(0)

    assert inspect.iscoroutinefunction(work) and inspect.isasyncgenfunction(stream)

    async def other():
        for _ in range(4):
            ONE * ONE
            await asyncio.sleep(0)

    async def main():
        done = await asyncio.gather(work(1), other(), work(2), other())
        seen = []
        async for i in stream(3):
            ONE * ONE
            seen.append(i)
        part = stream(9)
        await part.asend(None)
        await part.aclose()
        with pytest.raises(KeyError):
            another = stream(9)
            await another.asend(None)
            await another.athrow(KeyError("thrown"))
        return done, seen

    (done, seen), _, _ = calls_of(lambda: asyncio.run(main()))
    assert (done, seen) == ([1, None, 2, None], [0, 1, 2])
    with profile() as p:
        asyncio.run(main())
    where = {(event.name, event.scope) for event in p.events if event.kind == "op"}
    assert where == {("add", ("r",)), ("multiply", ())}


def test_off_there_is_nothing_to_hear():
    with record_function("nobody listens"):
        ONE + ONE
    heard = []
    with listen(None, scopes=lambda opened, entry, now: heard.append((opened, entry.name, entry.owner))), \
            record_function("r"), scope("s", 1):
        pass
    assert heard == [(True, "r", None), (True, "s", 1), (False, "s", 1), (False, "r", None)]


@pytest.mark.parametrize(("bad", "error"), [(1.5, TypeError), (10**30, ValueError), (None, TypeError)])
@pytest.mark.parametrize("first", range(6))  # begin, region opens, op begins and ends, region closes, end
def test_a_clock_that_goes_bad_at_any_reading_leaves_nothing_behind(bad, error, first):
    readings = iter([*range(first), *[bad] * 20])
    with (pytest.raises(error, match="the clock gave"),
          profile(clock=lambda: next(readings), profile_memory=True), record_function("r")):
        ONE + ONE
    assert not tracemalloc.is_tracing()
    heard = []
    with listen(heard.append):
        ONE + ONE
    assert len(heard) == 1 and heard[0].end_ns > 10**6  # the machine's clock again
    with profile() as p:
        ONE + ONE
    assert len(p.events) == 1


def test_a_bad_reading_that_is_caught_moves_no_other_op(ticking):
    clock, fail = ticking(), [False]
    with profile(clock=lambda: 0.5 if fail[0] else clock()) as p:  # 0
        ONE + ONE  # 1, 2
        fail[0] = True
        with pytest.raises(TypeError, match="0.5"):
            exp(ONE)
        fail[0] = False
        ONE * ONE  # 3, 4
    assert spans(p) == [("op", "add", 1000, 2000), ("op", "multiply", 3000, 4000)]


def test_leaving_what_was_not_entered_is_one_sentence():
    p, region = profile(), record_function("r")
    with pytest.raises(ValueError, match="not recording"):
        p.__exit__(None, None, None)
    with p:
        pass
    with pytest.raises(ValueError, match="not recording"):
        p.__exit__(None, None, None)
    with pytest.raises(ValueError, match="'r' is not open in this thread"):
        region.__exit__(None, None, None)
    assert p.events == []


def test_a_recursion_is_heard_in_steps_not_from_the_top_each_time():
    """A place is looked up once per scope that opens: 300 deep that is 300, not 300 * 301 / 2."""
    looked = []

    def down(levels):
        with record_function("down"):
            ONE + ONE
            if levels > 1:
                down(levels - 1)
            ONE * ONE

    with profile() as p:
        lane, plainly = p.lanes[0], type(p.lanes[0]).inside
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(lane), "inside", lambda *args: looked.append(1) or plainly(*args))
            down(300)
    assert len(looked) == 300
    rows = {row.key: row.calls for row in p.key_averages()}
    assert rows == {"down": 300, "add": 300, "multiply": 300}
    assert [len(event.scope) for event in p.events if event.name == "multiply"] == [*range(300, 0, -1)]


@pytest.mark.parametrize(("value", "told"), [(10**6000, "an int of 19932 bits"),  # 6000 / log10(2) = 19931.6
                                             (slice([1], 2), "slice([1], 2, None)")], ids=["int", "slice"])
def test_odd_attributes_do_not_stop_the_program(value, told):
    with profile() as p:
        with_value(ONE, value=value)
        with_value(ONE, value=value)
    assert [event.attrs for event in p.events] == [{"value": told}] * 2


@op(shape=lambda a, value: a)
def with_value(a, value):
    """Hand on the array."""
    return a
