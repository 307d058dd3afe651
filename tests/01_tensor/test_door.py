"""The door: events, listeners, scopes, threads, shape-only runs."""

import copy
import itertools
import pickle
import threading
import time
import tracemalloc
from contextlib import nullcontext

import numpy as np
import pytest

from tinytorch.core.tensor import (
    OpEvent,
    Scope,
    Tensor,
    add,
    argmax,
    broadcast_to,
    concatenate,
    count_ops,
    hollow,
    is_heard,
    is_shape_only,
    listen,
    matmul,
    op,
    reduce_max,
    reduce_sum,
    same_shape,
    scope,
    shape_only,
    thread_state,
)


def heard(function, **options):
    """Call the function and return its events."""
    events = []
    with listen(events.append, **options):
        function()
    return events


# --- events


def test_an_event_tells_op_shapes_bytes_and_attributes():
    x = Tensor(np.ones((4, 3)))
    one, two = heard(lambda: (x + Tensor([1.0, 2.0, 3.0])).sum(axis=1))
    assert (one.op, one.in_shapes, one.out_shape, one.attrs) == (add, ((4, 3), (3,)), (4, 3), {})
    assert one.num_bytes == 4 * (12 + 3 + 12)  # both inputs read, the output written, float32
    assert (two.op.name, two.in_shapes, two.out_shape) == ("reduce_sum", ((4, 3),), (4,))
    assert two.attrs == {"axis": 1, "keepdims": False}
    assert two.num_bytes == 4 * (12 + 4)


def test_bytes_come_from_each_arrays_own_type():
    a, b = Tensor(np.ones(10, np.int8)), Tensor(np.ones(10, np.float16))
    assert heard(lambda: a + a)[0].num_bytes == 3 * 10
    assert heard(lambda: a + b)[0].num_bytes == 10 + 20 + 20
    assert heard(lambda: a > b)[0].num_bytes == 10 + 20 + 10  # a bool is one byte


def test_a_view_moves_nothing_and_a_copying_key_does():
    x = Tensor(np.ones((4, 3)))
    assert [e.num_bytes for e in heard(lambda: (x.T, x.reshape(-1), x[1:], broadcast_to(x, shape=(2, 4, 3))))] == [
        0,
        0,
        0,
        0,
    ]
    assert heard(lambda: x[[0, 2]])[0].num_bytes == 2 * 4 * 6  # six elements read and written
    assert heard(lambda: x.T.reshape(-1))[1].num_bytes == 2 * 4 * 12  # the memory order forbids a view


def test_times_are_ordered_integers():
    events = heard(lambda: Tensor([1.0]) + 1 + 1)
    for event in events:
        assert type(event.start_ns) is int
        assert event.start_ns <= event.end_ns
    assert events[0].end_ns <= events[1].start_ns


def test_an_event_keeps_no_array():
    (event,) = heard(lambda: Tensor(np.ones(3)) * 2)
    assert not any(isinstance(field, (np.ndarray, Tensor)) for field in event)


def test_a_listener_gets_no_hand_on_arrays_in_attributes():
    """A key of positions reaches the listener as a shape: it cannot be read, kept or changed through the event."""
    key = np.array([0, 1])
    (event,) = heard(lambda: Tensor(np.ones(4))[key])
    told = event.attrs["key"]
    assert (told.shape, told.dtype, told.flags.writeable) == ((2,), key.dtype, False)
    assert not np.shares_memory(told, key)


def test_a_failing_op_makes_no_event():
    def run():
        with pytest.raises(ValueError, match="add"):
            Tensor([1.0, 2.0]) + Tensor([1.0, 2.0, 3.0])

    assert heard(run) == []


# --- listeners


def test_a_listener_cannot_change_what_is_computed():
    def meddle(event):
        event.attrs["axis"] = 0

    x = Tensor(np.ones((2, 3)), requires_grad=True)
    with listen(meddle):
        out = x.sum(axis=1)
    assert out.shape == (2,)
    assert out.made_by.attrs["axis"] == 1


