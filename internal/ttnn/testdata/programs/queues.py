"""Command queues and events: transfers on one beside operations on the other."""
import ttnn

from programs.corpus import DRAM, HEIGHT, L1, ROWS, TILE, group

case = group("queue", num_command_queues=2)


class Flow:
    """A model whose input arrives in DRAM and is moved to shards in L1; the output goes back to DRAM."""

    def __init__(self, t):
        self.shards, self.banks = t.shards((128, 128), 2, 2, HEIGHT), t.dram_shards((32, 128), 4)
        self.inputs = [t.host(t.array(128, 128)) for _ in range(5)]
        self.weights = t.normal(128, 128)
        self.arrived, self.leaving = t.empty(128, 128, memory=self.banks), t.empty(128, 128, memory=self.banks)
        ttnn.copy_host_to_device_tensor(self.inputs[0], self.arrived, 0)

    def model(self, x):
        return ttnn.to_memory_config(ttnn.matmul(ttnn.to_memory_config(x, DRAM), self.weights), self.shards)


@case("write_beside", short=True)
def _(t):
    flow = Flow(t)
    flow.model(ttnn.to_memory_config(flow.arrived, flow.shards))
    t.wait()
    read_event, results = ttnn.record_event(t.device, 0), []
    for x in flow.inputs:
        ttnn.wait_for_event(1, read_event)
        ttnn.copy_host_to_device_tensor(x, flow.arrived, 1)
        ttnn.wait_for_event(0, ttnn.record_event(t.device, 1))
        x = ttnn.to_memory_config(flow.arrived, flow.shards)
        read_event = ttnn.record_event(t.device, 0)
        results.append(flow.model(x).cpu(blocking=False))
    t.wait()
    return results


@case("write_beside_trace")
def _(t):
    flow = Flow(t)
    x = ttnn.to_memory_config(flow.arrived, flow.shards)
    y = flow.model(x)
    ttnn.reshard(flow.arrived, flow.shards, x)
    t.wait()
    y.deallocate(force=True)
    trace, y = t.capture(lambda: flow.model(x))
    read_event, results = ttnn.record_event(t.device, 0), []
    for host in flow.inputs:
        ttnn.wait_for_event(1, read_event)
        ttnn.copy_host_to_device_tensor(host, flow.arrived, 1)
        ttnn.wait_for_event(0, ttnn.record_event(t.device, 1))
        x = ttnn.reshard(flow.arrived, flow.shards, x)
        read_event = ttnn.record_event(t.device, 0)
        t.replay(trace, blocking=False)
        results.append(y.cpu(blocking=False))
    t.wait()
    return results


def transfers_beside(traced):
    """Inputs and outputs are both on queue 1."""

    def program(t):
        flow = Flow(t)
        x = ttnn.to_memory_config(flow.arrived, flow.shards)
        y = flow.model(x)
        ttnn.reshard(y, flow.banks, flow.leaving)
        t.wait()
        if traced:
            ttnn.reshard(flow.arrived, flow.shards, x)
            y.deallocate(force=True)
            trace, y = t.capture(lambda: flow.model(x))
        consumed, drained = ttnn.record_event(t.device, 0), ttnn.record_event(t.device, 1)
        ttnn.wait_for_event(1, consumed)
        ttnn.copy_host_to_device_tensor(flow.inputs[0], flow.arrived, 1)
        written, results = ttnn.record_event(t.device, 1), []
        for i in range(5):
            ttnn.wait_for_event(0, written)
            x = ttnn.reshard(flow.arrived, flow.shards, x)
            consumed = ttnn.record_event(t.device, 0)
            if traced:
                t.replay(trace, blocking=False)
            else:
                y = flow.model(x)
            ttnn.wait_for_event(0, drained)
            ttnn.reshard(y, flow.banks, flow.leaving)
            ready = ttnn.record_event(t.device, 0)
            ttnn.wait_for_event(1, consumed)
            ttnn.copy_host_to_device_tensor(flow.inputs[(i + 1) % 5], flow.arrived, 1)
            written = ttnn.record_event(t.device, 1)
            ttnn.wait_for_event(1, ready)
            results.append(flow.leaving.cpu(blocking=False, cq_id=1))
            drained = ttnn.record_event(t.device, 1)
        t.wait()
        return results

    return program


case("transfers_beside")(transfers_beside(False))
case("transfers_beside_trace")(transfers_beside(True))


@case("operations_on_both")
def _(t):
    a, b = t.normal(64, 64), t.normal(64, 64)
    ttnn.add(a, b), ttnn.matmul(a, b)
    t.wait()  # kernels that one queue writes to DRAM, the other's prefetcher may read before an event that it waits for
    results = []
    for i in range(8):
        with ttnn.command_queue(i % 2):
            results.append(ttnn.add(a, b) if i % 3 else ttnn.matmul(a, b))
        ttnn.wait_for_event(1 - i % 2, ttnn.record_event(t.device, i % 2))
    t.wait()
    return results


@case("event_synchronize")
def _(t):
    a = t.normal(64, 64)
    y = ttnn.add(a, a)
    ttnn.event_synchronize(ttnn.record_event(t.device, 0))
    return y.cpu(blocking=True, cq_id=1)


@case("many_events")
def _(t):
    x = t.normal(32, 64)
    ttnn.add(x, 0.125)
    t.wait()
    for i in range(40):
        with ttnn.command_queue(i % 2):
            x = ttnn.add(x, 0.125)
        ttnn.wait_for_event(1 - i % 2, ttnn.record_event(t.device, i % 2))
    t.wait()
    return x


@case("synchronize_one")
def _(t):
    a = t.normal(64, 64)
    with ttnn.command_queue(1):
        y = ttnn.add(a, a)
    ttnn.synchronize_device(t.device, cq_id=1)
    return y


@case("copies_and_reads")
def _(t):
    results = []
    for shape, layout, memory in (
        ((1, 1, 64, 96), TILE, DRAM),
        ((1, 1, 30, 50), TILE, L1),
        ((1, 3, 17, 48), ROWS, DRAM),
        ((1, 1, 256, 512), TILE, DRAM),
        ((1, 1, 128, 128), TILE, t.shards((128, 128), 2, 2, HEIGHT)),
        ((1, 1, 128, 128), TILE, t.dram_shards((32, 128), 4)),
    ):
        x = t.empty(*shape, layout=layout, memory=memory)
        ttnn.copy_host_to_device_tensor(t.host(t.array(*shape), layout=layout), x, 1)
        results.append(x.cpu(blocking=False, cq_id=1))
    t.wait()
    return results


@case("large_transfer")
def _(t):
    """More than a queue's ring holds at once is not needed: 8 MB already goes in many commands."""
    x = t.empty(2048, 2048)
    ttnn.copy_host_to_device_tensor(t.host(t.array(2048, 2048)), x, 1)
    t.wait()
    return x


@case("no_such_queue", num_command_queues=1)
def _(t):
    x = t.normal(32, 64)
    return [t.error(lambda: ttnn.copy_host_to_device_tensor(t.host(t.array(32, 64)), x, 1)), t.error(lambda: ttnn.record_event(t.device, 1) and None)]
