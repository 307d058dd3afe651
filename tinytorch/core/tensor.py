import threading
from contextlib import contextmanager
from math import prod
from time import perf_counter_ns
from types import FunctionType
from typing import NamedTuple

import numpy as np


def as_array(data, dtype=None):
    """Turn numbers, lists or arrays into an array; share memory unless the type must change.

    Python numbers, lists and float64 become float32; every other NumPy type is kept, so int8 stays one byte.
    Raises ``TypeError`` for text, objects and ragged lists.
    """
    try:
        array = np.asarray(data)
    except ValueError:
        raise TypeError("Tensor: a ragged list came; every row must have the same length") from None
    if array.dtype.kind not in "fiub":
        raise TypeError(f"Tensor: {type(data).__name__} of {array.dtype} came; want numbers or booleans")
    if dtype is None:
        chosen = isinstance(data, (np.ndarray, np.generic)) and array.dtype != np.float64
        dtype = array.dtype if chosen else np.float32
    return np.asarray(array, dtype=dtype)


def broadcast_shape(*shapes):
    """Return the shape that all ``shapes`` broadcast to: aligned at the right, a 1 stretches.

    Raises ``ValueError`` with both shapes and the two sizes that do not fit.
    Source: NumPy's broadcasting rules.
    """
    out = ()
    for shape in shapes:
        rank = max(len(out), len(shape))
        left, right = (1,) * (rank - len(out)) + out, (1,) * (rank - len(shape)) + tuple(shape)
        for m, n in zip(left, right):
            if m != n and 1 not in (m, n):
                raise ValueError(f"{out} and {tuple(shape)}: sizes {m} and {n} do not broadcast")
        out = tuple(n if m == 1 else m for m, n in zip(left, right))
    return out


def matmul_shape(a, b):
    """Return the shape of ``a @ b``: (..., m, k) @ (..., k, n) -> (..., m, n); leading axes broadcast.

    A one-axis operand is a vector and its axis is contracted away.
    Raises ``ValueError`` on scalars and unequal inner sizes.
    """
    if not a or not b:
        raise ValueError(f"{a} @ {b}: a scalar has no axis to contract; use * instead")
    rows, columns = (1, *a)[-2:-1] if len(a) > 1 else (), b[-1:] if len(b) > 1 else ()
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        raise ValueError(f"{a} @ {b}: inner sizes {a[-1]} and {inner} differ")
    return (*broadcast_shape(a[:-2], b[:-2]), *rows, *columns)


def normalize_axes(rank, axis):
    """Return ``axis`` (None, int or tuple) as a tuple of axes in 0..rank-1; ``ValueError`` when one does not exist."""
    axes = tuple(range(rank)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    for one in axes:
        if isinstance(one, bool) or not isinstance(one, (int, np.integer)):
            raise TypeError(f"axis {one!r}: want an integer")
        if not -rank <= one < rank:
            raise ValueError(f"axis {one} does not exist in a tensor of {rank} axes")
    axes = tuple(int(one) % rank for one in axes)
    if len(set(axes)) < len(axes):
        raise ValueError(f"axis {axis}: the same axis twice")
    return axes


def reduce_shape(a, axis=None, keepdims=False):
    """Return the shape of ``a`` after reducing ``axis`` (None: all); with ``keepdims`` a reduced axis stays as 1."""
    axes = normalize_axes(len(a), axis)
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(a))
    return tuple(n for i, n in enumerate(a) if i not in axes)


