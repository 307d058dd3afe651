# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
"""
# 14 · Tracing: what ran, op by op

Bonus of Module 14 · 0 points · About two hours (each section says how many) · Needs 01 to 05 and the profiler (check with `tito test autograd`, `tito test profiling`); sections 4 and 7 borrow the optimizer of 06, the tokenizer of 10 and the GPT of 13, for which the package's own will do

The profiler answers "how much": so many FLOPs, so many milliseconds, one number per layer. A *trace* answers "what happened when": each op, each layer, each region you gave a name, with its beginning and its end. It is the instrument to reach for
when the sums are right and the program is still slow.

**Build** the recorder's stack, self and total time, averages that survive recursion, and the arithmetic of a trace file → **use** them on a training step → **reflect** on what a trace costs and cannot see.

When you are done you can
1. turn "a scope opened", "a scope closed" into slices of time that nest;
2. tell a slice's own time from the time of what it called;
3. average a thousand calls into one honest row, also when a function calls itself;
4. write a trace file that a viewer you did not write (Perfetto, speedscope) opens;
5. say what your instrument added to what it measured.

**Yours:** six functions, the longest of eight lines. **Given and explained:** the columns a recording is kept in, decorators, the drawing of tables, the tree of layers, the lanes of a trace file. Given code marked *skip on first reading* is not needed to go on.

A stub names its section and cell: cells are counted by code cell from each section heading.
"""

# %%
#| default_exp perf.tracing

# %%
#| export
import inspect
import json
import marshal
import os
import threading
import tracemalloc
from array import array
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache, wraps
from heapq import merge
from itertools import accumulate, islice, takewhile
from operator import index
from pathlib import Path
from time import perf_counter_ns
from types import coroutine
from typing import NamedTuple
from unicodedata import combining, east_asian_width

import numpy as np

from tinytorch.core.activations import Scoped
from tinytorch.core.layers import Layer
from tinytorch.core.tensor import OpEvent, Tensor, listen, scope, thread_state
from tinytorch.perf.profiling import environment, event_flops, things_in, untouched, whole

# %% [markdown]
"""
## 1. Hearing

*20 minutes*

**Question.** What does a program say about itself while it runs?

You know one half. Every op passes the door of Module 01, and a listener there hears an event when it is over: name, shapes, start, end. The other half are *scopes*: each layer's `forward` opens one, and so can you. A scope listener hears **two** things: it opened, it closed.
Listen to both, and indent by how many scopes are open:
"""

# %%
import sys

from tinytorch.core.activations import ReLU
from tinytorch.core.layers import Linear, Sequential
from tinytorch.core.tensor import Scope

model, row = Sequential(Linear(4, 3), ReLU()), Tensor(np.ones((2, 4)))
depth = 0


def say_scope(opened, entry, now):
    global depth
    depth -= not opened
    print("    " * depth + ("┌ " if opened else "└ ") + entry.name)
    depth += opened


with listen(lambda event: print("    " * depth + "· " + event.op.name), scopes=say_scope), scope("my region"):
    model(row)

# %% [markdown]
"""
A tree, told as a walk: down at each ┌, up at each └. **The idea:** keep one *slice* per op and per scope, in the order in which they **start**, and note for each its *parent*, the slice that was open around it:

```
index  slice        parent  start   end         0        10        20        30        40
  0    my region      -1      0     40          ├──────────────────────────────────────┤
  1    Sequential      0      2     38            ├──────────────────────────────────┤
  2    Linear          1      5     20               ├─────────────┤
  3    linear (op)     2      8     19                  ├─────────┤
  4    ReLU            1     22     35                                ├────────────┤
```

Order of starts means that a parent always comes *before* its children. Every question of this notebook (own time, recursion, averages, the tree, the file) is one loop over such columns.

**How it is kept** (given). A million ops must not need a million objects. What repeats, an op with its shapes or the path of scopes around it, gets a small number the first time it is heard; a slice is then a row of six whole numbers, and all rows of a
thread stand in one long list, one after the other. Why not in six columns, in which they are read? One `extend` is quicker than six `append`s, and it happens wholly or not at all: Ctrl-C in the middle of a note cannot leave one column longer than the others. `Lane` holds the
rows of one thread, and a stack of what is open now:
"""

# %%
#| export
CACHED = 4096  #: so many kinds and places a lane looks up; forgetting some costs a few bytes, never a wrong number


class Lane:
    """What one thread did: a *slice* for each op and each scope, by their starts, six numbers each in ``rows``.

    What: the number of an op's kind, or -1 for a scope. Place: the number of the scopes open around an op, or with a
    scope open. Parent: the index of the slice around it, or -1. Start and end: nanoseconds. Bytes in use after an op,
    None where they were not read. ``open``: the stack of open slices, as (index, entry).
    """

    __slots__ = ("name", "rows", "open", "cut", "top", "path", "here", "in_use",
                 "kinds", "ends_of_kinds", "known_kinds", "entries", "around", "known_places")

    def __init__(self, name, rows=None):
        self.name, self.rows = name, [] if rows is None else rows
        self.open, self.cut, self.top = [], set(), -1
        self.path, self.here, self.in_use = (), 0, None  # the scopes open now and their number; memory, if it is read
        self.kinds, self.ends_of_kinds, self.known_kinds = bytearray(), array("q"), {}
        self.entries, self.around, self.known_places = [None], array("i", [-1]), {}

    def add(self, what, place, start, end):
        """Append a slice inside the one that is open, from ``start`` to ``end`` (ns), and return its index."""
        self.rows.extend((what, place, self.top, start, end, 0))
        return len(self.rows) // 6 - 1

    def close(self, i, now):
        """Let slice ``i`` end ``now``."""
        self.rows[6 * i + 4] = now

    def slices(self):
        """Yield the rows: six numbers for each slice."""
        return zip(*[iter(self.rows)] * 6)

    def inside(self, place, entry):
        """Return the number of the place that ``entry`` opens inside ``place``."""
        key = place, entry.name if type(entry.name) is str else repr(entry.name), entry.owner
        number = self.known_places.get(key)
        if number is None:
            if len(self.known_places) >= CACHED:
                self.known_places.clear()
            number = len(self.around)
            self.entries[number:] = [tuple(entry)]  # in place of one whose noting was interrupted
            self.around.append(place)
            self.known_places[key] = number
        return number

    def go(self, path):
        """Note that the thread is inside the scopes of ``path`` now."""
        known, here, self.path = self.path, self.here, None  # an interrupt may come before the end
        if known is None or (known != path[:len(known)] and path != known[:len(path)]):
            known, here = (), 0
        for _ in known[len(path):]:
            here = self.around[here]
        for entry in path[len(known):]:
            here = self.inside(here, entry)
        self.here, self.path = here, path

# %%
lane = Lane("one thread")
lane.add(-1, 0, perf_counter_ns(), perf_counter_ns())
print(f"a slice takes {sum(8 + (sys.getsizeof(n) if n > 256 else 0) for n in lane.rows)} bytes (a place in a list 8; times, being large, are objects of\n"
      f"their own); an empty dict takes {sys.getsizeof({})}")

# %% [markdown]
"""
An op is over when it is heard, and it never contains another slice: it is appended and done. (How a kind gets its number, and is packed with its price in FLOPs: *skip on first reading*.)
"""

# %%
#| export
def plain(values):
    """Return attributes as a tuple that can be looked up: in it tuples stand for slices, lists and arrays."""
    found = []
    for value in values:
        kind = type(value)
        if kind is slice:
            value = slice, value.start, value.stop, value.step
        elif kind is tuple or kind is list:
            value = plain(value)
        elif kind is np.ndarray:
            value = value.shape, value.dtype
        found.append(value)
    return tuple(found)

# %%
#| export
def as_text(value, limit=100):
    """Return an attribute, a value, as text of at most ``limit`` characters; an array as its type and shape."""
    if isinstance(value, (tuple, list)):
        text = f"({', '.join([as_text(one) for one in value])})"
    elif isinstance(value, np.ndarray):
        text = f"{value.dtype}{list(value.shape)}"
    else:
        try:
            text = getattr(value, "__name__", None) or repr(value)
        except ValueError:  # Python writes no number of more than 4,300 digits
            text = f"an {type(value).__name__} of {value.bit_length()} bits"
    return text if len(text) <= limit else text[:limit - 2] + ".."

# %%
#| export
def price(event):
    """Return an event's FLOPs, or None: no rule, or one that cannot price it. A price list must not stop a program."""
    try:
        return event_flops(event)
    except Exception:
        return None

# %%
#| export
def new_kind(lane, key, fields):
    """Give what repeats (op, shapes, bytes, attributes as text, FLOPs) a number; from now on events keep only that."""
    event = OpEvent(*fields)
    if len(lane.known_kinds) >= CACHED:
        lane.known_kinds.clear()
    key = key[0], tuple([(*shape,) for shape in key[1]]), (*key[2],), *key[3:]  # kept: a copy, not the program's own
    attrs = {name: as_text(value) for name, value in event.attrs.items()}
    record = event.op.name, event.in_shapes, event.out_shape, int(event.num_bytes), attrs, price(event)
    number = len(lane.ends_of_kinds)
    lane.kinds[lane.ends_of_kinds[-1] if number else 0:] = marshal.dumps(record, 2)  # in place of one interrupted
    lane.ends_of_kinds.append(len(lane.kinds))
    lane.known_kinds[key] = number
    return number

# %%
#| export
class _Here(threading.local):
    """This thread's lane, once it has one."""

    lane: Lane | None = None

# %%
#| export
def op_listener(here, lane_for):
    """Return the function that hears every op: it appends numbers to the thread's lane, and keeps nothing else."""
    odd = set()  # ops whose attributes cannot be looked up as they are

    def hear(fields):
        op, in_shapes, out_shape, num_bytes, attrs, path, start, end = fields  # of an OpEvent
        lane = here.lane or lane_for(path)
        if path is not lane.path:
            lane.go(path)
        if attrs:
            values = attrs.values()
            key = (op, in_shapes, out_shape, num_bytes, *attrs, *(plain(values) if op in odd else values))
        else:
            key = (op, in_shapes, out_shape, num_bytes)
        try:
            what = lane.known_kinds[key]
        except KeyError:
            what = new_kind(lane, key, fields)
        except TypeError:  # slices among the attributes, before Python 3.12; lists, arrays
            if op not in odd:
                odd.add(op)
                hear(fields)
                return
            what = new_kind(lane, (*key[:4], repr(attrs)), fields)
        lane.rows.extend((what, lane.here, lane.top, start, end, lane.in_use))
    return hear

