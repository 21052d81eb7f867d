"""Waits for a kernel that never ends; with "circle" for two of a core that wait for each other, with "cores" for two of two cores, with "sleep" for nothing at all."""
import signal
import sys
import time

import ttnn

device = ttnn.open_device(device_id=0)
print("opened", flush=True)
if "sleep" in sys.argv:
    time.sleep(600)
first, second = ttnn.CoreCoord(0, 0), ttnn.CoreCoord(1, 0)
core = ttnn.CoreRangeSet({ttnn.CoreRange(first, first)})
places = [core, core]
waits = ["noc_semaphore_wait(reinterpret_cast<volatile tt_l1_ptr uint32_t*>(get_semaphore(0)), 1);"]
if "circle" in sys.argv:
    put, take = "cb_reserve_back(%d, 1); cb_push_back(%d, 1);", "cb_wait_front(%d, 1); cb_pop_front(%d, 1);"
    # The first kernel has a page too many for buffer 0, and the second one waits for a second page in buffer 1.
    waits = ["".join(put % (i, i) for i in (1, 0, 0, 0, 0)), "".join(take % (i, i) for i in (1, 0, 1))]
if "cores" in sys.argv:
    # Each counts the other one's semaphore once, and waits for two.
    places = [core, ttnn.CoreRangeSet({ttnn.CoreRange(second, second)})]
    waits = ["noc_semaphore_inc(get_noc_addr(%d, %d, get_semaphore(0)), 1); noc_async_atomic_barrier();" % (at.x, at.y) + waits[0].replace("1)", "2)")
             for at in (device.worker_core_from_logical_core(c) for c in (second, first))]
kernels = [
    ttnn.KernelDescriptor(
        kernel_source='#include "api/dataflow/dataflow_api.h"\nvoid kernel_main() {' + text + "}\n",
        source_type=ttnn.KernelDescriptor.SourceType.SOURCE_CODE, core_ranges=place, config=config)
    for text, place, config in zip(waits, places, (ttnn.ReaderConfigDescriptor(), ttnn.WriterConfigDescriptor()))
]
page = 128
buffers = [
    ttnn.CBDescriptor(total_size=2 * page, core_ranges=core, format_descriptors=[
        ttnn.CBFormatDescriptor(buffer_index=i, data_format=ttnn.uint32, page_size=page)])
    for i in range(2)
]
x = ttnn.Tensor([1] * 32, [1, 1, 1, 32], ttnn.uint32, ttnn.ROW_MAJOR_LAYOUT).to(device)
semaphore = ttnn.SemaphoreDescriptor(id=0, core_type=ttnn.CoreType.WORKER, core_ranges=ttnn.CoreRangeSet({ttnn.CoreRange(first, second)}), initial_value=0)
ttnn.generic_op([x, x], ttnn.ProgramDescriptor(kernels=kernels, semaphores=[semaphore], cbs=buffers))
signal.signal(signal.SIGINT, lambda *_: None)  # Python would raise KeyboardInterrupt before TT-NN waits
print("waits", flush=True)
ttnn.synchronize_device(device)