def test_listening_does_not_change_values():
    x = Tensor(np.random.default_rng(0).standard_normal((5, 5)))
    quiet = (x @ x / 3).max(axis=0).data
    with listen(lambda event: None):
        np.testing.assert_array_equal((x @ x / 3).max(axis=0).data, quiet)


def test_listeners_nest_and_leave_in_order():
    outer, inner = [], []
    x = Tensor([1.0])
    with listen(outer.append):
        x + 1
        with listen(inner.append):
            x * 2
        x - 1
    x / 2
    assert [e.op.name for e in outer] == ["add", "multiply", "subtract"]
    assert [e.op.name for e in inner] == ["multiply"]


@pytest.mark.parametrize("everywhere", [False, True])
def test_listeners_are_gone_after_an_exception(everywhere):
    events = []
    with pytest.raises(KeyError), listen(events.append, scopes=lambda *a: None, all_threads=everywhere):
        raise KeyError("model")
    Tensor([1.0]) + 1
    assert events == []
    assert thread_state().hearers == thread_state().scope_hearers == ()


def test_an_error_in_a_listener_reaches_the_caller_and_leaves_nothing():
    def fail(event):
        raise RuntimeError("listener")

    with pytest.raises(RuntimeError, match="listener"), listen(fail):
        Tensor([1.0]) + 1
    assert thread_state().hearers == ()


def test_scopes_alone_can_be_listened_to():
    told = []
    with listen(None, scopes=lambda opened, entry, now: told.append((opened, entry.name, type(now)))), scope("a"):
        Tensor([1.0]) + 1
    assert told == [(True, "a", int), (False, "a", int)]


def test_a_bare_listener_hears_the_same_fields_without_names():
    named, bare = [], []
    with listen(named.append), listen(bare.append, bare=True), listen(bare.append, all_threads=True, bare=True):
        Tensor(np.ones((2, 3))).sum(axis=(0, 1))
    (event,) = named
    assert type(event) is OpEvent and [type(fields) for fields in bare] == [tuple, tuple]
    assert bare == [tuple(event)] * 2


# --- scopes


def test_an_event_carries_its_path():
    events = []
    with listen(events.append), scope("outer"):
        Tensor([1.0]) + 1
        with scope("inner", owner=7):
            Tensor([1.0]) * 2
    assert [e.scope for e in events] == [(Scope("outer"),), (Scope("outer"), Scope("inner", 7))]


def test_a_scope_closes_after_an_exception():
    told = []
    hearing = listen(None, scopes=lambda opened, entry, now: told.append((opened, entry.name)))
    with hearing, pytest.raises(ZeroDivisionError), scope("a"), scope("b"):
        raise ZeroDivisionError
    assert told == [(True, "a"), (True, "b"), (False, "b"), (False, "a")]
    assert thread_state().path == ()


def test_scopes_closed_out_of_order_take_off_only_themselves():
    """As a generator does that is suspended in its region and finished later."""
    outer, late, again = scope("outer"), scope("late"), scope("again")
    outer.__enter__(), late.__enter__()
    outer.__exit__(None, None, None)
    assert thread_state().path == (late.entry,)
    again.__enter__(), late.__exit__(None, None, None)
    assert thread_state().path == (again.entry,)
    again.__exit__(None, None, None)
    assert thread_state().path == ()


def test_made_by_remembers_the_scope():
    w = Tensor([1.0], requires_grad=True)
    with scope("block"):
        out = w * 2
    assert [entry.name for entry in out.made_by.scope] == ["block"]


# --- threads


def in_thread(function):
    """Run the function in another thread and hand on what it returns."""
    box = []
    thread = threading.Thread(target=lambda: box.append(function()))
    thread.start()
    thread.join()
    return box[0]


def test_a_thread_starts_with_a_state_of_its_own():
    with shape_only(), scope("mine"), listen(lambda event: None):
        thread_state().grad_enabled = False
        state = in_thread(thread_state)
        assert (state.shape_only, state.path, state.hearers, state.grad_enabled) == (False, (), (), True)
        assert in_thread(lambda: (Tensor([1.0]) + 1).item()) == 2


def test_a_listener_hears_its_own_thread_only():
    assert heard(lambda: in_thread(lambda: Tensor([1.0]) + 1)) == []


