"""The snippets of the documents that docs/seeds.md is about, as far as TT-NN has them: a name has the document and the snippet's first line.
snippets_test.go has the same in Go, with the same digests. Tensors hold integers so small that every result is exact; of addresses and sizes
of commands, which each runtime has its own, there is only what the documents say of them."""
import json
import os
import sqlite3
import tempfile

import numpy as np
import ttnn

from programs.corpus import DRAM, HEIGHT, L1, cores, four, group, read
from programs.generic import buffer, kernel
from programs.graph import fake_torch

case = group("seed")
two = group("seed", num_command_queues=2)
SIDE = 128  # of the models' tensors


def counted(start, *shape):
    """Integers from -2 to 2."""
    shape = four(shape)
    return ((np.arange(np.prod(shape)) * 3 + start) % 5 - 2).astype(np.float32).reshape(shape)


def batches(t, n, *shape):
    return [t.host(counted(i, *shape)) for i in range(n)]


class Model:
    """What the documents leave out: an input that arrives in shards in DRAM, its shards in L1, and a model of two operations."""

    def __init__(self, t):
        self.t, self.l1, self.dram = t, t.shards((SIDE, SIDE), 2, 2, HEIGHT), t.dram_shards((SIDE // 4, SIDE), 4)
        self.weights = t.tensor(np.eye(SIDE, dtype=np.float32)[None, None] * 2)
        self.hosts = batches(t, 3, SIDE, SIDE)
        self.input = self.allocate(self.dram)

    def allocate(self, memory):
        return self.t.empty(SIDE, SIDE, memory=memory)

    def run(self, x, memory=DRAM):
        y = ttnn.matmul(ttnn.to_memory_config(x, DRAM), self.weights)
        return ttnn.add(y, y, memory_config=memory)


@case("000:22", short=True)
def _(t):
    trace_input, weights = t.tensor(counted(9, 64, 64)), t.tensor(counted(1, 64, 64))
    model = lambda: ttnn.relu(ttnn.matmul(trace_input, weights))
    model()
    trace, result = t.capture(model)
    t.wait()
    results = []
    for batch in batches(t, 3, 64, 64):
        ttnn.copy_host_to_device_tensor(batch, trace_input)
        t.replay(trace, blocking=False)
        t.wait()
        results.append(ttnn.from_device(result))
    return results


@case("001:34")
def _(t):
    m = Model(t)
    ttnn.copy_host_to_device_tensor(m.hosts[0], m.input, 0)
    m.run(ttnn.to_memory_config(m.input, m.l1))
    ttnn.copy_host_to_device_tensor(m.hosts[0], m.input, 0)
    trace, output = t.capture(lambda: m.run(ttnn.to_memory_config(m.input, m.l1)))
    results = []
    for batch in m.hosts:
        ttnn.copy_host_to_device_tensor(batch, m.input, 0)
        t.replay(trace, blocking=False)
        results.append(output.cpu(blocking=False))
    t.wait()
    return results


@case("001:51")
def _(t):
    m = Model(t)
    output = m.run(m.hosts[0].to(t.device, m.l1))
    x = m.hosts[0].to(t.device, m.l1)
    address = x.buffer_address()
    output.deallocate(force=True)
    trace = ttnn.begin_trace_capture(t.device, cq_id=0)
    output = m.run(x)
    x.deallocate(force=True)
    x = m.allocate(m.l1)
    same = address == x.buffer_address()
    ttnn.end_trace_capture(t.device, trace, cq_id=0)
    results = []
    for batch in m.hosts:
        ttnn.copy_host_to_device_tensor(batch, x, 0)
        t.replay(trace, blocking=False)
        results.append(output.cpu(blocking=False))
    t.wait()
    return [same, results]


def writes_on_queue_1(traced):
    def program(t):
        m = Model(t)
        m.run(ttnn.to_memory_config(m.input, m.l1))
        x, address = None, True
        if traced:
            x = ttnn.to_memory_config(m.input, m.l1)
            ttnn.reshard(m.input, m.l1, x)
            t.wait()
            at = x.buffer_address()
            trace, output = t.capture(lambda: m.run(x))
        op_event, outputs = ttnn.record_event(t.device, 0), []
        for batch in m.hosts:
            ttnn.wait_for_event(1, op_event)
            ttnn.copy_host_to_device_tensor(batch, m.input, 1)
            ttnn.wait_for_event(0, ttnn.record_event(t.device, 1))
            if traced:
                x = ttnn.reshard(m.input, m.l1, x)
                address = address and at == x.buffer_address()
            else:
                x = ttnn.to_memory_config(m.input, m.l1)
            op_event = ttnn.record_event(t.device, 0)
            if traced:
                t.replay(trace, blocking=False)
            else:
                output = m.run(x)
            outputs.append(output.cpu(blocking=False))
        t.wait()
        return [address, outputs]

    return program


two("001:104", short=True)(writes_on_queue_1(False))
two("001:211")(writes_on_queue_1(True))


def transfers_on_queue_1(traced):
    def program(t):
        m = Model(t)
        leaving = m.allocate(m.dram)
        x = ttnn.to_memory_config(m.input, m.l1)
        y = m.run(x, m.l1)
        ttnn.reshard(y, m.dram, leaving)
        ttnn.reshard(m.input, m.l1, x)
        t.wait()
        if traced:
            trace, y = t.capture(lambda: m.run(x, m.l1))
        first_op, read = ttnn.record_event(t.device, 0), ttnn.record_event(t.device, 1)
        ttnn.wait_for_event(1, first_op)
        ttnn.copy_host_to_device_tensor(m.hosts[0], m.input, 1)
        write, outputs = ttnn.record_event(t.device, 1), []
        for i in range(len(m.hosts)):
            ttnn.wait_for_event(0, write)
            x = ttnn.reshard(m.input, m.l1, x)
            first_op = ttnn.record_event(t.device, 0)
            if traced:
                t.replay(trace, blocking=False)
            else:
                y = m.run(x, m.l1)
            ttnn.wait_for_event(0, read)
            ttnn.reshard(y, m.dram, leaving)
            last_op = ttnn.record_event(t.device, 0)
            ttnn.wait_for_event(1, first_op)
            ttnn.copy_host_to_device_tensor(m.hosts[(i + 1) % 3], m.input, 1)
            write = ttnn.record_event(t.device, 1)
            ttnn.wait_for_event(1, last_op)
            outputs.append(leaving.cpu(blocking=False, cq_id=1))
            read = ttnn.record_event(t.device, 1)
        t.wait()
        return outputs

    return program


two("001:131")(transfers_on_queue_1(False))
two("001:271")(transfers_on_queue_1(True))


def refused(function):
    """Whether function raises an error, the only thing that both runtimes' texts of errors have in common."""
    try:
        function()
        return False
    except Exception:
        return True


@case("001:9", alone=True)
def _(t):
    t.open(trace_region_size=0)
    x = t.tensor(counted(0, 32, 64))
    ttnn.add(x, x)
    # Without a region both runtimes take free memory; one that is too small is refused.
    trace, y = t.capture(lambda: ttnn.add(x, x))
    t.replay(trace)
    return y


@case("001:8", alone=True)
def _(t):
    t.open(trace_region_size=2048)
    x = t.tensor(counted(0, 32, 64))
    model = lambda: [ttnn.add(x, x) for _ in range(40)]
    model()
    return refused(lambda: t.capture(model))


@case("000:16", alone=True)
def _(t):
    t.open()
    x = t.tensor(counted(0, 32, 64))
    ttnn.add(x, x)
    return refused(lambda: t.capture(lambda: ttnn.copy_host_to_device_tensor(t.host(counted(1, 32, 64)), x, 0)))


@case("000:16_read", alone=True)
def _(t):
    t.open()
    x = t.tensor(counted(0, 32, 64))
    ttnn.add(x, x)
    return refused(lambda: t.capture(lambda: ttnn.from_device(x)))


@case("001:31", alone=True)
def _(t):
    t.open()
    x = t.tensor(counted(0, 32, 64))
    return refused(lambda: t.capture(lambda: ttnn.add(x, x)))


# Graphs.
def graphed(name):
    def register(function):
        def program(t):
            fake_torch()
            t.open()
            return function(t)

        case(name, alone=True)(program)
        return function

    return register


def captured(function, mode=ttnn.graph.RunMode.NORMAL):
    ttnn.graph.begin_graph_capture(mode)
    result = function()
    nodes = ttnn.graph.end_graph_capture()
    del result
    return json.loads(nodes) if isinstance(nodes, str) else nodes


def operations(nodes, kind="function_start", has=lambda n: True):
    """The names of the two operations. Some versions write them with a dot."""
    names = [n["params"]["name"].replace(".", "::") for n in nodes if n["node_type"] == kind and has(n)]
    return [n for n in names if n in ("ttnn::multiply", "ttnn::add")]


def product_and_sum(t):
    a, b, c = (t.tensor(counted(i, 64, 64)) for i in range(3))
    model = lambda: ttnn.add(a, ttnn.multiply(b, c, memory_config=L1), memory_config=L1)
    model()
    return model


@graphed("003:22")
def _(t):
    return operations(captured(product_and_sum(t)))


@graphed("003:75")
def _(t):
    return operations(captured(product_and_sum(t), ttnn.graph.RunMode.NO_DISPATCH))


@graphed("003:91")
def _(t):
    return operations(captured(product_and_sum(t)), "function_end", lambda n: n["duration_ns"] > 0)


@graphed("003:103")
def _(t):
    nodes, total, peak = captured(product_and_sum(t)), 0, 0
    for n in nodes:
        if n["node_type"] == "buffer_allocate":
            total += int(n["params"]["size"])
            peak = max(peak, total)
        elif n["node_type"] == "buffer_deallocate":
            total -= int(nodes[n["connections"][0]]["params"]["size"])
    return peak


@graphed("003:145")
def _(t):
    model = product_and_sum(t)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "my_report.json")
        ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NORMAL)
        model()
        ttnn.graph.end_graph_capture_to_file(path)
        with open(path) as f:
            report = json.load(f)
    return [k in report for k in ("version", "graph", "devices", "metadata")] + [operations(report["graph"])]


