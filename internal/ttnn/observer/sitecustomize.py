"""Lets the simulator library ask where the program is, and notes which tensors a TT-NN program has when it first replays a trace, for reprise ttnn record.

Python imports this module before the program, which stays as it is. The variable REPRISE_STACKS then has the process and a descriptor
of a file, to which signal 41 of a process writes the stacks of its threads, and REPRISE_OPERATIONS one with the operations that were
called, if it was set. Each line of the file that REPRISE_TENSORS names is the number of a
replay and the tensors on the device that the program's variables hold then, or that its newest graph capture has: names, addresses,
shapes, types and layouts. REPRISE_PERF names a file for the calls of operations and replays of traces, for reprise ttnn run --perf.
"""
import faulthandler
import importlib
import importlib.util
import json
import math
import os
import re
import sys
import time
import types

DEPTH = 5  # of lists, dictionaries and objects in each other
WIDTH = 10_000  # of a list; longer ones have data
BYTES = {"BFLOAT16": 2, "FLOAT32": 4, "UINT32": 4, "INT32": 4, "UINT16": 2, "UINT8": 1}  # of an element
TILES = {"BFLOAT8_B": 1088, "BFLOAT4_B": 576}  # bytes of a tile in other formats


class Finder:
    """Calls functions with ttnn once the program imports it."""

    def __init__(self, functions):
        self.functions = functions

    def find_spec(self, name, path=None, target=None):
        if name != "ttnn":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            for f in self.functions:
                f(module)

        spec.loader.exec_module = exec_module
        return spec


def watch(ttnn):
    execute, replays, known, captured = ttnn.execute_trace, 0, set(), graphs(ttnn)

    def execute_trace(*args, **kwargs):
        nonlocal replays
        trace = kwargs.get("trace_id", args[1] if len(args) > 1 else None)
        if str(trace) not in known:
            known.add(str(trace))
            with open(os.environ["REPRISE_TENSORS"], "a" if len(known) > 1 else "w", encoding="utf8") as f:
                print(json.dumps({"replay": replays, "tensors": tensors(ttnn, sys._getframe(1), captured)}), file=f)
        replays += 1
        return execute(*args, **kwargs)

    ttnn.execute_trace = execute_trace


def graphs(ttnn):
    """A dictionary that keeps the tensors of the newest graph capture."""
    captured = {}

    def watched(end):
        def end_graph_capture(*args, **kwargs):
            nodes = end(*args, **kwargs)
            captured.clear()
            for node in nodes:
                if node["node_type"] == "tensor":
                    described = describe_node(node["params"] or {})
                    captured.update({key(described): described} if described else {})
                elif node["node_type"] == "buffer_deallocate":
                    gone = node["params"] or {}
                    captured.pop((gone.get("type") == "DRAM", int(gone.get("address") or 0)), None)
            return nodes

        return end_graph_capture

    for module, name in (ttnn._ttnn.graph, "end_graph_capture"), (ttnn.graph, "_cpp_end_graph_capture"), (ttnn.graph, "end_graph_capture"):
        if isinstance(end := getattr(module, name, None), types.BuiltinFunctionType) or type(end).__name__ == "nb_func":
            setattr(module, name, watched(end))
    return captured


def describe_node(params):
    """A tensor of a graph capture, which names no variables; None if it isn't interleaved on the device."""
    last = lambda k: params.get(k, "").rsplit(":", 1)[-1]
    memory = re.search(r"TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::(\w+)", params.get("memory_config", ""))
    dtype, layout, shape = last("dtype"), last("layout"), [int(v) for v in re.findall(r"\d+", params.get("shape", ""))]
    page = BYTES.get(dtype, 0) * (1024 if layout == "TILE" else shape[-1] if shape else 0) or TILES.get(dtype, 0)
    size = int(params.get("size") or 0)
    if not memory or "address" not in params or not page or not size or size % page:
        return None
    return {
        "name": f"tensor{params.get('tensor_id', '')}",
        "memory": memory[1],
        "shards": None,
        "address": int(params["address"]),
        "shape": shape,
        "dtype": dtype,
        "layout": layout,
        "page_size": page,
        "pages": size // page,
    }


def key(described):
    return described["memory"] == "DRAM", described["address"]