def test_all_threads_hears_every_thread_with_its_scopes():
    told = []

    def work():
        with scope("worker"):
            return Tensor([1.0]) * 3

    events = heard(
        lambda: (in_thread(work), Tensor([1.0]) + 1),
        all_threads=True,
        scopes=lambda opened, entry, now: told.append((opened, entry.name)),
    )
    assert [(e.op.name, [s.name for s in e.scope]) for e in events] == [("multiply", ["worker"]), ("add", [])]
    assert told == [(True, "worker"), (False, "worker")]


def test_no_grad_flag_of_another_thread_does_not_matter():
    w = Tensor([1.0], requires_grad=True)
    ready, done = threading.Event(), threading.Event()

    def other():
        thread_state().grad_enabled = False
        ready.set()
        done.wait(5)

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait(5)
    try:
        assert (w * 2).requires_grad
    finally:
        done.set()
        thread.join()


# --- a clock of one's own


def ticking(start, step):
    """Make a clock that shows ``start`` first and ``step`` more at every look."""
    return itertools.count(start, step).__next__


def test_the_whole_door_reads_the_handed_clock():
    """Opened 100, the op from 110 to 120, closed 130: every look at the clock is one of these, and no other."""
    events, told = [], []
    hearing = listen(events.append, lambda opened, entry, now: told.append((opened, now)), clock=ticking(100, 10))
    with hearing, scope("a"):
        Tensor([1.0]) + 1
    assert told == [(True, 100), (False, 130)]
    assert [(e.start_ns, e.end_ns) for e in events] == [(110, 120)]


def test_a_clock_alone_may_be_handed_in_and_others_read_it():
    events = []
    with listen(events.append), listen(None, clock=ticking(7, 1)):
        Tensor([1.0]) + 1
    assert (events[0].start_ns, events[0].end_ns) == (7, 8)


def test_the_clock_is_read_for_those_who_hear_only():
    looks = []
    with listen(None, clock=lambda: looks.append(1) or 0), scope("unheard"):
        Tensor([1.0]) + 1
        with listen(lambda event: None, all_threads=True), shape_only(), scope("private"):
            Tensor([1.0]) + 1
    assert looks == []


def test_of_nested_clocks_the_innermost_rules():
    """One clock handed in twice, with another between: each block ends with the clock that ruled before it."""
    events, slow, fast = [], ticking(0, 1), ticking(1000, 1)
    with listen(events.append, clock=slow):
        Tensor([1.0]) + 1
        with listen(None, clock=fast):
            Tensor([1.0]) + 1
            with listen(None, clock=slow):
                Tensor([1.0]) + 1
            Tensor([1.0]) + 1
        Tensor([1.0]) + 1
    assert [e.start_ns for e in events] == [0, 1000, 2, 1002, 4]


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_clock_is_given_back_whatever_happens(everywhere):
    for error in (KeyError, KeyboardInterrupt, SystemExit):
        with pytest.raises(error), listen(None, all_threads=everywhere, clock=ticking(0, 1)):
            raise error
    before = time.perf_counter_ns()
    assert heard(lambda: Tensor([1.0]) + 1)[0].start_ns >= before


def test_a_clock_that_fails_reaches_the_caller_and_is_given_back():
    def broken():
        raise OSError("no time")

    with pytest.raises(OSError, match="no time"), listen(lambda event: None, clock=broken):
        Tensor([1.0]) + 1
    assert len(heard(lambda: Tensor([1.0]) + 1)) == 1


def test_every_thread_reads_the_handed_clock():
    events = heard(lambda: in_thread(lambda: Tensor([1.0]) + 1), all_threads=True, clock=ticking(5, 2))
    assert (events[0].start_ns, events[0].end_ns) == (5, 7)


def test_clocks_of_threads_that_overlap_leave_none_behind():
    """Opened A, B; closed A, B: not the reverse order that one thread would keep."""
    first, second = listen(None, clock=ticking(0, 1)), listen(None, clock=ticking(0, 1))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    before = time.perf_counter_ns()
    assert heard(lambda: Tensor([1.0]) + 1)[0].start_ns >= before


# --- private rooms