@graphed("003:51")
def _(t):
    import ttnn.graph_report

    model = product_and_sum(t)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "my_report.json")
        ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NORMAL)
        model()
        ttnn.graph.end_graph_capture_to_file(path)
        ttnn.graph_report.import_report(path, folder)
        with sqlite3.connect(os.path.join(folder, "db.sqlite")) as db:
            tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            names = [row[0].replace(".", "::") for row in db.execute("SELECT name FROM operations ORDER BY operation_id")]
    wanted = ("operations", "operation_arguments", "tensors", "device_tensors", "buffers", "stack_traces", "errors")
    return [all(w in tables for w in wanted), [n for n in names if n in ("ttnn::multiply", "ttnn::add")]]


FOREVER = """
void kernel_main() {
    for (;;) asm volatile("");
}
"""


@case("003:264", alone=True)
def _(t):
    os.environ["TT_METAL_OPERATION_TIMEOUT_SECONDS"] = "2"
    fake_torch()
    t.open()
    x, where = t.tensor(counted(0, 32, 64)), cores(1, 1)
    hangs = ttnn.ProgramDescriptor(kernels=[kernel(FOREVER, where, ttnn.WriterConfigDescriptor())], semaphores=[], cbs=[buffer(0, where)])
    ttnn.relu(x)
    t.wait()
    ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NORMAL)
    ttnn.generic_op([x, x], hangs)
    ttnn.relu(x)
    hung = refused(t.wait)
    nodes = ttnn.graph.end_graph_capture()
    return [hung, any("relu" in n["params"]["name"] for n in nodes if n["node_type"] == "function_start")]


