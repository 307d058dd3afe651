"""Wrong and right solutions of module 08, as small edits of the reference."""

WRONG = [
    {"name": "counted-from-the-first", "cell": "held-out",
     "old": "[4::5]", "new": "[::5]",
     "caught": "test-held-out: six threes", "says": "counting starts at the 1st"},
    {"name": "every-sixth", "cell": "held-out",
     "old": "[4::5]", "new": "[5::6]",
     "caught": "test-held-out: six threes", "says": "the 6th"},
    {"name": "of-the-whole-file", "cell": "held-out",
     "old": "    for digit in np.unique(labels):\n        test[np.flatnonzero(labels == digit)[4::5]] = True\n",
     "new": "    test[4::5] = True\n",
     "caught": "test-held-out: two digits by turns", "says": "every fifth of the whole file"},
    {"name": "sides-swapped", "cell": "load-digits",
     "old": '(split == "test")', "new": '(split == "train")',
     "caught": "test-load-digits: training images", "says": "train and test are swapped"},
    {"name": "not-scaled", "cell": "load-digits",
     "old": ".astype(np.float32) / 16", "new": ".astype(np.float32)",
     "caught": "test-load-digits: smallest and largest value", "says": "not scaled"},
    {"name": "by-255", "cell": "load-digits",
     "old": "/ 16", "new": "/ 255",
     "caught": "test-load-digits: smallest and largest value", "says": "divided by 255"},
    {"name": "divided-first", "cell": "load-digits",
     "old": "images.reshape(-1, 64).astype(np.float32) / 16", "new": "images.reshape(-1, 64) / 16",
     "caught": "test-load-digits: types", "says": "convert first"},
    {"name": "labels-uint8", "cell": "load-digits",
     "old": "labels.astype(np.int64)", "new": "labels",
     "caught": "test-load-digits: types", "says": "still uint8"},
    {"name": "nothing-held-out", "cell": "load-digits",
     "old": "if split is None:", "new": 'if split != "test":',
     "caught": "test-load-digits: training images", "says": "nothing is held out"},
    {"name": "how-many-tensors", "cell": "tensor-dataset",
     "old": "return len(self.tensors[0])", "new": "return len(self.tensors)",
     "caught": "test-tensor-dataset: the length", "says": "how many tensors"},
    {"name": "dtype-not-handed-on", "cell": "tensor-dataset",
     "old": "Tensor(t.data[key], dtype=t.dtype)", "new": "Tensor(t.data[key])",
     "caught": "test-tensor-dataset: float64 on purpose stays", "says": "the dtype was not handed on"},
    {"name": "labels-as-floats", "cell": "tensor-dataset",
     "old": "Tensor(t.data[key], dtype=t.dtype)",
     "new": "Tensor(t.data[key], dtype=max(t.dtype, np.dtype(np.float32), key=lambda one: one.kind == 'f'))",
     "caught": "test-tensor-dataset: labels stay int64", "says": "labels became floats"},
    {"name": "first-tensor-only", "cell": "tensor-dataset",
     "old": "for t in self.tensors)", "new": "for t in self.tensors[:1])",
     "caught": "test-tensor-dataset: example 2 is a tuple of two", "says": "only the first tensor"},
    {"name": "lengths-not-compared", "cell": "tensor-dataset",
     "old": "if len(lengths) != 1 or () in lengths:", "new": "if not lengths or () in lengths:",
     "caught": "test-tensor-dataset: different lengths"},
    {"name": "rows-stacked", "cell": "collate",
     "old": "zip(*items))", "new": "items)",
     "caught": "test-collate: three pairs make a pair", "says": "rows were stacked"},
    {"name": "a-list-came", "cell": "collate",
     "old": "return tuple(stack(column) for column in zip(*items))",
     "new": "return [stack(column) for column in zip(*items)]",
     "caught": "test-collate: three pairs make a pair", "says": "a list, not a tuple"},
    {"name": "fields-cut-off", "cell": "collate",
     "old": "if len(sizes) > 1:", "new": "if not sizes:",
     "caught": "test-collate: 2 and 3 fields; the message has the 2"},
    {"name": "same-order-every-epoch", "cell": "epoch-order",
     "old": "np.random.default_rng((seed, epoch))", "new": "np.random.default_rng(seed)",
     "caught": "test-epoch-order: another epoch: another order", "says": "the epoch is not used"},
    {"name": "seed-plus-epoch", "cell": "epoch-order",
     "old": "np.random.default_rng((seed, epoch))", "new": "np.random.default_rng(seed + epoch)",
     "caught": "test-epoch-order: seed 0, epoch 1 against seed 1, epoch 0", "says": "seed + epoch"},
    {"name": "without-the-seed", "cell": "epoch-order",
     "old": "np.random.default_rng((seed, epoch))", "new": "np.random.default_rng()",
     "caught": "test-epoch-order: again: the same", "says": "the seed is not used"},
    {"name": "global-generator", "cell": "epoch-order",
     "old": "np.random.default_rng((seed, epoch)).permutation(n) if shuffle",
     "new": "(np.random.seed(1000 * seed + epoch), np.random.permutation(n))[1] if shuffle",
     "caught": "test-epoch-order: NumPy's global generator is left alone", "says": "np.random.seed"},
    {"name": "drawn-with-repeats", "cell": "epoch-order",
     "old": ".permutation(n)", "new": ".integers(0, max(n, 1), n)",
     "caught": "test-epoch-order: every example once", "says": "came twice or never"},
    {"name": "never-shuffled", "cell": "epoch-order",
     "old": " if shuffle else", "new": " if shuffle is None else",
     "caught": "test-epoch-order: it is not 0, 1, 2 ...", "says": "shuffle is not looked at"},
    {"name": "last-batch-dropped", "cell": "cut-batches",
     "old": "end = len(order) - len(order) % batch_size if drop_last else len(order)",
     "new": "end = len(order) - len(order) % batch_size",
     "caught": "test-cut-batches: 10 by 4", "says": "the incomplete batch is missing"},
    {"name": "drop-last-ignored", "cell": "cut-batches",
     "old": "end = len(order) - len(order) % batch_size if drop_last else len(order)", "new": "end = len(order)",
     "caught": "test-cut-batches: 10 by 4, drop_last", "says": "drop_last is ignored"},
    {"name": "whole-batch-dropped", "cell": "cut-batches",
     "old": "len(order) - len(order) % batch_size if drop_last",
     "new": "len(order) - (len(order) % batch_size or batch_size) if drop_last",
     "caught": "test-cut-batches: 8 by 4, drop_last", "says": "a whole last batch was dropped"},
    {"name": "one-example-twice", "cell": "cut-batches",
     "old": "order[start : start + batch_size]", "new": "order[start : start + batch_size + 1]",
     "caught": "test-cut-batches: 10 by 4", "says": "neighbours share an example"},
    {"name": "rest-not-counted", "cell": "data-loader",
     "old": "return whole + (1 if rest and not self.drop_last else 0)", "new": "return whole",
     "caught": "test-data-loader: batches of 4 from ten", "says": "the incomplete batch is not counted"},
    {"name": "always-one-more", "cell": "data-loader",
     "old": "(1 if rest and not self.drop_last else 0)", "new": "(1 if not self.drop_last else 0)",
     "caught": "test-data-loader: of 5 from ten", "says": "one too many"},
    {"name": "drop-last-not-counted", "cell": "data-loader",
     "old": "(1 if rest and not self.drop_last else 0)", "new": "(1 if rest else 0)",
     "caught": "test-data-loader: with drop_last", "says": "drop_last is ignored"},
    {"name": "epoch-stands-still", "cell": "data-loader",
     "old": "        self.epoch += 1\n", "new": "",
     "caught": "test-data-loader: two epochs differ", "says": "the epoch is not counted"},
    {"name": "epoch-counted-at-the-end", "cell": "data-loader",
     "old": "        self.epoch += 1\n        for indices in cut_batches(order, self.batch_size, "
            "self.drop_last)[first:]:\n            yield self.fetch(indices)",
     "new": "        for indices in cut_batches(order, self.batch_size, self.drop_last)[first:]:\n"
            "            yield self.fetch(indices)\n        self.epoch += 1\n",
     "caught": "test-data-loader: a loop left early counts", "says": "counted at the end of the loop"},
    {"name": "first-batch-stays", "cell": "data-loader",
     "old": "first, self.first_batch = self.first_batch, 0", "new": "first = self.first_batch",
     "caught": "test-data-loader: the loop after that is whole, and of epoch 1", "says": "set it back to 0"},
    {"name": "fetched-for-nothing", "cell": "data-loader",
     "old": "        for indices in cut_batches(order, self.batch_size, self.drop_last)[first:]:\n"
            "            yield self.fetch(indices)",
     "new": "        for number, indices in enumerate(cut_batches(order, self.batch_size, self.drop_last)):\n"
            "            batch = self.fetch(indices)\n            if number >= first:\n                yield batch\n",
     "caught": "test-data-loader: examples that were asked for", "says": "fetched for nothing"},
]

