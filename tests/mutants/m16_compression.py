"""Wrong and right solutions of module 16, as small edits of the reference."""

WRONG = [
    {"name": "mean-of-shares", "cell": "sparsity",
     "old": "return zeros / sum(w.size for w in matrices)",
     "new": "return float(np.mean([(w.data == 0).mean() for w in matrices]))",
     "caught": "test-sparsity: 4 zeros among 9 numbers", "says": "count all numbers together"},
    {"name": "biases-counted", "cell": "sparsity",
     "old": "    zeros = sum(int(", "new": "    matrices = weights_of(model)\n    zeros = sum(int(",
     "caught": "test-sparsity: 4 zeros among 9 numbers", "says": "the biases were counted"},
    {"name": "shared-counted-twice", "cell": "sparsity",
     "old": "    zeros = sum(int(",
     "new": "    matrices = [one.weight for one in model.layers] if hasattr(model, \"layers\") else matrices\n"
            "    zeros = sum(int(",
     "caught": "test-sparsity: the same layer twice is one matrix", "says": "counted twice"},
    {"name": "nearly-zero", "cell": "sparsity",
     "old": "w.data == 0", "new": "abs(w.data) < 1e-6",
     "caught": "test-sparsity: nothing is zero", "says": "small is not zero"},
    {"name": "each-matrix-by-itself", "cell": "magnitude-prune",
     "old": '''    sizes = np.concatenate([np.abs(w.data).ravel() for w in matrices])
    gone = np.zeros(len(sizes), bool)
    gone[np.argsort(sizes, kind="stable")[: round(fraction * len(sizes))]] = True
    start = 0
    for w in matrices:
        w.data[gone[start : start + w.size].reshape(w.shape)] = 0
        start += w.size
''',
     "new": '''    for w in matrices:
        flat = w.data.reshape(-1)
        flat[np.argsort(np.abs(flat), kind="stable")[: round(fraction * w.size)]] = 0
''',
     "caught": "test-magnitude-prune: 40 % of 9 numbers: 4 go", "says": "rank all of them together"},
    {"name": "a-threshold", "cell": "magnitude-prune",
     "old": 'gone[np.argsort(sizes, kind="stable")[: round(fraction * len(sizes))]] = True',
     "new": "gone[:] = sizes < np.sort(np.append(sizes, np.inf))[round(fraction * len(sizes))]",
     "caught": "test-magnitude-prune: 29 % of a hundred equal numbers", "says": "among equals none is below"},
    {"name": "cut-off-not-rounded", "cell": "magnitude-prune",
     "old": "round(fraction * len(sizes))", "new": "int(fraction * len(sizes))",
     "caught": "test-magnitude-prune: 40 % of 9 numbers: 4 go", "says": "not cut off"},
    {"name": "rounded-up", "cell": "magnitude-prune",
     "old": "round(fraction * len(sizes))", "new": "int(np.ceil(round(fraction * len(sizes), 6)))",
     "caught": "test-magnitude-prune: 70 % of 9 numbers: 6 go", "says": "not up"},
    {"name": "the-largest-go", "cell": "magnitude-prune",
     "old": "[: round(fraction * len(sizes))]", "new": "[len(sizes) - round(fraction * len(sizes)) :]",
     "caught": "test-magnitude-prune: 40 % of 9 numbers: 4 go", "says": "the largest went"},
    {"name": "not-stable", "cell": "magnitude-prune",
     "old": 'np.argsort(sizes, kind="stable")', "new": 'np.argsort(-sizes, kind="stable")[::-1]',
     "caught": "test-magnitude-prune: among equals the first go", "says": "stable"},
    {"name": "on-top-of-zeros", "cell": "magnitude-prune",
     "old": "[: round(fraction * len(sizes))]", "new": "[: int((sizes == 0).sum()) + round(fraction * len(sizes))]",
     "caught": "test-magnitude-prune: what was 0 counts among the smallest", "says": "pruned on top"},
    {"name": "bias-left-out", "cell": "unit-scores",
     "old": "bias = 0 if first.bias is None else first.bias.data.astype(np.float64)",
     "new": "bias = 0",
     "caught": "test-unit-scores: three units", "says": "the bias is missing"},
    {"name": "columns-for-rows", "cell": "unit-scores",
     "old": "(into**2).sum(axis=0)", "new": "(into**2).sum(axis=1)",
     "caught": "test-unit-scores: three units", "says": "unit j is its column j"},
    {"name": "only-in", "cell": "unit-scores",
     "old": " * np.sqrt((out**2).sum(axis=1))", "new": "",
     "caught": "test-unit-scores: three units", "says": "only what leads in"},
    {"name": "the-first-units", "cell": "keep-units",
     "old": "first.weight.data[:, kept]", "new": "first.weight.data[:, : len(kept)]",
     "caught": "test-structured-prune: the first weight", "says": "keep those numbered"},
    {"name": "next-layer-forgotten", "cell": "keep-units",
     "old": "second.weight.data[kept]", "new": "second.weight.data",
     "caught": "test-structured-prune: sizes", "says": "still expects three units"},
    {"name": "last-bias-cut", "cell": "keep-units",
     "old": "None if second.bias is None else second.bias.data)",
     "new": "None if second.bias is None else second.bias.data[kept])",
     "caught": "test-structured-prune: its bias: of the outputs, which all stay",
     "says": "its numbers belong to the outputs"},
    {"name": "strength-twice", "cell": "factors",
     "old": "root = np.sqrt(s[:rank])", "new": "root = s[:rank]",
     "caught": "test-factors: what is on the diagonal of the product", "says": "each strength twice"},
    {"name": "all-on-the-left", "cell": "factors",
     "old": "left, right = u[:, :rank] * root, root[:, None] * vt[:rank]",
     "new": "left, right = u[:, :rank] * root**2, vt[:rank]",
     "caught": "test-factors: the left side's columns are as long as", "says": "all strength on the left"},
    {"name": "as-small-as", "cell": "factors",
     "old": "(in_features * out_features - 1) //", "new": "(in_features * out_features) //",
     "caught": "test-factors: from which rank on nothing is gained", "says": "want fewer"},
    {"name": "bias-on-both", "cell": "low-rank",
     "old": "linear_with(layer, left, None)", "new": "linear_with(layer, left, np.zeros(rank, left.dtype))",
     "caught": "test-low-rank: rank 3: (8, 8) becomes smaller, (8, 3) does not", "says": "a bias on both"},
    {"name": "a-bias-is-taken-for-granted", "cell": "low-rank",
     "old": "bias = None if layer.bias is None else layer.bias.data", "new": "bias = layer.bias.data",
     "caught": "test-low-rank: AttributeError: 'NoneType' object has no attribute 'data'"},
    {"name": "not-at-the-limit", "cell": "low-rank",
     "old": "rank <= limits", "new": "rank < limits",
     "caught": "test-low-rank: rank 3: (8, 8) becomes smaller, (8, 3) does not", "says": "at its limit, too"},
    {"name": "replaced-though-larger", "cell": "low-rank",
     "old": "factored(layer, rank) if rank <= limits.get(id(layer), 0) else layer",
     "new": "factored(layer, rank) if id(layer) in limits else layer",
     "caught": "test-low-rank: rank 3: (8, 8) becomes smaller, (8, 3) does not",
     "says": "the last layer is larger now"},
    {"name": "no-t-squared", "cell": "distillation-loss",
     "old": "self.temperature**2 * (exp", "new": "(exp",
     "caught": "test-distillation-loss: T² KL", "says": "T² is missing"},
    {"name": "wrong-way-round", "cell": "distillation-loss",
     "old": "(exp(wanted) * (wanted - found))", "new": "(exp(found) * (found - wanted))",
     "caught": "test-distillation-loss: T² KL", "says": "the wrong way round"},
    {"name": "cross-entropy", "cell": "distillation-loss",
     "old": "(exp(wanted) * (wanted - found))", "new": "(exp(wanted) * -found)",
     "caught": "test-distillation-loss: T² KL", "says": "KL also has p log p"},
    {"name": "not-softened", "cell": "distillation-loss",
     "old": "log_softmax(teacher.detach() / self.temperature)", "new": "log_softmax(teacher.detach())",
     "caught": "test-distillation-loss: T² KL", "says": "not softened"},
    {"name": "student-not-softened", "cell": "distillation-loss",
     "old": "log_softmax(student / self.temperature)", "new": "log_softmax(student)",
     "caught": "test-distillation-loss: the student's gradient: T (q - p)", "says": "divide them by T, too"},
    {"name": "second-axis", "cell": "distillation-loss",
     "old": ".sum(axis=-1)", "new": ".sum(axis=1)",
     "caught": "test-distillation-loss: two rows along three axes", "says": "the classes are the last axis"},
    {"name": "sum-over-rows", "cell": "distillation-loss",
     "old": ".sum(axis=-1).mean()", "new": ".sum()",
     "caught": "test-distillation-loss: two rows, the second agrees", "says": "want their mean"},
    {"name": "teacher-not-detached", "cell": "distillation-loss",
     "old": "teacher.detach()", "new": "teacher",
     "caught": "test-distillation-loss: nothing goes to the teacher", "says": "detach it"},
    {"name": "alpha-the-other-way", "cell": "distillation-loss",
     "old": "self.alpha * soft + (1 - self.alpha) * self.hard",
     "new": "(1 - self.alpha) * soft + self.alpha * self.hard",
     "caught": "test-distillation-loss: a quarter teacher, three quarters labels", "says": "not the labels'"},
    {"name": "labels-softened", "cell": "distillation-loss",
     "old": "self.hard(student, targets)", "new": "self.hard(student / self.temperature, targets)",
     "caught": "test-distillation-loss: labels alone, at temperature 1", "says": "labels want temperature 1"},
    {"name": "teacher-with-a-graph", "cell": "distill",
     "old": "with no_grad():\n                    answer", "new": "if True:\n                    answer",
     "caught": "test-distill: how the teacher was asked: (graph kept, training)", "says": "with a graph"},
    {"name": "gradients-pile-up", "cell": "distill",
     "old": "                optimizer.zero_grad()\n", "new": "",
     "caught": "test-distill: three epochs at a rate of nearly 0: the gradient of the last batch alone",
     "says": "zero_grad"},
    {"name": "whole-matrix-again", "cell": "adapted",
     "old": "(x @ self.a) @ self.b", "new": "x @ (self.a @ self.b)",
     "caught": "test-adapted: FLOPs: 2·64·32 + 2·64·2 + 2·2·32 + 32", "says": "multiply x by A first"},
]