# %% [markdown]
"""
A scope is harder: when it opens, nobody knows when it will end; when it closes, we must find the slice it belongs to. The scope that closes is normally the one opened last, so what is open lies on a **stack**. Normally: a generator that is suspended inside its region, and is finished
after the region around it, closes late. Then the outer scope closes while an inner one is still open, and the slices must nest all the same.

**Task.** Write `hear_scope(lane, opened, entry, now)`:
- opened: append a slice without an end, `lane.add(-1, lane.here, now, -1)`, which returns its index, and push `(index, entry)` on `lane.open`;
- closed: take entries off the stack and end their slices, `lane.close(index, now)`, until *this* `entry` is off. Two entries may have the same name, so compare with `is`. If it is not on the stack at all, do nothing.

Example: opened a at 10, opened b at 20, closed b at 50, closed a at 60 gives slices (start, end) of (10, 60) and (20, 50).

<details><summary>Hint 1: idea</summary>
Closing is a loop that pops: everything above the one you look for was opened inside it, so it ends now at the latest.
</details>
<details><summary>Hint 2: approach</summary>
First ask whether any pair on the stack has this very entry; only then pop. After each pop <code>lane.close(index, now)</code>; stop when the popped entry <code>is</code> the one that closed.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Close brackets up to a given one: <code>if "[" in stack:</code>, then <code>while stack.pop() != "[": missing += 1</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "hear-scope", "solution": true}
#| export
def hear_scope(lane, opened, entry, now):
    """Note that a scope opened or closed at ``now`` (ns); ``lane.open`` is the stack of open ones, as (index, entry).

    Opening adds a slice without an end, ``lane.add(-1, lane.here, now, -1)``. Closing ends the slice of this very
    ``entry``, and all that were opened after it and are still open; an entry that is not open is ignored.
    """
    ### BEGIN SOLUTION
    if opened:
        lane.open.append((lane.add(-1, lane.here, now, -1), entry))
    elif any(known is entry for _, known in reversed(lane.open)):
        closed = None
        while closed is not entry:
            i, closed = lane.open.pop()
            lane.close(i, now)
    ### END SOLUTION

# %%
def told(*story):
    """Play (opened, entry, time) to your recorder; return (parent, start, end) of each slice and what is still open."""
    lane = Lane("a story")
    for opened, entry, now in story:
        try:
            hear_scope(lane, opened, entry, now)
        except IndexError:
            return "popped from an empty stack", 0
        lane.top = lane.open[-1][0] if lane.open else -1  # the next slice's parent
    return [(parent, start, end) for _, _, parent, start, end, _ in lane.slices()], len(lane.open)


a, b, c = Scope("a"), Scope("b"), Scope("c")
print(told((True, a, 10), (True, b, 20), (False, b, 50), (False, a, 60)))

# %% nbgrader={"grade": true, "grade_id": "test-hear-scope", "points": 0, "skill": "hearing"}
from tito.checks import check


def test_hear_scope():
    """Nesting, neighbours, the same name twice, closed out of order, never opened, never closed."""
    check("b inside a", told((True, a, 10), (True, b, 20), (False, b, 50), (False, a, 60)), ([(-1, 10, 60), (0, 20, 50)], 0), {
        (((-1, 10, 50), (0, 20, 60)), 0): "the slice opened first was ended first: a stack gives back what came last"})
    check("one after another", told((True, a, 1), (False, a, 2), (True, b, 3), (False, b, 4))[0], [(-1, 1, 2), (-1, 3, 4)], {
        ((-1, 1, 2), (0, 3, 4)): "a closed scope stayed on the stack"})
    check("closed out of order", told((True, a, 1), (True, b, 2), (False, a, 3), (False, b, 9))[0], [(-1, 1, 3), (0, 2, 3)], {
        ((-1, 1, 9), (0, 2, 3)): "the top of the stack was closed, whoever it was; look for this entry",
        ((-1, 1, -1), (0, 2, 3)): "the top of the stack was closed, whoever it was; look for this entry",
        "popped from an empty stack": "b is not on the stack any more: look before you pop",
        ((-1, 1, 3), (0, 2, 9)): "b lasts longer than a, in which it lies: what was opened inside ends with it",
        ((-1, 1, 3), (0, 2, -1)): "b was taken off the stack, but never ended"})
    twice = Scope("a")
    check("the same name inside itself, closed out of order", told((True, a, 1), (True, twice, 2), (False, a, 5))[0],
          [(-1, 1, 5), (0, 2, 5)], {((-1, 1, -1), (0, 2, 5)): "entries of the same name were taken for the same entry; compare with `is`"})
    check("closed, but never opened here", told((True, a, 1), (False, c, 2), (False, a, 3)), ([(-1, 1, 3)], 0), {
        (((-1, 1, 2),), 0): "c is not on the stack, yet a was ended: look before you pop",
        ("popped from an empty stack", 0): "c is not on the stack: look before you pop"})
    check("the same entry twice", told((True, a, 1), (True, a, 2), (False, a, 3), (False, a, 4)), ([(-1, 1, 4), (0, 2, 3)], 0), {
        (((-1, 1, 3), (0, 2, 3)), 0): "the outer one was ended, too: start from the top of the stack, and stop at the first that is this entry"})
    lane = Lane("inside place 7")
    lane.here = 7
    hear_scope(lane, True, a, 1)
    check("what and where", tuple(lane.rows[:2]), (-1, 7), {(-1, 0): "where the slice is: lane.here"})
    check("still open", told((True, a, 1), (True, b, 2)), ([(-1, 1, -1), (0, 2, -1)], 2))


test_hear_scope()

# %% [markdown]
"""
The function that the door calls (given) says where the thread is now, asks yours, and notes who the next slice's parent is. A lane for each thread, so that threads need not wait for one another:
"""

# %%
#| export
def scope_listener(here, lane_for):
    """Return the function that hears every scope open and close, in the lane ``here`` or the one ``lane_for`` makes."""
    def hear(opened, entry, now):
        path = thread_state().path
        lane = here.lane or lane_for(path[:-1] if opened else path)
        if opened:
            lane.go(path)
        hear_scope(lane, opened, entry, now)
        lane.top = lane.open[-1][0] if lane.open else -1
    return hear

# %% [markdown]
"""
**Names for regions** (given). A layer's scope carries its owner, the layer's `id`; a scope without owner is a region that *you* named. `record_function` opens one, as a `with` block or above a function. The same object may be open several times, in several threads: each thread takes off
only what it put there.
"""

# %%
#| export
class record_function(scope):
    """Label a region: ``with record_function("forward"): ...``, or ``@record_function("forward")`` above a function.

    Above a generator or an async function the region is open while its own code runs, not while it is suspended. Goes
    with methods, static and class methods, recursion and threads. ``TypeError``: a label that is no text, or a
    decorated thing that is no function.
    """

    __slots__ = ()

    def __init__(self, label):
        if not isinstance(label, str):
            what = f"the {type(label).__name__} {getattr(label, '__name__', label)!r}"
            raise TypeError(f'record_function: {what} came as a label; want text, record_function("forward")')
        super().__init__(str(label))

    def __call__(self, function):
        """Decorate a function or method."""
        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(self(function.__func__))
        if isinstance(function, type) or not callable(function):
            what = f"the class {function.__name__}" if isinstance(function, type) else repr(function)
            raise TypeError(f"record_function decorates functions and methods; {what} came")
        return labelled(function, self.entry.name)

# %% [markdown]
"""
**What if** the function is a generator? Its body runs in pieces, and between two pieces other code runs, which would land in its region. So the region is opened around each piece: when the generator is asked for its next value, and closed when it gives one. An `async` function is the same
story with another name for "give". (*Skip on first reading.*)
"""

# %%
#| export
@coroutine
def steps(label, inner):
    """Run ``inner``, a generator or what is awaited, step by step, with the region ``label`` open only while it runs.

    What is sent and thrown is passed on; it yields and returns what ``inner`` does.
    """
    step, value = inner.send, None
    while True:
        with record_function(label):
            try:
                out = step(value)
            except StopIteration as end:
                return end.value
        try:
            step, value = inner.send, (yield out)
        except GeneratorExit:
            with record_function(label):
                inner.close()
            raise
        except BaseException as error:
            step, value = inner.throw, error

# %%
#| export
def labelled_async_generator(function, label):
    """Return an async generator function with a region around its code."""
    async def run(*args, **kwargs):
        inner = function(*args, **kwargs)
        step = inner.asend(None)
        while True:
            try:
                out = await steps(label, step.__await__())
            except StopAsyncIteration:
                return
            try:
                step = inner.asend((yield out))
            except GeneratorExit:
                await steps(label, inner.aclose().__await__())
                raise
            except BaseException as error:
                step = inner.athrow(error)
    return run

# %%
#| export
def labelled(function, label):
    """Return the function with a region around its code: of the same kind, under the same name."""
    if inspect.isasyncgenfunction(function):
        run = labelled_async_generator(function, label)
    elif inspect.iscoroutinefunction(function):
        async def run(*args, **kwargs):
            return await steps(label, function(*args, **kwargs).__await__())
    elif inspect.isgeneratorfunction(function):
        def run(*args, **kwargs):
            return (yield from steps(label, function(*args, **kwargs)))
    else:
        def run(*args, **kwargs):
            with record_function(label):
                return function(*args, **kwargs)
    return wraps(function)(run)

# %%
@record_function("squares")
def squares(n):
    for i in range(n):
        yield Tensor([i]) * i


with listen(lambda event: print(f"{event.op.name:>8} in {[entry.name for entry in event.scope]}")):
    for square in squares(2):
        square + 1

# %% [markdown]
"""
`multiply` runs in the generator's body, `add` in the loop that uses it: the region knows the difference.

<details><summary>Why not keep a dict of name → start, instead of a stack?</summary>
A name can be open twice (recursion), and two names can be open at once without one being inside the other in the dict. The stack knows both.
</details>
"""

# %% [markdown]
"""
## 2. Self and total

*15 minutes*

**Question.** A layer took 30 ms. Did *it*?

Two small helpers (yours) make every later answer right. The first looks like pedantry. Clock readings of parent and child are taken one after the other, and clocks are coarse: a child may seem to end a nanosecond after its parent. A viewer that finds such a slice drops it, or draws it in the wrong
row; a self time becomes negative. So, once, after recording, slices are **clipped until they nest**: a child within its parent, a sibling after its elder sibling.

```
before   parent   ├─────────────────┤              after   ├─────────────────┤
         first       ├──────┤                                 ├──────┤
         second            ├────────────┤                             ├───────┤
```

**Task.** Write `fit_inside(parents, starts, ends, first, last)`. It changes `starts` and `ends` in place. A slice without a parent must lie between `first` and `last`. No slice starts before its parent, nor before the sibling before it has ended; none ends after its parent; none ends before
it starts (clipped to nothing, it lasts 0).

Example: parents `[-1, 0, 0]`, starts `[0, 2, 4]`, ends `[10, 5, 12]`, from 0 to 20, become starts `[0, 2, 5]`, ends `[10, 5, 10]`.

<details><summary>Hint 1: idea</summary>
Parents come before children, so when you reach a child its parent is already right. Remember for each slice <em>from when on there is room in it</em>: its start, later the end of its last child.
</details>
<details><summary>Hint 2: approach</summary>
A list <code>free</code> with one entry per slice, and one more at the end for "outside of all", which starts as <code>first</code>: then <code>free[parent]</code> works for -1, too. Clip the start to <code>free[parent]</code> from below and to the limit from above, then the end to the start and to the limit.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Clip a number to a range: <code>min(max(x, low), high)</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "fit-inside", "solution": true}
#| export
def fit_inside(parents, starts, ends, first, last):
    """Clip starts and ends, in place, until slices nest: within the parent (``first`` to ``last`` where it is -1).

    Slices come in order of their starts, a parent before its children; none starts before the one before it (of the
    same parent) has ended, and none ends before it starts.
    """
    ### BEGIN SOLUTION
    free = [0] * len(parents) + [first]  # from when on there is room inside each slice; free[-1]: outside of all
    for i, parent in enumerate(parents):
        limit = last if parent < 0 else ends[parent]
        starts[i] = min(max(starts[i], free[parent]), limit)
        ends[i] = min(max(ends[i], starts[i]), limit)
        free[parent], free[i] = ends[i], starts[i]
    ### END SOLUTION

# %%
def clipped(parents, starts, ends, first=0, last=100):
    """Return (starts, ends) after your clipping."""
    starts, ends = list(starts), list(ends)
    fit_inside(parents, starts, ends, first, last)
    return starts, ends


print(clipped([-1, 0, 0], [0, 2, 4], [10, 5, 12]))

# %% nbgrader={"grade": true, "grade_id": "test-fit-inside", "points": 0, "skill": "time"}
def test_fit_inside():
    """Children, siblings, grandchildren, the edges, a clock that ran backwards."""
    check("the example", clipped([-1, 0, 0], [0, 2, 4], [10, 5, 12]), ([0, 2, 5], [10, 5, 10]), {
        ((0, 2, 4), (10, 5, 10)): "the second child starts before its elder sibling has ended",
        ((0, 2, 5), (10, 5, 12)): "the second child ends after its parent",
        ((0, 2, 4), (10, 5, 12)): "nothing was clipped; starts and ends are to be changed in place"})
    check("what nests already", clipped([-1, 0, 1, 0, -1], [1, 2, 3, 6, 9], [8, 5, 4, 7, 9]), ([1, 2, 3, 6, 9], [8, 5, 4, 7, 9]))
    check("a grandchild is clipped to its clipped parent", clipped([-1, 0, 1], [0, 5, 6], [10, 15, 20]), ([0, 5, 6], [10, 10, 10]), {
        ((0, 5, 6), (10, 10, 15)): "its parent's end was clipped to 10 before; use that one"})
    check("neighbours without a parent", clipped([-1, -1], [0, 9], [10, 20]), ([0, 10], [10, 20]))
    check("before the first and after the last moment", clipped([-1, -1], [-5, 90], [10, 120], first=3), ([3, 90], [10, 100]), {
        ((0, 90), (10, 100)): "the first moment is `first`, not 0",
        ((3, 90), (10, 120)): "without a parent the limit is `last` (parents[i] is -1, which is a valid index)"})
    check("a child that starts before its parent", clipped([-1, 0], [5, 3], [20, 8]), ([5, 5], [20, 8]), {
        ((5, 3), (20, 8)): "there is room in the parent only from the parent's start on"})
    check("the elder sibling has a child", clipped([-1, 0, 1, 0], [0, 1, 2, 5], [20, 6, 4, 9]), ([0, 1, 2, 6], [20, 6, 4, 9]), {
        ((0, 1, 2, 5), (20, 6, 4, 9)): "the elder sibling is not always the slice before"})
    check("an end before its start lasts 0", clipped([-1, 0], [5, 8], [20, 3]), ([5, 8], [20, 8]))
    check("wholly after its parent", clipped([-1, 0], [0, 12], [10, 15]), ([0, 10], [10, 10]))
    check("a child may start with its parent", clipped([-1, -1, 1], [0, 4, 4], [4, 8, 8]), ([0, 4, 4], [4, 8, 8]))


test_fit_inside()