def tensors(ttnn, frame, captured):
    """The tensors that a frame and its callers reach, each under its first name, and those of a graph capture."""
    out, seen = {}, set()

    def visit(name, value, depth):
        if isinstance(value, ttnn.Tensor):
            if ttnn.is_tensor_storage_on_device(value) and value.is_allocated():
                described = describe(value)
                out.setdefault(key(described), {"name": name, **described})
            return
        if depth == 0 or id(value) in seen or isinstance(value, (types.ModuleType, type, str, bytes, int, float)):
            return
        seen.add(id(value))
        if isinstance(value, dict):
            items = [(f"{name}.{k}", v) for k, v in list(value.items())]
        elif isinstance(value, (list, tuple)):
            items = [(f"{name}.{i}", v) for i, v in enumerate(value[:WIDTH])]
        elif isinstance(value, types.FunctionType):
            items = closure(value)
        else:
            items = [(f"{name}.{k}", v) for k, v in list(getattr(value, "__dict__", {}).items())]
        for k, v in items:
            visit(k, v, depth - 1)

    while frame:
        for variables in (frame.f_locals, frame.f_globals):
            for k, v in list(variables.items()):
                visit("" if k == "self" else k, v, DEPTH)
        frame = frame.f_back
    return [{**t, "name": t["name"].lstrip(".")} for t in (captured | out).values()]


def closure(function):
    out = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            out.append((name, cell.cell_contents))
        except ValueError:  # it has no value yet
            pass
    return out


def describe(tensor):
    last = lambda v: str(v).rsplit(".", 1)[-1].rsplit(":", 1)[-1]
    memory = tensor.memory_config()
    shards, spec = None, memory.shard_spec
    if last(memory.memory_layout) != "INTERLEAVED":
        shards = {"layout": last(memory.memory_layout)}
        if spec:
            cores = [[c.start.x, c.start.y, c.end.x, c.end.y] for c in spec.grid.ranges()]
            shards |= {"shape": list(spec.shape), "orientation": last(spec.orientation), "cores": cores}
    return {
        "memory": last(memory.buffer_type),
        "shards": shards,
        "address": tensor.buffer_address(),
        "shape": list(tensor.shape),
        "dtype": last(tensor.dtype),
        "layout": last(tensor.layout),
        "page_size": tensor.buffer_page_size(),
        "pages": tensor.buffer_num_pages(),
    }


def note_operations(ttnn, file):
    """Writes a line for each call of an operation: tt-metal's next number for a program, and what was called where."""
    number = getattr(ttnn._ttnn, "get_device_operation_id", None)
    operation = getattr(ttnn.decorators, "FastOperation", None)
    if number is None or operation is None:
        return
    call = operation.__call__

    def noted(self, *args, **kwargs):
        caller = sys._getframe(1)
        while "/site-packages/" in caller.f_code.co_filename and caller.f_back:
            caller = caller.f_back
        line = f"{number()} {self.python_fully_qualified_name} {caller.f_lineno} {caller.f_code.co_name} {caller.f_code.co_filename}\n"
        os.write(file, line.encode())
        return call(self, *args, **kwargs)

    # Graph reports of TT-NN leave frames of its own file out of an operation's call stack.
    noted.__code__ = noted.__code__.replace(co_filename=call.__code__.co_filename)
    operation.__call__ = noted


def time_operations(ttnn, path):
    """Writes a line for each call of an operation and each replay of a trace, as perfCall of internal/ttnn/perf.go."""
    graph, number = ttnn._ttnn.graph, getattr(ttnn._ttnn, "get_device_operation_id", None)
    operation = getattr(ttnn.decorators, "FastOperation", None)
    if number is None or operation is None:
        return
    call, out, inside, trace = operation.__call__, open(path, "a", buffering=1, encoding="utf8"), False, None

    def write(start, **line):
        print(json.dumps({"Start": start, "Stop": time.monotonic_ns(), **line}), file=out)

    def timed(self, *args, **kwargs):
        nonlocal inside
        if inside:
            return call(self, *args, **kwargs)
        inside, first, result, start = True, number(), None, time.monotonic_ns()
        device = device_of(ttnn, (args, kwargs))
        before = device and device.num_program_cache_entries()
        graph.begin_graph_capture(graph.RunMode.NORMAL)
        try:
            result = call(self, *args, **kwargs)
            return result
        finally:
            nodes, inside = graph.end_graph_capture(), False
            end = number()
            if end != first:
                device = device or device_of(ttnn, result)
                rows = [cells(nodes, n) for n in nodes if is_program(n)]
                after = device and device.num_program_cache_entries()
                if len(rows) == 1 and before is not None and after:
                    rows[0]["PROGRAM CACHE HIT"] = str(before == after)
                if len(rows) != end - first:  # of some programs the graph has no operation
                    rows = [{"OP CODE": self.python_fully_qualified_name}] * (end - first)
                grid = device and device.compute_with_storage_grid_size()
                write(start, First=first, End=end, Trace=trace, Rows=rows, Grid=[grid.x, grid.y] if grid else [0, 0])

    def replayed(execute):
        def execute_trace(*args, **kwargs):
            start = time.monotonic_ns()
            result = execute(*args, **kwargs)
            write(start, Replay=True, Trace=trace_number(kwargs.get("trace_id", args[1] if len(args) > 1 else None)))
            return result

        return execute_trace

    def captured(function, begins):
        def capture(*args, **kwargs):
            nonlocal trace
            result = function(*args, **kwargs)
            trace = trace_number(result) if begins else None
            return result

        return capture

    operation.__call__ = timed
    ttnn.execute_trace = replayed(ttnn.execute_trace)
    ttnn.begin_trace_capture = captured(ttnn.begin_trace_capture, True)
    ttnn.end_trace_capture = captured(ttnn.end_trace_capture, False)


