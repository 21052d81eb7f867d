"""Products of matrices: shapes, formats, fidelities, and the ways to spread one over cores."""
import ttnn

from programs.corpus import BLOCK, DRAM, HEIGHT, L1, WIDTH, cores, group

case = group("matmul")
BF16, BFP8, BFP4, FP32 = ttnn.bfloat16, ttnn.bfloat8_b, ttnn.bfloat4_b, ttnn.float32
LOFI, HIFI2, HIFI3, HIFI4 = ttnn.MathFidelity.LoFi, ttnn.MathFidelity.HiFi2, ttnn.MathFidelity.HiFi3, ttnn.MathFidelity.HiFi4


def product(a, b, dtype=BF16, other=None, kernel=None, config=None, bias=None, **named):
    """A program that multiplies tensors of shapes a and b. kernel has the arguments of Bench.kernel."""

    def program(t):
        x, y = t.normal(*a, dtype=dtype), t.normal(*b, dtype=other or dtype)
        if kernel is not None:
            named["compute_kernel_config"] = t.kernel(**kernel)
        if config is not None:
            named["program_config"] = config
        if bias is None:
            return lambda: ttnn.matmul(x, y, **named)
        z = t.normal(*bias)
        return lambda: ttnn.linear(x, y, bias=z, **named)

    return program


case("64", short=True)(product((64, 64), (64, 64)))
case("128_256_96")(product((128, 256), (256, 96)))
case("256")(product((256, 256), (256, 256)))
case("512")(product((512, 512), (512, 512)))
case("one_tile")(product((32, 32), (32, 32)))
case("odd")(product((33, 50), (50, 20)))
case("vector")(product((1, 64), (64, 64)))
case("batch")(product((2, 3, 32, 64), (2, 3, 64, 32)))
case("broadcast")(product((1, 4, 64, 64), (1, 1, 64, 64)))
case("transpose_a")(product((128, 64), (128, 64), transpose_a=True))
case("transpose_b")(product((64, 128), (64, 128), transpose_b=True))
case("bfp8_weights")(product((64, 64), (64, 64), other=BFP8))
case("bfp4_weights")(product((64, 64), (64, 64), other=BFP4))
case("bfp8")(product((64, 64), (64, 64), BFP8))
case("f32")(product((64, 64), (64, 64), FP32))
case("l1")(product((64, 128), (128, 64), memory_config=L1))
for name, fidelity in (("lofi", LOFI), ("hifi2", HIFI2), ("hifi3", HIFI3), ("hifi4", HIFI4)):
    case(name)(product((64, 128), (128, 64), kernel={"fidelity": fidelity}))
case("fp32_accumulation")(product((64, 128), (128, 64), kernel={"fp32": True}))
case("l1_accumulation")(product((128, 512), (512, 64), kernel={"fidelity": HIFI2, "l1": True}))
case("full_sync")(product((64, 128), (128, 64), kernel={"fidelity": HIFI2, "full": True}))
case("bfp8_lofi")(product((64, 128), (128, 64), BFP8, kernel={"fidelity": LOFI}))


def to(dtype, **kernel):
    def program(t):
        x, y, k = t.normal(64, 128), t.normal(128, 64), t.kernel(**kernel)
        return lambda: ttnn.matmul(x, y, dtype=dtype, compute_kernel_config=k)

    return program

case("to_bfp8")(to(BFP8))
case("to_f32")(to(FP32, fp32=True, l1=True))
case("to_bfp8_fp32")(to(BFP8, fp32=True))

# Linear layers.
case("linear", short=True)(product((64, 128), (128, 64), bias=(1, 64)))
case("linear_relu")(product((64, 128), (128, 64), bias=(1, 64), activation="relu"))
case("linear_gelu")(product((64, 64), (64, 64), bias=(1, 64), activation="gelu"))


@case("addmm")
def _(t):
    z, x, y = t.normal(64, 64), t.normal(64, 128), t.normal(128, 64)
    return lambda: ttnn.addmm(z, x, y, alpha=0.5, beta=2.0)


@case("outer")
def _(t):
    x, y = t.normal(64, 1), t.normal(1, 64)
    return lambda: ttnn.outer(x, y)


@case("operator")
def _(t):
    x, y = t.normal(64, 64), t.normal(64, 64)
    return lambda: x @ y


# Programs of several cores.
def reuse_1d(in0, m, n):
    """One operand goes to all of four cores: in0, or in1."""
    return ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig(
        compute_with_storage_grid_size=(4, 1),
        in0_block_w=2,
        out_subblock_h=1,
        out_subblock_w=1,
        per_core_M=m,
        per_core_N=n,
        fuse_batch=True,
        fused_activation=None,
        mcast_in0=in0,
    )