RIGHT = [
    {"name": "partition-and-a-walk", "cell": "magnitude-prune", "code": '''
#| export
def magnitude_prune(model, fraction):
    """Return a copy of the model in which the smallest weights are 0."""
    fraction, pruned = share(fraction), deepcopy(model)
    matrices = weight_matrices(pruned)
    ranked = sorted((abs(float(value)), number, place) for number, w in enumerate(matrices)
                    for place, value in enumerate(w.data.ravel()))
    for _, number, place in ranked[: round(fraction * len(ranked))]:
        w = matrices[number]
        w.data[np.unravel_index(place, w.shape)] = 0
    return pruned
'''},
    {"name": "norms-by-linalg", "cell": "unit-scores", "code": '''
#| export
def unit_scores(first, second):
    """Return the worth of each hidden unit (H,)."""
    into, out = first.weight.data.astype(np.float64), second.weight.data.astype(np.float64)
    if first.bias is not None:
        into = np.vstack([into, first.bias.data])
    return np.linalg.norm(into, axis=0) * np.linalg.norm(out, axis=1)
'''},
    {"name": "factors-by-diagonal-matrices", "cell": "factors", "code": '''
#| export
def low_rank_factors(weight, rank):
    """Return arrays (in, rank) and (rank, out) whose product is the nearest of this rank to ``weight`` (in, out)."""
    rank = positive("rank", rank)
    u, s, vt = np.linalg.svd(decomposable(weight), full_matrices=False)
    root = np.diag(s[:rank] ** 0.5)
    return (u[:, :rank] @ root).astype(weight.dtype), (root @ vt[:rank]).astype(weight.dtype)


def rank_error(weight, rank):
    """Return (longest, whole) for the best approximation of this rank."""
    rank, s = positive("rank", rank), np.linalg.svd(decomposable(weight), compute_uv=False)
    return (float(s[rank]), float(np.linalg.norm(s[rank:]))) if rank < len(s) else (0.0, 0.0)


def largest_rank(in_features, out_features):
    """Return the largest rank at which two factors hold fewer numbers than (in, out)."""
    rank = 0
    while (rank + 1) * (in_features + out_features) < in_features * out_features:
        rank += 1
    return rank
'''},
    {"name": "loss-by-softmax-and-two-sums", "cell": "distillation-loss", "code": '''
#| export
class DistillationLoss(Layer):
    """How far a student is from its teacher's shares, and from the labels."""

    def __init__(self, temperature=4.0, alpha=0.9):
        self.temperature, self.alpha = float(real("temperature", temperature)), float(real("alpha", alpha))
        if not 0 < self.temperature < np.inf:
            raise ValueError(f"temperature is {temperature}; want a finite number above 0")
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha is {alpha}; want the teacher's part, from 0 to 1")
        self.hard = CrossEntropyLoss()

    def forward(self, student_logits, teacher_logits, targets=None):
        """Return the loss."""
        student, teacher = [x if isinstance(x, Tensor) else Tensor(x) for x in (student_logits, teacher_logits)]
        if student.shape != teacher.shape or not student.shape or not student.size:
            raise ValueError(f"{student.shape} with {teacher.shape}; want logits of one shape (..., C)")
        if targets is None and self.alpha < 1:
            raise ValueError("DistillationLoss: no targets came; give them, or alpha=1")
        with no_grad():
            p = log_softmax(teacher / self.temperature)
            shares = exp(p)
            entropy = -(shares * p).sum(axis=-1).mean()
        cross = -(shares * log_softmax(student / self.temperature)).sum(axis=-1).mean()
        total = (cross - entropy) * (self.alpha * self.temperature * self.temperature)
        return total if targets is None else total + self.hard(student, targets) * (1 - self.alpha)
'''},
]
