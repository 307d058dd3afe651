"""Wrong and right solutions of module 18, as small edits of the reference."""

WRONG = [
    {"name": "last-p-only", "cell": "by-loops",
     "old": "c[i, j] += a[i, p] * b[p, j]", "new": "c[i, j] = a[i, p] * b[p, j]",
     "caught": "test-by-loops: by_loops", "says": "add to what is there"},
    {"name": "rows-that-are-all", "cell": "by-loops",
     "old": "    for i in range(a.shape[0]):\n        c[i] = a[i] @ b\n", "new": "    c[:] = a @ b\n",
     "caught": "test-by-loops: by_rows: one for each of 2 rows", "says": "the whole product at once"},
    {"name": "loops-that-are-none", "cell": "by-loops",
     "old": "                c[i, j] += a[i, p] * b[p, j]\n",
     "new": "                pass\n    c += np.einsum('ip,pj->ij', a, b)\n",
     "caught": "test-by-loops: by_loops asks NumPy for products", "says": "the whole product at once"},
    {"name": "first-in-first-out", "cell": "cache-misses",
     "old": "            del kept[line]\n        else:", "new": "            continue\n        else:",
     "caught": "test-cache-misses: used again, so it stays", "says": "not used for longest"},
    {"name": "no-lines", "cell": "cache-misses",
     "old": "line = address // width", "new": "line = address",
     "caught": "test-cache-misses: 0 to 15, lines of 8", "says": "a line brings 8"},
    {"name": "width-fixed", "cell": "cache-misses",
     "old": "address // width", "new": "address // 8",
     "caught": "test-cache-misses: lines of 4", "says": "width is not used"},
    {"name": "readings-exchanged", "cell": "tiled-traffic",
     "old": "m * k * ceil(n / tile) + k * n * ceil(m / tile)", "new": "m * k * ceil(m / tile) + k * n * ceil(n / tile)",
     "caught": "test-tiled-traffic: (4, 6) @ (6, 8), tiles of 2: 24 · 4 + 48 · 2 + 32", "says": "exchanged"},
    {"name": "product-not-written", "cell": "tiled-traffic",
     "old": " + m * n", "new": "",
     "caught": "test-tiled-traffic: (4, 6) @ (6, 8), tiles of 2: 24 · 4 + 48 · 2 + 32", "says": "it is written once"},
    {"name": "rounded-down", "cell": "tiled-traffic",
     "old": "m * k * ceil(n / tile) + k * n * ceil(m / tile)", "new": "m * k * (n // tile) + k * n * (m // tile)",
     "caught": "test-tiled-traffic: (5, 7) @ (7, 3), tiles of 2: 35 · 2 + 21 · 3 + 15", "says": "round up"},
    {"name": "tiles-not-summed", "cell": "tiled-matmul",
     "old": "total += a[", "new": "total[...] = a[",
     "caught": "test-tiled-matmul: (2, 3) @ (3, 2), tiles of 2", "says": "add to what is there"},
    {"name": "rest-left-out", "cell": "tiled-matmul",
     "old": "range(0, k, tile)", "new": "range(0, k - tile + 1, tile)",
     "caught": "test-tiled-matmul: (2, 3) @ (3, 2), tiles of 2", "says": "the smaller tile at the end"},
    {"name": "sum-not-in-place", "cell": "tiled-matmul",
     "old": "total += a[", "new": "total = total + a[",
     "caught": "test-tiled-matmul: (2, 3) @ (3, 2), tiles of 2", "says": "nothing was written"},
    {"name": "p-not-cut", "cell": "tiled-matmul",
     "old": "            for p in range(0, k, tile):\n"
            "                total += a[i:i + tile, p:p + tile] @ b[p:p + tile, j:j + tile]\n",
     "new": "            total += a[i:i + tile] @ b[:, j:j + tile]\n",
     "caught": "test-tiled-matmul: products: 3 · 4 · 2, none larger than a tile of 2 x 2", "says": "p is not cut"},
    {"name": "pieces-are-copies", "cell": "in-pieces",
     "old": "array.reshape(-1)", "new": "array.flatten()",
     "caught": "test-in-pieces: who writes a piece writes out", "says": "the pieces are copies"},
    {"name": "last-piece-missing", "cell": "in-pieces",
     "old": "range(0, out.size, block)", "new": "range(0, out.size - block + 1, block)",
     "caught": "test-in-pieces: 10 numbers in pieces of 4", "says": "the rest is left out"},
    {"name": "out-comes-last", "cell": "in-pieces",
     "old": "(out, *inputs)]  #", "new": "(*inputs, out)]  #",
     "caught": "test-in-pieces: what stands in them"},
    {"name": "the-half-missing", "cell": "gelu-into",
     "old": "    out *= 0.5  # before x: twice a large x may be more than the type holds\n", "new": "",
     "caught": "test-gelu-into: gelu of 0, 1, -1, 3", "says": "the half is missing"},
    {"name": "twice-x", "cell": "gelu-into",
     "old": "    out *= 0.5  # before x: twice a large x may be more than the type holds\n    out *= x",
     "new": "    out *= x\n    out *= 0.5",
     "caught": "test-gelu-into: far out, in float16, which ends at 65,504: x, and 0", "says": "halve first"},
    {"name": "root-not-on-the-cube", "cell": "gelu-into",
     "old": "out *= ROOT * CUBE", "new": "out *= CUBE",
     "caught": "test-gelu-into: gelu of 0, 1, -1, 3", "says": "belongs to the cube"},
    {"name": "root-missing", "cell": "gelu-into",
     "old": "    out *= ROOT * CUBE\n    out += ROOT\n", "new": "    out *= CUBE\n    out += 1\n",
     "caught": "test-gelu-into: gelu of 0, 1, -1, 3", "says": "sqrt(2/pi) is missing"},
    {"name": "returned-not-written", "cell": "gelu-into",
     "old": "    np.multiply(x, x, out=out)\n", "new": "    out = x * x\n",
     "caught": "test-gelu-into: gelu of 0, 1, -1, 3", "says": "out is as it was"},
    {"name": "arrays-made", "cell": "gelu-into",
     "old": "    np.tanh(out, out=out)\n", "new": "    out[...] = np.tanh(out)\n",
     "caught": "test-gelu-into: bytes at the peak are fewer than one more array", "says": "an array was made"},
    {"name": "half-a-product-rule", "cell": "gelu-slope",
     "old": " + 0.5 * x * (1 - t * t) * (ROOT + 3 * ROOT * CUBE * square)", "new": "",
     "caught": "test-gelu-slope: slope at -10, -1, 0, 1, 10", "says": "first half of the product rule"},
    {"name": "slope-of-the-cube", "cell": "gelu-slope",
     "old": "3 * ROOT * CUBE", "new": "ROOT * CUBE",
     "caught": "test-gelu-slope: slope at -10, -1, 0, 1, 10", "says": "the 3 is missing"},
    {"name": "bias-forgotten", "cell": "linear-gelu",
     "old": "np.add(y, 0 if bias is None else bias, out=h)", "new": "np.add(y, 0, out=h)",
     "caught": "test-linear-gelu: h = [[1, 1], [-1, 1]]", "says": "the bias is missing"},
    {"name": "bias-after", "cell": "linear-gelu",
     "old": "            np.add(y, 0 if bias is None else bias, out=h)\n            gelu_into(y, h)",
     "new": "            h[...] = y\n            gelu_into(y, h)\n            y += 0 if bias is None else bias",
     "caught": "test-linear-gelu: h = [[1, 1], [-1, 1]]", "says": "the bias came after"},
    {"name": "first-piece-only", "cell": "linear-gelu",
     "old": "range(0, len(out), step)", "new": "range(0, min(len(out), step), step)",
     "caught": "test-linear-gelu: rows that are right", "says": "only the first piece"},
    {"name": "list-gets-shorter", "cell": "fuse-pairs",
     "old": "    return new", "new": "    return [one for one in new if repr(one) != 'Sequential()']",
     "caught": "test-fuse: Linear GELU GELU Linear Linear GELU", "says": "the list has become shorter"},
    {"name": "gelu-twice", "cell": "fuse-pairs",
     "old": "new[i], new[i + 1] = LinearGELU(layers[i]), Sequential()", "new": "new[i] = LinearGELU(layers[i])",
     "caught": "test-fuse: Linear GELU GELU Linear Linear GELU", "says": "applied twice"},
    {"name": "written-into-the-list", "cell": "fuse-pairs",
     "old": "new = list(layers)", "new": "new = layers",
     "caught": "test-fuse: the list that came is as it was", "says": "copy it first"},
    {"name": "subclasses-too", "cell": "fuse-pairs",
     "old": "type(layers[i]) is Linear", "new": "isinstance(layers[i], Linear)",
     "caught": "test-fuse: a Linear that computes something else stays", "says": "type(layer) is Linear"},
]