# %% [markdown]
"""
Now the question. A slice's **total** is its end minus its start. Its **self** time is what is left after the slices *directly* inside it: the grandchildren are inside the children already.

**Task.** Write `self_times(parents, starts, ends)`: the self time of each slice, as a list.

Example: a from 0 to 100; inside it b from 10 to 50; inside b, c from 20 to 40. Self times: a 60, b 20, c 20. They add up to 100, as the totals (100, 40, 20) do not.

<details><summary>Hint 1: idea</summary>
Do not search for a slice's children. Let each child find its parent.
</details>
<details><summary>Hint 2: approach</summary>
Start from the totals. Then one loop: take each slice's total away from its parent, if it has one (-1 is a valid index in Python: mind it).
</details>
<details><summary>Hint 3: worked example, something else</summary>
Everyone's own savings, when an account's balance includes those below it: <code>own = list(balance)</code>, then <code>own[boss[i]] -= balance[i]</code> for each <code>i</code> that has a boss.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "self-times", "solution": true}
#| export
def self_times(parents, starts, ends):
    """Return each slice's self time: how long it lasted, without the slices directly inside it.

    ``parents[i]`` is the index of the slice around slice ``i``, -1 where there is none; all times in ns.
    """
    ### BEGIN SOLUTION
    own = [end - start for start, end in zip(starts, ends)]
    for parent, start, end in zip(parents, starts, ends):
        if parent >= 0:
            own[parent] -= end - start
    return own
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-self-times", "points": 0, "skill": "time"}
def test_self_times():
    """Children, grandchildren, slices without a parent."""
    parents, starts, ends = [-1, 0, 1, 0, -1], [0, 10, 20, 60, 100], [100, 50, 40, 90, 107]
    own = self_times(parents, starts, ends)
    check("self times", own, [30, 20, 20, 30, 7], {
        (100, 40, 20, 30, 7): "these are the totals", (10, 20, 20, 30, 7): "the grandchild was taken from its grandparent, too",
        (30, 20, 20, 30, -100): "slices without a parent were taken from the last slice: parents[i] is -1",
        (100, 20, 20, 30, 7): "slice 0 may be a parent, too"})
    check("they add up to the time that anything was open", sum(own), 107)
    check("and the columns are untouched", (parents, starts, ends), ([-1, 0, 1, 0, -1], [0, 10, 20, 60, 100], [100, 50, 40, 90, 107]))


test_self_times()

# %% [markdown]
"""
The other direction is given: `inclusive` adds an amount (FLOPs, bytes) up to all that contain it. From the last slice to the first: when a slice's turn comes, everything inside it has been added to it already.
"""

# %%
#| export
def inclusive(parents, amounts):
    """Return for each slice the amount in it and in everything inside it: from the last on, add to the parent."""
    total = list(amounts)
    for i in range(len(total) - 1, -1, -1):
        if parents[i] >= 0:
            total[parents[i]] += total[i]
    return total

# %%
parents = [-1, 0, 1, 1, 0]
print(f"own FLOPs {[0, 0, 40, 2, 8]}, with what is inside {inclusive(parents, [0, 0, 40, 2, 8])}")

# %% [markdown]
"""
**What it means.** Sort by *total* to find the part of the program to look into: its top rows are always the outermost ones. Sort by *self* to find the code to change. A layer with a large self time and small ops inside is Python: your code between the ops.
"""

# %% [markdown]
"""
## 3. A thousand calls, one row

*20 minutes*

**Question.** A function runs a thousand times, sometimes inside itself. How long did it take "in all"?

Add up the totals of all calls, one would say. Try it. `down(3)` waits a millisecond, then calls itself: four calls, four milliseconds on the clock.

```
0 ms      1         2         3         4
├───────────────── down ────────────────┤   4 ms
          ├───────────── down ──────────┤   3 ms
                    ├─────── down ──────┤   2 ms
                              ├── down ─┤   1 ms
```
"""

# %%
recursion = {"parents": [-1, 0, 1, 2], "starts": [0, 1, 2, 3], "ends": [4, 4, 4, 4], "keys": ["down"] * 4}
naive = sum(end - start for start, end in zip(recursion["starts"], recursion["ends"]))
print(f"the totals add up to {naive} ms, in a program that ran {recursion['ends'][0]} ms")

# %% [markdown]
"""
Two and a half times what the clock says: the innermost millisecond was counted four times. **Idea:** an inclusive time counts *outermost* instances only, those with no slice of the same key around them, near or far. Calls count every one, and so does self time, which overlaps nothing.

**Task.** Write `outermost(parents, keys)`: for each slice, `True` if no slice around it has its key. It should look at each slice once or twice, not at all its ancestors: a recursion a thousand deep has half a million pairs.

Example: f calls g, which calls f; then a second f: `[True, True, False, True]`.

<details><summary>Hint 1: idea</summary>
Walk in order with the stack of what is open, as the recorder did. The slices around the present one are exactly those on the stack; count how many of each key are on it.
</details>
<details><summary>Hint 2: approach</summary>
Before slice <code>i</code> enters, pop until the top of the stack is <code>parents[i]</code> (or the stack is empty), taking each popped key off the count. Then ask the count, then push. <code>Counter</code> is imported: a key that is not in it counts 0.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Is a word inside a pair of the same brackets? Keep <code>open_now = Counter()</code>; at an opening bracket <code>open_now[bracket] += 1</code>, at a closing one <code>-= 1</code>, at a word look whether <code>open_now[bracket]</code> is 0.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "outermost", "solution": true}
#| export
def outermost(parents, keys):
    """Say for each slice whether none of the slices around it has its key: only those count in an inclusive time."""
    ### BEGIN SOLUTION
    first, stack, open_now = [], [], Counter()
    for i, (parent, key) in enumerate(zip(parents, keys)):
        while stack and stack[-1] != parent:
            open_now[keys[stack.pop()]] -= 1
        first.append(not open_now[key])
        open_now[key] += 1
        stack.append(i)
    return first
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-outermost", "points": 0, "skill": "averages"}
def test_outermost():
    """Direct and indirect recursion, neighbours, a thousand levels."""
    check("direct recursion", outermost([-1, 0, 1, 2], ["down"] * 4), [True, False, False, False], {
        (True, True, True, True): "a slice of the same key is around: look at parents"})
    check("f calls g calls f; then f again", outermost([-1, 0, 1, -1], ["f", "g", "f", "f"]), [True, True, False, True], {
        (True, True, True, True): "only the parent was looked at: f is around g, too",
        (True, True, False, False): "the first f was over when the second began: take keys off when their slice ends"})
    check("neighbours inside one parent", outermost([-1, 0, 0, 0], ["f", "g", "g", "g"]), [True, True, True, True], {
        (True, True, False, False): "a sibling is not around: it is over"})
    check("back up two levels at once", outermost([-1, 0, 1, 0], ["f", "g", "h", "h"]), [True, True, True, True])
    check("twice inside itself, one after the other", outermost([-1, 0, 0], ["f"] * 3), [True, False, False], {
        (True, False, True): "the inner f ended, the outer one did not: count how many of a key are open, not whether"})

    class Watched(list):
        looks = 0

        def __getitem__(self, i):
            Watched.looks += 1
            return super().__getitem__(i)

    deep = 3000
    check("3,000 levels", sum(outermost(range(-1, deep - 1), ["f"] * deep)), 1)
    check("3,000 levels of as many keys", sum(outermost(Watched(range(-1, deep - 1)), list(range(deep)))), deep)
    check("and few looks at each parent", Watched.looks <= 10 * deep, True, {False: "every slice went through all its ancestors"})


test_outermost()

# %% [markdown]
"""
**Task.** Now the row itself. Write `sum_by_key(keys, own, total, first)`: from four columns (key, self time, total time, is it outermost) a dict `{key: [calls, self, total]}`. A slice whose key is `None` gets no row.

Example: keys `["f", "g", "f"]`, own `[1, 2, 3]`, total `[6, 5, 3]`, first `[True, True, False]` → `{"f": [2, 4, 6], "g": [1, 2, 5]}`.

<details><summary>Hint 1: idea</summary>
One pass, one row per key, three numbers that grow.
</details>
<details><summary>Hint 2: approach</summary>
<code>rows.setdefault(key, [0, 0, 0])</code> returns the row, a new one where there was none.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Words by their first letter: <code>row = table.setdefault(word[0], [0, 0])</code>, then <code>row[0] += 1</code> and <code>row[1] += len(word)</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "sum-by-key", "solution": true}
#| export
def sum_by_key(keys, own, total, first):
    """Return {key: [calls, self, total]}; a slice whose key is None has no row.

    Every call counts and every self time; a total only where ``first`` says that the slice is outermost.
    """
    ### BEGIN SOLUTION
    rows = {}
    for key, self_ns, total_ns, is_first in zip(keys, own, total, first):
        if key is not None:
            row = rows.setdefault(key, [0, 0, 0])
            row[0] += 1
            row[1] += self_ns
            row[2] += total_ns if is_first else 0
    return rows
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-sum-by-key", "points": 0, "skill": "averages"}
def test_sum_by_key():
    """Calls, self and total; what has no row."""
    first = outermost(recursion["parents"], recursion["keys"])
    total = [end - start for start, end in zip(recursion["starts"], recursion["ends"])]
    own = self_times(recursion["parents"], recursion["starts"], recursion["ends"])
    calls, self_ms, total_ms = sum_by_key(recursion["keys"], own, total, first)["down"]
    check("four calls of down", calls, 4, {1: "a call counts, outermost or not"})
    check("its self time", self_ms, 4, {1: "self times overlap nothing: all of them count"})
    check("its total time", total_ms, 4, {10: "inner instances were counted again", 1: "of the outermost instance, not the innermost"})
    check("the example", sum_by_key(["f", "g", "f"], [1, 2, 3], [6, 5, 3], [True, True, False]), {"f": [2, 4, 6], "g": [1, 2, 5]})
    check("two outermost calls, 3 and 4 ms in all", sum_by_key(["f", "f"], [1, 2], [3, 4], [True, True])["f"][2], 7, {
        4: "the last total took the place of the first; add"})
    check("what has no key has no row", sum_by_key([None, "f"], [1, 2], [3, 2], [True, True]), {"f": [1, 2, 2]})
    check("an empty label is a label", sum_by_key([""], [1], [3], [True]), {"": [1, 1, 3]})


test_sum_by_key()

# %% [markdown]
"""
**What it means.** With this rule an inclusive time never exceeds the wall clock of its thread, and self times of all rows add up to it. Two checks you can do in your head on *any* profiler's table, and some fail them.
"""

# %% [markdown]
"""
## 4. The instrument

*15 minutes*

Everything that thinks is written. Given is what assembles it, in four steps; read the names, skip the bodies.

