"""Captures of the graph of operations: nodes, and what they allocate."""
import json
import sys
import types

import ttnn

from programs.corpus import HEIGHT, L1, group

case = group("graph")


def fake_torch():
    """Captures look at torch.Tensor, so that there has to be one."""
    sys.modules.setdefault("torch", types.ModuleType("torch")).__dict__.setdefault("Tensor", type("Tensor", (), {}))


def open_without_torch(t):
    fake_torch()
    t.open()


def captured(function, mode=ttnn.graph.RunMode.NORMAL):
    """Kinds, names, addresses and sizes of the nodes."""
    ttnn.graph.begin_graph_capture(mode)
    try:
        result = function()
    finally:
        nodes = ttnn.graph.end_graph_capture()
    del result
    nodes = json.loads(nodes) if isinstance(nodes, str) else nodes
    keep = ("name", "address", "size", "type", "layout", "core_range_set", "shape")
    return [[n["node_type"]] + [str((n.get("params") or {}).get(k)) for k in keep] for n in nodes]


def both(make):
    def program(t):
        f = make(t)
        f()
        return [captured(f), captured(f, ttnn.graph.RunMode.NO_DISPATCH)]

    return program


def add(t):
    a, b = t.normal(64, 64), t.normal(64, 64)
    return lambda: ttnn.add(a, b)


def chain(t):
    a, b = t.normal(64, 64), t.normal(64, 64)
    return lambda: ttnn.softmax(ttnn.add(ttnn.matmul(a, b, memory_config=L1), a), dim=-1)


def shards(t):
    a, m = t.normal(128, 128), t.shards((128, 128), 2, 2, HEIGHT)
    return lambda: ttnn.to_memory_config(a, m)


def composite(t):
    a = t.normal(2, 3, 32, 64)
    return lambda: ttnn.permute(a, (3, 2, 1, 0))


for function in (add, chain, shards, composite):
    case(function.__name__, short=function is add, alone=True)(lambda t, function=function: (open_without_torch(t), both(function)(t))[1])


@case("peak_l1", alone=True)
def _(t):
    open_without_torch(t)
    f = chain(t)
    f()
    ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NORMAL)
    f()
    nodes = ttnn.graph.end_graph_capture()
    return [ttnn.graph.extract_peak_L1_memory_usage(nodes), ttnn.graph.extract_calltrace(nodes), list(ttnn.graph.count_intermediate_and_output_tensors(nodes))]


@case("in_trace", alone=True)
def _(t):
    open_without_torch(t)
    f = add(t)
    f()
    nodes = captured(lambda: t.capture(f)[1])
    return nodes
