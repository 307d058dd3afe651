# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
"""
# 06 · Optimizers

Tier: Foundation · Difficulty 2 of 4 · About 2 hours · Needs 01 to 05 (`tito test tensor`, `tito test activations`, `tito test layers`,
`tito test losses`, `tito test autograd`)

Module 05 gave every weight a gradient: the direction in which the loss grows. Training is walking the other way. This module is
about *how far*, and that turns out to be most of the art: with the same gradients, one rule needs several times as many steps as another.

**Build** the step in place, SGD, momentum, Adam, AdamW → **use** them in a ravine that plain descent hates → **reflect** on
what an optimizer remembers, and what that weighs.

When you are done you can
1. say why a weight must be changed in place, and what happens when it is not;
2. write momentum and predict how much faster it gets;
3. write Adam, and show what its first steps do without the bias correction;
4. tell weight decay in Adam from weight decay in AdamW by a number;
5. say how many bytes an optimizer adds to every parameter.

Yours: the three verbs of every optimizer, the updates of SGD, Adam and AdamW, and what they weigh. Given and explained: the base class's bookkeeping (which array
belongs to which parameter), the checks of settings.

A cell you have not filled says which one it is: `state_bytes: section 5, cell 1` is the function `state_bytes` in the first code cell of section 5.
"""

# %%
#| default_exp core.optimizers

# %%
#| export
from math import isfinite

import numpy as np

from tinytorch.core.autograd import no_grad
from tinytorch.core.tensor import Tensor, is_shape_only, scope, sqrt

# %% [markdown]
"""
## 1. A step in place

**Question.** The formula says `w = w - lr * gradient`. What happens if you write exactly that?

Try it, on a weight that a model holds:
"""

# %%
from tinytorch.core.layers import Linear

layer = Linear(1, 1, bias=False)
layer.weight.data[...] = 5.0
w = layer.weight
for step in range(3):
    loss = (layer(Tensor([[1.0]])) ** 2).sum()
    loss.backward()
    w = w - 0.1 * layer.weight.grad
    print(f"step {step}: w = {w.item():.1f}, made by {w.made_by.op}; the layer's weight = {layer.weight.item():.1f}")

# %% [markdown]
"""
Two things went wrong. The layer never noticed: `w` is now the name of *another* tensor, and the layer still holds the first one. And the new `w` remembers what it was made of; after a thousand steps it is the end of a chain of a thousand
nodes, all of them held in memory.

So an optimizer does two things differently. It computes under `no_grad()`, and it writes the result **into the array** that the model already has: `p.data[...] = new`.

```
   p (the model's tensor) ──▶ p.data ──▶ [ 5.0 ]        the arrows stay, the number changes
```

The arithmetic itself still goes through the door of Module 01, in a scope named `optimizer`, so that a profile shows what a step costs. Only the last act, copying the new numbers over the old ones, is not an op: it computes nothing. It has
no gradient either, and that is why it must never happen between a forward pass and its backward pass:
"""

# %%
w = Tensor([3.0], requires_grad=True)
loss = (w * w).sum()
w.data[...] = 100.0  # an impatient optimizer
loss.backward()
print("d(w²)/dw at w = 3 is 6; the gradient found is", w.grad.item())

# %% [markdown]
"""
**Given: bookkeeping.** An optimizer keeps a list of parameters, each object once, and for each of them a small dict of what it remembers: plain arrays and counters, no Tensors, so that nobody takes them for parameters. `recall(i)` hands the memory
of parameter `i` out as Tensors to compute with; `keep(i, new, memory)` writes the parameter in place and stores what is to be remembered.
"""