@graphed("003:189")
def _(t):
    model, graph = product_and_sum(t), ttnn.graph
    results = [graph.is_python_stack_trace_enabled()]
    graph.enable_python_stack_traces()
    captured(model)
    results += [graph.is_python_stack_trace_enabled()]
    graph.disable_python_stack_traces()
    return results + [graph.is_python_stack_trace_enabled()]


@graphed("003:224")
def _(t):
    graph = ttnn.graph
    results = [graph.is_detailed_buffer_tracing_enabled()]
    graph.enable_detailed_buffer_tracing()
    results += [graph.is_detailed_buffer_tracing_enabled()]
    graph.disable_detailed_buffer_tracing()
    return results + [graph.is_detailed_buffer_tracing_enabled()]


@graphed("003:244")
def _(t):
    return any(n.get("arguments") for n in captured(product_and_sum(t)) if n["node_type"] == "function_start")


@graphed("003:283")
def _(t):
    levelized = ttnn.graph.extract_levelized_graph(captured(product_and_sum(t)))
    levels = [[v["name"].replace(".", "::"), v["stacking_level"]] for v in levelized]
    return [v for v in levels if v[0] in ("ttnn::multiply", "ttnn::add")]


@case("004:290", alone=True)
def _(t):
    t.open()
    kind = lambda: ttnn.get_memory_view(t.device, ttnn.BufferType.TRACE)
    x = t.tensor(counted(0, 32, 64))
    ttnn.add(x, x)
    t.wait()
    size = lambda v: v.total_bytes_per_bank * v.num_banks
    before = kind()
    trace, y = t.capture(lambda: ttnn.add(x, x))
    during = kind()
    t.replay(trace)
    replayed = kind()
    ttnn.release_trace(t.device, trace)
    after = kind()
    used = [v.total_bytes_allocated_per_bank for v in (before, during, replayed, after)]
    return [size(before) >= t.options["trace_region_size"], used[0], used[1] > 0, used[1] == used[2], used[3]]