RIGHT = [
    {"name": "held-out-by-counting", "cell": "held-out", "code": '''
#| export
def held_out(labels):
    """Return a boolean array: True at the 5th, 10th, 15th ... occurrence of each digit."""
    seen, answers = {}, []
    for label in np.asarray(labels).tolist():
        seen[label] = seen.get(label, 0) + 1
        answers.append(seen[label] % 5 == 0)
    return np.array(answers, dtype=bool)
'''},
    {"name": "order-in-place", "cell": "epoch-order", "code": '''
#| export
def epoch_order(n, shuffle=False, seed=0, epoch=0):
    """Return 0..n-1 in the order in which ``epoch`` visits them; when shuffled, (seed, epoch) alone decide it."""
    order = np.arange(n)
    if shuffle:
        np.random.default_rng([seed, epoch]).shuffle(order)
    return order
'''},
    {"name": "cut-by-a-loop", "cell": "cut-batches", "code": '''
#| export
def cut_batches(order, batch_size, drop_last=False):
    """Return ``order`` cut into consecutive pieces of ``batch_size``; a shorter last one stays unless ``drop_last``."""
    pieces, rest = [], order
    while len(rest) >= batch_size:
        pieces.append(rest[:batch_size])
        rest = rest[batch_size:]
    if len(rest) and not drop_last:
        pieces.append(rest)
    return pieces
'''},
]