# %%
#| export
def nonnegative(what, value, below=None):
    """Return ``value`` as a float; ``TypeError`` unless a number, ``ValueError`` unless 0 <= value (< below)."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{what} is {value!r}; want a number")
    if not isfinite(value) or value < 0 or (below is not None and value >= below):
        wanted = "a finite number, 0 or more" if below is None else f"a number from 0 to below {below}"
        raise ValueError(f"{what} is {value}; want {wanted}")
    return float(value)

# %%
#| export
def parameter_list(params):
    """Return ``params`` as a list of Tensors, each object once; ``TypeError`` or ``ValueError`` when it is none."""
    if isinstance(params, Tensor) or not hasattr(params, "__iter__"):
        raise TypeError(f"params is a {type(params).__name__}; want a list of Tensors, such as model.parameters()")
    params = list({id(p): p for p in params}.values())
    for p in params:
        if not isinstance(p, Tensor):
            raise TypeError(f"params holds a {type(p).__name__}; want Tensors, such as model.parameters()")
    if not params:
        raise ValueError("params is empty; want the Tensors to train")
    return params

# %%
#| export
class Memory:
    """An optimizer's books: its parameters, its rate, and what it remembers of each parameter (arrays and counters)."""

    def __init__(self, params, lr):
        self.params = parameter_list(params)
        self.lr = nonnegative("lr", lr)
        self.state = [{} for _ in self.params]

    def recall(self, i):
        """Return what is remembered of parameter ``i``; arrays come as Tensors on the same memory."""
        return {name: Tensor(value, dtype=value.dtype) if isinstance(value, np.ndarray) else value
                for name, value in self.state[i].items()}

    def keep(self, i, new, memory):
        """Write ``new`` into parameter ``i`` in place and remember ``memory``; on shapes only, change nothing."""
        if is_shape_only():
            return
        p = self.params[i]
        self.state[i] = {}
        for name, value in memory.items():
            if isinstance(value, Tensor):  # memory of its own: the gradient and the parameter will change
                shared = any(np.may_share_memory(value.data, t.data) for t in (p, p.grad))
                value = value.data.copy() if shared else value.data
            self.state[i][name] = value
        p.data[...] = new.data

    def state_arrays(self):
        """Return the arrays that are remembered, of all parameters, in order."""
        return [value for memory in self.state for value in memory.values() if isinstance(value, np.ndarray)]

    def check_gradients(self):
        """Raise ``ValueError`` if a gradient does not fit or a parameter is read-only; before anything moves."""
        for i, p in enumerate(self.params):
            if p.grad is not None and p.grad.shape != p.shape:
                raise ValueError(f"step: parameter {i} is {p.shape}, its gradient {p.grad.shape}; want the same shape")
            if p.grad is not None and not (p.data.flags.writeable or is_shape_only()):
                raise ValueError(f"step: parameter {i} is read-only; was the model built under shape_only()?")

# %% [markdown]
"""
**Task.** Write three methods of `Optimizer`.

- `zero_grad()`: forget the gradients: every `p.grad` becomes `None`. (Module 05 *adds* to `.grad`; who forgets this walks along the sum of all gradients so far.)
- `due()`: the list of the numbers `i` of the parameters to be changed now: those that want a gradient (`requires_grad`) *and* have one. A frozen parameter may hold an old gradient: it is not due.
- `step()`: without remembering how (`no_grad()`), in `scope("optimizer")`, for every due parameter: `self.update(p, gradient, memory)` returns the new value and the new memory; keep them.

`update` is what the classes below will differ in. In the base class it does not exist.

<details><summary>Hint 1: idea</summary>
<code>step</code> is a loop of three verbs: recall, update, keep.
</details>
<details><summary>Hint 2: approach</summary>
<code>with no_grad(), scope("optimizer"):</code> around the loop over <code>self.due()</code>. <code>update</code> returns a pair: <code>new, memory = self.update(...)</code>.
</details>
<details><summary>Hint 3: worked example, something else</summary>
The numbers of the even entries of a list: <code>[i for i, v in enumerate(values) if v % 2 == 0]</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "optimizer", "solution": true}
#| export
class Optimizer(Memory):
    """Base of all optimizers: a subclass writes ``update(p, g, memory)``, which returns (new value, new memory)."""

    def zero_grad(self):
        """Forget all gradients."""
        ### BEGIN SOLUTION
        for p in self.params:
            p.grad = None
        ### END SOLUTION

    def due(self):
        """Return the numbers of the parameters that want a gradient and have one."""
        ### BEGIN SOLUTION
        return [i for i, p in enumerate(self.params) if p.requires_grad and p.grad is not None]
        ### END SOLUTION

    def step(self):
        """Change every due parameter once, in place; the arithmetic is heard in ``scope("optimizer")``."""
        self.check_gradients()
        ### BEGIN SOLUTION
        with no_grad(), scope("optimizer"):
            for i in self.due():
                p = self.params[i]
                new, memory = self.update(p, p.grad, self.recall(i))
                self.keep(i, new, memory)
        ### END SOLUTION

    def __repr__(self):
        return f"{type(self).__name__}(lr={self.lr:g}, {len(self.params)} parameters)"

# %%
class Downhill(Optimizer):
    """The shortest optimizer: a fixed rate, and a count of its steps."""

    def update(self, p, g, memory):
        return p - self.lr * g, {"steps": memory.get("steps", 0) + 1}


w = Tensor([5.0], requires_grad=True)
downhill = Downhill([w], lr=0.1)
for _ in range(3):
    downhill.zero_grad()
    (w * w).sum().backward()
    downhill.step()
    print(f"w = {w.item():.2f}, memory {downhill.state[0]}")

# %% nbgrader={"grade": true, "grade_id": "test-optimizer", "points": 20, "skill": "step"}
from tito.checks import check, check_raises
from tinytorch.core.tensor import listen


def after(optimizer, gradients):
    """Give the optimizer's one parameter these gradients, one a step; return its values after each step."""
    p, values = optimizer.params[0], []
    for gradient in gradients:
        p.grad = Tensor(gradient)
        optimizer.step()
        values.append(p.data.tolist())
    return values


