"""Traces: capture, replay, several of them, new inputs, release, and what is refused."""
import ttnn

from programs.corpus import DRAM, HEIGHT, L1, group, read

case = group("trace")


def product_and_sum(t):
    a, b = t.normal(64, 64), t.normal(64, 64)
    return lambda: ttnn.add(ttnn.matmul(a, b), a)


@case("replay_50", short=True)
def _(t):
    f = product_and_sum(t)
    f()
    trace, y = t.capture(f)
    for _ in range(50):
        t.replay(trace, blocking=False)
    t.wait()
    return y


@case("operations_100")
def _(t):
    a, b = t.normal(32, 64), t.normal(32, 64, scale=0.01)
    ttnn.add(a, b)

    def chain():
        y = a
        for _ in range(100):
            y = ttnn.add(y, b)
        return y

    trace, y = t.capture(chain)
    for _ in range(3):
        t.replay(trace)
    return y


@case("two", short=True)
def _(t):
    a, b, c, d = t.normal(64, 64), t.normal(64, 64), t.normal(64, 96), t.normal(64, 96)
    f, g = lambda: ttnn.matmul(a, b), lambda: ttnn.subtract(c, d)
    f(), g()
    (first, y1), (second, y2) = t.capture(f), t.capture(g)
    for i in range(6):
        t.replay(first if i % 2 else second, blocking=i % 3 == 0)
    t.wait()
    return [y1, y2]


@case("release_one", alone=True)
def _(t):
    t.open()
    a, b, c, d = t.normal(64, 64), t.normal(64, 64), t.normal(64, 96), t.normal(64, 96)
    f, g = lambda: ttnn.matmul(a, b), lambda: ttnn.subtract(c, d)
    f(), g()
    (first, _), (second, y2) = t.capture(f), t.capture(g)
    ttnn.release_trace(t.device, first)
    third, y3 = t.capture(lambda: [g(), f()])
    for i in range(4):
        t.replay(third if i % 2 else second, blocking=False)
    t.wait()
    return [y2, y3, t.error(lambda: t.replay(first))]


@case("new_inputs", short=True)
def _(t):
    x, w = t.normal(64, 64), t.normal(64, 64)
    f = lambda: ttnn.add(ttnn.matmul(x, w), x)
    f()
    trace, y = t.capture(f)
    results = []
    for _ in range(4):
        ttnn.copy_host_to_device_tensor(t.host(t.array(64, 64)), x, 0)
        t.replay(trace, blocking=False)
        results.append(y.cpu(blocking=False))
    t.wait()
    return results


@case("allocation_while_active")
def _(t):
    f = product_and_sum(t)
    f()
    trace, y = t.capture(f)
    c = t.normal(64, 64)
    t.replay(trace)
    return [y, c]


@case("accumulates")
def _(t):
    x, y = t.normal(32, 64), t.normal(32, 64)
    ttnn.add(x, y)
    trace, _ = t.capture(lambda: ttnn.add_(x, y))
    for _ in range(7):
        t.replay(trace, blocking=False)
    t.wait()
    return x


@case("reshards")
def _(t):
    m = t.shards((128, 128), 2, 2, HEIGHT)
    x, w = t.empty(128, 128, memory=t.dram_shards((32, 128), 4)), t.normal(128, 128)
    f = lambda: ttnn.add(ttnn.matmul(ttnn.to_memory_config(ttnn.to_memory_config(x, m), DRAM), w), w)
    ttnn.copy_host_to_device_tensor(t.host(t.array(128, 128)), x, 0)
    f()
    trace, y = t.capture(f)
    results = []
    for _ in range(3):
        ttnn.copy_host_to_device_tensor(t.host(t.array(128, 128)), x, 0)
        t.replay(trace, blocking=False)
        results.append(y.cpu(blocking=False))
    t.wait()
    return results


@case("input_at_same_address")
def _(t):
    """The input's memory in L1 is freed in the capture and allocated again at the same address."""
    m = t.shards((128, 128), 2, 2, HEIGHT)
    w = t.normal(128, 128)
    model = lambda x: ttnn.matmul(ttnn.add(x, x, memory_config=DRAM), w)
    x = t.normal(128, 128, memory=m)
    y = model(x)
    x = t.normal(128, 128, memory=m)
    address = x.buffer_address()
    y.deallocate(force=True)
    trace = ttnn.begin_trace_capture(t.device, cq_id=0)
    y = model(x)
    x.deallocate(force=True)
    x = t.empty(128, 128, memory=m)
    ttnn.end_trace_capture(t.device, trace, cq_id=0)
    results = []
    for _ in range(3):
        ttnn.copy_host_to_device_tensor(t.host(t.array(128, 128)), x, 0)
        t.replay(trace, blocking=False)
        results.append(y.cpu(blocking=False))
    t.wait()
    return [address == x.buffer_address(), results]