**Record.** `Recorder` listens in all threads while its block is open. A clock and a memory probe can be handed in: then every number is known in advance, which is how this notebook is tested. Two profiles may record at once if they go by the same clock. Memory is traced only when asked for,
and tracing ends only if it was the recorder that began it. A recorder allocates, too, for every kind of op it meets: that is taken off, or the memory of a small program would be a picture of its profiler.
"""

# %%
#| export
_recording: list = []  # the profiles that record now
_lock = threading.RLock()  # the collector may end a forgotten profile while another one begins
_MEMORY_WAS_READ = "memory was read after each op: the times are disturbed; time in a run of its own"

# %%
#| export
def with_memory(hear, here, lane_for, probe):
    """Return an op listener that first reads how much memory is in use (``probe()``, bytes), then hears the op."""
    def read_and_hear(fields):
        lane = here.lane or lane_for(OpEvent(*fields).scope)
        lane.in_use = checked("memory probe", probe, "bytes")
        hear(fields)
    return read_and_hear

# %%
#| export
class TracedBytes:
    """A memory probe: the bytes that tracemalloc sees alive, without ``own``, which the recorder took for itself."""

    __slots__ = ("own",)

    def __init__(self):
        self.own = 0

    def __call__(self):
        """Return the bytes alive now."""
        return tracemalloc.get_traced_memory()[0] - self.own

    def apart_from(self, hear):
        """Return a listener that does the same; what it allocates is taken off."""
        def run(*heard):
            before = self()
            hear(*heard)
            self.own += self() - before
        return run

# %%
#| export
class Recorder:
    """Hears every op and scope of every thread while its block is open: the part of ``profile`` that listens.

    ``TypeError``: a ``clock`` or a ``memory`` probe that is no function.
    """

    __slots__ = ("record_shapes", "profile_memory", "lanes", "clock", "memory", "start_ns", "stop_ns", "doubts",
                 "_here", "_listening", "_traces", "_environment")

    def __init__(self, record_shapes=True, profile_memory=False, clock=None, memory=None):
        for what, value, example in (("clock", clock, "nanoseconds"), ("memory", memory, "bytes")):
            if value is not None and not callable(value):
                raise TypeError(f"{what} is {value!r}; want a function without arguments that returns {example}")
        self.record_shapes, self.profile_memory = bool(record_shapes), bool(profile_memory)
        self.clock, self.memory, self.lanes, self.doubts = clock, memory, [], []
        self.start_ns = self.stop_ns = self._listening = None
        self._here, self._traces = _Here(), False

    def lane_for(self, path):
        """Return a new lane for this thread; the scopes of ``path`` were open before the profile began."""
        rows = array("q") if isinstance(self.memory, TracedBytes) else None  # keeps no number that the door has made
        lane = self._here.lane = Lane(threading.current_thread().name, rows)
        for depth, entry in enumerate(path):
            lane.go(path[:depth + 1])
            lane.cut.add(lane.add(-1, lane.here, self.start_ns, -1))
            lane.top = len(lane.rows) // 6 - 1
            lane.open.append((lane.top, entry))
        self.lanes.append(lane)
        return lane

    def _listeners(self):
        hear = [op_listener(self._here, self.lane_for), scope_listener(self._here, self.lane_for)]
        if self.profile_memory:
            hear[0] = with_memory(hear[0], self._here, self.lane_for, self.memory)
        return map(self.memory.apart_from, hear) if isinstance(self.memory, TracedBytes) else hear

    def __enter__(self):
        if self.start_ns is not None:
            raise ValueError("this profile was entered before; make a new one: with profile() as p: ...")
        with _lock:
            self.start_ns = agree(self)
            self.lane_for(thread_state().path)
            clock = self.clock and self.now  # a reading is checked before anything is noted
            self._listening = listen(*self._listeners(), all_threads=True, clock=clock, bare=True)
            _recording.append(self)
            if self.clock is None:
                self.start_ns = perf_counter_ns()  # the block begins after what it takes to get ready
            self._listening.__enter__()
        return self

    def __exit__(self, *exc):
        if self not in _recording:
            raise ValueError("this profile is not recording; enter it once and leave it once: with profile() as p: ...")
        with _lock:
            try:
                self.stop_ns = self.now()
            finally:
                _recording.remove(self)
                self._listening.__exit__(None, None, None)
                stop_tracing(self)
            finish(self)
        self._environment = environment()

    def now(self):
        """Return the time by the clock this profile goes by, in ns."""
        return perf_counter_ns() if self.clock is None else checked("clock", self.clock, "nanoseconds")

# %%
#| export
def checked(what, function, unit):
    """Return what a clock or a probe, ``function()``, gives: a whole number of ``unit`` that a column can keep.

    ``TypeError`` for anything but an int, ``ValueError`` from 2**62 on; ``what`` names it there.
    """
    value = function()
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"the {what} gave {value!r}; want whole {unit}, an int") from None
    if not -2**62 < number < 2**62:
        raise ValueError(f"the {what} gave {number:.3g}; want {unit}, less than 2**62")
    return number

# %%
#| export
def agree(recorder):
    """Make ready to record and return the time (ns): one clock for all that record at once, memory traced if wanted.

    ``ValueError``: a profile with another clock is recording.
    """
    clock = recorder.clock or (_recording[0].clock if _recording else None)
    if _recording and clock != _recording[0].clock:
        raise ValueError("a profile with another clock is recording; hand the same clock to both")
    start = checked("clock", clock or perf_counter_ns, "nanoseconds")
    recorder.clock = clock
    if recorder.profile_memory or any(other.profile_memory for other in _recording):
        for disturbed in (recorder, *_recording):
            disturbed.doubts = [*filter(_MEMORY_WAS_READ.__ne__, disturbed.doubts), _MEMORY_WAS_READ]
    elif tracemalloc.is_tracing():
        recorder.doubts.append("tracemalloc was tracing: small ops are two to four times slower under it")
    if recorder.profile_memory and recorder.memory is None:
        recorder.memory = TracedBytes()
        recorder._traces = not tracemalloc.is_tracing() or any(other._traces for other in _recording)
        if not tracemalloc.is_tracing():
            tracemalloc.start()
    return start

# %%
#| export
def stop_tracing(recorder):
    """Stop tracemalloc, if it was started for this profile and no other profile needs it."""
    if recorder._traces and tracemalloc.is_tracing() and not any(other._traces for other in _recording):
        tracemalloc.stop()

# %%
#| export
def finish(recorder):
    """Close and mark what is still open, and drop what only recording needed."""
    for lane in recorder.lanes:
        for i, _ in lane.open:
            lane.close(i, recorder.stop_ns)
            lane.cut.add(i)
        lane.open, lane.known_kinds, lane.known_places = [], {}, {}

# %% [markdown]
"""
**Settle.** When somebody asks, each lane becomes `Slices`: labels instead of numbers, clipped by your `fit_inside`. One thing is added. Backward ops run under the scope `backward` plus the scope of *their forward op*, which nobody opens a second time: slices for those are made up here, from the
first to the last op of each, so that a layer has a place on the way back, too.
"""

# %%
#| export
class Label(NamedTuple):
    """What slices have in common.

    An echo is a region around a forward op under which its backward ops are shown: it was not opened again.

    Attributes:
        kind: "op", "region" (a scope without owner), "layer", or "echo".
        name, owner: of the op or the scope; the ``id`` of the layer that opened it, or None.
        in_shapes, out_shape, attrs: of an op.
        num_bytes, flops: bytes moved, and FLOPs; None without a price.
    """

    kind: str
    name: str
    owner: int | None = None
    in_shapes: tuple | None = None
    out_shape: tuple | None = None
    num_bytes: int = 0
    flops: int | None = 0
    attrs: tuple = ()

# %%
#| export
class Slices:
    """A thread's slices, made of its ``lane``: ``label`` (a number), ``parent``, ``start``, ``end``.

    In order of start; nested: each inside its parent and after the one before. Times are ns since the profile began.
    ``labels()`` says what the numbers stand for. ``memory`` has the bytes after each op, where they were read; ``cut``
    the slices that were open at an edge.
    """

    __slots__ = ("name", "label", "parent", "start", "end", "memory", "cut", "kinds", "ends_of_kinds", "entries",
                 "with_shapes")

    def __init__(self, lane, with_shapes):
        self.name, self.memory, self.entries, self.with_shapes = lane.name, array("q"), lane.entries, with_shapes
        self.kinds, self.ends_of_kinds, self.cut = lane.kinds, lane.ends_of_kinds, set()
        self.label, self.parent, self.start, self.end = array("i"), array("i"), array("q"), array("q")

    def add(self, label, parent, start, end):
        """Append a slice with a label and a parent, from ``start`` to ``end`` (ns), and return its index."""
        self.label.append(label)
        self.parent.append(parent)
        self.start.append(start)
        self.end.append(end)
        return len(self.label) - 1

    def labels(self):
        """Return the ``Label`` of each number: kinds of ops, then places as regions and layers, then as echoes."""
        return [*self._kinds(), *self._places("region"), *self._places("echo")]

    def _kinds(self):
        begin = 0
        for end in self.ends_of_kinds:
            name, in_shapes, out_shape, num_bytes, attrs, cost = marshal.loads(self.kinds[begin:end])
            shapes = (in_shapes, out_shape) if self.with_shapes else (None, None)
            yield Label("op", name, None, *shapes, num_bytes, cost, tuple(attrs.items()))
            begin = end

    def _places(self, region):
        for name, owner in [("", None), *self.entries[1:]]:
            yield Label(region if owner is None else "layer", str(name), owner)

    def __len__(self):
        return len(self.label)

# %%
#| export
def chain(lane, place):
    """Return the numbers of the places from the outermost scope to ``place``."""
    found = []
    while place > 0:
        found.append(place)
        place = lane.around[place]
    return found[::-1]

# %%
#| export
def unopened(lane, held, place):
    """Return the places between the open scopes ``held`` and an op's ``place``: the forward scopes of a backward op.

    What was open around the backward pass anyway is not repeated.
    """
    outer, whole_chain = chain(lane, held), chain(lane, place)
    more = whole_chain[len(outer):]
    for entry in [lane.entries[number] for number in outer[:-1]]:
        if not more or lane.entries[more[0]] != entry:
            break
        more = more[1:]
    return more

# %%
#| export
def show_under(slices, shown, wanted, home, start, end):
    """Keep slices with the labels ``wanted`` open inside ``home`` until ``end``; return the innermost one's index.

    ``shown`` lists those that are open, as (label, index); those that are not wanted any more are taken off.
    """
    common = 0
    while common < min(len(shown), len(wanted)) and shown[common][0] == wanted[common]:
        common += 1
    del shown[common:]
    for label in wanted[common:]:
        home = shown[-1][1] if shown else home
        shown.append((label, slices.add(label, home, start, end)))
    for _, i in shown:
        slices.end[i] = max(end, slices.end[i])
    return shown[-1][1] if shown else home

# %%
#| export
def settle(lane, start_ns, stop_ns, with_shapes=True):
    """Turn what a thread's lane recorded into ``Slices`` that nest; the lane gives up its rows."""
    slices, moved, shown, between = Slices(lane, with_shapes), array("i"), {}, {}
    scopes, echoes = len(lane.ends_of_kinds), len(lane.ends_of_kinds) + len(lane.entries)  # their first labels
    for what, place, parent, start, end, in_use in lane.slices():
        around = place if what >= 0 else lane.around[place]
        home, held = (moved[parent], lane.rows[6 * parent + 1]) if parent >= 0 else (-1, 0)
        if around != held or parent in shown:
            if (held, around) not in between:
                between[held, around] = [echoes + number for number in unopened(lane, held, around)]
            home = show_under(slices, shown.setdefault(parent, []), between[held, around], home, start, end)
        moved.append(slices.add(what if what >= 0 else scopes + place, home, start, end))
        if what >= 0 and in_use is not None:
            slices.memory.append(in_use)
    fit_inside(slices.parent, slices.start, slices.end, start_ns, stop_ns)
    for column in (slices.start, slices.end):
        for i, time_ns in enumerate(column):
            column[i] = time_ns - start_ns
    slices.cut = {moved[i] for i in lane.cut}
    del lane.rows[:]
    return slices

# %% [markdown]
"""
**Average.** Rows are ops and regions; an op and a region of the same name stay apart, since a key is (kind, name). Layers are no rows: they have a tree of their own. Their self time, Python inside `forward`, goes to the region around.
"""

# %%
#| export
def own_by_row(parents, keys, own):
    """Give the self time of slices without a row (key None) to the nearest slice around them that has one.

    Return (self times, what is in no row).
    """
    row_of, found, nowhere = [-1] * (len(keys) + 1), list(own), 0
    for i, (parent, key) in enumerate(zip(parents, keys)):
        row_of[i] = i if key is not None else row_of[parent]
        if row_of[i] != i:
            found[i] = 0
            if row_of[i] >= 0:
                found[row_of[i]] += own[i]
            else:
                nowhere += own[i]
    return found, nowhere

# %%
#| export
class KeyAverage(NamedTuple):
    """One row: an op or a user region.

    Attributes:
        key, kind: the op's name or the region's label, and "op" or "region".
        calls: a count.
        self_ms, total_ms: ms without, and with, what ran inside; the latter of outermost instances.
        flops, num_bytes: FLOPs of outermost instances, None where no op has a price; bytes moved.
        gflops_per_second: 10^9 FLOPs a second of ``total_ms``; None where unknown.
        input_shapes: None where the calls differ, for regions, and where shapes were not recorded.
        uncounted: how many op calls have no price.
        self_percent: per cent of all self time.
    """

    key: str
    calls: int
    self_ms: float
    total_ms: float
    flops: int | None
    num_bytes: int
    gflops_per_second: float | None
    input_shapes: tuple | None
    kind: str
    uncounted: int
    self_percent: float

# %%
#| export
def row_key(label, by_shape):
    """Return what a slice is averaged under: (kind, name, shapes), or None for layers, which are in the tree."""
    if label.kind not in ("op", "region"):
        return None
    return label.kind, label.name, label.in_shapes if by_shape else None

# %%
#| export
def collect(slices, by_shape):
    """Return ({key: [calls, self ns, total ns, flops, bytes, ops, uncounted]}, ns in no row) of one thread."""
    labels = slices.labels()
    keys = [row_key(label, by_shape) for label in labels]
    keys = [keys[number] for number in slices.label]
    own = self_times(slices.parent, slices.start, slices.end)
    own, nowhere = own_by_row(slices.parent, keys, own)
    first = outermost(slices.parent, keys)
    total = [end - start for start, end in zip(slices.start, slices.end)]
    rows = sum_by_key(keys, own, total, first)
    for amount in (lambda label: label.flops or 0, lambda label: label.num_bytes, lambda label: label.kind == "op",
                   lambda label: label.flops is None):
        amounts = [amount(label) for label in labels]
        sums = inclusive(slices.parent, [amounts[number] for number in slices.label])
        more = sum_by_key(keys, own, sums, first)
        for key, row in rows.items():
            row.append(more[key][2])
    return rows, nowhere

# %%
#| export
def average_rows(profile, by_shape):
    """Return a profile's ``KeyAverage`` rows, all threads together, most self time first; and the ms in no row.

    The latter are of the thread that entered the block, between its ops and regions: in the code of layers.
    """
    rows, shapes, nowhere = {}, {}, None
    for slices in profile.threads:
        found, more = collect(slices, by_shape)
        nowhere = more if nowhere is None else nowhere
        for key, row in found.items():
            rows[key] = [a + b for a, b in zip(rows.get(key, [0] * 7), row)]
        for label in slices.labels():
            shapes.setdefault(row_key(label, by_shape), set()).add(label.in_shapes)
    whole_ns, averages = sum(row[1] for row in rows.values()), []
    for key, (calls, own, total, cost, num_bytes, ops, unknown) in rows.items():
        known = None if unknown and unknown == ops else cost
        gflops = None if known is None else known / total if total else 0.0
        one = next(iter(shapes[key])) if len(shapes[key]) == 1 else None
        share = 100 * own / whole_ns if whole_ns else 0.0
        averages.append(KeyAverage(key[1], calls, own / 1e6, total / 1e6, known, num_bytes, gflops, one, key[0],
                                   unknown, share))
    return sorted(averages, key=lambda row: (-row.self_ms, row.key)), nowhere / 1e6

# %% [markdown]
"""
**Draw.** (*Skip on first reading.*) Labels may hold anything: line breaks, signs two columns wide, half a surrogate pair. A table shows them all on one line each.
"""

# %%
#| export
def shown(text):
    """Return a label as it can be printed on one line: what has no sign of its own is escaped."""
    return "".join([c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii")
                    for c in text])

