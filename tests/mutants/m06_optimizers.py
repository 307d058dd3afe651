"""Wrong and right solutions of module 06, as small edits of the reference."""

WRONG = [
    {"name": "gradients-set-to-zero", "cell": "optimizer",
     "old": "p.grad = None", "new": "p.grad = Tensor(np.zeros(p.shape))",
     "caught": "test-optimizer: zero_grad", "says": "None, not zeros"},
    {"name": "frozen-ones-due", "cell": "optimizer",
     "old": "if p.requires_grad and p.grad is not None]", "new": "if p.grad is not None]",
     "caught": "test-optimizer: due", "says": "a frozen parameter is not due"},
    {"name": "all-due", "cell": "optimizer",
     "old": " if p.requires_grad and p.grad is not None]", "new": "]",
     "caught": "test-optimizer: due", "says": "neither frozen ones"},
    {"name": "memory-thrown-away", "cell": "optimizer",
     "old": "self.keep(i, new, memory)", "new": "self.keep(i, new, {})",
     "caught": "test-optimizer: the memory is carried on", "says": "the memory was not kept"},
    {"name": "memory-not-recalled", "cell": "optimizer",
     "old": "self.update(p, p.grad, self.recall(i))", "new": "self.update(p, p.grad, {})",
     "caught": "test-optimizer: the memory is carried on", "says": "it began anew"},
    {"name": "data-replaced", "cell": "optimizer",
     "old": "self.keep(i, new, memory)", "new": "self.keep(i, new, memory)\n                p.data = p.data.copy()",
     "caught": "test-optimizer: in place: still the same array", "says": "p.data was replaced"},
    {"name": "not-kept", "cell": "optimizer",
     "old": "self.keep(i, new, memory)", "new": "self.keep(i, p, memory)",
     "caught": "test-optimizer: one step", "says": "the result was not kept"},
    {"name": "no-scope", "cell": "optimizer",
     "old": 'with no_grad(), scope("optimizer"):', "new": "with no_grad():",
     "caught": "test-optimizer: heard in scope", "says": 'scope("optimizer") is missing'},
    {"name": "uphill", "cell": "sgd",
     "old": "return p - self.lr * g, {}", "new": "return p + self.lr * g, {}",
     "caught": "test-sgd: p = (1, -2), g = (0.5, 0.5), lr 0.1", "says": "uphill"},
    {"name": "decay-away-from-zero", "cell": "sgd",
     "old": "g = g + self.weight_decay * p", "new": "g = g - self.weight_decay * p",
     "caught": "test-sgd: decay 0.1: g becomes (0.6, 0.3)", "says": "decay pushes away from zero"},
    {"name": "decay-without-the-rate", "cell": "sgd",
     "old": "        if self.weight_decay:\n            g = g + self.weight_decay * p\n"
            "        if not self.momentum:\n            return p - self.lr * g, {}\n",
     "new": "        if not self.momentum:\n            return p - self.lr * g - self.weight_decay * p, {}\n",
     "caught": "test-sgd: decay 0.1: g becomes (0.6, 0.3)", "says": "the decay was not multiplied by the rate"},
    {"name": "always-a-velocity", "cell": "sgd",
     "old": "        if not self.momentum:\n            return p - self.lr * g, {}\n", "new": "",
     "caught": "test-sgd: without momentum nothing is remembered"},
    {"name": "velocity-forgotten", "cell": "sgd",
     "old": 'return p - self.lr * velocity, {"velocity": velocity}',
     "new": 'return p - self.lr * velocity, {"velocity": g}',
     "caught": "test-momentum: the same gradient three times", "says": "the gradient alone was remembered"},
    {"name": "one-minus-momentum", "cell": "sgd",
     "old": 'velocity = self.momentum * memory["velocity"] + g if "velocity" in memory else g',
     "new": 'velocity = self.momentum * memory.get("velocity", 0.0) + (1 - self.momentum) * g',
     "caught": "test-momentum: the same gradient three times", "says": "1 - momentum"},
    {"name": "momentum-twice", "cell": "sgd",
     "old": "return p - self.lr * velocity, {", "new": "return p - self.lr * (g + self.momentum * velocity), {",
     "caught": "test-momentum: the same gradient three times", "says": "momentum was applied twice"},
    {"name": "decay-beside-the-velocity", "cell": "sgd",
     "old": "        if self.weight_decay:\n            g = g + self.weight_decay * p\n"
            "        if not self.momentum:\n            return p - self.lr * g, {}\n",
     "new": "        decayed = g + self.weight_decay * p\n        if not self.momentum:\n"
            "            return p - self.lr * decayed, {}\n        p = p * (1 - self.lr * self.weight_decay)\n",
     "caught": "test-momentum: with decay 0.5", "says": "the decay must enter the velocity"},
    {"name": "no-correction", "cell": "adam",
     "old": "m / (1 - beta1**t), v / (1 - beta2**t)", "new": "m, v",
     "caught": "test-adam: p = 1, g = 2, lr 0.1: the first step", "says": "neither average is corrected"},
    {"name": "only-m-corrected", "cell": "adam",
     "old": "v / (1 - beta2**t)", "new": "v",
     "caught": "test-adam: p = 1, g = 2, lr 0.1: the first step", "says": "only m is corrected"},
    {"name": "only-v-corrected", "cell": "adam",
     "old": "m / (1 - beta1**t)", "new": "m",
     "caught": "test-adam: p = 1, g = 2, lr 0.1: the first step", "says": "only v is corrected"},
    {"name": "t-stands-still", "cell": "adam",
     "old": '{"m": m, "v": v, "t": t}', "new": '{"m": m, "v": v, "t": 0}',
     "caught": "test-adam: then g = -1", "says": "t did not go on"},
    {"name": "counted-from-0", "cell": "adam",
     "old": 't = memory.get("t", 0) + 1', "new": 't = memory.get("t", 1) + 1',
     "caught": "test-adam: p = 1, g = 2, lr 0.1: the first step", "says": "t is 2 in the first step"},
    {"name": "eps-under-the-root", "cell": "adam",
     "old": "(sqrt(v_hat) + self.eps)", "new": "sqrt(v_hat + self.eps)",
     "caught": "test-adam: eps outside the root", "says": "eps was added under the root"},
    {"name": "no-eps", "cell": "adam",
     "old": "(sqrt(v_hat) + self.eps)", "new": "sqrt(v_hat)",
     "caught": "test-adam: a gradient of zero", "says": "eps is missing"},
    {"name": "betas-swapped", "cell": "adam",
     "old": "beta1, beta2 = self.betas", "new": "beta2, beta1 = self.betas",
     "caught": "test-adam: then g = -1", "says": "the betas are swapped"},
    {"name": "no-root", "cell": "adam",
     "old": "sqrt(v_hat)", "new": "v_hat",
     "caught": "test-adam: p = 1, g = 2, lr 0.1: the first step", "says": "the root is missing"},
    {"name": "adamw-in-adam", "cell": "adam",
     "old": "        if self.weight_decay:\n            g = g + self.weight_decay * p\n"
            "        direction, memory = self.direction(g, memory)\n        return p - self.lr * direction, memory",
     "new": "        direction, memory = self.direction(g, memory)\n"
            "        return p * (1 - self.lr * self.weight_decay) - self.lr * direction, memory",
     "caught": "test-adamw: Adam: the same", "says": "that is AdamW's decay"},
    {"name": "coupled-decay", "cell": "adamw",
     "old": "        direction, memory = self.direction(g, memory)\n"
            "        return p * (1 - self.lr * self.weight_decay) - self.lr * direction, memory",
     "new": "        direction, memory = self.direction(g + self.weight_decay * p, memory)\n"
            "        return p - self.lr * direction, memory",
     "caught": "test-adamw: AdamW: p = 4, no gradient", "says": "the decay went through Adam's quotient"},
    {"name": "adamw-decay-without-the-rate", "cell": "adamw",
     "old": "(1 - self.lr * self.weight_decay)", "new": "(1 - self.weight_decay)",
     "caught": "test-adamw: AdamW: p = 4, no gradient", "says": "the decay was not multiplied by the rate"},
    {"name": "step-shrunk-as-well", "cell": "adamw",
     "old": "return p * (1 - self.lr * self.weight_decay) - self.lr * direction, memory",
     "new": "return (p - self.lr * direction) * (1 - self.lr * self.weight_decay), memory",
     "caught": "test-adamw: AdamW: p = 4, g = 2", "says": "the step was shrunk as well"},
    {"name": "elements-not-bytes", "cell": "state-bytes",
     "old": "array.nbytes", "new": "array.size",
     "caught": "test-state-bytes: momentum: as much as the parameters", "says": "the number of elements"},
    {"name": "four-bytes-each", "cell": "state-bytes",
     "old": "array.nbytes", "new": "4 * array.size",
     "caught": "test-state-bytes: AdamW in float64", "says": "4 bytes for every dtype"},
]

