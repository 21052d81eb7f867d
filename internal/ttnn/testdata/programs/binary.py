"""Element-wise operations of two and three operands, with broadcasting, in all formats."""
import ttnn

from programs.corpus import L1, group
from programs.unary import float32

case = group("binary")
BF16, BFP8, BFP4, FP32, INT32, UINT32, UINT16 = ttnn.bfloat16, ttnn.bfloat8_b, ttnn.bfloat4_b, ttnn.float32, ttnn.int32, ttnn.uint32, ttnn.uint16

BINARY = """add subtract multiply divide maximum minimum gt lt eq ne ge le pow logical_and logical_or logical_xor squared_difference atan2 hypot
remainder fmod floor_div xlogy logaddexp logaddexp2 ldexp rsub div_no_nan bias_gelu nextafter"""
INTEGERS = "add subtract multiply bitwise_and bitwise_xor maximum minimum lt eq logical_and gcd lcm"


def fast_multiply(a, b):
    """On the matrix unit; ttnn.multiply of bfloat16 is on the vector unit else."""
    return ttnn.multiply(a, b, fast_and_approximate_mode=True)


def operation(name):
    return fast_multiply if name == "fast_multiply" else getattr(ttnn, name)


def two(name, a=(64, 96), b=None, dtype=BF16, other=None, memory=None, **named):
    def program(t):
        x, y = t.normal(*a, dtype=dtype, memory=memory), t.normal(*(b or a), dtype=other or dtype, memory=memory)
        return lambda: operation(name)(x, y, **named)

    return program


def pair(name):
    def program(t):
        x, y = t.normal(64, 64, scale=4), t.normal(64, 64, scale=2)
        return lambda: getattr(ttnn, name)(x, y)

    return program


def pair_float32(name):
    def program(t):
        x, y = float32(t, 64, 64), float32(t, 64, 64)
        return lambda: getattr(ttnn, name)(x, y)

    return program


def pair_integers(name, dtype=INT32, low=-1000, high=1000):
    def program(t):
        x, y = (t.integers(low, high, 64, 64, dtype=dtype) for _ in range(2))
        return lambda: getattr(ttnn, name)(x, y)

    return program


def extremes(name, low, high, dtype=BF16):
    def program(t):
        x, y = (t.tensor(t.exponents(low, high, 64, 128), dtype) for _ in range(2))
        return lambda: operation(name)(x, y)

    return program


for name in BINARY.split():
    case(name + "_bf16", short=name in ("add", "subtract"))(pair(name))
for name in "add subtract multiply divide maximum gt pow remainder".split():
    case(name + "_f32")(pair_float32(name))
for name in INTEGERS.split():
    case(name + "_i32")(pair_integers(name))
for name in ("add", "multiply", "bitwise_or", "gt"):
    case(name + "_u32")(pair_integers(name, UINT32, 0, 2**16))
for name in ("add", "multiply", "lt"):
    case(name + "_u16")(pair_integers(name, UINT16, 0, 2**8))
for kind, low, high in (("bits", 0, 256), ("denormal", 0, 4), ("huge", 250, 256)):
    for name in ("add", "subtract", "fast_multiply"):
        case("%s_%s" % (name, kind))(extremes(name, low, high))
    case("add_bfp8_" + kind)(extremes("add", low, high, BFP8))
    case("add_f32_" + kind)(extremes("add", low, high, FP32))

# Broadcasting: b's or a's shape is smaller in a dimension.
for name in ("add", "fast_multiply"):
    case(name + "_row")(two(name, b=(1, 96)))
    case(name + "_column")(two(name, b=(64, 1)))
    case(name + "_one")(two(name, b=(1, 1)))
    case(name + "_row_first")(two(name, a=(1, 96), b=(64, 96)))
case("add_outer")(two("add", a=(64, 1), b=(1, 96)))
case("add_batch")(two("add", a=(2, 3, 32, 64), b=(1, 3, 32, 64)))
case("add_channel")(two("add", a=(2, 3, 32, 64), b=(2, 1, 32, 64)))
case("add_rank5")(two("add", a=(2, 1, 3, 32, 32)))
case("add_odd")(two("add", a=(33, 47)))
case("add_l1", short=True)(two("add", memory=L1))
case("multiply_large")(two("multiply", a=(512, 512)))
case("fast_multiply_large")(two("fast_multiply", a=(512, 512)))
case("multiply_row")(two("multiply", b=(1, 96)))
case("multiply_column")(two("multiply", b=(64, 1)))

