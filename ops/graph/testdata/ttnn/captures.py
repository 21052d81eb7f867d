"""Writes captures of each kind that TT-NN makes, and what TT-NN's own functions say of them: captures.py FOLDER [short].

FOLDER gets KIND.json and KIND.answers.json. With short, long texts that nothing reads are cut, as in the captures beside this file."""
import json
import pathlib
import re
import sys
import types

import numpy as np
import ttnn

# Captures look at torch.Tensor and, in slow mode, at ttnn.tracer, which isn't there without PyTorch.
sys.modules.setdefault("torch", types.ModuleType("torch")).__dict__.setdefault("Tensor", type("Tensor", (), {}))
if not hasattr(ttnn, "tracer"):
    ttnn.tracer = types.SimpleNamespace(ENABLE_TRACER=False)

folder = pathlib.Path(sys.argv[1])
L1 = ttnn.L1_MEMORY_CONFIG
device = ttnn.open_device(device_id=0, l1_small_size=24576, trace_region_size=1 << 20)


def tensor(*shape):
    return ttnn.Tensor(np.ones((1, 1, *shape), np.float32), ttnn.bfloat16, None, ttnn.TILE_LAYOUT).to(device, ttnn.DRAM_MEMORY_CONFIG)


a, b = tensor(64, 64), tensor(64, 64)
row, other = tensor(1, 64), tensor(96, 64)
shards = ttnn.create_sharded_memory_config((1, 1, 64, 64), core_grid=ttnn.CoreGrid(y=2, x=1), strategy=ttnn.ShardStrategy.HEIGHT)


def chain():
    product = ttnn.matmul(a, b, memory_config=L1)
    total = ttnn.add(product, row)
    ttnn.deallocate(product)
    return ttnn.softmax(total, dim=-1)


def sharded():
    x = ttnn.to_memory_config(a, shards)
    return ttnn.add(x, x, output_tensor=x)  # its circular buffers lie in buffers


def several():
    return ttnn.split(ttnn.concat([a, b], 3), 32, 3)


def fails():
    kept = ttnn.relu(a, memory_config=L1)
    for wrong in (lambda: ttnn.matmul(a, other), lambda: ttnn.softmax(a, dim=7), lambda: ttnn.add(a, "1")):
        try:
            wrong()
        except Exception:
            continue
        raise SystemExit("no error")
    return ttnn.add(kept, b)


def last_fails():
    ttnn.relu(a)
    try:
        ttnn.matmul(a, tensor(96, 64))
    except Exception:
        return
    raise SystemExit("no error")


def nested():
    x = ttnn.relu(a)
    ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NORMAL)
    y = ttnn.add(x, b)
    inner = ttnn.graph.end_graph_capture()
    write("nested_inner", inner)
    return ttnn.gelu(y)


def nothing():
    pass


def traced():
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    result = ttnn.add(a, b)
    ttnn.end_trace_capture(device, trace, cq_id=0)
    ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
    ttnn.release_trace(device, trace)
    return result


G = ttnn.graph


def cost(g):
    try:
        u = G.extract_resource_usage_per_core(g)
    except TypeError:  # of older versions
        u = G.extract_resource_usage_per_core(g, 64)
    names = {"cb": "cb", "dataflow_buffer": "dataflow", "l1": "l1", "scratchpad": "scratchpad", "total": "total"}
    return {"peak_%s_per_core" % ours: getattr(u, "peak_" + n) for n, ours in names.items() if hasattr(u, "peak_" + n)}


def levels(g, deepest):
    vertices = G.extract_levelized_graph(g, deepest)
    starts = [n for n in g if n["node_type"] == "function_start" and n["stacking_level"] <= deepest]
    for v, n in zip(vertices[-len(starts) :], starts):
        ends = [g[c] for c in n["connections"] if g[c]["node_type"] == "function_end" and g[c]["params"]["name"] == n["params"]["name"]]
        if not ends:  # TT-NN reads the number of the end after the end of a list
            v["internals"] = v["output_shape"] = None
    return vertices