# What the documents warn of.
trap = group("trap", num_command_queues=2)


@trap("moved_between_captures")
def _(t):
    """A tensor that is allocated between two captures moves what the second one allocates; each trace keeps its addresses."""
    x = t.tensor(counted(0, 64, 64))
    model = lambda: ttnn.add(ttnn.multiply(x, x), x)
    model()
    (first, y), _, (second, z) = t.capture(model), t.tensor(counted(1, 64, 64)), t.capture(model)
    for trace in (first, second, first):
        t.replay(trace)
    return [y.buffer_address() != z.buffer_address(), y, z]


@trap("allocation_after_capture")
def _(t):
    """What a trace freed while it was captured is given away, and a replay writes over it."""
    x = t.tensor(counted(0, 64, 64))
    model = lambda: ttnn.add(ttnn.multiply(x, x), x)
    model()
    trace, y = t.capture(model)
    later = t.tensor(counted(1, 64, 64))
    before = read(later)
    t.replay(trace)
    return [y, bool((read(later) == before).all())]


@trap("release_order")
def _(t):
    x = t.tensor(counted(0, 64, 64))
    model = lambda: ttnn.add(x, x)
    model()
    (first, y), (second, z) = t.capture(model), t.capture(model)
    ttnn.release_trace(t.device, first)
    t.replay(second)
    return [z, refused(lambda: t.replay(first))]


@trap("input_allocated_again")
def _(t):
    """The trace reads where its input was."""
    x = t.tensor(counted(0, 64, 64))
    model = lambda: ttnn.add(x, x)
    model()
    trace, y = t.capture(model)
    other = t.tensor(counted(1, 64, 64))
    t.replay(trace)
    return [other.buffer_address() != x.buffer_address(), y]


@trap("queues_without_event")
def _(t):
    """Programs of two queues on the same workers, with nothing between them."""
    x = t.tensor(counted(0, 64, 64))
    ttnn.add(x, x)
    t.wait()

    def program():
        ttnn.add(x, x)
        with ttnn.command_queue(1):
            ttnn.add(x, x)

    return refused(program)
