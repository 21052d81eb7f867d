"""A trace of 16 additions, and what the host's calls take: prints "first" after the first replay, then nanoseconds as JSON."""
import json
import statistics
import sys
import time

import ttnn

OPERATIONS, CALLS = 16, int(sys.argv[1])

device = ttnn.open_device(device_id=0, trace_region_size=1 << 20)
host = lambda v: ttnn.Tensor([float(v)] * 1024, [1, 1, 32, 32], ttnn.bfloat16, ttnn.TILE_LAYOUT)
x, one = host(0).to(device), host(1).to(device)


def model():
    y = x
    for _ in range(OPERATIONS):
        y = ttnn.add(y, one)
    return y


def timed(f):
    begin = time.perf_counter_ns()
    out = f()
    return time.perf_counter_ns() - begin, out


def median(f):
    out = []
    for _ in range(CALLS):
        out.append(timed(f)[0])
        ttnn.synchronize_device(device)
    return statistics.median(out)


captures = []
for left in reversed(range(min(CALLS, 5))):
    model()  # the first one compiles the kernels
    ttnn.synchronize_device(device)
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    captured, y = timed(model)
    ttnn.end_trace_capture(device, trace, cq_id=0)
    captures.append(captured)
    if left:
        ttnn.release_trace(device, trace)
for v in (1, 2):  # an input, for a recording
    ttnn.copy_host_to_device_tensor(host(v), x, 0)
    ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
    ttnn.from_device(y)
    if v == 1:
        print("first", flush=True)
times = {
    "replay": median(lambda: ttnn.execute_trace(device, trace, cq_id=0, blocking=False)),
    "replay until it is done": median(lambda: ttnn.execute_trace(device, trace, cq_id=0, blocking=True)),
    "capture of an operation": statistics.median(captures) / OPERATIONS,
    "an operation": median(model) / OPERATIONS,
}
print(json.dumps(times), flush=True)
for _ in range(192 if CALLS == 1 else 0):  # whose instructions the recording counts
    ttnn.execute_trace(device, trace, cq_id=0, blocking=False)
ttnn.synchronize_device(device)
ttnn.release_trace(device, trace)
ttnn.close_device(device)
