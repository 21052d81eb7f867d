"""Operations of one operand on the vector unit, most of them over all values of bfloat16."""
import numpy as np
import ttnn

from programs.corpus import group

case = group("unary")

# Names of operations, and behind colons further arguments.
BFLOAT16 = """relu relu6 reciprocal sqrt rsqrt exp sigmoid gelu silu tanh log log2 log10 log1p expm1 exp2 abs neg square sin cos tan asin acos
atan sinh cosh asinh acosh atanh erf erfc erfinv elu:alpha=1.5 selu celu leaky_relu:0.1 gtz ltz gez lez eqz nez floor ceil trunc frac round softplus
hardsigmoid hardswish hardtanh hardmish mish softsign sign isnan isinf isfinite isposinf isneginf signbit logical_not heaviside:0.5 i0 i1 lgamma
digamma cbrt rad2deg deg2rad tanhshrink softshrink hardshrink threshold:0.5:2.0 log_sigmoid sigmoid_accurate swish identity fill:3.0
clamp:-1.0:1.0 clip:-2.0:0.5 pow:2.0 pow:0.5 pow:-1.3 rdiv:2.0 rsub:1.0 remainder:1.5 fmod:1.5 gt:0.5 lt:0.5 eq:0.5 ne:0.5 ge:0.5 le:0.5
polygamma:2 multigammaln xielu:alpha_p=0.8:alpha_n=0.8 logit relu_max:1.0 relu_min:0.5 prelu:0.3 rpow:2.0 normalize_hw"""
FLOAT32 = "exp log sqrt tanh gelu sin reciprocal relu round"
INTEGER = "abs neg bitwise_not gtz eqz sign logical_not"
SHORT = ("exp", "gelu", "sqrt")


def number(text):
    return float(text) if "." in text else int(text)


def unary(name, *args, **named):
    def program(t):
        x = t.every_bfloat16()
        return lambda: getattr(ttnn, name)(x, *args, **named)

    return program


def float32(t, *shape):
    """Float32 of many magnitudes."""
    return t.tensor(t.array(*shape) * np.exp(3 * t.array(*shape)), ttnn.float32)


def unary_float32(name):
    def program(t):
        x = float32(t, 64, 64)
        return lambda: getattr(ttnn, name)(x)

    return program


def integers(t):
    a = t.random.integers(-(2**31), 2**31 - 1, (1, 1, 64, 64), dtype=np.int64).astype(np.int32)
    a.flat[:8] = [0, 1, -1, 2**31 - 1, -(2**31) + 1, 5, -5, 100]
    return t.tensor(a, ttnn.int32)


def unary_int32(name, *args):
    def program(t):
        x = integers(t)
        return lambda: getattr(ttnn, name)(x, *args)

    return program


for text in BFLOAT16.split():
    name, *args = text.split(":")
    named = dict(a.split("=") for a in args if "=" in a)
    plain = [number(a) for a in args if "=" not in a]
    case("_".join([name] + [a.split("=")[-1] for a in args]), short=name in SHORT)(unary(name, *plain, **{k: number(v) for k, v in named.items()}))
for name in ("exp", "gelu"):
    case(name + "_fast")(unary(name, fast_and_approximate_mode=True))
for name in FLOAT32.split():
    case(name + "_f32")(unary_float32(name))
for name in INTEGER.split():
    case(name + "_i32")(unary_int32(name))
case("shift_left_i32")(unary_int32("bitwise_left_shift", 3))
case("shift_right_i32")(unary_int32("bitwise_right_shift", 3))


for name in ("tril", "triu"):
    case(name, replay=False)(unary(name))  # they write a mask to the device


@case("chain")
def _(t):
    x = t.every_bfloat16()
    chain = [ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU), ttnn.UnaryWithParam(ttnn.UnaryOpType.POWER, 2.0), ttnn.UnaryWithParam(ttnn.UnaryOpType.SQRT)]
    return lambda: ttnn.unary_chain(x, chain)


@case("output_tensor")
def _(t):
    x, y = t.normal(64, 96), t.normal(64, 96)
    return lambda: ttnn.relu(x, output_tensor=y)
