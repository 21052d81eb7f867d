"""What TT-NN says when it is misused. Texts name files and lines of its sources, which change with its version."""
import ttnn

from programs.corpus import DRAM, HEIGHT, L1, ROWS, TILE, cores, group, read

case = group("error")


def refused(function):
    """A program that returns the error of function(t), and then that the device still works."""

    def program(t):
        text = t.error(lambda: function(t) and None)
        x = t.normal(32, 64)
        return [text, ttnn.add(x, x)]

    return program


CASES = {
    "add_shapes": lambda t: ttnn.add(t.normal(32, 64), t.normal(32, 96)),
    "add_host_tensor": lambda t: ttnn.add(t.normal(32, 64), t.host(t.array(32, 64))),
    "add_text": lambda t: ttnn.add(t.normal(32, 64), "1"),
    "matmul_shapes": lambda t: ttnn.matmul(t.normal(64, 64), t.normal(96, 64)),
    "matmul_rows": lambda t: ttnn.matmul(t.normal(64, 64, layout=ROWS), t.normal(64, 64)),
    "matmul_config": lambda t: ttnn.matmul(
        t.normal(64, 64),
        t.normal(64, 64),
        program_config=ttnn.MatmulMultiCoreReuseProgramConfig(
            compute_with_storage_grid_size=(1, 1), in0_block_w=3, out_subblock_h=1, out_subblock_w=1, per_core_M=2, per_core_N=2
        ),
    ),
    "reshape_volume": lambda t: ttnn.reshape(t.normal(32, 64), (1, 1, 32, 32)),
    "concat_shapes": lambda t: ttnn.concat([t.normal(32, 64), t.normal(64, 64)], 3),
    "concat_nothing": lambda t: ttnn.concat([], 3),
    "slice_outside": lambda t: ttnn.slice(t.normal(32, 64), [0, 0, 0, 0], [1, 1, 64, 64]),
    "transpose_dimension": lambda t: ttnn.transpose(t.normal(32, 64), 2, 7),
    "permute_length": lambda t: ttnn.permute(t.normal(32, 64), (0, 1)),
    "softmax_dimension": lambda t: ttnn.softmax(t.normal(32, 64), dim=5),
    "bfp8_rows": lambda t: t.normal(32, 64, dtype=ttnn.bfloat8_b, layout=ROWS),
    "embedding_floats": lambda t: ttnn.embedding(t.normal(1, 32, layout=ROWS), t.normal(100, 64, layout=ROWS)),
    "shards_too_many": lambda t: t.normal(
        128,
        64,
        memory=ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, ttnn.ShardSpec(cores(2, 1), [32, 64], ttnn.ShardOrientation.ROW_MAJOR)),
    ),
    "shards_outside_grid": lambda t: t.normal(
        64,
        64,
        memory=ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, ttnn.ShardSpec(cores(2, 1, 40, 0), [32, 64], ttnn.ShardOrientation.ROW_MAJOR)),
    ),
    "shards_odd_tile": lambda t: t.normal(
        64,
        64,
        memory=ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, ttnn.ShardSpec(cores(2, 1), [30, 64], ttnn.ShardOrientation.ROW_MAJOR)),
    ),
    "layer_norm_weight": lambda t: ttnn.layer_norm(t.normal(32, 64), weight=t.normal(1, 96)),
    "argmax_tiles_i32": lambda t: ttnn.argmax(t.integers(0, 9, 32, 64), dim=-1),
    "copy_shapes": lambda t: ttnn.copy_host_to_device_tensor(t.host(t.array(32, 32)), t.normal(32, 64), 0),
    "circular_buffers": lambda t: ttnn.softmax(t.normal(32, 65536, memory=L1), dim=-1, numeric_stable=True),
    "conv_channels": lambda t: ttnn.conv2d(
        input_tensor=t.normal(1, 1, 64, 32, layout=ROWS),
        weight_tensor=t.host(t.array(32, 16, 3, 3), layout=ROWS),
        device=t.device,
        in_channels=32,
        out_channels=32,
        batch_size=1,
        input_height=8,
        input_width=8,
        kernel_size=(3, 3),
        stride=(1, 1),
        padding=(1, 1),
    ),
    "trace_id": lambda t: ttnn.execute_trace(t.device, 123456, cq_id=0),
    "dtype_of_bitwise": lambda t: ttnn.bitwise_and(t.normal(32, 64), t.normal(32, 64)),
    "gather_dimensions": lambda t: ttnn.gather(t.normal(32, 64), -1, t.integers(0, 9, 1, 2, 32, 32, dtype=ttnn.uint16)),
    "topk_k": lambda t: ttnn.topk(t.normal(32, 64), 100, dim=-1),
    "pad_negative": lambda t: ttnn.pad(t.normal(32, 64), [(0, 0), (0, 0), (0, -4), (0, 0)], 0.0),
    "pool_window": lambda t: ttnn.max_pool2d(
        t.normal(1, 1, 64, 32, layout=ROWS), batch_size=1, input_h=8, input_w=8, channels=32, kernel_size=[2, 2], stride=[2, 2], padding=[3, 3], dilation=[1, 1]
    ),
}
for name, function in CASES.items():
    case(name, short=name in ("add_shapes", "matmul_shapes"))(refused(function))


@case("semaphore_cores")
def _(t):
    return t.error(lambda: ttnn.create_global_semaphore(t.device, cores(2, 1, 40, 0), 0) and None)


@case("compiler", alone=True)
def _(t):
    """A kernel that doesn't compile. The compiler's own text is left out: it has paths."""
    t.open()
    x, y = t.normal(32, 32), t.normal(32, 32)
    kernel = ttnn.KernelDescriptor(
        kernel_source="void kernel_main() { nonsense; }",
        source_type=ttnn.KernelDescriptor.SourceType.SOURCE_CODE,
        core_ranges=cores(1, 1),
        config=ttnn.ReaderConfigDescriptor(),
    )
    text = t.error(lambda: ttnn.generic_op([x, y], ttnn.ProgramDescriptor(kernels=[kernel], semaphores=[], cbs=[])))
    return [text.splitlines()[0].split(" @ ")[0], ttnn.add(x, y)]