@case("model")
def _(t):
    w1, b1, w2, x = t.normal(128, 128), t.normal(1, 128), t.normal(128, 64), t.normal(64, 128)

    def model():
        h = ttnn.subtract(ttnn.linear(x, w1, bias=b1), x)
        h = ttnn.transpose(ttnn.transpose(h, -2, -1), -2, -1)
        return ttnn.matmul(h, w2)

    return model


@case("l1_outputs")
def _(t):
    x = t.normal(64, 64)
    return lambda: ttnn.add(ttnn.multiply(x, x, memory_config=L1), x, memory_config=L1)


@case("empty")
def _(t):
    trace, _ = t.capture(lambda: None)
    for _ in range(3):
        t.replay(trace)
    return t.normal(32, 32)


@case("many")
def _(t):
    a, b = t.normal(32, 64), t.normal(32, 64)
    ttnn.add(a, b), ttnn.subtract(a, b)
    traces = [t.capture(lambda: ttnn.add(a, b) if i % 2 else ttnn.subtract(a, b)) for i in range(12)]
    for i in range(36):
        t.replay(traces[i * 5 % 12][0], blocking=False)
    t.wait()
    return [y for _, y in traces]


@case("capture_again", short=True)
def _(t):
    f = product_and_sum(t)
    f()
    results = []
    for _ in range(5):
        trace, y = t.capture(f)
        t.replay(trace)
        results.append(read(y))
        ttnn.release_trace(t.device, trace)
    return results


@case("second_queue", num_command_queues=2)
def _(t):
    f = product_and_sum(t)
    with ttnn.command_queue(1):
        f()
    t.wait()
    first = ttnn.begin_trace_capture(t.device, cq_id=1)
    with ttnn.command_queue(1):
        y = f()
    ttnn.end_trace_capture(t.device, first, cq_id=1)
    for _ in range(5):
        t.replay(first, queue=1)
    second, y0 = t.capture(f)
    for i in range(6):
        queue = 1 - i % 2
        t.replay(first if queue else second, queue=queue, blocking=False)
        ttnn.wait_for_event(1 - queue, ttnn.record_event(t.device, queue))
    t.wait()
    return [y, y0]


# What is refused. A failed capture leaves the device as it is, so that these have a process of their own.
@case("region_too_small", alone=True)
def _(t):
    t.open(trace_region_size=2048)
    f = product_and_sum(t)
    f(), f()
    return t.error(lambda: t.capture(f))


@case("no_region", alone=True)
def _(t):
    t.open(trace_region_size=0)
    f = product_and_sum(t)
    f()
    return t.error(lambda: t.capture(f)[0] and None)


@case("write_in_capture", alone=True)
def _(t):
    t.open()
    x = t.normal(32, 64)
    ttnn.add(x, x)
    return t.error(lambda: t.capture(lambda: ttnn.copy_host_to_device_tensor(t.host(t.array(32, 64)), x, 0)))


@case("read_in_capture", alone=True)
def _(t):
    t.open()
    x = t.normal(32, 64)
    ttnn.add(x, x)
    return t.error(lambda: t.capture(lambda: ttnn.from_device(ttnn.add(x, x))))


@case("uncompiled_in_capture", alone=True)
def _(t):
    t.open()
    x = t.normal(32, 64)
    return t.error(lambda: t.capture(lambda: ttnn.add(x, x)) and None)


@case("event_in_capture", alone=True, num_command_queues=2)
def _(t):
    t.open()
    x = t.normal(64, 64)
    ttnn.add(x, x)
    return t.error(lambda: t.capture(lambda: [ttnn.add(x, x), ttnn.record_event(t.device, 0)]))


@case("synchronize_in_capture", alone=True)
def _(t):
    t.open()
    x = t.normal(64, 64)
    ttnn.add(x, x)
    return t.error(lambda: t.capture(lambda: ttnn.synchronize_device(t.device)))


@case("capture_in_capture", alone=True)
def _(t):
    t.open()
    x = t.normal(64, 64)
    ttnn.add(x, x)
    return t.error(lambda: t.capture(lambda: t.capture(lambda: ttnn.add(x, x))))


@case("replay_unknown", alone=True)
def _(t):
    t.open()
    f = product_and_sum(t)
    f()
    trace, _ = t.capture(f)
    ttnn.release_trace(t.device, trace)
    return [t.error(lambda: t.replay(trace)), t.error(lambda: ttnn.release_trace(t.device, trace))]


@case("without_program_cache", alone=True)
def _(t):
    t.open()
    t.device.disable_and_clear_program_cache()
    f = product_and_sum(t)
    y = read(f())
    return [y, t.device.num_program_cache_entries(), t.error(lambda: t.capture(f) and None)]
