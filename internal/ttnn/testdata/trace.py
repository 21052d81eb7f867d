"""trace.py: an addition on one chip, eager, and in a trace where the chip has command queues; compared with numpy."""
import os

import numpy as np
import ttnn

device = ttnn.open_device(device_id=0, trace_region_size=1 << 20)
x = np.arange(32 * 64, dtype=np.float32).reshape(1, 1, 32, 64) % 97  # bfloat16 has the sums exactly
a, b = (ttnn.Tensor(v.flatten().tolist(), list(v.shape), ttnn.bfloat16, ttnn.TILE_LAYOUT).to(device) for v in (x, x[..., ::-1]))


def check(name, y):
    assert np.array_equal(np.array(ttnn.from_device(y).to_list(), np.float32), x + x[..., ::-1]), name
    print(name, "equal", flush=True)


check("eager", ttnn.add(a, b))
if "TT_METAL_SLOW_DISPATCH_MODE" not in os.environ:
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    y = ttnn.add(a, b)
    ttnn.end_trace_capture(device, trace, cq_id=0)
    for _ in range(3):
        ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
    check("traced", y)
    ttnn.release_trace(device, trace)
ttnn.close_device(device)
