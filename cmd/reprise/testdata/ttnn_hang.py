"""Waits for a kernel that never ends; with "circle" for two that wait for each other, with "sleep" for nothing at all."""
import signal
import sys
import time

import ttnn

device = ttnn.open_device(device_id=0)
print("opened", flush=True)
if "sleep" in sys.argv:
    time.sleep(600)
core = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(0, 0))})
waits = ["noc_semaphore_wait(reinterpret_cast<volatile tt_l1_ptr uint32_t*>(get_semaphore(0)), 1);"]
if "circle" in sys.argv:
    put, take = "cb_reserve_back(%d, 1); cb_push_back(%d, 1);", "cb_wait_front(%d, 1); cb_pop_front(%d, 1);"
    # The first kernel has a page too many for buffer 0, and the second one waits for a second page in buffer 1.
    waits = ["".join(put % (i, i) for i in (1, 0, 0, 0, 0)), "".join(take % (i, i) for i in (1, 0, 1))]
kernels = [
    ttnn.KernelDescriptor(
        kernel_source='#include "api/dataflow/dataflow_api.h"\nvoid kernel_main() {' + text + "}\n",
        source_type=ttnn.KernelDescriptor.SourceType.SOURCE_CODE, core_ranges=core, config=config)
    for text, config in zip(waits, (ttnn.ReaderConfigDescriptor(), ttnn.WriterConfigDescriptor()))
]
page = 128
buffers = [
    ttnn.CBDescriptor(total_size=2 * page, core_ranges=core, format_descriptors=[
        ttnn.CBFormatDescriptor(buffer_index=i, data_format=ttnn.uint32, page_size=page)])
    for i in range(2)
]
x = ttnn.Tensor([1] * 32, [1, 1, 1, 32], ttnn.uint32, ttnn.ROW_MAJOR_LAYOUT).to(device)
semaphore = ttnn.SemaphoreDescriptor(id=0, core_type=ttnn.CoreType.WORKER, core_ranges=core, initial_value=0)
ttnn.generic_op([x, x], ttnn.ProgramDescriptor(kernels=kernels, semaphores=[semaphore], cbs=buffers))
signal.signal(signal.SIGINT, lambda *_: None)  # Python would raise KeyboardInterrupt before TT-NN waits
print("waits", flush=True)
ttnn.synchronize_device(device)
