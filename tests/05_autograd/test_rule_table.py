"""The table of gradient rules: who may register, what a wrong rule is told."""

import types

import numpy as np
import pytest

from tinytorch.core.autograd import VJP, check_rule, find_rule, no_gradient, run_rule, vjp, without_gradient
from tinytorch.core.tensor import Tensor, add, argmax, op


@pytest.fixture
def twice():
    """An op of this test's own, forgotten afterwards."""
    @op(shape=lambda a: a)
    def twice(a):
        return a * 2

    yield twice
    VJP.pop(twice, None)


def in_module(name):
    """A right rule for ``twice`` that says it comes from module ``name``."""
    def rule(g, out, a):
        return (lambda: g * 2.0,)

    return types.FunctionType(rule.__code__, {**globals(), "__name__": name}, "rule")


def test_the_decorator_hands_the_rule_back(twice):
    rule = in_module("here")
    assert vjp(twice)(rule) is rule and VJP[twice] is rule


def test_the_same_module_replaces(twice):
    vjp(twice)(in_module("__main__"))
    second = in_module("__main__")
    vjp(twice)(second)
    assert VJP[twice] is second


def test_another_module_is_refused_by_both_names(twice):
    first = vjp(twice)(in_module("mine"))
    with pytest.raises(ValueError, match=r"twice: .* mine; yours"):
        vjp(twice)(in_module("yours"))
    assert VJP[twice] is first


def test_the_package_s_rules_are_not_replaced_from_a_notebook():
    before = VJP[add]
    with pytest.raises(ValueError, match=r"add: .* tinytorch\.core\.autograd; __main__"):
        vjp(add)(in_module("__main__"))
    assert VJP[add] is before


@pytest.mark.parametrize("wrong", [len, "add", None, np.add])
def test_only_ops_have_rules(wrong):
    with pytest.raises(TypeError, match="want an op"):
        vjp(wrong)


def test_listing_an_op_as_having_none(twice):
    no_gradient(twice)
    no_gradient(twice, argmax)  # again: nothing changes
    assert VJP[twice] is without_gradient
    x = Tensor([1.0], requires_grad=True)
    (twice(x) * x).backward()
    assert x.grad.item() == 2.0  # twice(x) is a constant 2 here


def test_an_op_with_a_rule_cannot_be_listed_as_having_none():
    before = VJP[add]
    with pytest.raises(ValueError, match="add: it has a gradient rule, in tinytorch.core.autograd"):
        no_gradient(add)
    assert VJP[add] is before


def test_a_missing_rule_is_named(twice):
    for ask in (find_rule, lambda o: run_rule(o, [1.0], [1.0]), lambda o: check_rule(o, [1.0])):
        with pytest.raises(ValueError, match=r"twice: no gradient rule; write one under @vjp\(twice\)"):
            ask(twice)


def test_a_rule_with_too_few_recipes(twice):
    vjp(twice)(lambda g, out, a: ())
    with pytest.raises(ValueError, match="twice: its rule has 0 recipes for 1 inputs"):
        twice(Tensor([1.0], requires_grad=True)).backward()


def test_a_rule_that_gives_another_shape(twice):
    vjp(twice)(lambda g, out, a: (lambda: g.sum(),))
    with pytest.raises(ValueError, match=r"twice: its rule gave \(\) for an input of \(2,\)"):
        twice(Tensor([1.0, 2.0], requires_grad=True)).backward([1.0, 1.0])
    with pytest.raises(ValueError, match=r"twice: input 0: the gradient has shape \(\); want \(2,\)"):
        check_rule(twice, [1.0, 2.0])


def test_check_rule_names_the_place_and_both_values(twice):
    vjp(twice)(lambda g, out, a: (lambda: g * 3.0,))
    with pytest.raises(ValueError, match=r"twice: input 0 at \(0, 0\): yours .*, expected .* by differences"):
        check_rule(twice, [[1.0, 2.0]])


def test_check_rule_is_not_deceived_by_nan(twice):
    vjp(twice)(lambda g, out, a: (lambda: g * float("nan"),))
    with pytest.raises(ValueError, match="yours nan"):
        check_rule(twice, [1.0])


def test_check_rule_leaves_its_inputs_alone(twice):
    vjp(twice)(in_module("here"))
    x = Tensor([1.0, 2.0], requires_grad=True)
    assert check_rule(twice, x) < 1e-7
    assert (x.grad, x.dtype, x.data.tolist()) == (None, np.float32, [1.0, 2.0])