RIGHT = [
    {"name": "multiplied-and-summed", "cell": "by-loops", "code": '''
def by_loops(a, b):
    """Multiply matrices, (m, k) and (k, n) -> (m, n), one number at a time."""
    (m, k), n = a.shape, b.shape[1]
    c = np.zeros((m, n), a.dtype)
    for i, j, p in np.ndindex(m, n, k):
        c[i, j] += a[i, p] * b[p, j]
    return c


def by_dots(a, b):
    """Multiply matrices, (m, k) and (k, n) -> (m, n), a row times a column at a time."""
    return np.array([[(row * column).sum() for column in b.T] for row in a], a.dtype)


def by_rows(a, b):
    """Multiply matrices, (m, k) and (k, n) -> (m, n), a row times a matrix at a time."""
    return np.stack([(row[:, None] * b).sum(axis=0) for row in a])
'''},
    {"name": "lists-and-dot", "cell": "by-loops", "code": '''
def by_loops(a, b):
    """Multiply matrices, (m, k) and (k, n) -> (m, n), one number at a time."""
    columns = b.T
    return np.array([[sum(x * y for x, y in zip(row, column)) for column in columns] for row in a], a.dtype)


def by_dots(a, b):
    """Multiply matrices, (m, k) and (k, n) -> (m, n), a row times a column at a time."""
    return np.array([[np.dot(row, column) for column in b.T] for row in a], a.dtype)


def by_rows(a, b):
    """Multiply matrices, (m, k) and (k, n) -> (m, n), a row times a matrix at a time."""
    return np.stack([row.dot(b) for row in a])
'''},
    {"name": "a-list-for-a-cache", "cell": "cache-misses", "code": '''
def cache_misses(addresses, lines, width=8):
    """Return how many lines of ``width`` numbers a cache of ``lines`` has to fetch."""
    kept, misses = [], 0
    for address in addresses:
        line = address // width
        misses += line not in kept
        kept = ([one for one in kept if one != line] + [line])[-lines:]
    return misses
'''},
    {"name": "whole-numbers-only", "cell": "tiled-traffic", "code": '''
#| export
def tiled_traffic(m, k, n, tile):
    """Return how many numbers (m, k) @ (k, n) in square tiles moves between memory and a cache."""
    positive("tile", tile)
    across, down = -(-n // tile), -(-m // tile)
    return k * (m * across + n * down) + m * n
'''},
    {"name": "p-outermost", "cell": "tiled-matmul", "code": '''
#| export
def tiled_shape(a, b, tile=64):
    """Return (m, n) for a (m, k), b (k, n) and a positive tile, or raise an error that says what is wrong."""
    positive("tile", tile)
    if len(a) != 2 or len(b) != 2:
        raise ValueError(f"{a} @ {b}: want two matrices, (m, k) and (k, n); for stacks take matmul")
    return matmul_shape(a, b)


@op(shape=tiled_shape)
def tiled_matmul(a, b, tile=64):
    """Multiply matrices, (m, k) and (k, n) -> (m, n), in square tiles."""
    (m, n), k = tiled_shape(a.shape, b.shape, tile), a.shape[1]
    out = np.zeros((m, n), np.result_type(a, b))
    for p in range(0, k, tile):
        for i in range(0, m, tile):
            for j in range(0, n, tile):
                out[i:i + tile, j:j + tile] += np.matmul(a[i:i + tile, p:p + tile], b[p:p + tile, j:j + tile])
    return out
'''},
    {"name": "a-slice-for-each", "cell": "in-pieces", "code": '''
#| export
BLOCK = 32_768


def in_pieces(out, *inputs, block=BLOCK):
    """Yield [piece of out, piece of each input], flat, ``block`` numbers each; writing a piece of ``out`` writes it."""
    if not out.flags.c_contiguous or any(array.size != out.size for array in inputs):
        shapes = ", ".join(str(array.shape) for array in inputs)
        raise ValueError(f"out {out.shape} with {shapes}: want inputs of its size, and an out that lies in one piece")
    positive("block", block)
    first, rest = out.ravel(), [np.ravel(array) for array in inputs]
    start = 0
    while start < first.size:
        piece = slice(start, start + block)
        yield [first[piece], *[array[piece] for array in rest]]
        start += block
'''},
    {"name": "the-formula-as-it-stands", "cell": "gelu-into", "code": '''
#| export
ROOT, CUBE = sqrt(2 / pi), 0.044715


def gelu_into(out, x):
    """Write 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x³))) into ``out``, another array of x's shape; make none."""
    np.multiply(x, x, out=out)
    np.multiply(out, x, out=out)
    np.multiply(out, CUBE, out=out)
    np.add(out, x, out=out)
    np.multiply(out, ROOT, out=out)
    np.tanh(out, out=out)
    np.add(out, 1, out=out)
    np.divide(out, 2, out=out)
    np.multiply(out, x, out=out)
'''},
    {"name": "slope-as-on-the-board", "cell": "gelu-slope", "code": '''
#| export
def gelu_slope(x):
    """Return the derivative of GELU's tanh form at an array x (...): a new array of its shape and type."""
    u = ROOT * (x + CUBE * x**3)
    t = np.tanh(u)
    return (1 + t) / 2 + x * (1 - t**2) * ROOT * (1 + 3 * CUBE * x**2) / 2
'''},
    {"name": "built-anew", "cell": "fuse-pairs", "code": '''
#| export
def fuse_pairs(layers):
    """Return a list of the same length: each Linear with a GELU behind it is a LinearGELU and an empty Sequential."""
    new, i = [], 0
    while i < len(layers):
        if i + 1 < len(layers) and type(layers[i]) is Linear and type(layers[i + 1]) is GELU:
            new += [LinearGELU(layers[i]), Sequential()]
            i += 2
        else:
            new.append(layers[i])
            i += 1
    return new
'''},
]
