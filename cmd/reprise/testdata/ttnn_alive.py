"""Replays a trace, waits for a file and replays it again, then prints what it computes. Usage: ttnn_alive.py FILE"""
import os
import sys
import time

import ttnn

device = ttnn.open_device(device_id=0, trace_region_size=1 << 20)
ones = ttnn.Tensor([1.0] * 2048, [1, 1, 32, 64], ttnn.bfloat16, ttnn.TILE_LAYOUT).to(device)
ttnn.add(ones, ones)  # compiles the kernels
trace = ttnn.begin_trace_capture(device, cq_id=0)
sums = ttnn.add(ones, ones)
ttnn.end_trace_capture(device, trace, cq_id=0)
ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
print("replayed", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
print("sum", sum(ttnn.from_device(sums).to_list()[0][0][0]))
ttnn.release_trace(device, trace)
ttnn.close_device(device)