def test_a_private_thread_is_heard_by_those_inside_only():
    outside, inside, told, state = [], [], [], thread_state()
    with listen(outside.append, told.append, all_threads=True):
        state.private = True
        try:
            assert not is_heard()
            with scope("unheard"):
                Tensor([1.0]) + 1
            with listen(inside.append, all_threads=True):
                assert is_heard()
                Tensor([1.0]) * 2
            in_thread(lambda: Tensor([1.0]) - 1)  # other threads are not private
        finally:
            state.private = False
    assert [e.op.name for e in outside] == ["subtract"]
    assert [e.op.name for e in inside] == ["multiply"]
    assert told == []


def test_those_who_listen_to_all_threads_from_inside_a_shape_only_run_hear_it():
    inside, told = [], []
    with shape_only():
        with listen(inside.append, lambda *entry: told.append(entry[0]), all_threads=True), scope("a"):
            Tensor([1.0]) + 1
        assert not is_heard()
    assert [e.op.name for e in inside] == ["add"]
    assert told == [True, False]


def test_whoever_hears_ops_or_scopes_makes_a_thread_heard():
    assert not is_heard()
    for options in ({}, {"all_threads": True}):
        with listen(lambda event: None, **options):
            assert is_heard()
        with listen(None, lambda *entry: None, **options):
            assert is_heard()
            with shape_only():
                assert not is_heard()
        with listen(None, clock=ticking(0, 1), **options):
            assert not is_heard()
    assert not is_heard()


# --- shapes only


def test_a_shape_only_run_is_a_room_of_its_own():
    outside, everywhere, inside = [], [], []
    with listen(outside.append), listen(everywhere.append, all_threads=True), scope("outside"), shape_only():
        assert thread_state().path == ()
        with listen(inside.append), scope("inside"):
            Tensor([1.0]) + 1
    assert outside == everywhere == []
    assert [(e.op.name, e.scope) for e in inside] == [("add", (Scope("inside"),))]


def test_shape_only_takes_the_gradient_mode_in_and_leaves_it_as_it_was():
    w = Tensor([1.0], requires_grad=True)
    with shape_only():
        assert (w * 2).made_by is not None
        thread_state().grad_enabled = False
        assert (w * 2).made_by is None
    assert thread_state().grad_enabled


def test_shape_only_nests_and_ends_after_an_exception():
    with shape_only():
        with pytest.raises(KeyError), shape_only():
            raise KeyError
        assert is_shape_only()
    assert not is_shape_only()


def test_nothing_is_computed():
    calls = []

    @op(shape=same_shape)
    def spy(a):
        calls.append(a)
        return a

    with shape_only():
        out = spy(Tensor([1.0, 2.0]))
    assert calls == []
    assert out.shape == (2,)
    assert not any(out.data.strides)


def test_hollow_bytes_are_the_real_ones():
    def run():
        x = Tensor(np.ones((4, 3), np.float16))
        y = (x @ x.T).sum(axis=0)
        return y[[0, 1, 1]] * 2

    real = heard(run)
    with shape_only():
        thin = heard(run)
    assert [(e.op, e.in_shapes, e.out_shape, e.num_bytes) for e in thin] == [
        (e.op, e.in_shapes, e.out_shape, e.num_bytes) for e in real
    ]


def test_a_hollow_array_is_a_few_bytes_of_every_type_and_shape():
    for dtype in (np.float32, np.int8, np.bool_):
        for shape in ((20_000, 20_000), (), (0, 3), (1,)):
            array = hollow(shape, dtype)
            assert (array.shape, array.dtype) == (shape, dtype)
            assert (array if array.base is None else array.base).nbytes <= 8
    with pytest.raises(ValueError, match="read-only"):
        hollow((2, 2))[0, 0] = 1


def test_no_memory_is_touched_for_products_views_and_gathers():
    with shape_only():
        tracemalloc.start()
        try:
            weight = Tensor(hollow((20_000, 20_000)), requires_grad=True)
            out = (weight @ weight.T).reshape(-1, 5) + 1
            rows = weight[np.zeros((8, 512), int)]
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert out.shape == (80_000_000, 5)
    assert rows.shape == (8, 512, 20_000)  # 328 MB of float32
    assert peak < 200_000