def start_at(*values):
    """Return a list of one trainable parameter."""
    return [Tensor(list(values), requires_grad=True)]


def test_optimizer():
    """In place, without a graph, the right parameters, heard in its scope."""
    class Plain(Optimizer):
        """p - lr g, counting."""

        def update(self, p, g, memory):
            return p - self.lr * g, {"steps": memory.get("steps", 0) + 1}

    moving, frozen, idle = (Tensor([1.0, 2.0], requires_grad=True) for _ in range(3))
    frozen.requires_grad, frozen.grad, moving.grad = False, Tensor([1.0, 1.0]), Tensor([1.0, -1.0])
    optimizer, array, scopes = Plain([moving, frozen, idle, moving], lr=0.5), moving.data, []
    check("due", optimizer.due(), [0], {(0, 1): "a frozen parameter is not due", (0, 1, 2): "neither frozen ones nor those without a gradient are due"})
    with listen(lambda event: scopes.append(event.scope[0].name if event.scope else "no scope")):
        optimizer.step()
    check("one step", moving.data, [0.5, 2.5], {(0.0, 3.0): "stepped twice: it is in the list twice", (1.0, 2.0): "the result was not kept", (1.5, 1.5): "uphill"})
    check("in place: still the same array", moving.data is array, True, {False: "p.data was replaced; other users of the array do not see it"})
    check("no graph grows on it", moving.made_by, None)
    check("frozen and idle ones", (frozen.data, idle.data), (np.array([1.0, 2.0]), np.array([1.0, 2.0])))
    check("heard in scope", sorted(set(scopes)), ["optimizer"], {("no scope",): "scope(\"optimizer\") is missing", (): "computed with NumPy, past the door"})
    optimizer.step()
    check("the memory is carried on", optimizer.state[0].get("steps"), 2, {1: "it began anew: update wants recall(i)", None: "the memory was not kept"})
    optimizer.zero_grad()
    check("zero_grad", [p.grad is None for p in optimizer.params], [True, True, True], {(False,) * 3: "None, not zeros: a parameter without a gradient is not due"})
    idle.grad = Tensor([1.0, 2.0, 3.0])
    check_raises("a gradient of another shape", ValueError, optimizer.step, must_say="parameter 2")


test_optimizer()

# %% [markdown]
"""
**What if** one forgets `zero_grad`? Guess where `w` ends after twenty steps, then look. The sum of all gradients so far acts like a very heavy ball.
"""

# %%
for forget in (False, True):
    w = Tensor([5.0], requires_grad=True)
    downhill, path = Downhill([w], lr=0.1), []
    for _ in range(20):
        if not forget:
            downhill.zero_grad()
        (w * w).sum().backward()
        downhill.step()
        path.append(round(w.item(), 1))
    print("forgotten:" if forget else "zeroed:   ", path)

# %% [markdown]
"""
## 2. SGD, and the trouble with ravines

**Question.** One rate for all weights. What if the loss is steep in one direction and flat in another?

Then the steep one dictates. Here is such a ravine, `f(a, b) = a² / 2 + 50 b²`. Its curvature in `b` is a hundred times that in `a`. A step multiplies `b` by `1 - 100 · lr`: above `lr = 2 / 100 = 0.02` that is below -1, and `b` jumps from
side to side, further each time. Below it `b` calms down, but `a` crawls.
"""

# %%
def ravine(p):
    """a²/2 + 50 b²: flat along a, steep along b; the bottom is at (0, 0)."""
    return (p * p * Tensor([0.5, 50.0])).sum()


def walk(make, steps=100):
    """Start at (10, 1), take so many steps with the optimizer that ``make`` makes; return the losses on the way."""
    p = Tensor([10.0, 1.0], requires_grad=True)
    optimizer, losses = make([p]), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = ravine(p)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


for rate in (0.005, 0.019, 0.021):
    losses = walk(lambda params, lr=rate: Downhill(params, lr))
    print(f"lr {rate}: loss {losses[0]:.0f} -> {losses[-1]:.3g}")