# %%
#| export
def columns_of(text):
    """Return how many columns of a terminal a text takes: wide signs two, combining ones none."""
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)

# %%
#| export
def fitted(text, width):
    """Return a text of exactly ``width`` columns: cut with "..", or filled up with spaces."""
    if columns_of(text) > width:
        ends = accumulate(map(columns_of, text))  # where each sign ends
        text = "".join([c for c, end in zip(text, takewhile(lambda end: end <= width - 2, ends))]) + ".."
    return text + " " * (width - columns_of(text))

# %%
#| export
def figure(number, unknown=False):
    """Return a count in seven columns at most: three digits and a letter from 10,000 on; "?" if None or ``unknown``."""
    if number is None:
        return "?"
    mark = "+?" if unknown else ""
    for size, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= max(size, 1e4 if size == 1e3 else 0):
            return f"{number / size:.3g}{letter}{mark}" if number < 9.995e17 else f"{number:.0e}{mark}"
    return f"{number:.4g}{mark}"

# %%
#| export
def rate(gflops):
    """Return GFLOP/s in seven columns at most; "?" for None."""
    if not gflops:
        return "?" if gflops is None else "0"
    return "<0.001" if gflops < 0.001 else f"{gflops:.3f}" if gflops < 10 else f"{gflops:.1f}"

# %%
#| export
def milliseconds(ms):
    """Return milliseconds in nine columns at most."""
    return f"{ms:.4f}" if ms < 1000 else f"{ms:.1f}" if ms < 1e7 else f"{ms:.3e}"


def about(ms):
    """Return milliseconds as people say them: "1.234 ms", "12,345 ms"."""
    return f"{ms:.4g} ms" if ms < 1000 else f"{ms:,.0f} ms"

# %%
#| export
_CELLS = (("calls", 7), ("self ms", 9), ("self %", 6), ("total ms", 9), ("FLOPs", 8), ("bytes", 7), ("GFLOP/s", 7))


def table(head, rows, width, most=7):
    """Draw rows of (label, cells) as text of ``width`` columns (40 at least): ``most`` cells, fewer where narrow."""
    width = max(40, whole("width", width, 1))
    count = most if width >= 78 else 5
    while (room := width - sum(size + 1 for _, size in _CELLS[:count])) < 8:
        count -= 1
    lines = [fitted(head, room) + "".join(f" {name:>{size}}" for name, size in _CELLS[:count])]
    for label, cells in rows:
        lines.append(fitted(shown(label), room) + "".join(
            f" {cell:>{size}}" for cell, (_, size) in zip(cells, _CELLS[:count])))
    return [line.rstrip() for line in lines]

# %%
#| export
def wrapped(text, width, indent=""):
    """Return a text as lines of at most ``width`` columns, the words of it kept whole where they fit."""
    lines, line, width = [], indent, max(40, width)
    for word in text.split():
        if line.strip() and columns_of(line) + 1 + columns_of(word) > width:
            lines.append(line)
            line = indent
        line = f"{line} {word}" if line.strip() else indent + word
    return [fitted(line, width).rstrip() for line in (*lines, line)]

# %%
#| export
def as_html(head, rows, notes=()):
    """Draw the same rows as an HTML table, and notes below it."""
    from html import escape  # rarely needed: imported when needed

    cells = [f"<th>{escape(name)}</th>" for name in (head, *(name for name, _ in _CELLS))]
    lines = ["<table><thead><tr>" + "".join(cells) + "</tr></thead><tbody>"]
    for label, values in rows:
        name = f"<td style='text-align:left;white-space:pre'>{escape(shown(label))}</td>"
        lines.append("<tr>" + name + "".join(f"<td>{escape(value.strip())}</td>" for value in values) + "</tr>")
    notes = [f"<div>{escape(shown(note))}</div>" for note in notes]
    return "\n".join([*lines, "</tbody></table>", *notes])

# %%
#| export
#: What ``KeyAverages.table(sort_by=...)`` takes.
SORTABLE = ("key", "calls", "self_ms", "total_ms", "flops", "num_bytes", "gflops_per_second", "self_percent")


class KeyAverages(list):
    """The rows of ``profile.key_averages()``, a list of ``KeyAverage``; ``print`` it or take its ``table``.

    ``wall_ms`` is how long the block took, ms; ``outside_ms`` how much of it, in the thread that entered the block, was
    in no op and in no region; ``warnings`` a sentence for each reason to trust the times less.
    """

    def __init__(self, rows, wall_ms, outside_ms, warnings):
        super().__init__(rows)
        self.wall_ms, self.outside_ms, self.warnings = wall_ms, outside_ms, warnings

    def ordered(self, sort_by="self_ms"):
        """Return the rows with the largest first (``key``: by alphabet); what is unknown comes last.

        ``ValueError``: a ``sort_by`` that is not in ``SORTABLE``.
        """
        if sort_by not in SORTABLE:
            raise ValueError(f"sort_by is {sort_by!r}; choose one of {', '.join(SORTABLE)}")
        if sort_by == "key":
            return sorted(self, key=lambda row: (row.key, row.kind))
        return sorted(self, key=lambda row: getattr(row, sort_by) or 0, reverse=True)

    def table(self, sort_by="self_ms", row_limit=20, width=80):
        """Draw the rows as text, ``row_limit`` of them (None: all); the per cents are of self time and add to 100."""
        lines = []
        for kind, label, cells in self._shown(sort_by, row_limit):
            lines += wrapped(label, width, "    ") if kind == "shapes" else [(label, cells)]
        rows = table("op or [region]", [line for line in lines if not isinstance(line, str)], width)
        drawn = iter(rows[1:])
        body = [line if isinstance(line, str) else next(drawn) for line in lines]
        notes = [part for note in self._notes() for part in wrapped(note, width)]
        return "\n".join([rows[0], *body, *notes])

    def _shown(self, sort_by, row_limit):
        """Yield (kind, label, cells) of what is drawn: rows, their shapes where they are one each, what is left out."""
        rows = self.ordered(sort_by)
        limit = len(rows) if row_limit is None else whole("row_limit", row_limit, 1)
        grouped = len({(row.kind, row.key) for row in rows}) < len(rows)
        for row in rows[:limit]:
            yield "row", f"[{row.key}]" if row.kind == "region" else row.key, _row_cells(row)
            if grouped and row.input_shapes is not None:
                yield "shapes", ", ".join(map(str, row.input_shapes)), ()
        if rest := rows[limit:]:
            cells = (f"{sum(row.calls for row in rest)}", milliseconds(sum(row.self_ms for row in rest)),
                     f"{sum(row.self_percent for row in rest):.1f}")
            yield "row", f"({len(rest)} more)", cells

    def _notes(self):
        """Yield the sentences below the table: what the numbers are of, and what speaks against them."""
        spent = sum(row.self_ms for row in self)
        yield (f"self % is of {about(spent)} in ops and regions; wall time {about(self.wall_ms)}, of which "
               f"{about(self.outside_ms)} in neither. A total contains what ran inside.")
        if unknown := sorted({row.key for row in self if row.uncounted and row.kind == "op"}):
            yield f"? no cost rule, not in any sum of FLOPs: {', '.join(map(shown, unknown))}"
        yield from (f"! {warning}" for warning in self.warnings)

    __str__ = table

    def _repr_html_(self):
        rows = [(label, cells) for _, label, cells in self._shown("self_ms", 50)]
        return as_html("op or [region]", rows, self._notes())

# %%
#| export
def _row_cells(row):
    """Return the cells of a row as text, in the order of ``_CELLS``."""
    return (f"{row.calls}", milliseconds(row.self_ms), f"{row.self_percent:.1f}", milliseconds(row.total_ms),
            figure(row.flops, row.uncounted > 0), figure(row.num_bytes), rate(row.gflops_per_second))

# %% [markdown]
"""
**The tree of layers**, forward and backward apart. At every node: total = self + the totals of the children.
"""

# %%
#| export
@dataclass
class LayerTime:
    """A layer or region in the tree of ``profile.by_layer()``: everything that ran while it was open.

    Under ``backward``, calls say how often the walk came to a layer; its time is from its first op there to its last.

    Attributes:
        name, type: its name in the model where that is known; its class, or "region".
        calls: a count.
        total_ms, self_ms: ms with, and without, the layers and regions inside.
        flops, num_bytes: FLOPs, None where no op has a price; bytes moved.
        uncounted: how many op calls have no price.
        children: a list of ``LayerTime``.
    """

    name: str
    type: str
    calls: int
    total_ms: float
    self_ms: float
    flops: int | None
    num_bytes: int
    uncounted: int
    children: list

    def walk(self, depth=0):
        """Yield (depth, node) of this node and of all below it."""
        todo = [(depth, self)]
        while todo:
            depth, node = todo.pop()
            yield depth, node
            todo += [(depth + 1, child) for child in reversed(node.children)]

    def table(self, width=80, max_rows=60):
        """Draw the tree as text, as many levels of it as fit into ``max_rows`` lines; the per cents add to 100."""
        nodes, max_rows = list(self.walk()), whole("max_rows", max_rows, 1)
        depths = sorted(depth for depth, _ in nodes)
        levels = depths[-1] if len(depths) <= max_rows else max(depths[max_rows] - 1, 1)
        whole_ms, rows = self.total_ms, []
        for depth, node in nodes:
            if depth <= levels:
                own = node.total_ms if depth == levels else node.self_ms
                label = node.name if node.type in (node.name, "") else f"{node.name} {node.type}"
                rows.append(("  " * depth + label, _node_cells(node, own, whole_ms)))
        lines = table("layer", rows, width, 6)
        if any(depth > levels for depth, _ in nodes):
            lines += wrapped(f"(deeper than {levels} levels: in the self time of the layer above)", width)
        return "\n".join(lines)

    __str__ = table

    def _repr_html_(self):
        rows = [("  " * depth + f"{node.name} {node.type}", _node_cells(node, node.self_ms, self.total_ms))
                for depth, node in islice(self.walk(), 200)]
        return as_html("layer", rows)

# %%
#| export
def _node_cells(node, own_ms, whole_ms):
    gflops = None if node.flops is None else node.flops / node.total_ms / 1e6 if node.total_ms else 0.0
    return (f"{node.calls}", milliseconds(own_ms), f"{100 * own_ms / whole_ms:.1f}" if whole_ms else "-",
            milliseconds(node.total_ms), figure(node.flops, node.uncounted > 0), figure(node.num_bytes), rate(gflops))

# %%
#| export
class _Branch:
    """A node of the tree while it is filled: sums in ns, FLOPs, bytes; children by (name, owner)."""

    __slots__ = ("label", "calls", "own", "flops", "num_bytes", "ops", "uncounted", "inside")

    def __init__(self, label):
        self.label, self.inside = label, {}
        self.calls = self.own = self.flops = self.num_bytes = self.ops = self.uncounted = 0

    def count(self, label):
        """Add an op that ran directly here."""
        self.ops += 1
        self.num_bytes += label.num_bytes
        self.flops += label.flops or 0
        self.uncounted += label.flops is None

    def node(self, name, kind):
        """Return what is directly here as a ``LayerTime`` without children."""
        own_ms = self.own / 1e6
        return LayerTime(name, kind, self.calls, own_ms, own_ms, self.flops, self.num_bytes, self.uncounted, [])

# %%
#| export
def grow(root, slices, known):
    """Sum a thread's slices into the tree below ``root``; layers that are not ``known`` are told apart by type only."""
    own, labels = self_times(slices.parent, slices.start, slices.end), slices.labels()
    branches = [root]  # of each slice, one further on: branches[parent + 1] is the branch around
    for number, parent, self_ns in zip(slices.label, slices.parent, own):
        label, around = labels[number], branches[parent + 1]
        if label.kind == "op":
            around.count(label)
            around.own += self_ns
            branches.append(around)
            continue
        key = label.name, label.owner if known is None or label.owner in known else None
        branch = around.inside.get(key)
        if branch is None:
            branch = around.inside[key] = _Branch(label)
        branch.calls += 1
        branch.own += self_ns
        branches.append(branch)

# %%
#| export
def add_children(node, ops):
    """Add to a node what its children have; ``ops`` is how many ops ran in all of them."""
    for child in node.children:
        node.total_ms += child.total_ms
        node.flops += child.flops or 0
        node.num_bytes += child.num_bytes
        node.uncounted += child.uncounted
    if node.uncounted and node.uncounted == ops:
        node.flops = None

# %%
#| export
def as_tree(root, model=None):
    """Return a tree of branches as ``LayerTime``; the nearest layer known from ``model`` names those inside."""
    top = root.node(root.label.name, "")
    todo, order = [(root, top, model)], []
    while todo:
        branch, node, around = todo.pop()
        order.append((branch, node))
        names = {} if around is None else {id(child): (name, child) for name, child in Layer.children(around)}
        seen = Counter()
        for (kind, owner), inner in branch.inside.items():
            name, layer = names.get(owner, (kind, around))
            seen[name] += 1
            child = inner.node(name if seen[name] == 1 else f"{name} #{seen[name]}",
                               kind if inner.label.kind == "layer" else "region")
            node.children.append(child)
            todo.append((inner, child, layer))
    for branch, node in reversed(order):
        branch.ops += sum(inner.ops for inner in branch.inside.values())
        add_children(node, branch.ops)
    return top