def reshape_shape(a, shape):
    """Return ``shape`` with a -1 filled in so that it holds as many elements as ``a``, or raise ``ValueError``."""
    size, known = prod(a), prod(n for n in shape if n != -1)
    unknown = shape.count(-1)
    fits = size == known if unknown == 0 else unknown == 1 and known > 0 and size % known == 0
    if not fits or min(shape, default=0) < -1:
        raise ValueError(f"{a} to {shape}: {size} elements do not fill that shape")
    return tuple(size // known if n == -1 else n for n in shape)


def transpose_shape(a, axes):
    """Return ``a`` with its axes in the order ``axes``; ``ValueError`` unless each axis is named once."""
    order = normalize_axes(len(a), tuple(axes))
    if len(order) != len(a):
        raise ValueError(f"{a} with axes {tuple(axes)}: every axis must be named once")
    return tuple(a[i] for i in order)


class _State:
    """What one thread's door knows: gradient mode, shape-only mode, the open scopes, who listens."""

    __slots__ = ("grad_enabled", "shape_only", "path", "hearers", "scope_hearers")

    def __init__(self):
        self.grad_enabled = True
        self.shape_only = False
        self.path = ()
        self.hearers = ()
        self.scope_hearers = ()


class _Thread(threading.local):
    """One ``_State`` for every thread that asks."""

    def __init__(self):
        self.state = _State()


_thread = _Thread()
_everywhere = ([], [])  # hearers of ops and of scopes, in all threads


def thread_state():
    """Return this thread's door state; its ``grad_enabled`` says whether ops remember how they were made."""
    return _thread.state


class OpEvent(NamedTuple):
    """One computation that passed the door. Shapes are tuples, times are ``perf_counter_ns``; no array is kept."""

    op: "Op"
    in_shapes: tuple
    out_shape: tuple
    num_bytes: int  # algorithmic traffic: inputs read and output written; 0 for a view
    attrs: dict
    scope: tuple
    start_ns: int
    end_ns: int


class Scope(NamedTuple):
    """One open region: its label and, for a layer, the ``id`` of the layer that opened it."""

    name: str
    owner: int | None = None


class scope:
    """Label a region: ``with scope("attention"): ...``; events inside carry it in their ``scope`` path."""

    __slots__ = ("entry", "outer")

    def __init__(self, name, owner=None):
        self.entry = Scope(name, owner)

    def __enter__(self):
        state = _thread.state
        self.outer = state.path
        state.path = (*self.outer, self.entry)
        self._tell(state, True)
        return self

    def __exit__(self, *exc):
        state = _thread.state
        self._tell(state, False)
        state.path = self.outer

    def _tell(self, state, opened):
        if state.scope_hearers or _everywhere[1]:
            now = perf_counter_ns()
            for hear in (*state.scope_hearers, *(() if state.shape_only else _everywhere[1])):
                hear(opened, self.entry, now)


@contextmanager
def listen(hear, scopes=None, all_threads=False):
    """Call ``hear(event)`` for every op, and ``scopes(opened, entry, time_ns)`` for every scope, inside the block.

    Hears this thread only, or every thread with ``all_threads=True``; shape-only runs stay private to the
    listeners opened inside them.
    """
    if all_threads:
        pairs = [(room, call) for room, call in zip(_everywhere, (hear, scopes)) if call is not None]
        for room, call in pairs:
            room.append(call)
        try:
            yield
        finally:
            for room, call in pairs:
                room.remove(call)
        return
    state = _thread.state
    before = state.hearers, state.scope_hearers
    state.hearers = before[0] if hear is None else (*before[0], hear)
    state.scope_hearers = before[1] if scopes is None else (*before[1], scopes)
    try:
        yield
    finally:
        state.hearers, state.scope_hearers = before


def hollow(shape, dtype=np.float32):
    """Return an array of ``shape`` and ``dtype`` that holds a single zero: right in size, a few bytes in memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)


@contextmanager
def shape_only():
    """Run ops on shapes only inside the block: nothing is computed, outputs and new weights are hollow.

    The block is a room of its own: outside listeners and scopes do not hear it; what you open inside does.
    """
    state, room = _thread.state, _State()
    room.shape_only, room.grad_enabled = True, state.grad_enabled
    _thread.state = room
    try:
        yield
    finally:
        _thread.state = state


def is_shape_only():
    """Say whether this thread is inside ``shape_only()``."""
    return _thread.state.shape_only


class Node(NamedTuple):
    """How a tensor was made: the op, its input tensors, its attributes and the scope it ran in."""

    op: "Op"
    inputs: tuple
    attrs: dict
    scope: tuple


class _Behind:
    """What stands behind the door: running on shapes, explaining an error, telling the listeners."""

    def _run_hollow(self, arrays, attrs):
        if self.view:  # a view of a hollow array is hollow, and a transposed weight stays the same memory
            out = self.fn(*arrays, **attrs)
            return out if out.base is not None else hollow(out.shape, out.dtype)
        shape = self.shape(*[a.shape for a in arrays], **attrs)
        return hollow(shape, self.out_dtype(*[a.dtype for a in arrays], **attrs))

    def out_dtype(self, *dtypes, **attrs):
        """Return the output's dtype: what the op says, else the result type of the floating inputs, else of all."""
        if self.dtype is None:
            return np.result_type(*([d for d in dtypes if d.kind == "f"] or dtypes))
        return np.dtype(self.dtype(*dtypes, **attrs) if isinstance(self.dtype, FunctionType) else self.dtype)

    def _explain(self, error, arrays, attrs):
        kind = next(k for k in (IndexError, TypeError, ValueError) if isinstance(error, k))
        shapes = [a.shape for a in arrays]
        try:
            self.shape(*shapes, **attrs)
        except (ValueError, TypeError, IndexError) as reason:
            return kind(f"{self.name}: {reason}")
        return kind(f"{self.name}: {', '.join(map(str, shapes))}: {error}")

    def _tell(self, state, arrays, data, attrs, start, end):
        num_bytes = 0 if self.view else data.nbytes + sum([a.nbytes for a in arrays])
        event = OpEvent(self, tuple([a.shape for a in arrays]), data.shape, num_bytes, attrs, state.path, start, end)
        for hear in state.hearers:
            hear(event)
        if _everywhere[0] and not state.shape_only:
            for hear in _everywhere[0]:
                hear(event)


class Op(_Behind):
    """One primitive: a NumPy function ``fn(*arrays, **attrs)`` plus a shape rule ``shape(*shapes, **attrs)``.

    ``view`` marks ops that move nothing. ``dtype`` is the output's type, or a function of the input types and attributes,
    where it is not the result type of the floating inputs.
    """

    def __init__(self, fn, shape, view=False, dtype=None):
        self.name, self.fn, self.shape, self.view, self.dtype = fn.__name__, fn, shape, view, dtype
        self.__name__, self.__doc__, self.__module__ = fn.__name__, fn.__doc__, fn.__module__

    def __repr__(self):
        return f"<op {self.name}>"

    def __call__(self, *inputs, **attrs):
        """Compute: the one place where tensors become a tensor."""
        state = _thread.state
        for x in inputs:
            if not isinstance(x, Tensor):
                inputs = _as_tensors(self, inputs)
                break
        arrays = [x.data for x in inputs]
        listening = state.hearers or (_everywhere[0] and not state.shape_only)
        start = perf_counter_ns() if listening else 0
        try:
            data = self._run_hollow(arrays, attrs) if state.shape_only else self.fn(*arrays, **attrs)
        except (ValueError, TypeError, IndexError) as error:
            raise self._explain(error, arrays, attrs) from error
        if type(data) is not np.ndarray:
            data = np.asarray(data)
        if data.dtype.char == "d":  # float64 only where somebody asked for it: int64 * float32 is float32 here
            data = data.astype(self.out_dtype(*[a.dtype for a in arrays], **attrs), copy=False)
        out = _new_tensor(Tensor)
        out.data, out.grad, out.made_by, out.requires_grad = data, None, None, False
        if state.grad_enabled and data.dtype.kind == "f":
            for x in inputs:
                if x.requires_grad:
                    out.requires_grad, out.made_by = True, Node(self, tuple(inputs), attrs, state.path)
                    break
        if listening:
            self._tell(state, arrays, data, attrs, start, perf_counter_ns())
        return out


def op(shape, view=False, dtype=None):
    """Make an ``Op`` of the NumPy function below: ``@op(shape=rule)``."""
    return lambda fn: Op(fn, shape, view, dtype)


def floating(*dtypes, **attrs):
    """Return the result type of the floating inputs, float32 if none floats: for ops that leave the integers."""
    return np.result_type(*([d for d in dtypes if d.kind == "f"] or [np.float32]))


def _as_tensors(operation, inputs):
    """Make tensors of numbers and arrays among ``inputs``; a Python number takes the type of its companions."""
    for x in inputs:
        if not isinstance(x, (Tensor, int, float, np.ndarray, np.generic, list)):
            raise TypeError(f"{operation.name}: a {type(x).__name__} came; want Tensors, arrays or numbers")
    found = [x.data.dtype for x in inputs if isinstance(x, Tensor)]
    floats = [d for d in found if d.kind == "f"]
    out = []
    for x in inputs:
        if isinstance(x, Tensor):
            out.append(x)
        elif isinstance(x, (int, float)) and not isinstance(x, np.generic):
            whole = isinstance(x, int) and found and not floats
            out.append(Tensor(x, dtype=np.result_type(*(found if whole else floats or [np.float32]))))
        else:
            out.append(Tensor(x))
    return tuple(out)


class _Operators:
    """Python's operators, each handed on to an op."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy's functions must not compute behind the door's back

    def __add__(self, other): return add(self, other)
    def __radd__(self, other): return add(other, self)
    def __sub__(self, other): return subtract(self, other)
    def __rsub__(self, other): return subtract(other, self)
    def __mul__(self, other): return multiply(self, other)
    def __rmul__(self, other): return multiply(other, self)
    def __truediv__(self, other): return divide(self, other)
    def __rtruediv__(self, other): return divide(other, self)
    def __matmul__(self, other): return matmul(self, other)
    def __rmatmul__(self, other): return matmul(other, self)
    def __pow__(self, exponent): return power(self, exponent=exponent)
    def __neg__(self): return negative(self)
    def __eq__(self, other): return equal(self, other)
    def __ne__(self, other): return not_equal(self, other)
    def __lt__(self, other): return less(self, other)
    def __le__(self, other): return less_equal(self, other)
    def __gt__(self, other): return greater(self, other)
    def __ge__(self, other): return greater_equal(self, other)
    __hash__ = object.__hash__


def _one_axis(axis, dim):
    """Accept both of the field's words for the same thing: NumPy's ``axis`` and the frameworks' ``dim``."""
    if axis is not None and dim is not None:
        raise TypeError("axis and dim are two names of one argument; give one")
    return axis if dim is None else dim


class _Methods:
    """What one asks of a tensor by name; every answer comes from an op."""

    __slots__ = ()

    def sum(self, axis=None, keepdims=False, dim=None):
        """Add up along ``axis`` (None: everything)."""
        return reduce_sum(self, axis=_one_axis(axis, dim), keepdims=keepdims)

    def mean(self, axis=None, keepdims=False, dim=None):
        """Average along ``axis``: the sum, divided by how many went into it."""
        axis = _one_axis(axis, dim)
        count = prod(self.shape[i] for i in normalize_axes(self.ndim, axis))
        return reduce_sum(self, axis=axis, keepdims=keepdims) / float(count)

    def max(self, axis=None, keepdims=False, dim=None):
        """Return the largest element along ``axis``; NaN wins."""
        return reduce_max(self, axis=_one_axis(axis, dim), keepdims=keepdims)

    def argmax(self, axis=None, dim=None):
        """Return where the largest element is, along one axis (None: in the flattened tensor)."""
        return argmax(self, axis=_one_axis(axis, dim))

    def reshape(self, *shape):
        """Show the same elements as ``shape``; one size may be -1."""
        if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
            shape = tuple(shape[0])
        return reshape(self, shape=shape)

    def transpose(self, *axes):
        """Reorder the axes; without arguments reverse them."""
        if len(axes) == 1 and isinstance(axes[0], (tuple, list)):
            axes = tuple(axes[0])
        return transpose(self, axes=axes or tuple(range(self.ndim))[::-1])

    @property
    def T(self):
        """Swap the last two axes (a vector or scalar stays as it is)."""
        order = list(range(self.ndim))
        order[-2:] = order[-2:][::-1]
        return transpose(self, axes=tuple(order))

    def astype(self, dtype):
        """Return the elements as ``dtype``."""
        return cast(self, dtype=np.dtype(dtype))

    def __getitem__(self, key):
        return index(self, key=key)


class _Protocols:
    """How a tensor answers Python itself: ``len``, ``for``, ``if``, ``float``, ``print``, ``np.asarray``."""

    __slots__ = ()

    def __len__(self):
        if not self.shape:
            raise TypeError("len: a tensor without axes has no length")
        return self.shape[0]

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __bool__(self):
        return bool(self.item())

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __array__(self, dtype=None, copy=None):
        return np.array(self.data, dtype=dtype, copy=bool(copy)) if copy else np.asarray(self.data, dtype=dtype)

    def __repr__(self):
        head = f"shape={self.shape}, dtype={self.dtype}" + (", requires_grad=True" if self.requires_grad else "")
        body = "hollow" if self.size > 1 and not any(self.data.strides) else np.array2string(self.data, threshold=12)
        return f"Tensor({body}, {head})"


class Tensor(_Operators, _Methods, _Protocols):
    """A block of numbers with a shape: ``Tensor(data, requires_grad=False, dtype=None)``.

    ``data`` may be a number, list, array or Tensor; memory is shared unless the type must change (see ``as_array``).
    ``grad`` is a Tensor or None; ``made_by`` is the ``Node`` that made this tensor, kept only where a gradient is wanted.
    """

    __slots__ = ("data", "requires_grad", "grad", "made_by", "__weakref__")

    def __init__(self, data, requires_grad=False, dtype=None):
        if isinstance(data, Tensor):
            data, dtype = data.data, dtype or data.dtype
        self.data = as_array(data, dtype)
        if requires_grad and self.data.dtype.kind != "f":
            raise TypeError(f"Tensor: {self.data.dtype} cannot have a gradient; give a floating dtype")
        self.requires_grad = bool(requires_grad)
        self.grad = None
        self.made_by = None

    shape = property(lambda self: self.data.shape, doc="Sizes of the axes, a tuple.")
    dtype = property(lambda self: self.data.dtype, doc="NumPy dtype of the elements.")
    ndim = property(lambda self: self.data.ndim, doc="How many axes.")
    size = property(lambda self: self.data.size, doc="How many elements.")
    nbytes = property(lambda self: self.data.nbytes, doc="Bytes the elements occupy: size times the dtype's own width.")

    def numpy(self):
        """Return the array itself (the same memory)."""
        return self.data

    def detach(self):
        """Return a tensor on the same memory that does not remember how it was made."""
        return Tensor(self.data, dtype=self.data.dtype)

    def item(self):
        """Return the Python number in a one-element tensor; ``ValueError`` otherwise, or when there are no values."""
        if _thread.state.shape_only:
            raise ValueError("item: a shape-only run has no values; the model must not decide by them")
        if self.data.size != 1:
            raise ValueError(f"item: the tensor has shape {self.shape}; want exactly one element")
        return self.data.item()


_new_tensor = Tensor.__new__


@op(shape=broadcast_shape)
def add(a, b):
    """a + b, broadcast."""
    return a + b


@op(shape=broadcast_shape)
def subtract(a, b):
    """a - b, broadcast."""
    return a - b


@op(shape=broadcast_shape)
def multiply(a, b):
    """a * b, broadcast."""
    return a * b


@op(shape=broadcast_shape, dtype=floating)
def divide(a, b):
    """a / b, broadcast; like NumPy, x/0 is inf."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return a / b


def same_shape(a, **attrs):
    """Return the shape that came: the rule of every elementwise op of one tensor."""
    return a


@op(shape=same_shape)
def negative(a):
    """-a."""
    return -a


@op(shape=same_shape)
def power(a, exponent):
    """Raise a to a number, the attribute ``exponent``."""
    if isinstance(exponent, bool) or not isinstance(exponent, (int, float, np.number)):
        raise TypeError(f"the exponent is a {type(exponent).__name__}; want a number")
    with np.errstate(divide="ignore", invalid="ignore"):
        return a ** a.dtype.type(exponent) if a.dtype.kind == "f" else a ** exponent


@op(shape=same_shape, dtype=floating)
def sqrt(a):
    """Take the square root; of a negative number it is NaN."""
    with np.errstate(invalid="ignore"):
        return np.sqrt(a)


@op(shape=lambda a, dtype: a, dtype=lambda a, dtype: dtype)
def cast(a, dtype):
    """Return the elements as ``dtype``."""
    return a.astype(dtype)


equal = op(shape=broadcast_shape, dtype=np.bool_)(np.equal)
not_equal = op(shape=broadcast_shape, dtype=np.bool_)(np.not_equal)
less = op(shape=broadcast_shape, dtype=np.bool_)(np.less)
less_equal = op(shape=broadcast_shape, dtype=np.bool_)(np.less_equal)
greater = op(shape=broadcast_shape, dtype=np.bool_)(np.greater)
greater_equal = op(shape=broadcast_shape, dtype=np.bool_)(np.greater_equal)


@op(shape=broadcast_shape)
def maximum(a, b):
    """Return the larger of a and b, element by element; NaN wins."""
    return np.maximum(a, b)


@op(shape=broadcast_shape)
def where(condition, a, b):
    """Take a where the condition holds and b elsewhere, broadcast."""
    return np.where(condition, a, b)


def _sum_dtype(a, **attrs):
    return a if a.kind == "f" else np.dtype(np.int64)


@op(shape=reduce_shape, dtype=_sum_dtype)
def reduce_sum(a, axis=None, keepdims=False):
    """Add up along ``axis``; integers and booleans in int64."""
    return np.sum(a, axis=axis, keepdims=keepdims, dtype=_sum_dtype(a.dtype))


@op(shape=reduce_shape, dtype=np.int64)
def argmax(a, axis=None, keepdims=False):
    """Return the position of the largest element along one axis (None: in the flattened tensor)."""
    return np.argmax(a, axis=axis, keepdims=keepdims)


@op(shape=matmul_shape)
def matmul(a, b):
    """Matrix product (..., m, k) @ (..., k, n) -> (..., m, n); vectors as in ``matmul_shape``."""
    return a @ b


@op(shape=reduce_shape)
def reduce_max(a, axis=None, keepdims=False):
    """Return the largest element along ``axis``; NaN wins; an empty axis is a ValueError."""
    return np.max(a, axis=axis, keepdims=keepdims)


def _view_shape(a, shape):
    if broadcast_shape(a, shape) != tuple(shape):
        raise ValueError(f"{a} does not broadcast to {tuple(shape)}")
    return tuple(shape)


def _index_shape(a, key):
    return hollow(a, np.bool_)[key].shape


@op(shape=reshape_shape, view=True)
def reshape(a, shape):
    """Show the same elements as ``shape`` (one size may be -1); copies only where memory order forbids a view."""
    return np.reshape(a, shape)


@op(shape=transpose_shape, view=True)
def transpose(a, axes):
    """Return the axes in the order ``axes``."""
    return np.transpose(a, axes)


@op(shape=_view_shape, view=True)
def broadcast_to(a, shape):
    """Stretch ``a`` to ``shape`` without copying."""
    return np.broadcast_to(a, shape)


@op(shape=_index_shape, view=True)
def index(a, key):
    """Return ``a[key]`` for NumPy's keys: ints, slices, ``...``, None, integer or boolean arrays."""
    return a[key]


@op(shape=lambda a, key, shape: tuple(shape))
def put(a, key, shape):
    """Return zeros of ``shape`` with ``a`` added in at ``key``; a place named twice receives both."""
    out = np.zeros(shape, a.dtype)
    np.add.at(out, key, a)
    return out


def _joined_shape(*shapes, axis=0):
    axis = normalize_axes(len(shapes[0]), axis)[0]
    if any(s[:axis] + s[axis + 1:] != shapes[0][:axis] + shapes[0][axis + 1:] for s in shapes):
        raise ValueError(f"{' and '.join(map(str, shapes))}: sizes differ off axis {axis}")
    return (*shapes[0][:axis], sum(s[axis] for s in shapes), *shapes[0][axis + 1:])


@op(shape=_joined_shape)
def concatenate(*arrays, axis=0):
    """Join tensors along ``axis``; every other size must agree."""
    return np.concatenate(arrays, axis=axis)


def count_ops(function):
    """Call ``function()`` on shapes only and return how often each op ran, by name."""
    counts = {}

    def hear(event):
        counts[event.op.name] = counts.get(event.op.name, 0) + 1

    with shape_only(), listen(hear):
        function()
    return counts