# %% [markdown]
"""
**Momentum** (Polyak, 1964): let the step be a ball that rolls. It keeps a velocity; the gradient only pushes it.

```
velocity = momentum · velocity + g          (in the first step there is no velocity yet: it is g)
p        = p - lr · velocity
```

Across the ravine the gradients change sign from step to step, and the pushes cancel. Along it they all point the same way, and add up: a constant gradient `g` ends at a velocity of `g · (1 + 0.9 + 0.81 + ...) = g / (1 - 0.9)`, ten times the plain step. A momentum of 0.8 promises
`1 / (1 - 0.8) = 5` times.

**Weight decay** pulls every weight a little towards zero. In SGD it is simply added to the gradient: `g + weight_decay · p`.

**Task.** Write `SGD.update`. `p`, `g` and what is in `memory` are Tensors. First decay, then momentum, then the step. Remember the velocity under `"velocity"`; without momentum remember nothing: an empty dict.

Example: `p = 1`, `g = 0.5`, `lr = 0.1`, momentum 0.9, the same gradient three times: velocities 0.5, 0.95, 1.355.

<details><summary>Hint 1: idea</summary>
Three lines of the formula, each with an <code>if</code> for what is switched off.
</details>
<details><summary>Hint 2: approach</summary>
Is <code>"velocity"</code> in <code>memory</code>? If so mix; if not, the velocity is <code>g</code>. With decay <code>g</code> is already the sum.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Momentum 0.5, gradients 4, 0, 2: velocities 4, 0.5 · 4 + 0 = 2, 0.5 · 2 + 2 = 3.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "sgd", "solution": true}
#| export
class SGD(Optimizer):
    """Gradient descent with momentum (Polyak, 1964) and weight decay: v = momentum v + (g + decay p), p = p - lr v."""

    def __init__(self, params, lr, momentum=0.0, weight_decay=0.0):
        super().__init__(params, lr)
        self.momentum = nonnegative("momentum", momentum)
        self.weight_decay = nonnegative("weight_decay", weight_decay)

    def update(self, p, g, memory):
        """Return the new value of ``p`` and the velocity to remember (none without momentum)."""
        ### BEGIN SOLUTION
        if self.weight_decay:
            g = g + self.weight_decay * p
        if not self.momentum:
            return p - self.lr * g, {}
        velocity = self.momentum * memory["velocity"] + g if "velocity" in memory else g
        return p - self.lr * velocity, {"velocity": velocity}
        ### END SOLUTION

# %%
print("plain:   ", after(SGD(start_at(1.0), lr=0.1), [[0.5]] * 3))
print("momentum:", after(SGD(start_at(1.0), lr=0.1, momentum=0.9), [[0.5]] * 3))

# %% nbgrader={"grade": true, "grade_id": "test-sgd", "points": 14, "skill": "sgd"}
def test_sgd():
    """Plain steps and weight decay."""
    check("p = (1, -2), g = (0.5, 0.5), lr 0.1", after(SGD(start_at(1.0, -2.0), lr=0.1), [[0.5, 0.5]])[0], [0.95, -2.05], {(1.05, -1.95): "uphill"})
    check("three steps", after(SGD(start_at(1.0), lr=0.1), [[1.0], [2.0], [-3.0]])[-1], [1.0])
    check("decay 0.1: g becomes (0.6, 0.3)", after(SGD(start_at(1.0, -2.0), lr=0.1, weight_decay=0.1), [[0.5, 0.5]])[0], [0.94, -2.03], {
        (0.96, -2.07): "decay pushes away from zero", (0.85, -1.85): "the decay was not multiplied by the rate"})
    plain = SGD(start_at(1.0), lr=0.1)
    after(plain, [[1.0]])
    check("without momentum nothing is remembered", plain.state[0], {})


test_sgd()

# %% nbgrader={"grade": true, "grade_id": "test-momentum", "points": 14, "skill": "momentum"}
def test_momentum():
    """Velocities, memory of its own, with decay."""
    heavy = SGD(start_at(1.0), lr=0.1, momentum=0.9)
    check("the same gradient three times", after(heavy, [[0.5]] * 3), [[0.95], [0.855], [0.7195]], {
        ((0.95,), (0.9,), (0.85,)): "the velocity is forgotten between steps", ((0.995,), (0.9855,), (0.97195,)): "the gradient enters with 1 - momentum",
        ((0.95,), (0.855,), (0.76,)): "the gradient alone was remembered, not the velocity", ((0.905,), (0.7695,), (0.59755,)): "momentum was applied twice"}, rtol=1e-5)
    check("what is remembered", heavy.state[0]["velocity"], np.array([1.355]), rtol=1e-5)
    check("it is a plain array", type(heavy.state[0]["velocity"]).__name__, "ndarray")
    check("gradients 4, 0, 2 with momentum 0.5", after(SGD(start_at(0.0), lr=1.0, momentum=0.5), [[4.0], [0.0], [2.0]]), [[-4.0], [-6.0], [-9.0]])
    check("with decay 0.5", after(SGD(start_at(2.0), lr=0.1, momentum=0.5, weight_decay=0.5), [[1.0], [1.0]]), [[1.8], [1.51]], {
        ((1.8,), (1.56,)): "the decay must enter the velocity"}, rtol=1e-5)


test_momentum()

# %% [markdown]
"""
Back to the ravine. How many steps until the loss is below 0.01 for good? 0.8 promises to be 5 times as fast as the plain rule, 0.9 promises 10 times, 0.95 even 20. Guess which of the three wins:
"""

# %%
def steps_needed(make):
    """Return after how many steps the loss in the ravine stays below 0.01."""
    return max(i for i, loss in enumerate(walk(make, steps=300)) if loss > 0.01) + 1


plain = steps_needed(lambda p: SGD(p, lr=0.019))
print(f"momentum 0   : {plain:3} steps")
for momentum in (0.8, 0.9, 0.95):
    needed = steps_needed(lambda p, m=momentum: SGD(p, lr=0.019, momentum=m))
    print(f"momentum {momentum:<4}: {needed:3} steps; promised {1 / (1 - momentum):4.1f} times as fast, is {plain / needed:.1f}")

# %% [markdown]
"""
0.8 keeps its promise. The others do not: a ball that heavy is fast at the bottom too, rolls past it, and needs many swings to come to rest. The promise is about the way down.