# %% [markdown]
"""
**What the instrument costs.** The same small op many times, alone and recorded; the difference, in a private room that no other listener hears. With a handed clock nothing is measured, and the cost is `None`: not known.
"""

# %%
#| export
@lru_cache(maxsize=1)
def recording_cost_us():
    """Return the microseconds that recording adds to an op on this machine: best of several loops, measured once."""
    one = Tensor([1.0])

    def shortest(loops=9, ops=300):
        found = []
        for _ in range(loops):
            start = perf_counter_ns()
            for _ in range(ops):
                one + one
            found.append((perf_counter_ns() - start) / ops / 1000)
        return min(found)

    with untouched(()):  # a private room: nobody else hears this
        plain_us = shortest()
        with Recorder():
            return max(0.0, shortest() - plain_us)

# %% [markdown]
"""
The face. `profile` is what people import; its last methods need section 5.
"""

# %%
#| export
class _Recorded(Recorder):
    """What there is to know about a recording as such: its threads and labels, its time, its cost, what to doubt."""

    __slots__ = ("_threads",)

    def _over(self):
        if self.start_ns is None:
            raise ValueError("this profile has recorded nothing yet; run something inside: with profile() as p: ...")
        if self.stop_ns is None:
            raise ValueError("this profile is still recording; ask for its results after the with block")
        if self.lanes:
            stop_ns = max(self.start_ns, self.stop_ns)
            self._threads = [settle(lane, self.start_ns, stop_ns, self.record_shapes) for lane in self.lanes]
            self.lanes = []
        return self

    @property
    def threads(self):
        """What each thread did, as ``Slices``; the first is the one that entered the block."""
        return self._over()._threads

    @property
    def wall_ns(self):
        """How long the block took, in nanoseconds."""
        self._over()
        return max(self.stop_ns - self.start_ns, 0)

    @property
    def wall_ms(self):
        """How long the block took, in milliseconds."""
        return self.wall_ns / 1e6

    @property
    def overhead_per_event(self):
        """What recording one event costs on this machine (µs, measured once); None with a handed clock."""
        return recording_cost_us() if self.clock is None else None

    @property
    def warnings(self):
        """One sentence for each reason to trust the times less."""
        return list(self._over()._doubts())

    def _doubts(self):
        count = sum(map(len, self.threads))
        cost = (self.overhead_per_event or 0) * count / 1000
        if cost > 0.1 * self.wall_ms:
            yield (f"recording {count:,} events took about {about(cost)}, more than a tenth of the wall time: the self "
                   "times of regions and layers around small ops are too long by that")
        yield from self.doubts
        if any(slices.cut for slices in self.threads):
            yield "a region was open at the edge of the profile: only the part inside is counted"

# %%
#| export
class Event(NamedTuple):
    """One slice as a plain row.

    Attributes:
        kind, name: "op", "region" or "layer", and what it is called.
        thread: the number of its thread, 0 for the one that entered the block.
        scope: the names of what was around, outermost first.
        start_ns, end_ns: ns since the profile began.
        in_shapes, out_shape, attrs: of an op, attributes as text.
        num_bytes, flops: bytes moved, and FLOPs; None without a price.
        memory: bytes in use after it, None where they were not read.
    """

    kind: str
    name: str
    thread: int
    scope: tuple
    start_ns: int
    end_ns: int
    in_shapes: tuple | None
    out_shape: tuple | None
    num_bytes: int
    flops: int | None
    attrs: dict
    memory: int | None


def thread_events(slices, thread):
    """Yield each of one thread's slices as an ``Event``."""
    labels = slices.labels()
    scopes, memory = [()], dict(op_ends(slices, labels))  # scopes[parent + 1]: the names around
    for i, (number, parent) in enumerate(zip(slices.label, slices.parent)):
        label, around = labels[number], scopes[parent + 1]
        scopes.append(around if label.kind == "op" else (*around, label.name))
        kind = "region" if label.kind == "echo" else label.kind
        yield Event(kind, label.name, thread, around, slices.start[i], slices.end[i], label.in_shapes, label.out_shape,
                    label.num_bytes, label.flops, dict(label.attrs), memory.get(i))

# %%
#| export
class _Told(_Recorded):
    """What is told slice by slice, and what was recorded on what machine."""

    __slots__ = ()

    @property
    def events(self):
        """Return every slice as an ``Event``, in order of start."""
        rows = [thread_events(slices, number) for number, slices in enumerate(self.threads)]
        return list(merge(*rows, key=lambda event: event.start_ns))

    def memory_timeline(self):
        """Return (ms since the start, bytes, names of the open scopes) after each op; needs ``profile_memory=True``.

        ``ValueError``: memory was not read.
        """
        if not self.profile_memory:
            raise ValueError("memory was not read; use profile(profile_memory=True)")
        return sorted((event.end_ns / 1e6, event.memory, event.scope) for event in self.events if event.kind == "op")

    @property
    def workload(self):
        """A dict of what was recorded, with what, on what machine."""
        kinds = Counter({"op": 0, "region": 0, "layer": 0})
        for slices in self.threads:
            kind_of = [label.kind for label in slices.labels()]
            kinds.update(kind_of[number] for number in slices.label)
        return {"stages": "everything inside the block, in all threads", "ops": kinds["op"], "regions": kinds["region"],
                "layers": kinds["layer"], "threads": len(self.threads), "wall_ms": self.wall_ms,
                "record_shapes": self.record_shapes, "profile_memory": self.profile_memory,
                "clock": "perf_counter_ns" if self.clock is None else "handed in", **self._environment}

    def __repr__(self):
        if self.stop_ns is None:
            return "<profile, not finished>"
        count, threads = sum(map(len, self.threads)), len(self.threads)
        return f"<profile of {about(self.wall_ms)}, {count:,} slices, {threads} thread(s)>"

# %%
#| export
class profile(_Told):
    """Record every op, layer and region of all threads: ``with profile() as p: ...``, then ask ``p``.

    Shapes and times are kept, never a tensor.

    Args:
        record_shapes: False leaves shapes out of rows and traces.
        profile_memory: True reads memory after each op (bytes alive for tracemalloc, or what ``memory()`` returns),
            which disturbs the times.
        clock: returns nanoseconds, in the place of the machine's.
        memory: returns bytes in use.

    Raises:
        TypeError: a ``clock`` or a ``memory`` that is no function, or that gives no whole number.
        ValueError: entered twice, asked before its block is over, or beside a profile that goes by another clock.
    """

    __slots__ = ()

    def key_averages(self, group_by_input_shape=False):
        """Return ``KeyAverages``: a row for each op and user region; inclusive times count outermost instances only.

        ``group_by_input_shape``: a row for each op and its shapes; a ``ValueError`` where they were not recorded.
        """
        if group_by_input_shape and not self.record_shapes:
            raise ValueError("shapes were not recorded; use profile(record_shapes=True) to group by them")
        rows, nowhere = average_rows(self._over(), group_by_input_shape)
        main = self.threads[0]
        covered = sum(end - start for parent, start, end in zip(main.parent, main.start, main.end) if parent < 0)
        outside = (self.wall_ns - covered) / 1e6 + nowhere
        return KeyAverages(rows, self.wall_ms, outside, self.warnings)

    def by_layer(self, model=None):
        """Return the tree of layers and regions as a ``LayerTime``, all threads together; a ``model`` lends names."""
        known = None if model is None else {id(one): one for one in things_in(model) if isinstance(one, Scoped)}
        root = _Branch(Label("region", "everything"))
        for slices in self.threads:
            grow(root, slices, known)
        root.calls = 1
        return as_tree(root, model)

    def export_chrome_trace(self, path):
        """Write a Chrome trace, which Perfetto and chrome://tracing open; return the path.

        ``ValueError``: nothing was recorded, or the file cannot be written.
        """
        return write_whole(path, chrome_pieces(self._filled()))

    def export_speedscope(self, path):
        """Write a file that speedscope.app opens; return the path.

        ``ValueError``: nothing was recorded, or the file cannot be written.
        """
        return write_whole(path, speedscope_pieces(self._filled()))

    def _filled(self):
        if not any(map(len, self.threads)):
            raise ValueError("nothing was recorded: no op ran and no region was open inside the block; run something "
                             "there, then export")
        return self

# %% [markdown]
"""
**Use it.** A training step of a small classifier: 32 pictures of 64 pixels. *Guess first*: what share of the step is spent **inside ops**, in NumPy? And which is the most expensive row?
"""

# %%
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.optimizers import SGD

rng = np.random.default_rng(0)
classifier = Sequential(Linear(64, 32), ReLU(), Linear(32, 10))
pictures, digits = Tensor(rng.standard_normal((32, 64))), Tensor(rng.integers(0, 10, 32))
loss_of, optimizer = CrossEntropyLoss(), SGD(classifier.parameters(), lr=0.1)


def training_step(x=pictures, y=digits):
    with record_function("forward"):
        loss = loss_of(classifier(x), y)
    loss.backward()
    with record_function("update"):
        optimizer.step()
        for parameter in classifier.parameters():
            parameter.grad = None


for _ in range(5):
    training_step()  # warm up: the first call is always another story
with profile() as p:
    for _ in range(20):
        training_step()
print(p.key_averages().table(row_limit=10))

# %%
in_ops = sum(row.self_ms for row in p.key_averages() if row.kind == "op")
print(f"inside ops: {in_ops:.2f} of {p.wall_ms:.2f} ms, {in_ops / p.wall_ms:.0%}")
counted = [row for row in p.key_averages() if row.kind == "op" and row.flops == 0]
print(f"ops that compute nothing (0 FLOPs): {sum(row.self_ms for row in counted) / in_ops:.0%} of the time inside ops")
events = sum(map(len, p.threads))
print(f"recording: {events:,} slices at {p.overhead_per_event:.2f} µs, about {events * p.overhead_per_event / 1000 / p.wall_ms:.0%} of the wall time")

# %% [markdown]
"""
**First surprise.** What is not inside an op is Python, between the ops: in a model this small more than half of the step, as a rule. The rows `[backward]`, `[update]` and `[forward]` hold it as self time. A FLOP count sees none of it. And the instrument is part of the answer: a line under the table says so
when recording took more than a tenth of the time.

The same steps by layer. *Guess* before you look: which of the three layers and the loss takes most, and with what share of the FLOPs?
"""

# %%
tree = p.by_layer(classifier)
print(tree.table())
for part in tree.children:
    for _, node in part.walk():
        if node.type in ("Linear", "CrossEntropyLoss"):
            print(f"{part.name:>8} of {node.name:<16} {node.total_ms / tree.total_ms:4.0%} of the time, {node.flops / tree.flops:5.1%} of the FLOPs")

# %% [markdown]
"""
**Second surprise.** The loss, with hardly any FLOPs, costs as much as the two `Linear`s together, or more: it is many small ops, forward and backward, and every one of them pays the way through Python. Nobody who counts FLOPs would have looked there.

**What if** the batch were larger? The number of ops stays, their work grows. (A large product goes to several threads; on a busy machine it waits for the last of them, and the third line is then slower than it need be.)
"""

# %%
for batch in (1, 32, 1024):
    many = Tensor(rng.standard_normal((batch, 64)))
    classifier(many)
    passes = []
    for _ in range(10):
        with profile() as q:
            classifier(many)
        passes.append(q)
    q = min(passes, key=lambda one: one.wall_ns)
    rows = {row.key: row for row in q.key_averages()}
    in_ops = sum(row.self_ms for row in rows.values())
    print(f"batch {batch:5}: {q.wall_ms:7.3f} ms a pass (the quickest of 10), {in_ops / q.wall_ms:4.0%} inside ops, linear at {rows['linear'].gflops_per_second:.3g} GFLOP/s")

# %% [markdown]
"""
<details><summary>Why is a region's total larger than the sum of its rows' totals, or smaller?</summary>
Larger: Python between the ops belongs to the region, not to an op. Smaller: nested regions each contain the inner ones, so totals of nested rows overlap. Only self times add up.
</details>
<details><summary>Why does the profile keep shapes, but no arrays?</summary>
An array that is kept cannot be freed: the profile of a training step would hold every activation of it, and the memory timeline would show the instrument.
</details>
"""

