"""Traces of small models, for comparing what recorded traces cost: chain, attention, mlp, conv, sharded or queues."""
import sys
import ttnn

name = sys.argv[1]
queues = 2 if name == "queues" else 1
device = ttnn.open_device(device_id=0, trace_region_size=4 << 20, num_command_queues=queues, l1_small_size=1 << 15)


def tensor(seed, *shape):
    n = 1
    for s in shape:
        n *= s
    return ttnn.Tensor([float((i * seed) % 31 - 15) / 8 for i in range(n)], list(shape), ttnn.bfloat16, ttnn.TILE_LAYOUT)


shape = {"attention": (1, 2, 64, 64), "mlp": (1, 1, 64, 128)}.get(name, (1, 1, 64, 64))
x, w = tensor(3, *shape).to(device), tensor(7, 1, 1, shape[-1], shape[-1]).to(device)
w2, b = tensor(5, 1, 1, shape[-1], shape[-1]).to(device), tensor(11, 1, 1, 32, shape[-1]).to(device)


def chain():
    y = x
    for _ in range(4):
        y = ttnn.relu(ttnn.multiply(ttnn.add(y, w), w2))
    return y


def attention():
    s = ttnn.softmax(ttnn.multiply(ttnn.matmul(x, ttnn.transpose(x, -2, -1)), 0.125), dim=-1)
    return ttnn.add(ttnn.matmul(s, x), x)


def mlp():
    y = x
    for _ in range(2):
        y = ttnn.add(ttnn.matmul(ttnn.gelu(ttnn.matmul(y, w)), w2), y)
    return y


core = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(1, 1))})
block = ttnn.create_sharded_memory_config((32, 32), core, ttnn.ShardStrategy.BLOCK, use_height_and_width_as_shard_shape=True)


def sharded():
    y, v = ttnn.to_memory_config(x, block), ttnn.to_memory_config(w, block)
    for _ in range(4):
        y = ttnn.relu(ttnn.add(y, v))
    return ttnn.to_memory_config(y, ttnn.DRAM_MEMORY_CONFIG)


def pool():
    y = ttnn.reshape(ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT), (1, 1, 64, 64))
    y = ttnn.max_pool2d(y, 1, 8, 8, 64, [2, 2], [2, 2], [0, 0], [1, 1])
    return ttnn.relu(ttnn.to_layout(ttnn.sharded_to_interleaved(y) if y.is_sharded() else y, ttnn.TILE_LAYOUT))


model = {"chain": chain, "attention": attention, "mlp": mlp, "conv": pool, "sharded": sharded, "queues": chain}[name]
model()  # compiles the kernels
trace = ttnn.begin_trace_capture(device, cq_id=0)
y = model()
ttnn.end_trace_capture(device, trace, cq_id=0)
for seed in [5, 11, 13]:
    ttnn.copy_host_to_device_tensor(tensor(seed, *shape), x, queues - 1)
    if queues > 1:
        ttnn.wait_for_event(0, ttnn.record_event(device, 1))
    ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
    print("read", len(ttnn.from_device(y).to_list()))
ttnn.release_trace(device, trace)
ttnn.close_device(device)