def reuse_2d(width, subblock, transpose, activation=None):
    return ttnn.MatmulMultiCoreReuseMultiCastProgramConfig(
        compute_with_storage_grid_size=(2, 2),
        in0_block_w=width,
        out_subblock_h=subblock[0],
        out_subblock_w=subblock[1],
        per_core_M=2,
        per_core_N=2,
        transpose_mcast=transpose,
        fused_activation=activation,
    )


case("1d_in0", short=True)(product((64, 128), (128, 128), config=reuse_1d(True, 2, 1)))
case("1d_in1")(product((128, 128), (128, 128), config=reuse_1d(False, 1, 4)))
case("1d_in0_bias")(product((64, 128), (128, 128), bias=(1, 128), config=reuse_1d(True, 2, 1)))
case("2d")(product((128, 128), (128, 128), config=reuse_2d(2, (1, 2), False)))
case("2d_transposed")(product((128, 128), (128, 128), config=reuse_2d(1, (2, 1), True)))
case("2d_relu")(product((128, 128), (128, 128), config=reuse_2d(2, (1, 2), False, ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU))))
case("2d_fp32")(product((128, 128), (128, 128), config=reuse_2d(2, (1, 2), False), kernel={"fp32": True, "l1": True}))
case("core_grid")(product((128, 128), (128, 128), core_grid=ttnn.CoreGrid(y=2, x=2)))
case("reuse")(
    product(
        (1, 4, 64, 64),
        (1, 4, 64, 64),
        config=ttnn.MatmulMultiCoreReuseProgramConfig(
            compute_with_storage_grid_size=(4, 1), in0_block_w=2, out_subblock_h=1, out_subblock_w=2, per_core_M=2, per_core_N=2
        ),
    )
)


# Shards.
@case("block_shards")
def _(t):
    m = t.shards((128, 128), 2, 2, BLOCK)
    x, y = t.normal(128, 128, memory=m), t.normal(128, 128)
    return lambda: ttnn.matmul(x, y, memory_config=m)


@case("width_shards")
def _(t):
    m = t.shards((32, 128), 1, 4, WIDTH)
    x, y = t.normal(32, 128, memory=m), t.normal(128, 128)
    config = ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig(
        compute_with_storage_grid_size=(4, 1),
        in0_block_w=1,
        out_subblock_h=1,
        out_subblock_w=1,
        per_core_M=1,
        per_core_N=1,
        fuse_batch=True,
        fused_activation=None,
        mcast_in0=True,
    )
    return lambda: ttnn.matmul(x, y, program_config=config, memory_config=m)


@case("height_shards")
def _(t):
    m = t.shards((128, 64), 4, 1, HEIGHT)
    x, y = t.normal(128, 64, memory=m), t.normal(64, 64)
    return lambda: ttnn.matmul(x, y, memory_config=m)


@case("dram_shards")
def _(t):
    banks = t.device.dram_grid_size().x
    inner, outer = 256, 32 * banks
    x = t.normal(32, inner, memory=t.shards((32, inner), 1, 4, WIDTH))
    y = t.normal(inner, outer, memory=t.dram_shards((inner, 32), banks, ttnn.TensorMemoryLayout.WIDTH_SHARDED))
    config = ttnn.MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig(in0_block_w=2, per_core_M=1, per_core_N=-(-outer // 32 // 4), fused_activation=None)
    m = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.WIDTH_SHARDED, ttnn.BufferType.L1)
    return lambda: ttnn.to_memory_config(ttnn.matmul(x, y, program_config=config, memory_config=m), DRAM)


@case("reshard_then")
def _(t):
    x, y = t.normal(128, 128), t.normal(128, 128)
    m = t.shards((128, 128), 2, 2, BLOCK)
    return lambda: ttnn.matmul(ttnn.to_memory_config(x, m), y, memory_config=DRAM)


# Values of all exponents, denormals, and the largest.
def extremes(low, high, dtype=BF16, other=None, out=None, kernel=None):
    def program(t):
        x, y = t.tensor(t.exponents(low, high, 64, 64), dtype), t.tensor(t.exponents(low, high, 64, 64), other or dtype)
        named = {"compute_kernel_config": t.kernel(**kernel)} if kernel is not None else {}
        return lambda: ttnn.matmul(x, y, dtype=out, **named)

    return program


for kind, low, high in (("bits", 0, 256), ("denormal", 0, 4), ("huge", 250, 256)):
    case(kind)(extremes(low, high))
    case(kind + "_hifi4_fp32")(extremes(low, high, kernel={"fp32": True}))
    case(kind + "_lofi")(extremes(low, high, kernel={"fidelity": LOFI}))
    case(kind + "_to_f32")(extremes(low, high, out=FP32, kernel={"fp32": True, "l1": True}))
    case(kind + "_f32")(extremes(low, high, FP32))
    case(kind + "_bfp8")(extremes(low, high, other=BFP8))
    case(kind + "_to_bfp8")(extremes(low, high, out=BFP8))
