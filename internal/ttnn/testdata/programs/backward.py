"""Gradients, and the operations made for training."""
import numpy as np
import ttnn

from programs.corpus import group

case = group("backward")
UNARY = "relu tanh gelu sqrt log"
BINARY = "add mul"


def unary(name):
    def program(t):
        gradient, x = t.normal(64, 64), t.normal(64, 64)
        return lambda: getattr(ttnn, name + "_bw")(gradient, x)

    return program


def binary(name):
    def program(t):
        gradient, x, y = t.normal(64, 64), t.normal(64, 64), t.normal(64, 64)
        return lambda: getattr(ttnn, name + "_bw")(gradient, x, y)

    return program


for name in UNARY.split():
    case(name)(unary(name))
for name in BINARY.split():
    case(name)(binary(name))

moreh = group("moreh")


@moreh("softmax")
def _(t):
    x = t.normal(64, 64)
    return lambda: ttnn.moreh_softmax(x, 3)


@moreh("sum")
def _(t):
    x = t.normal(2, 3, 64, 64)
    return lambda: [ttnn.moreh_sum(x, dim=d, keepdim=True) for d in (0, 2, 3)]


@moreh("norm")
def _(t):
    x = t.normal(64, 64)
    return lambda: ttnn.moreh_norm(x, 2.0, dim=3, keepdim=True)


@moreh("matmul")
def _(t):
    x, y = t.normal(64, 64), t.normal(64, 64)
    return lambda: ttnn.moreh_matmul(x, y)


@moreh("layer_norm")
def _(t):
    x, gamma, beta = t.normal(64, 64), t.normal(1, 64), t.normal(1, 64)
    return lambda: ttnn.moreh_layer_norm(x, 1, 1e-5, gamma, beta)[0]


@moreh("cumsum")
def _(t):
    x = t.normal(2, 3, 32, 32)
    return lambda: ttnn.moreh_cumsum(x, 1)


@moreh("getitem")
def _(t):
    x, i = t.normal(8, 64, layout=ttnn.ROW_MAJOR_LAYOUT), t.tensor(np.array([3, 1, 6], np.int32), ttnn.int32, ttnn.ROW_MAJOR_LAYOUT)
    return lambda: ttnn.moreh_getitem(x, [i], [2])