def nanoseconds(seconds):
    return round(seconds * 1e9)


ANSWERS = {  # None is for errors
    "calltrace": G.extract_calltrace,
    "peak_l1": G.extract_peak_L1_memory_usage,
    "tensors": lambda g: list(G.count_intermediate_and_output_tensors(g)),
    "outputs": lambda g: sorted(G.extract_output_tensors(g)),
    "output_info": lambda g: [{"Shape": [int(d) for d in o.shape], "Size": o.size, "Type": o.type.value} for o in G.extract_output_info(g)],
    "per_core": cost,
    "levels": lambda g: {n: levels(g, n) for n in (1, 3)},
    "total": lambda g: nanoseconds(G.extract_total_duration_from_graph(g)),
    "durations": lambda g: {name: nanoseconds(s) for name, s in G.extract_operation_durations(g).items()},
}


def answer(f, nodes):
    try:
        return f(nodes)
    except RuntimeError:
        return None


def write(kind, nodes):
    (folder / (kind + ".json")).write_text(json.dumps(nodes))
    answers(kind, nodes)


def answers(kind, nodes, records=()):
    given = {name: answer(f, nodes) for name, f in ANSWERS.items()}
    if records:
        given["operations"] = [r["name"] for r in records]  # that no other called
    (folder / (kind + ".answers.json")).write_text(json.dumps(given))


def written(kind):
    """Puts the records of Python into a report, where reports have them that are handed on as one file."""
    path, beside = folder / (kind + ".json"), folder / (kind + ".python_io.json")
    report = json.loads(path.read_text())
    report["python_io"] = json.loads(beside.read_text())
    beside.unlink()
    path.write_text(json.dumps(report))
    answers(kind, report["graph"], report["python_io"])


def capture(kind, function, mode=G.RunMode.NORMAL, report=False):
    G.begin_graph_capture(mode)
    try:
        kept = function()
    finally:
        nodes = G.end_graph_capture_to_file(str(folder / (kind + ".json"))) if report else G.end_graph_capture()
    del kept
    written(kind) if report else write(kind, nodes)


DRY = G.RunMode.NO_DISPATCH
for function in (chain, sharded, several):
    capture(function.__name__ + "_first", function)
    capture(function.__name__, function)
    capture(function.__name__ + "_dry", function, DRY)
capture("nothing", nothing)
capture("fails", fails)
capture("fails_dry", fails, DRY)
capture("last_fails", last_fails)
capture("nested", nested)
capture("traced", traced)
capture("report", chain, report=True)
capture("report_dry", chain, DRY, report=True)
G.enable_python_stack_traces()
capture("stacks", fails, report=True)
G.disable_python_stack_traces()
G.enable_detailed_buffer_tracing()
capture("pages", sharded, report=True)
G.disable_detailed_buffer_tracing()
ttnn.CONFIG.enable_fast_runtime_mode = False
capture("slow", chain)
ttnn.CONFIG.enable_logging = True
capture("slow_logged", chain, report=True)
capture("slow_dry", chain, DRY, report=True)
capture("slow_fails", fails, report=True)
with G.full_graph_capture(str(folder / "full.json")):
    kept = sharded()
written("full")
ttnn.CONFIG.enable_logging = False
ttnn.CONFIG.enable_fast_runtime_mode = True
ttnn.close_device(device)


def shorten(v):
    if isinstance(v, dict):
        return {k: shorten(x) for k, x in v.items()}
    if isinstance(v, list):
        return [shorten(x) for x in v]
    if isinstance(v, str):
        v = re.sub('File "/.*/', 'File "/', v)
    long = isinstance(v, str) and len(v) > (24 if "(" in v else 48) and not v.startswith(("[", "{[", "  File"))
    return v[:12] + "..." if long else v


for path in folder.glob("*.json") if sys.argv[2:] == ["short"] else ():
    path.write_text(json.dumps(shorten(json.loads(path.read_text())), separators=(",", ":")))