RIGHT = [
    {"name": "velocity-from-zero", "cell": "sgd", "code": '''
#| export
class SGD(Optimizer):
    """Gradient descent with momentum and weight decay: v = momentum v + (g + decay p), p = p - lr v."""

    def __init__(self, params, lr, momentum=0.0, weight_decay=0.0):
        super().__init__(params, lr)
        self.momentum = nonnegative("momentum", momentum)
        self.weight_decay = nonnegative("weight_decay", weight_decay)

    def update(self, p, g, memory):
        """Return the new value of ``p`` and the velocity to remember (none without momentum)."""
        slope = g + p * self.weight_decay if self.weight_decay > 0 else g
        if self.momentum > 0 and memory:
            slope = slope + memory["velocity"] * self.momentum
        return p - slope * self.lr, {"velocity": slope} if self.momentum > 0 else {}
'''},
    {"name": "adam-by-differences", "cell": "adam", "code": '''
#| export
class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015): the running mean over the running root mean square."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(params, lr)
        if not isinstance(betas, (tuple, list)) or len(betas) != 2:
            raise ValueError(f"betas is {betas!r}; want two numbers, such as (0.9, 0.999)")
        self.betas = tuple(nonnegative("beta", beta, below=1) for beta in betas)
        self.eps, self.weight_decay = nonnegative("eps", eps), nonnegative("weight_decay", weight_decay)

    def direction(self, g, memory):
        """Return the direction and the memory: ``m``, ``v`` and the step count ``t``."""
        old = memory or {"m": 0.0 * g, "v": 0.0 * g, "t": 0}
        new = {"t": old["t"] + 1}
        for name, value, beta in (("m", g, self.betas[0]), ("v", g * g, self.betas[1])):
            new[name] = value * (1 - beta) + beta * old[name]
        first, second = (1 - beta ** new["t"] for beta in self.betas)
        return new["m"] / first / (sqrt(new["v"] / second) + self.eps), new

    def update(self, p, g, memory):
        """Return the new value of ``p`` and the new memory."""
        step, memory = self.direction(g + p * self.weight_decay if self.weight_decay else g, memory)
        return p - step * self.lr, memory
'''},
    {"name": "decay-subtracted", "cell": "adamw", "code": '''
#| export
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, lr, betas, eps, weight_decay)

    def update(self, p, g, memory):
        """Return the new value of ``p`` and the new memory."""
        step, memory = self.direction(g, memory)
        return p - p * (self.lr * self.weight_decay) - step * self.lr, memory
'''},
    {"name": "bytes-by-itemsize", "cell": "state-bytes", "code": '''
#| export
def state_bytes(optimizer):
    """Return how many bytes an optimizer's arrays occupy: before its first step none."""
    total = 0
    for array in optimizer.state_arrays():
        total += array.size * array.itemsize
    return total
'''},
]
