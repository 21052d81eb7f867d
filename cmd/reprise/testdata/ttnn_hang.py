"""Waits for a kernel that never ends, or with "sleep" for nothing at all."""
import sys
import time

import ttnn

device = ttnn.open_device(device_id=0)
print("opened", flush=True)
if "sleep" in sys.argv:
    time.sleep(600)
core = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(0, 0))})
source = """
#include "api/dataflow/dataflow_api.h"
void kernel_main() { noc_semaphore_wait(reinterpret_cast<volatile tt_l1_ptr uint32_t*>(get_semaphore(0)), 1); }
"""
kernel = ttnn.KernelDescriptor(kernel_source=source, source_type=ttnn.KernelDescriptor.SourceType.SOURCE_CODE, core_ranges=core,
    config=ttnn.ReaderConfigDescriptor())
x = ttnn.Tensor([1] * 32, [1, 1, 1, 32], ttnn.uint32, ttnn.ROW_MAJOR_LAYOUT).to(device)
semaphore = ttnn.SemaphoreDescriptor(id=0, core_type=ttnn.CoreType.WORKER, core_ranges=core, initial_value=0)
ttnn.generic_op([x, x], ttnn.ProgramDescriptor(kernels=[kernel], semaphores=[semaphore], cbs=[]))
print("waits", flush=True)
ttnn.synchronize_device(device)