def trace_number(trace):
    digits = re.search(r"\d+", str(trace))
    return int(digits[0]) if digits else None


def device_of(ttnn, value, depth=DEPTH):
    """The device of the first tensor in a call's arguments or results, or among them; None without."""
    if hasattr(value, "num_program_cache_entries"):
        return value
    if isinstance(value, ttnn.Tensor):
        return value.device() if ttnn.is_tensor_storage_on_device(value) and value.is_allocated() else None
    if isinstance(value, (list, tuple, dict)) and depth:
        for v in value.values() if isinstance(value, dict) else value:
            if device := device_of(ttnn, v, depth - 1):
                return device
    return None


def is_program(node):
    """Whether a node of a graph is the start of an operation's program: functions of C++ have namespaces."""
    return node["node_type"] == "function_start" and "::" not in node["params"]["name"]


def cells(nodes, start):
    """What a graph capture has of an operation, as tt-metal names the columns of its profiler."""
    arguments = [a for a in start["arguments"] if "Tensor(storage=" not in a]  # tensors have columns of their own
    attributes = "; ".join(f"'arg_{i}': '{a.replace(chr(39), '')}'" for i, a in enumerate(arguments))
    row = {"OP CODE": start["params"]["name"], "ATTRIBUTES": "{" + attributes + "}"}
    if fidelity := re.search(r"math_fidelity=(?:MathFidelity::)?(\w+)", attributes):
        row["MATH FIDELITY"] = fidelity[1]
    end = next(
        (
            n
            for n in nodes[start["counter"] :]
            if n["node_type"] == "function_end" and n["stacking_level"] == start["stacking_level"]
        ),
        {"connections": []},
    )
    for kind, numbers in ("INPUT", start["input_tensors"]), ("OUTPUT", end["connections"]):
        for i, node in enumerate(n for n in (nodes[k] for k in numbers) if n["node_type"] == "tensor"):
            row |= {f"{kind}_{i}_{name}": value for name, value in tensor_cells(node["params"]).items()}
    return row


def tensor_cells(params):
    last = lambda k: str(params.get(k, "")).rsplit(":", 1)[-1]
    shape = [int(v) for v in re.findall(r"\d+", params["shape"])]
    dims = [1] * (4 - len(shape)) + shape
    dims = [math.prod(dims[: len(dims) - 3])] + dims[-3:]
    padded = list(dims)
    if last("layout") == "TILE":
        padded[2:] = [-(-n // 32) * 32 for n in dims[2:]]
    memory = re.search(r"TensorMemoryLayout::(\w+),buffer_type=BufferType::(\w+)", params.get("memory_config", ""))
    row = {f"{axis}_PAD[LOGICAL]": f"{p}[{n}]" for axis, p, n in zip("WZYX", padded, dims)}
    return row | {"LAYOUT": last("layout"), "DATATYPE": last("dtype"), "MEMORY": f"{memory[2]}_{memory[1]}" if memory else "HOST"}


stacks = os.memfd_create("stacks")
faulthandler.register(41, stacks, all_threads=True)
os.environ["REPRISE_STACKS"] = f"{os.getpid()} {stacks}"
noted = []
if "REPRISE_OPERATIONS" in os.environ:
    operations = os.memfd_create("operations")
    os.environ["REPRISE_OPERATIONS"] = f"{os.getpid()} {operations}"
    noted.append(lambda ttnn: note_operations(ttnn, operations))
if "REPRISE_TENSORS" in os.environ:
    noted.append(watch)
if "REPRISE_PERF" in os.environ:
    noted.append(lambda ttnn: time_operations(ttnn, os.environ["REPRISE_PERF"]))
if noted:
    sys.meta_path.insert(0, Finder(noted))

if __name__ == "sitecustomize":  # the plugin of pytest loads it under another name
    # Another module of this name, which this one hides.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
    os.environ["PYTHONPATH"] = os.pathsep.join(p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p != here)
    own = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ImportError:
        sys.modules["sitecustomize"] = own
