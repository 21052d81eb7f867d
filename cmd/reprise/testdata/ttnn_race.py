"""A kernel that uses what a NoC read fetches without a barrier. With "fixed" it has one."""
import sys
import ttnn

KERNEL = """
#include "api/dataflow/dataflow_api.h"
void kernel_main() {
    uint32_t in = get_arg_val<uint32_t>(0), out = get_arg_val<uint32_t>(1);
    constexpr auto layout = TensorAccessorArgs<0>();
    const auto source = TensorAccessor(layout, in, 128), target = TensorAccessor(layout, out, 128);
    uint32_t l1 = get_write_ptr(0);
    noc_async_read_page(0, source, l1);
    BARRIER
    volatile tt_l1_ptr uint32_t* data = reinterpret_cast<volatile tt_l1_ptr uint32_t*>(l1);
    for (uint32_t i = 0; i < 32; i++) data[i] += 1;
    noc_async_read_barrier();
    while (data[31] == 0);  // the stores are in L1 once the last one is read back
    noc_async_write_page(0, target, l1);
    noc_async_write_barrier();
}
"""
device = ttnn.open_device(device_id=0)
x, y = (ttnn.Tensor([i] * 32, [1, 1, 1, 32], ttnn.uint32, ttnn.ROW_MAJOR_LAYOUT).to(device) for i in (1, 2))
core = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(0, 0))})
args = ttnn.RuntimeArgs()
args[0][0] = [x.buffer_address(), y.buffer_address()]
k = ttnn.KernelDescriptor(kernel_source=KERNEL.replace("BARRIER", "noc_async_read_barrier();" if "fixed" in sys.argv else ""),
    source_type=ttnn.KernelDescriptor.SourceType.SOURCE_CODE, core_ranges=core, compile_time_args=list(ttnn.TensorAccessorArgs(x).get_compile_time_args()),
    runtime_args=args, config=ttnn.ReaderConfigDescriptor())
cb = ttnn.CBDescriptor(total_size=128, core_ranges=core, format_descriptors=[ttnn.CBFormatDescriptor(buffer_index=0, data_format=ttnn.uint32, page_size=128)])
program = ttnn.ProgramDescriptor(kernels=[k], semaphores=[], cbs=[cb])
ttnn.generic_op([x, y], program)
ttnn.synchronize_device(device)
print("sum", sum(ttnn.from_device(y).to_list()[0][0][0]))
ttnn.close_device(device)