# Formats, mixed too.
for name in ("add", "subtract", "fast_multiply"):
    case(name + "_bfp8")(two(name, dtype=BFP8))
case("add_bfp4")(two("add", dtype=BFP4))
case("add_bf16_bfp8")(two("add", other=BFP8))
case("add_bf16_f32")(two("add", other=FP32))


# Scalars, fused activations, in place.
@case("add_scalar", short=True)
def _(t):
    x = t.normal(64, 64)
    return lambda: ttnn.add(x, 1.5)


@case("multiply_scalar")
def _(t):
    x = t.normal(64, 64)
    return lambda: ttnn.multiply(x, -0.3)


@case("operators")
def _(t):
    x, y = t.normal(64, 64), t.normal(64, 64)
    return lambda: (x + y) * 0.5 - y / 3.0


@case("add_relu")
def _(t):
    x, y = t.normal(64, 96), t.normal(64, 96)
    return lambda: ttnn.add(x, y, activations=[ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)])


@case("add_input_activation")
def _(t):
    x, y = t.normal(64, 96), t.normal(64, 96)
    return lambda: ttnn.add(x, y, input_tensor_a_activations=[ttnn.UnaryWithParam(ttnn.UnaryOpType.EXP)])


@case("add_in_place")
def _(t):
    x, y = t.normal(64, 96), t.normal(64, 96)
    return lambda: ttnn.add_(x, y)


@case("add_output_tensor")
def _(t):
    x, y, z = t.normal(64, 96), t.normal(64, 96), t.normal(64, 96)
    return lambda: ttnn.add(x, y, output_tensor=z)


@case("add_rows_layout")
def _(t):
    x, y = (t.normal(64, 96, layout=ttnn.ROW_MAJOR_LAYOUT) for _ in range(2))
    return lambda: ttnn.add(x, y)


@case("add_to_bfp8")
def _(t):
    x, y = t.normal(64, 96), t.normal(64, 96)
    return lambda: ttnn.add(x, y, dtype=BFP8)


@case("add_rank2")
def _(t):
    x, y = t.tensor(t.array(64, 96)[0, 0]), t.normal(2, 3, 64, 96)
    return lambda: ttnn.add(x, y)


@case("addalpha")
def _(t):
    x, y = t.normal(64, 64), t.normal(64, 64)
    return lambda: ttnn.addalpha(x, y, 0.5)


@case("polyval")
def _(t):
    x = t.normal(64, 64)
    return lambda: ttnn.polyval(x, [1.0, -2.0, 0.5])


@case("shift_left_tensor_i32")
def _(t):
    x, y = t.integers(-1000, 1000, 32, 64), t.integers(0, 8, 32, 64)
    return lambda: ttnn.bitwise_left_shift(x, y)


# Three operands.
def ternary(function, dtype=BF16):
    def program(t):
        x, y, z = (t.normal(64, 64, dtype=dtype, scale=s) for s in (4, 2, 1))
        return lambda: function(x, y, z)

    return program


TERNARY = {
    "where": lambda x, y, z: ttnn.where(ttnn.gtz(x), y, z),
    "where_scalar": lambda x, y, z: ttnn.where(ttnn.gtz(x), y, 0.25),
    "where_scalars": lambda x, y, z: ttnn.where(ttnn.gtz(x), 1.0, 0.25),
    "lerp": lambda x, y, z: ttnn.lerp(x, y, 0.3),
    "lerp_tensor": lambda x, y, z: ttnn.lerp(x, y, z),
    "addcmul": lambda x, y, z: ttnn.addcmul(x, y, z, value=0.5),
    "addcdiv": lambda x, y, z: ttnn.addcdiv(x, y, z, value=0.5),
    "mac": lambda x, y, z: ttnn.mac(x, y, z),
    "clamp_tensors": lambda x, y, z: ttnn.clamp(x, y, z),
}
ternary_case = group("ternary")
for name, function in TERNARY.items():
    ternary_case(name)(ternary(function))
for name in ("where", "addcmul", "lerp"):
    ternary_case(name + "_f32")(ternary(TERNARY[name], FP32))
