"""A trace with an input and a weight. Between replays the host writes the input, or with "eager" a program does.

With "queues" the host writes by a second queue, with "divided" the trace runs on two sub-devices. With "hidden" no variable holds a tensor,
with "graph" neither, but a graph capture has them.
With "sharded" tensors are in L1; with "lost" nothing says which one.
"""
import functools
import sys
import ttnn

queues = 2 if "queues" in sys.argv else 1
device = ttnn.open_device(device_id=0, trace_region_size=1 << 20, num_command_queues=queues)
left, right = (ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(x, 0), ttnn.CoreCoord(x + 3, 3))}) for x in (0, 4))


def tensor(seed):
    return ttnn.Tensor([float((i * seed) % 31 - 15) / 8 for i in range(4096)], [1, 1, 64, 64], ttnn.bfloat16, ttnn.TILE_LAYOUT)


def write(to, seed):
    ttnn.copy_host_to_device_tensor(tensor(seed), to, queues - 1)


weight, x = tensor(7).to(device), tensor(3).to(device)
model = lambda: ttnn.relu(ttnn.add(ttnn.matmul(x, weight), x))
if "divided" in sys.argv:
    device.load_sub_device_manager(device.create_sub_device_manager([ttnn.SubDevice([left]), ttnn.SubDevice([right])], 0))
    # Nothing orders programs on different sub-devices.
    model = lambda: (ttnn.multiply(x, weight, sub_core_grids=right), ttnn.add(x, weight, sub_core_grids=left))[1]
if "sharded" in sys.argv:
    shards = lambda kind, *shape: ttnn.create_sharded_memory_config(shape, left, getattr(ttnn.ShardStrategy, kind), use_height_and_width_as_shard_shape=True)
    left = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(1, 0), ttnn.CoreCoord(2, 1))})
    block, height = shards("BLOCK", 32, 32), shards("HEIGHT", 32, 64)
    weight, x = ttnn.to_memory_config(weight, ttnn.L1_MEMORY_CONFIG), tensor(3).to(device, block)
    model = lambda: ttnn.to_memory_config(ttnn.relu(ttnn.add(x, ttnn.to_memory_config(weight, block))), height)
if "lost" in sys.argv:
    model = functools.partial(ttnn.add, x, ttnn.to_memory_config(weight, ttnn.L1_MEMORY_CONFIG))
model()  # compiles the kernels
graph = ttnn._ttnn.graph if "graph" in sys.argv else None
if graph:
    graph.begin_graph_capture(graph.RunMode.NORMAL)
trace = ttnn.begin_trace_capture(device, cq_id=0)
y = model()
ttnn.end_trace_capture(device, trace, cq_id=0)
if graph:
    graph.end_graph_capture()
fill, result, held = (functools.partial(f, t) for f, t in ((write, x), (ttnn.from_device, y), (print, weight)))
if "hidden" in sys.argv or graph:
    del weight, x, y
for seed in [] if "unused" in sys.argv else [5, 11, 13]:
    if "eager" in sys.argv:
        ttnn.copy(ttnn.add(x, weight), x)
    else:
        fill(seed)
        if queues > 1:
            ttnn.wait_for_event(0, ttnn.record_event(device, 1))
    ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
    print("sum", sum(map(sum, result().to_list()[0][0])))
ttnn.release_trace(device, trace)
ttnn.close_device(device)