# %% [markdown]
"""
## 5. A file that others can open

*10 minutes*

**Question.** A table forgets *when*. Which gaps are there, what overlaps, which step was the slow one?

For that one looks at the slices on a time axis. Viewers exist (Perfetto, `chrome://tracing`, speedscope); all they want is a file they understand. A **Chrome trace** is JSON, an object with a list of events:

```
{"traceEvents": [
  {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "MainThread: forward"}},
  {"ph": "X", "pid": 1, "tid": 1, "name": "linear", "cat": "op", "args": {...}, "ts": 12.345, "dur": 3.210},
  {"ph": "C", "pid": 1, "tid": 0, "name": "memory", "ts": 15.555, "args": {"bytes": 41058}}
]}
```

`M` names a lane, `X` is a slice, `C` a counter, `i` a moment. `ts` and `dur` are **microseconds**. Lanes (`tid`) are rows in the picture: slices of one lane must nest, or the viewer loses some. Hence one lane for forward and one for backward of each thread.

The unit is a trap. Our times are whole nanoseconds. Divided by 1000 they become floats, which round; two neighbours that touched may then overlap by a billionth, after you took care in section 2.

**Task.** Write `microseconds(time_ns)`: the exact number of microseconds of a whole number of nanoseconds (0 or more), as *text* with three decimals, made of whole numbers only. The file is text anyway.

Example: `microseconds(1234567)` is `"1234.567"`.

<details><summary>Hint 1: idea</summary>
How many whole microseconds, and how many nanoseconds are left?
</details>
<details><summary>Hint 2: approach</summary>
Integer division and remainder. The remainder needs its leading zeros: a format with <code>03d</code>.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Cents as euros: <code>f"{cents // 100}.{cents % 100:02d}"</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "microseconds", "solution": true}
#| export
def microseconds(time_ns):
    """Return whole nanoseconds (0 or more) as the text of a number of microseconds, exact: 1234567 -> "1234.567"."""
    ### BEGIN SOLUTION
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-microseconds", "points": 0, "skill": "traces"}
def test_microseconds():
    """Leading zeros, whole microseconds, and more digits than a float has."""
    check("1,234,567 ns", microseconds(1234567), "1234.567", {"1.234567": "that is milliseconds", "1234567000": "multiplied, not divided"})
    check("1,002 ns", microseconds(1002), "1.002", {"1.2": "the remainder lost its leading zeros"})
    check("0 and 999 ns", (microseconds(0), microseconds(999)), ("0.000", "0.999"))
    check("three years and a nanosecond", microseconds(10**17 + 1), "100000000000000.001", {
        "100000000000000.000": "a float has sixteen digits; stay with whole numbers"})


test_microseconds()

# %% [markdown]
"""
The rest is given: names go through JSON escapes, `NaN` is refused, and the file is written under another name and renamed when it is whole, so that a full disk leaves no half trace and the old one is still there. (*Skip on first reading.*)
"""

# %%
#| export
def clean(text):
    """Return a text that every reader of JSON takes: half a surrogate pair becomes the sign for what is not known."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def as_json(value):
    """Return a value as strict JSON in ASCII: names escaped, no NaN."""
    return json.dumps(value, allow_nan=False)

# %%
#| export
def label_args(label):
    """Return what a trace says about a slice when it is clicked."""
    if label.kind != "op":
        return {}
    args = {"bytes": label.num_bytes, "flops": label.flops}
    if label.in_shapes is not None:
        args |= {"input_shapes": label.in_shapes, "output_shape": label.out_shape}
    return args | {clean(name): clean(text) for name, text in label.attrs}

# %%
#| export
def in_backward(slices, labels):
    """Say for each slice whether it belongs to a backward pass."""
    backward = [label.kind == "region" and label.name == "backward" for label in labels]
    found = []
    for number, parent in zip(slices.label, slices.parent):
        found.append(backward[number] or (parent >= 0 and found[parent]))
    return found

# %%
#| export
def chrome_slices(slices, labels, tid):
    """Yield the trace events of one thread as JSON: forward slices in lane ``tid``, backward ones in ``tid + 1``."""
    heads = {}
    for i, (number, start, end, back) in enumerate(zip(slices.label, slices.start, slices.end,
                                                       in_backward(slices, labels))):
        key = number, back, i in slices.cut
        if key not in heads:
            label = labels[number]
            args = label_args(label) | ({"cut": "was open at the edge of the profile"} if key[2] else {})
            kind = "region" if label.kind == "echo" else label.kind
            heads[key] = as_json({"ph": "X", "pid": 1, "tid": tid + back, "name": clean(label.name), "cat": kind,
                                  "args": args})[:-1]
        yield f'{heads[key]}, "ts": {microseconds(start)}, "dur": {microseconds(end - start)}}}'
        if key[2]:
            yield as_json({"ph": "i", "pid": 1, "tid": tid + back, "name": clean(f"cut: {labels[number].name}"),
                           "s": "t"})[:-1] + f', "ts": {microseconds(end)}}}'

# %%
#| export
def chrome_names(slices, labels, tid):
    """Yield the events that name and order the lanes of one thread, ``tid`` and ``tid + 1``."""
    for lane, used in (("forward", True), ("backward", any(in_backward(slices, labels)))):
        if used:
            for name, args in (("thread_name", {"name": clean(f"{slices.name}: {lane}")}),
                               ("thread_sort_index", {"sort_index": tid})):
                yield as_json({"ph": "M", "pid": 1, "tid": tid, "name": name, "args": args})
        tid += 1

# %%
#| export
def op_ends(slices, labels):
    """Yield (index, bytes) after each op of a thread, where memory was read."""
    ops = [label.kind == "op" for label in labels]
    yield from zip([i for i, number in enumerate(slices.label) if ops[number]], slices.memory)

# %%
#| export
def chrome_events(profile):
    """Yield every event of a Chrome trace as JSON text."""
    yield as_json({"ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": {"name": "tinytorch"}})
    for number, slices in enumerate(profile.threads):
        labels = slices.labels()
        yield from chrome_names(slices, labels, 2 * number + 1)
        yield from chrome_slices(slices, labels, 2 * number + 1)
        for i, num_bytes in op_ends(slices, labels):
            yield (f'{{"ph": "C", "pid": 1, "tid": 0, "name": "memory", "ts": {microseconds(slices.end[i])}, '
                   f'"args": {{"bytes": {num_bytes}}}}}')

# %%
#| export
def write_whole(path, pieces):
    """Write a text file from pieces, all or nothing: under another name beside it, then renamed. Return the path.

    ``TypeError``: a path that is no name. ``ValueError``: what cannot be written; an ``OSError`` is then its cause.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path is {path!r}; want the name of a file, like 'trace.json'")
    path = Path(path)
    try:
        target = Path(os.path.realpath(path))  # behind a link, the file itself
        if target.exists() and not target.is_file():
            raise OSError("it is a folder" if target.is_dir() else "it is no ordinary file")
        draft = target.with_name(f".trace-{os.urandom(8).hex()}.tmp")
        try:
            with open(draft, "x", encoding="utf-8", newline="\n") as file:
                file.writelines(pieces)
            os.replace(draft, target)
        finally:
            draft.unlink(missing_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise ValueError(f"cannot write {str(path)!r}: {getattr(error, 'strerror', None) or error}; name a file in a "
                         "folder that exists and may be written") from error
    return path

# %%
#| export
def chrome_pieces(profile):
    """Yield a Chrome trace as text, an event a line."""
    yield '{"displayTimeUnit": "ms", "otherData": '
    yield as_json({key: clean(str(value)) for key, value in profile.workload.items()})
    comma = ', "traceEvents": [\n'
    for event in chrome_events(profile):
        yield comma + event
        comma = ",\n"
    yield "\n]}\n"

# %% [markdown]
"""
speedscope wants the same walk told differently: open, close, open, close, never back in time, last in first out. That is section 1 backwards.
"""

# %%
#| export
def speedscope_events(slices, frames):
    """Yield the openings and closings of one thread's slices: times never decrease, the last opened closes first.

    ``frames``, the number of each name, grows.
    """
    names = [clean(label.name) or "(no name)" for label in slices.labels()]
    stack = []
    for i, (parent, start) in enumerate(zip((*slices.parent, -1), (*slices.start, None))):
        while stack and stack[-1][0] != parent:
            done, frame = stack.pop()
            yield f'{{"type": "C", "frame": {frame}, "at": {slices.end[done]}}}'
        if start is not None:
            frame = frames.setdefault(names[slices.label[i]], len(frames))
            yield f'{{"type": "O", "frame": {frame}, "at": {start}}}'
            stack.append((i, frame))

# %%
#| export
def speedscope_pieces(profile):
    """Yield a speedscope file as text: one evented profile per thread, in nanoseconds."""
    frames, between = {}, ""
    yield '{"$schema": "https://www.speedscope.app/file-format-schema.json", "exporter": "tinytorch", '
    yield '"name": "tinytorch profile", "activeProfileIndex": 0, "profiles": ['
    for slices in profile.threads:
        if len(slices):
            yield (f'{between}\n{{"type": "evented", "name": {as_json(clean(slices.name))}, "unit": "nanoseconds", '
                   f'"startValue": 0, "endValue": {profile.wall_ns}, "events": ')
            comma = "[\n"
            for event in speedscope_events(slices, frames):
                yield comma + event
                comma = ",\n"
            yield "]}"
            between = ","
    yield f'], "shared": {{"frames": {as_json([{"name": name} for name in frames])}}}}}\n'

# %%
import tempfile

folder = Path(tempfile.mkdtemp())
many, many_digits = Tensor(rng.standard_normal((2048, 64))), Tensor(rng.integers(0, 10, 2048))
with profile(profile_memory=True) as one_step:
    training_step(many, many_digits)
trace = one_step.export_chrome_trace(folder / "step.json")
print(f"{trace.name}: {trace.stat().st_size:,} bytes; open it at ui.perfetto.dev")
print(f"{one_step.export_speedscope(folder / 'step.speedscope.json').name}: open it at speedscope.app")
phases = Counter(event["ph"] for event in json.loads(trace.read_text(encoding="utf-8"))["traceEvents"])
print(f"{dict(phases)}: names, slices, readings of memory")

# %% [markdown]
"""
Do not trust a file because it was written. Read it back and check what a viewer relies on: in each lane, a slice either lies inside the one that is open or begins after it has ended.
"""

# %%
def lanes_nest(path):
    """Return how many slices of a Chrome trace there are, or say which one overlaps."""
    stacks, count = {}, 0
    for event in json.loads(path.read_text(encoding="utf-8"))["traceEvents"]:
        if event["ph"] == "X":
            stack, start, end = stacks.setdefault(event["tid"], []), event["ts"], event["ts"] + event["dur"]
            while stack and start >= stack[-1] - 1e-6 and end > stack[-1] + 1e-6:
                stack.pop()
            if stack and end > stack[-1] + 1e-6:
                raise ValueError(f"{event['name']} at {start} overlaps")
            stack.append(end)
            count += 1
    return count


print(f"{lanes_nest(trace)} slices in their lanes, none overlaps")

# %% [markdown]
"""
The same step as a picture: memory after each op, on 2,048 pictures. It rises while the forward pass keeps what the backward pass will need, and falls as the walk back gives it up (Module 05 frees the graph on the way). The peak is not at the end of the forward pass, but on
the way back: there a layer's new gradient is alive together with the activations that it was made from.
"""

# %%
timeline = one_step.memory_timeline()
if "IPython" in sys.modules:  # a terminal has the line below
    from IPython.display import display

    from tinytorch.perf.pictures import memory_chart

    display(memory_chart(timeline, "one training step, memory read after each op"))
peak = max(timeline, key=lambda one: one[1])
print(f"peak {peak[1] / 1024**2:.2f} MB after op {timeline.index(peak) + 1} of {len(timeline)}, in {' / '.join(peak[2])}")

# %% [markdown]
"""
## 6. A worked case: three spellings of one chain

*25 minutes*

**Question.** A linear layer hands on `h`. What follows is five small steps: scale by 1.5, shift by -0.25, GELU, add a residual, clamp to [-6, 3]. You may spell that chain in framework ops, with one op a step, or as one op
for all of it. The arithmetic is the same. How much faster is the third spelling than the first?

```
primitive   h ─×─▶ ─+─▶ ─×─▶ ─×─▶ ─×─▶ ─+─▶ ─×─▶ ─tanh─▶ ─+─▶ ─×─▶ ─×─▶ ─+r─▶ ─clamp─▶     every arrow: an array written and read
per step    h ─×─▶ ─+─▶ ─────────────────gelu──────────────────────▶ ─+r─▶ ─clamp─▶
fused       h, r ──────────────────────────────────────────────────────────────────▶         one walk
```

Memory is the slow part of such steps, so count what moves. **Guess first**, from the drawing: how many floats are read and written for each element, in each spelling? And so: how many times as fast is the last as the first?
"""

# %%
my_floats, my_ratio = None, None  # primitive, per step, fused, like (1, 2, 3); and fused against primitive


def said(guess):
    """Return your guess as the lines below quote it."""
    return "you did not guess" if guess is None else f"you said {guess}"


# %% [markdown]
"""
The ops. Whoever wants `gelu_tanh` to move two floats an element, not many, must not let NumPy make its eight passes over the whole array. It walks in *pieces* of 32,768 numbers, 128 KiB each, and makes the eight passes over one piece while the piece is in the
cache. `fused_chain` does the same for all five steps.
"""

# %%
from math import pi, prod, sqrt

from tinytorch.core.activations import gelu
from tinytorch.core.autograd import no_grad
from tinytorch.core.tensor import op, same_shape
from tinytorch.perf.profiling import compare, flops, observe

PIECE, ROOT = 32_768, sqrt(2 / pi)


def in_pieces(*arrays):
    """Yield matching flat pieces of contiguous arrays, small enough to stay in the cache."""
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, PIECE):
        yield [array[start:start + PIECE] for array in flat]


def gelu_into(out, x):
    """Write GELU's tanh form of x into out: eight passes over one piece."""
    np.multiply(x, x, out=out)
    out *= ROOT * 0.044715
    out += ROOT
    out *= x
    np.tanh(out, out=out)
    out += 1
    out *= x
    out *= 0.5