def test_a_transposed_weight_stays_the_same_memory():
    with shape_only():
        weight = Tensor(hollow((300, 200)))
        assert np.shares_memory(weight.T.data, weight.data)


# --- ops


def test_a_missing_rule_for_the_type_means_the_floating_inputs():
    @op(shape=lambda a, b: a)
    def left(a, b):
        return a * np.float64(2)

    assert left(Tensor([1.0]), Tensor(np.int64([1]))).dtype == np.float32


def test_an_op_looks_like_its_function():
    @op(shape=same_shape)
    def double(a):
        """Twice."""
        return a + a

    assert (double.__name__, double.__doc__, repr(double)) == ("double", "Twice.", "<op double>")
    assert double([1.0, 2.0]).data.tolist() == [2, 4]
    assert double(3).item() == 6


def test_count_ops_counts_in_a_room_of_its_own():
    assert heard(lambda: count_ops(lambda: Tensor([1.0]) + 1)) == []


# --- what a breaker found


def test_a_raising_scope_listener_leaves_no_scope_open():
    def fail(opened, entry, now):
        raise RuntimeError("no" if opened else "not now")

    with pytest.raises(RuntimeError, match="no"), listen(None, fail), scope("inside"):
        pass
    assert thread_state().path == ()
    late = listen(None, lambda opened, entry, now: opened or fail(opened, entry, now))
    with pytest.raises(RuntimeError, match="not now"), late, scope("inside"):
        pass
    assert thread_state().path == ()


def test_ops_stay_themselves_in_copies_and_pickles():
    assert copy.deepcopy({"act": matmul})["act"] is matmul
    assert copy.copy(matmul) is matmul
    assert pickle.loads(pickle.dumps(matmul)) is matmul


def test_nobody_reads_values_that_are_not_there():
    x = Tensor(np.ones((4, 3)))
    with shape_only():
        y = x * 2
        for look in (y.numpy, lambda: np.asarray(y), lambda: y[y > 0], lambda: bool(y.sum() > 0), y.sum().item):
            with pytest.raises(ValueError, match="no values"):
                look()


def test_a_hollow_tensor_changes_its_type_without_filling_memory():
    tracemalloc.start()
    try:
        with shape_only():
            x = Tensor(hollow((20_000, 20_000)), dtype=np.float16)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (x.dtype, x.nbytes) == (np.float16, 20_000 * 20_000 * 2)
    assert peak < 100_000


def test_a_mean_of_float16_does_not_overflow():
    assert Tensor(np.ones(100_000, np.float16)).mean().item() == 1.0  # the sum, 100,000, is above float16's 65,504


def test_a_tensor_by_keyword_is_refused():
    """By keyword it would be an attribute, and its gradient would be lost in silence."""
    with pytest.raises(TypeError, match="b is a Tensor; .* by position"):
        add(Tensor([1.0]), b=Tensor([2.0]))


@pytest.mark.parametrize("function", [reduce_sum, reduce_max, argmax])
def test_dim_is_another_word_for_axis_in_every_op(function):
    x = Tensor(np.arange(6.0).reshape(2, 3))
    assert function(x, dim=1).shape == (2,) and function(x, dim=0).shape == (3,)
    assert concatenate(x, x, dim=1).shape == (2, 6)
    with pytest.raises(TypeError, match="two names"):
        function(x, axis=0, dim=0)


@pytest.mark.parametrize("function", [reduce_max, argmax])
def test_an_empty_axis_has_no_maximum_on_shapes_either(function):
    x = Tensor(np.ones((2, 0)))
    for run in (nullcontext, shape_only):
        with run(), pytest.raises(ValueError, match=r"\(2, 0\) along axis 1"):
            function(x, axis=1)


def test_a_scope_is_left_in_the_thread_that_entered_it():
    opened = scope("here")
    opened.__enter__()
    said = []

    def leave():
        with pytest.raises(ValueError, match="'here' is not open in this thread") as caught:
            opened.__exit__(None, None, None)
        said.append(caught.value)

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    opened.__exit__(None, None, None)
    assert said and thread_state().path == ()