**What it means for a real model.** Image networks are still trained with exactly this rule. The price is one more array for every parameter.

## 3. Adam: a rate for every weight

**Question.** Could every weight have its own rate, so that steep directions get small steps and flat ones large steps?

Divide by the size of the gradient. **Adam** (Kingma and Ba, 2015) keeps two running averages of each gradient: its mean `m`, and the mean of its square `v`. The step is `m / √v`: a number near 1 when all gradients agree, near 0 when they
cancel, *whatever their scale*.

```
m = β1 · m + (1 - β1) · g              β1 = 0.9
v = β2 · v + (1 - β2) · g²             β2 = 0.999
```

Both start at zero, and an average that starts at zero is too small at first. Suppose all gradients are 2:
"""

# %%
m = v = 0.0
print("step       m       v    m/√v")
for t in range(1, 1001):
    m, v = 0.9 * m + 0.1 * 2.0, 0.999 * v + 0.001 * 4.0
    if t in (1, 2, 5, 20, 100, 1000):
        print(f"{t:4}   {m:5.3f}   {v:5.3f}   {m / v**0.5:5.2f}")

# %% [markdown]
"""
`m / √v` should be 1 all along. Without a correction the first steps are several times too long, and they stay too long for hundreds of steps, because `v` fills so slowly. The remedy is exact: after `t` steps the weights of the average add up to `1 - βᵗ`, so divide by that.

```
m̂ = m / (1 - β1ᵗ)        v̂ = v / (1 - β2ᵗ)        direction = m̂ / (√v̂ + eps)
```

`eps` keeps a gradient of zero from dividing by zero.

**Task.** Write `Adam.direction(g, memory)`: it returns the direction and the new memory, a dict with `"m"`, `"v"` and the step count `"t"` (1 after the first step). Then `Adam.update`: weight decay is added to the gradient, as in SGD; the new value is
`p - lr · direction`.

<details><summary>Hint 1: idea</summary>
Five lines, in the order of the formulas: count, two averages, two corrections, one quotient.
</details>
<details><summary>Hint 2: approach</summary>
<code>memory.get("m", 0.0)</code> starts the average; a number times a Tensor is a Tensor. <code>sqrt</code> is imported above (the op, not that of <code>math</code>). <code>beta1**t</code> is a plain number.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
β1 = 0.5, gradients 4 and 0: m is 2, then 1; corrected 2 / 0.5 = 4, then 1 / 0.75 = 1.33.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "adam", "solution": true}
#| export
class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015): steps of m̂ / (√v̂ + eps), the running mean over the running root mean square.

    ``weight_decay`` is added to the gradient and so passes through the quotient; see ``AdamW`` for the other kind.
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(params, lr)
        if not isinstance(betas, (tuple, list)) or len(betas) != 2:
            raise ValueError(f"betas is {betas!r}; want two numbers, such as (0.9, 0.999)")
        self.betas = tuple(nonnegative("beta", beta, below=1) for beta in betas)
        self.eps, self.weight_decay = nonnegative("eps", eps), nonnegative("weight_decay", weight_decay)

    def direction(self, g, memory):
        """Return m̂ / (√v̂ + eps) and the memory: ``m``, ``v`` and the step count ``t``."""
        beta1, beta2 = self.betas
        ### BEGIN SOLUTION
        t = memory.get("t", 0) + 1
        m = beta1 * memory.get("m", 0.0) + (1 - beta1) * g
        v = beta2 * memory.get("v", 0.0) + (1 - beta2) * (g * g)
        m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
        return m_hat / (sqrt(v_hat) + self.eps), {"m": m, "v": v, "t": t}
        ### END SOLUTION

    def update(self, p, g, memory):
        """Return the new value of ``p`` and the new memory."""
        ### BEGIN SOLUTION
        if self.weight_decay:
            g = g + self.weight_decay * p
        direction, memory = self.direction(g, memory)
        return p - self.lr * direction, memory
        ### END SOLUTION

