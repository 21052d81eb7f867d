"""Operations whose cores are known, some in a trace and some on sub-devices: prints for each program its operation, number of cores, replay and sub-device."""
import ttnn

device = ttnn.open_device(device_id=0, trace_region_size=1 << 20)
grid = device.compute_with_storage_grid_size()
print(f"workers,{grid.x * grid.y}")


def cores(x, y, w, h):
    return ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(x, y), ttnn.CoreCoord(x + w - 1, y + h - 1))})


def program(operation, n, replay="", part=""):
    print(",".join(map(str, ["program", operation, n, replay, part])))


def wait(n, rounds):
    """Runs a kernel of NCRISC alone on n cores, which executes a loop of two instructions."""
    kernel = ttnn.KernelDescriptor(
        kernel_source='void kernel_main() { int n = %d; asm volatile("1: addi %%0, %%0, -1\\n bnez %%0, 1b" : "+r"(n)); }' % rounds,
        source_type=ttnn.KernelDescriptor.SourceType.SOURCE_CODE,
        core_ranges=cores(0, 0, n, 1),
        config=ttnn.ReaderConfigDescriptor(),
    )
    ttnn.generic_op([x, y], ttnn.ProgramDescriptor(kernels=[kernel], semaphores=[], cbs=[]))
    program("GenericOpDeviceOperation", n)


x, y = (ttnn.Tensor([v] * 4096, [64, 64], ttnn.bfloat16, ttnn.TILE_LAYOUT).to(device) for v in (1.0, 2.0))
config = ttnn.MatmulMultiCoreReuseMultiCastProgramConfig(
    compute_with_storage_grid_size=(2, 2), in0_block_w=2, out_subblock_h=1, out_subblock_w=1, per_core_M=1, per_core_N=1,
    transpose_mcast=False, fused_activation=None
)
ttnn.matmul(x, y, program_config=config)
program("MatmulDeviceOperation", 4)
ttnn.add(x, y, sub_core_grids=cores(1, 1, 3, 2))
program("BinaryNgDeviceOperation", 6)
wait(3, 100)
wait(2, 5100)
trace = ttnn.begin_trace_capture(device, cq_id=0)
ttnn.matmul(x, y, program_config=config)
ttnn.add(x, y, sub_core_grids=cores(1, 1, 3, 2))
ttnn.end_trace_capture(device, trace, cq_id=0)
for i in range(3):
    ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
    program("MatmulDeviceOperation", 4, i + 1)
    program("BinaryNgDeviceOperation", 6, i + 1)
ttnn.release_trace(device, trace)
parts = [ttnn.SubDevice([cores(0, 0, 4, 4)]), ttnn.SubDevice([cores(4, 0, 2, 4)])]
device.load_sub_device_manager(device.create_sub_device_manager(parts, 0))
for i in range(2):
    ttnn.add(x, y, sub_core_grids=cores(4 * i, 0, 2, 2))
    program("BinaryNgDeviceOperation", 4, "", i)
device.clear_loaded_sub_device_manager()
ttnn.close_device(device)