# %%
@op(shape=same_shape)
def gelu_tanh(a):
    """GELU in one op: a read, the result written."""
    out = np.empty_like(a)
    for y, x in in_pieces(out, a):
        gelu_into(y, x)
    return out


@op(shape=same_shape)
def clamp(a, low, high):
    """Hold a between two bounds."""
    return np.clip(a, low, high)


@op(shape=lambda h, residual: h)
def fused_chain(h, residual):
    """The whole chain in one walk."""
    out, scaled = np.empty_like(h), np.empty(min(PIECE, h.size), h.dtype)
    for y, x, r in in_pieces(out, h, residual):
        s = scaled[:x.size]
        np.multiply(x, 1.5, out=s)
        s -= 0.25
        gelu_into(y, s)
        y += r
        np.clip(y, -6, 3, out=y)
    return out


for operation, price_each in ((gelu_tanh, 9), (clamp, 1), (fused_chain, 13)):
    flops(operation)(lambda out_shape, *in_shapes, each=price_each, **how: each * prod(out_shape))

# %% [markdown]
"""
The three spellings, and the door's own count of what moves:
"""

# %%
def primitive(h, r):
    """Framework ops only; GELU alone is nine."""
    return clamp(gelu(h * 1.5 - 0.25) + r, low=-6.0, high=3.0)


def per_step(h, r):
    """One op a step."""
    return clamp(gelu_tanh(h * 1.5 - 0.25) + r, low=-6.0, high=3.0)


spellings = {"primitive": primitive, "per step": per_step, "fused": fused_chain}
rng = np.random.default_rng(88)
h, r = Tensor(rng.standard_normal((512, 1024), dtype=np.float32)), Tensor(rng.uniform(-2, 2, (512, 1024)).astype(np.float32))
moved = {}
for name, spelling in spellings.items():
    events = observe(lambda spelling=spelling: spelling(h, r))[0]
    moved[name] = sum(event.num_bytes for event in events)
    print(f"{name:>9}: {len(events):2d} ops, {moved[name] / h.nbytes:4.1f} floats moved for each element")
print(f"({said(my_floats)}); from bytes alone, fused is {moved['primitive'] / moved['fused']:.1f} times as fast as primitive")

# %% [markdown]
"""
Before any clock: do they compute the same, and does the clamp do anything? `compare` refuses to time what does not agree, and then times in shuffled pairs.
"""

# %%
out = fused_chain(h, r).data
print(f"of {out.size:,} outputs {(out == 3).sum():,} sit on the upper bound, {(out == -6).sum():,} on the lower; GELU is {gelu(h * 1.5 - 0.25).data.min():.2f} at the least")
measured = {}
for slow, fast in (("primitive", "per step"), ("per step", "fused"), ("primitive", "fused")):
    found = compare(spellings[slow], spellings[fast], [(h, r)], rtol=1e-5, atol=1e-6, rounds=20, seed=88)
    measured[slow, fast] = 1 / found["ratio"]
    low, high = sorted(1 / end for end in found["interval"])
    unclear = "; 1 is inside: no order" if low < 1 < high else ""
    print(f"{fast:>8} is {measured[slow, fast]:.2f} times as fast as {slow:<9} ({low:.2f} to {high:.2f}{unclear}); bytes said {moved[slow] / moved[fast]:.2f}*")
print(f"fused against primitive: {said(my_ratio)}, measured {measured['primitive', 'fused']:.2f}")
print(f"* each tensor is {h.nbytes / 1024**2:.0f} MB, not eight times your last-level cache: the cache may help,\n  most of all the spelling that moves most")

# %% [markdown]
"""
**Surprise.** The order is as the bytes say, wherever an interval shows one (on a busy machine the two quick spellings may stay without); the ratio is not. Why is nobody on the lower bound? (The first line says how low GELU ever gets, on all of `h`; the residual is never below -2.) And where did the promised factor go? Look op by op:
"""

# %%
with no_grad(), profile(record_shapes=True) as p:
    for name, spelling in spellings.items():
        with record_function(name):
            spelling(h, r)
print(p.key_averages(group_by_input_shape=True).table(sort_by="self_ms", row_limit=12))

# %% [markdown]
"""
Times are no answer yet; hold them against what the machine can do. Three ceilings, measured now: how fast bytes stream, how many tanhs a nanosecond brings, what it costs to write to memory that is *new*. The system hands memory out in pages, and finds and clears each when it is first touched; so count the pages, and price one. And a fourth number, what one piece costs when nothing comes from memory at all.
"""

# %%
def best_ns(call, times=15):
    """Return the shortest of several calls: the machine in peace."""
    call()
    took = []
    for _ in range(times):
        start = perf_counter_ns()
        call()
        took.append(perf_counter_ns() - start)
    return min(took)


try:
    from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
    from resource import RUSAGE_SELF, getrusage
except ImportError:  # Windows does not say: there, new memory is part of what is left
    mmap = None


def new_pages(call):
    """Return how many pages of memory a call touches for the first time, the fewest of five calls; 0 if unknown."""
    if mmap is None:
        return 0
    readings = []
    for _ in range(6):
        call()
        readings.append(getrusage(RUSAGE_SELF).ru_minflt)
    return min(after - before for before, after in zip(readings, readings[1:]))


def sum_into_new():
    """Write a sum into memory fresh from the system; without such, into the old."""
    fresh = target if mmap is None else np.frombuffer(mmap(-1, h.nbytes, flags=MAP_PRIVATE | MAP_ANONYMOUS), h.dtype)
    np.add(h.data, other, out=fresh.reshape(h.shape))


other, target, piece = h.data.copy(), h.data.copy(), h.data.reshape(-1)[:PIECE].copy()
streaming = best_ns(lambda: np.add(h.data, other, out=target))
pages_touched = new_pages(sum_into_new)
one_page = max(best_ns(sum_into_new) - streaming, 0) / max(pages_touched, 1)
one_tanh = best_ns(lambda: np.tanh(piece, out=target.reshape(-1)[:PIECE])) / PIECE
in_cache = {"primitive": 0.0, "per step": best_ns(lambda: gelu_tanh.fn(piece), 200) / PIECE - one_tanh, "fused": best_ns(lambda: fused_chain.fn(piece, piece), 200) / PIECE - one_tanh}
print(f"streaming {3 * h.nbytes / streaming:.1f} GB/s; {1 / one_tanh:.1f} tanh a ns; a new page {one_page / 1e3:.2f} µs ({pages_touched} in {h.nbytes / 1024**2:.0f} MB)")

# %%
print("     chain, ms  pages   bytes   +tanh  +pages  = explained   took   left   passes in cache   left")
for name, spelling in spellings.items():
    pages = new_pages(lambda spelling=spelling: spelling(h, r))
    parts = [moved[name] / (3 * h.nbytes) * streaming, h.size * one_tanh, pages * one_page]
    took, inside = best_ns(lambda spelling=spelling: spelling(h, r), 7), max(in_cache[name], 0) * h.size
    print(f"{name:>14} {pages:6} {parts[0] / 1e6:7.2f} {parts[1] / 1e6:7.2f} {parts[2] / 1e6:7.2f} {sum(parts) / 1e6:12.2f} {took / 1e6:6.2f} {1 - sum(parts) / took:6.0%} {inside / 1e6:17.2f} {1 - (sum(parts) + inside) / took:6.0%}")

# %% [markdown]
"""
Read the last columns downwards. Bytes, tanh and new pages explain most of the first row, and the smaller part of the fused spelling, whose rest is passes in the cache. (Each number is the shortest of several, but of its own moment: on a busy machine a row may be off by a fifth, up or down. Run the two cells again.) Fusing took the memory away, and what stood behind it came into view: twelve passes of arithmetic *inside* the cache. A ceiling you have removed is not your ceiling any more.
(Somewhat below zero in the last column: the first and the last pass over a piece were counted twice, as bytes and in the cache.)

<details><summary>What would you try next: fewer bytes, or something else?</summary>
Something else. The fused op's bytes are a small part of its time now. Fewer passes over a piece (a compiled loop that keeps a number in a register through all twelve), a second core, or a cheaper GELU would help; a smaller data type would, too, but through the arithmetic.
</details>
<details><summary>And the whole model, with its linear layer?</summary>
Amdahl. The layer takes as long in each spelling, so the ratio of the whole is smaller than that of the chain.
</details>

What the primitive spelling pays for pages depends on whether the allocator keeps arrays of 2 MB and hands them out again: it does so for a few at a time, not for as many as that spelling lets go of at its end. The case at full size, 8,192 rows and every tensor 32 MB, with your machine's own figures: `python benchmarks/worked_case.py`; one run of it, read in the same way, is in `docs/worked-case.md`. Arrays that large go back to the system each time, and every page of the next one is touched for the first time:
there it is the second largest part of what the primitive spelling pays.
"""

# %% [markdown]
"""
## 7. Two questions, two answers

*10 minutes*

**Question.** "How long does your model take?" Two people ask. One serves it and wants to know what a forward pass costs; the other typed a prompt and waits. Is it one number?

**Guess first**: a tiny GPT reads 21 characters and writes 40. How many warm forward passes, over the prompt, is the whole request worth? And the first request against the second?
"""

# %%
my_passes, my_first = None, None

# %%
from tinytorch.core.tokenization import CharTokenizer
from tinytorch.core.transformers import GPT

prompt, new = "to be, or not to be: ", 40
tokenizer = CharTokenizer(prompt + "that is the question")
gpt = GPT(tokenizer.vocab_size, 64, 2, 4, max_seq_len=128, rng=np.random.default_rng(0)).eval()


def timed_request():
    """Time one request, text in to text out: (tokenize, generate, decode), in ms."""
    times = [perf_counter_ns()]
    ids = tokenizer.encode(prompt)
    times.append(perf_counter_ns())
    ids = gpt.generate(ids, new, temperature=0)
    times.append(perf_counter_ns())
    tokenizer.decode(ids)
    times.append(perf_counter_ns())
    return [(end - start) / 1e6 for start, end in zip(times, times[1:])]


def timed_forward():
    """Time one pass over the prompt, tokens to logits, in ms."""
    tokens = Tensor(tokenizer.encode(prompt))
    with no_grad():
        start = perf_counter_ns()
        gpt(tokens)
        return (perf_counter_ns() - start) / 1e6

# %%
first = timed_request()  # this model's first; imports, building and this process's warmth are not in it
turns = [(timed_forward(), timed_request()) for _ in range(5)]  # in turns, so that the machine's mood hits both
forward, warm = sorted(turn[0] for turn in turns)[2], sorted((turn[1] for turn in turns), key=sum)[2]
for name, one in (("first request", first), ("warm request", warm)):
    print(f"{name:>14}: {sum(one):7.2f} ms = tokenize {one[0]:.3f} + generate {one[1]:.2f} + decode {one[2]:.3f}; {one[1] / new:.2f} ms a new token")
print(f"{'forward pass':>14}: {forward:7.2f} ms, from {len(prompt)} tokens to their logits; nothing else is in it")
print(f"a warm request is worth {sum(warm) / forward:.0f} forward passes over the prompt ({said(my_passes)})")
print(f"the first request took {sum(first) / sum(warm):.2f} times the warm one ({said(my_first)})")

# %% [markdown]
"""
Neither number gives you the other. The request is 40 passes, but over texts that grow from 21 to 60 tokens, with a token chosen after each; and the *first* one pays for what happens once. How much that is depends on where you say that "first" begins: here the process was warm already, so little is left of it, less than a busy machine adds or spares by chance (below 1, that is what you see). In a fresh process, with the import
named beside it, it is another number again: `python benchmarks/two_questions.py`.

So a time without its boundaries is no answer. Write down where the region begins, where it ends, and what had happened before.
"""

# %% [markdown]
"""
## 8. What it means

*10 minutes*

- **Counts tell what is needed, clocks what is paid, traces when.** Start with the tree (which layer), go to self times (which code), open the trace only for questions with a *when* in them.
- **An instrument has a price per event.** It falls on small ops, and it lands in the self time of whatever is around them. A profile that doubles the run has measured itself; the table says so.
- **What a trace does not see:** what happens inside an op (BLAS, page faults), other processes, time lost before the block. An op that waits looks like an op that works.

<details><summary>Row A has a total of 90 % and a self time of 1 %. Where do you look?</summary>
Not at A's own code: at what it calls. Follow the tree downwards until self time appears.
</details>
<details><summary>A colleague's profiler shows 140 % inclusive time for a recursive function. What went wrong?</summary>
It added up inner instances that lie inside outer ones. Only outermost instances may be counted.
</details>
<details><summary>Recording costs 2 µs an event, a model has 500 ops in 20 ms. May you trust the table?</summary>
500 × 2 µs is 1 ms, 5 % of the wall time: the order of rows will be right, a difference of 3 % between two rows may not be.
</details>
<details><summary>Why are slices of the backward pass of a layer not recorded, but made up from its ops?</summary>
No code of the layer runs on the way back: the gradient rules of its ops do. The scope of the forward op says whose they are, and the first and the last of them bound the time.
</details>
<details><summary>Two threads each spend 10 ms in the same region, at the same time. The row says 20 ms, the wall clock 10. Is that wrong?</summary>
No. Inclusive time never exceeds the wall time of <em>one</em> thread; a row over several threads is work, not waiting. The trace, with a lane for each, shows which.
</details>
"""