# %%
adam, memory = Adam(start_at(0.0)), {}
for t in range(1, 21):
    direction, memory = adam.direction(Tensor([2.0]), memory)
    if t in (1, 2, 5, 20):
        print(f"all gradients 2, step {t:2}: m {memory['m'].item():.3f}, direction {direction.item():.2f}")
for gradient in (1000.0, 1.0, 0.001):
    print(f"first step with a gradient of {gradient:>6}: 1 becomes {after(Adam(start_at(1.0), lr=0.1), [[gradient]])[0][0]:.4f}")

# %% [markdown]
"""
Surprised? The first step of Adam has the length `lr` for every weight, whatever the gradient. Only the sign counts.
"""

# %% nbgrader={"grade": true, "grade_id": "test-adam", "points": 26, "skill": "adam"}
def test_adam():
    """First steps, corrections, memory, zero gradients."""
    mistakes = {0.683772: "neither average is corrected", -2.162278: "only m is corrected", 0.99: "only v is corrected", 1.1: "uphill",
                0.95: "the root is missing", 0.925586: "t is 2 in the first step; it begins with 1"}
    adam = Adam(start_at(1.0), lr=0.1)
    values = [v[0] for v in after(adam, [[2.0], [-1.0]])]
    check("p = 1, g = 2, lr 0.1: the first step", values[0], 0.9, mistakes, rtol=1e-5)
    check("then g = -1", values[1], 0.873366, {0.864209: "t did not go on to 2", 1.0: "the memory began anew", 0.867914: "the betas are swapped: m takes the first"}, rtol=1e-5)
    check("remembered m, v and t", {k: float(np.sum(v)) for k, v in adam.state[0].items()}, {"m": 0.08, "v": 0.004996, "t": 2.0}, rtol=1e-4)
    check("ten equal gradients walk ten rates", after(Adam(start_at(1.0), lr=0.1), [[0.03]] * 10)[-1][0], 0.0, atol=1e-5)
    check("the scale of the gradient does not matter", after(Adam(start_at(1.0), lr=0.1), [[500.0], [-250.0]])[-1][0], 0.873366, rtol=1e-5)
    check("a gradient of zero", after(Adam(start_at(1.0)), [[0.0]])[0], [1.0], {(float("nan"),): "0 / 0: eps is missing"})
    check("eps outside the root", after(Adam(start_at(1.0), lr=1.0, eps=1.0), [[1.0]])[0][0], 0.5, {1 - 0.5**0.5: "eps was added under the root"}, rtol=1e-5)
    check("betas (0.5, 0.5), gradients 4 and 0", after(Adam(start_at(0.0), lr=1.0, betas=(0.5, 0.5)), [[4.0], [0.0]])[-1][0], -1 - (4 / 3) / (16 / 3) ** 0.5, rtol=1e-5)
    check_raises("a beta of 1", ValueError, lambda: Adam(start_at(1.0), betas=(1.0, 0.9)), must_say="beta is 1")


test_adam()

# %% [markdown]
"""
In the ravine, Adam does not see the ravine: both directions look alike to it. Momentum did, and had to go slowly because of the steep one. So by how much does Adam win? Bet first:
"""

# %%
print(f"momentum 0.8, lr 0.019: {steps_needed(lambda p: SGD(p, lr=0.019, momentum=0.8))} steps")
for rate in (0.25, 0.5, 1.0, 2.0):
    print(f"Adam, lr {rate:<4}: {steps_needed(lambda p, lr=rate: Adam(p, lr))} steps")

# %% [markdown]
"""
**The picture.** The ravine from above, its lines of equal loss drawn, and the first sixty steps of three walkers from the same place:
"""

# %%
import matplotlib.pyplot as plt


def footprints(make, steps=60):
    """Walk from (10, 1); return the places, one row for each step."""
    p = Tensor([10.0, 1.0], requires_grad=True)
    optimizer, places = make([p]), [p.data.copy()]
    for _ in range(steps):
        optimizer.zero_grad()
        ravine(p).backward()
        optimizer.step()
        places.append(p.data.copy())
    return np.array(places)


figure, rows = plt.subplots(3, 1, figsize=(10, 6), layout="constrained", sharex=True, sharey=True)
a, b = np.meshgrid(np.linspace(-7, 11, 200), np.linspace(-1.2, 1.2, 100))
for axes, colour, name, make in zip(rows, ("#0072B2", "#D55E00", "#009E73"), ("SGD, lr 0.019", "SGD, lr 0.019, momentum 0.8", "Adam, lr 0.5"),
                                    (lambda p: SGD(p, lr=0.019), lambda p: SGD(p, lr=0.019, momentum=0.8), lambda p: Adam(p, 0.5))):
    places = footprints(make)
    axes.contour(a, b, a**2 / 2 + 50 * b**2, levels=[0.1, 1, 5, 15, 40, 80], colors="#BBBBBB", linewidths=0.8)
    axes.plot(*places.T, "o-", color=colour, markersize=3, linewidth=1)
    axes.plot(0, 0, "k+", markersize=12)
    axes.set(title=f"{name}: after sixty steps at ({places[-1, 0]:.2f}, {places[-1, 1]:.2f})", ylabel="b")
_ = axes.set_xlabel("a")

# %% [markdown]
"""
It loses. Its steps have about the length `lr` wherever it is, so it arrives quickly, and then cannot stop: it circles the bottom until `m` and `v` have forgotten the way down. Making its steps shrink is the job of a schedule (Module 07). What Adam
buys is something else: for momentum we had to *know* the steepest curvature to choose 0.019; for Adam hardly anything.

## 4. Weight decay is not weight decay

**Question.** A weight of 1 gets no gradient at all any more; only weight decay acts, a weak one: 0.01. With `lr = 0.01`, where is the weight after 100 steps?

In SGD the answer is `(1 - 0.01 · 0.01)¹⁰⁰`, about 0.99: hardly moved, as "weak" suggests. Adam *divides by the size of the gradient*, and the decay is now the whole gradient. Bet, then run:
"""

# %%
for name, optimizer in (("SGD", SGD(start_at(1.0), lr=0.01, weight_decay=0.01)), ("Adam", Adam(start_at(1.0), lr=0.01, weight_decay=0.01))):
    print(f"{name:>4}: 1 becomes {after(optimizer, [[0.0]] * 100)[-1][0]:.3f}")

# %% [markdown]
"""
And a weight with *large* gradients is hardly decayed at all, because the decay is divided by them. Both are the opposite of what was meant. **AdamW** (Loshchilov and Hutter, 2019) takes the decay out of the gradient and applies it to the weight directly:

```
p = p · (1 - lr · weight_decay) - lr · direction(g)
```

**Task.** Write `AdamW.update`. `direction` is inherited.

Example: `p = 4`, `g = 2`, `lr = 0.1`, decay 0.5: `4 · 0.95 - 0.1 = 3.7`.

<details><summary>Hint 1: idea</summary>
As in <code>Adam.update</code>, but the gradient stays what it is.
</details>
<details><summary>Hint 2: approach</summary>
Shrink <code>p</code> and take the step off the shrunken value, in one expression.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
<code>p = 10</code>, <code>lr = 0.2</code>, decay 0.1, no gradient: <code>10 · (1 - 0.02) = 9.8</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "adamw", "solution": true}
#| export
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019): p = p (1 - lr decay) - lr direction."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, lr, betas, eps, weight_decay)

    def update(self, p, g, memory):
        """Return the new value of ``p`` and the new memory."""
        ### BEGIN SOLUTION
        direction, memory = self.direction(g, memory)
        return p * (1 - self.lr * self.weight_decay) - self.lr * direction, memory
        ### END SOLUTION

# %%
print("AdamW, no gradient:", round(after(AdamW(start_at(1.0), lr=0.01, weight_decay=0.01), [[0.0]] * 100)[-1][0], 3))
noisy = [[100.0], [-100.0]] * 50
for name, kind in (("Adam ", Adam), ("AdamW", AdamW)):
    pulled = after(kind(start_at(1.0), lr=0.01, weight_decay=0.1), noisy)[-1][0] - after(kind(start_at(1.0), lr=0.01, weight_decay=0.0), noisy)[-1][0]
    print(f"{name}, gradients of ±100, decay 0.1: the decay moved the weight by {pulled:.4f}")

# %% nbgrader={"grade": true, "grade_id": "test-adamw", "points": 16, "skill": "decay"}
def test_adamw():
    """The two kinds of decay, told apart by a number."""
    settings = {"lr": 0.1, "weight_decay": 0.5}
    check("AdamW: p = 4, no gradient", after(AdamW(start_at(4.0), **settings), [[0.0]])[0][0], 3.8, {
        3.9: "the decay went through Adam's quotient", 2.0: "the decay was not multiplied by the rate", 4.0: "no decay"}, rtol=1e-5)
    check("Adam: the same", after(Adam(start_at(4.0), **settings), [[0.0]])[0][0], 3.9, {3.8: "that is AdamW's decay", 4.0: "no decay"}, rtol=1e-5)
    check("AdamW: p = 4, g = 2", after(AdamW(start_at(4.0), **settings), [[2.0]])[0][0], 3.7, {
        3.705: "the step was shrunk as well: decay the old weight", 3.9: "the decay went through Adam's quotient"}, rtol=1e-5)
    check("two steps", after(AdamW(start_at(4.0), **settings), [[2.0], [2.0]])[-1][0], 3.7 * 0.95 - 0.1, rtol=1e-5)
    check("without decay it is Adam", after(AdamW(start_at(4.0), weight_decay=0), [[2.0], [3.0]]) == after(Adam(start_at(4.0)), [[2.0], [3.0]]), True, {
        False: "something else than the decay differs: is the direction the same?"})
    check("a negative weight decays upwards", after(AdamW(start_at(-4.0), **settings), [[0.0]])[0][0], -3.8, {-4.2: "away from zero"}, rtol=1e-5)


test_adamw()

# %% [markdown]
"""
## 5. What an optimizer weighs

**Question.** A model has 2,410 parameters, 9,640 bytes. You train it with Adam. How many bytes does the optimizer hold?

**Task.** Write `state_bytes(optimizer)`: the bytes of all arrays that it remembers, which `optimizer.state_arrays()` lists. Every array knows its own width: never "4 per element".

Example: after one step with momentum on three float32 numbers, 12; before the first step, 0.

<details><summary>Hint 1: idea</summary>
One sum over a list of arrays.
</details>
<details><summary>Hint 2: approach</summary>
An array's <code>nbytes</code> is its number of elements times the width of one of them.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Two arrays, float64 of shape (2, 3) and int8 of shape (5,): 6 · 8 + 5 · 1 = 53 bytes.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "state-bytes", "solution": true}
#| export
def state_bytes(optimizer):
    """Return how many bytes an optimizer's arrays occupy: before its first step none."""
    ### BEGIN SOLUTION
    return sum(array.nbytes for array in optimizer.state_arrays())
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-state-bytes", "points": 10, "skill": "memory"}
def test_state_bytes():
    """Nothing, one times, twice the parameters."""
    def weigh(make, dtype=np.float32):
        params = [Tensor(np.ones((64, 32)), requires_grad=True, dtype=dtype), Tensor(np.ones(32), requires_grad=True, dtype=dtype)]
        optimizer = make(params)
        for p in params:
            p.grad = Tensor(np.ones(p.shape), dtype=dtype)
        optimizer.step()
        return state_bytes(optimizer)

    check("SGD", weigh(lambda p: SGD(p, lr=0.1)), 0)
    check("momentum: as much as the parameters", weigh(lambda p: SGD(p, lr=0.1, momentum=0.9)), 8320, {2080: "that is the number of elements; each weighs 4 bytes"})
    check("Adam: twice as much", weigh(Adam), 16640, {8320: "one of its two arrays", 4160: "elements, not bytes"})
    check("AdamW in float64", weigh(AdamW, np.float64), 33280, {16640: "4 bytes for every dtype"})
    check("before the first step", state_bytes(Adam([Tensor([1.0], requires_grad=True)])), 0)


test_state_bytes()

# %% [markdown]
"""
## 6. What it means for a real model

In training with Adam, every parameter weighs four times: itself, its gradient, `m` and `v`. For a model of seven billion parameters in float32:
"""

# %%
for name, copies in (("SGD", 2), ("SGD with momentum", 3), ("Adam", 4)):
    print(f"{name:>18}: {copies * 7e9 * 4 / 1024**3:6.1f} GB before a single activation is stored (GB = 1024³ bytes)")

# %% [markdown]
"""
And the time? A step of Adam is a dozen passes over every parameter. Listen to one:
"""

# %%
p = Tensor(np.ones(1000), requires_grad=True)
p.grad = Tensor(np.ones(1000))
names = []
with listen(lambda event: names.append(event.op.name)):
    AdamW([p]).step()
print(len(names), "ops:", " ".join(names))

# %% [markdown]
"""
Each of them reads and writes whole arrays and does almost nothing with them: work that is limited by memory, not by arithmetic. Production frameworks fuse them into one pass.

**Reflect.** Answer first, then open.

<details><summary>Why are <code>m</code> and <code>v</code> plain arrays and not Tensors?</summary>
A Tensor reachable from a model counts as a parameter (Module 03). What is remembered but not trained is a plain array.
</details>
<details><summary>The loss is multiplied by 1,000. What does that change for SGD, what for Adam?</summary>
SGD takes steps a thousand times longer. Adam takes the same ones: the factor cancels in m̂ / √v̂ (but for eps).
</details>
<details><summary>A layer is used in only half of the batches. What happens to its weights in the other half?</summary>
Their gradient is <code>None</code>, so they are not due: neither step nor decay nor a count of <code>t</code>. A gradient of zeros would be something else: momentum would roll on.
</details>
<details><summary>Two layers share one weight. Why must the optimizer list it once?</summary>
Its gradient is already the sum of both uses. Listed twice, it would be stepped twice.
</details>
<details><summary>Should biases be decayed?</summary>
Mostly they are not: decay is meant to keep a layer from becoming too steep, and a bias does not make it steeper. Use two optimizers, or two lists of parameters, to treat them differently.
</details>

`tito test optimizers` checks the module; once all of it passes, `tito module complete optimizers` puts what you wrote into the package, and later modules run on your code. Next: Module 07, the loop around the step.
"""
