"""The frame of the corpus: programs by name, their inputs, and the digest of what they return.

A module of the corpus makes a decorator with `case = group("binary")` and registers functions by it:

    @case("add_bf16")
    def _(t):
        a, b = t.normal(64, 96), t.normal(64, 96)
        return lambda: ttnn.add(a, b)

A function is given a Bench, which holds the open device and makes inputs. It returns tensors, arrays, numbers, texts, or lists and
dictionaries of them. If it returns a function, that is called once at once, and once captured in a trace that is then replayed; the results
of both are the case's."""
import hashlib
import re
import time
import zlib
from typing import Callable, NamedTuple

import ml_dtypes
import numpy as np
import ttnn

OPTIONS = {"trace_region_size": 1 << 22, "l1_small_size": 24576}
TILE, ROWS = ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT
DRAM, L1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG
HEIGHT, WIDTH, BLOCK = ttnn.ShardStrategy.HEIGHT, ttnn.ShardStrategy.WIDTH, ttnn.ShardStrategy.BLOCK


class Case(NamedTuple):
    function: Callable
    options: tuple  # of open_device, sorted pairs
    alone: bool  # needs a process of its own, because it leaves the device unusable or opens it itself
    replay: bool  # a function that it returns is also captured and replayed
    short: bool  # one of the quick representatives
    needs: str  # a Python module without which the case is skipped


CASES = {}


def group(prefix, **defaults):
    def case(name, alone=False, replay=True, short=False, needs=None, **options):
        def register(function):
            full = prefix + "/" + name
            if full in CASES:
                raise ValueError("two cases named " + full)
            merged = {**OPTIONS, **defaults, **options}
            CASES[full] = Case(function, tuple(sorted(merged.items())), alone, replay, short, needs)
            return function

        return register

    return case


ALIVE = []  # keeps devices that hang when they are closed, as a capture under way makes them


class Bench:
    """What a case works with: the device (None if the case is alone) and inputs that depend on the case's name only."""

    def __init__(self, name, device, options):
        self.device, self.options = device, dict(options)
        self.random = np.random.default_rng(zlib.crc32(name.encode()))

    def open(self, **changes):
        """Opens the device, for a case that is alone."""
        self.device = ttnn.open_device(device_id=0, **{**self.options, **changes})
        return self.device

    def host(self, array, dtype=ttnn.bfloat16, layout=TILE):
        return ttnn.Tensor(np.array(array, order="C"), dtype, None, layout)  # a copy: TT-NN wants it writable

    def tensor(self, array, dtype=ttnn.bfloat16, layout=TILE, memory=None):
        return self.host(array, dtype, layout).to(self.device, memory or DRAM)

    def array(self, *shape):
        """Normally distributed float32."""
        return self.random.standard_normal(four(shape)).astype(np.float32)

    def normal(self, *shape, dtype=ttnn.bfloat16, layout=TILE, memory=None, scale=1.0):
        return self.tensor(self.array(*shape) * np.float32(scale), dtype, layout, memory)

    def integers(self, low, high, *shape, dtype=ttnn.int32, layout=TILE, memory=None):
        array = self.random.integers(low, high, four(shape), dtype=np.int64)
        return self.tensor(array.astype(NUMPY[dtype]), dtype, layout, memory)

    def every_bfloat16(self, layout=TILE):
        """All 65536 bit patterns; TT-NN makes one NaN of all NaNs."""
        bits = np.arange(1 << 16, dtype=np.uint32) << 16
        return self.tensor(bits.view(np.float32).reshape(1, 1, 256, 256), layout=layout)

    def exponents(self, low, high, *shape):
        """bfloat16 values as float32, of random sign, mantissa, and biased exponent from low to high-1: 0 for denormals, 255 for NaN and
        infinity. One in 50 is zero."""
        shape = four(shape)
        bits = self.random.integers(0, 2, shape) << 31 | self.random.integers(low, high, shape) << 23 | self.random.integers(0, 128, shape) << 16
        bits[self.random.random(shape) < 0.02] = 0
        return bits.astype(np.uint32).view(np.float32)

    def shards(self, shape, rows, columns, strategy, orientation=ttnn.ShardOrientation.ROW_MAJOR):
        """L1 memory sharded over rows by columns of cores."""
        grid = ttnn.CoreGrid(y=rows, x=columns)
        return ttnn.create_sharded_memory_config(four(shape), core_grid=grid, strategy=strategy, orientation=orientation)

    def dram_shards(self, shape, banks, layout=ttnn.TensorMemoryLayout.HEIGHT_SHARDED):
        """DRAM sharded over the first banks; shape is a shard's."""
        return ttnn.MemoryConfig(layout, ttnn.BufferType.DRAM, ttnn.ShardSpec(cores(banks, 1), list(shape), ttnn.ShardOrientation.ROW_MAJOR))

    def empty(self, *shape, dtype=ttnn.bfloat16, layout=TILE, memory=DRAM):
        return ttnn.allocate_tensor_on_device(ttnn.Shape(four(shape)), dtype, layout, self.device, memory)

    def kernel(self, fidelity=ttnn.MathFidelity.HiFi4, approximate=False, fp32=False, l1=False, full=False):
        """The settings of compute kernels: fp32 accumulates in 32 bits, l1 accumulates in L1, full uses all of the destination registers."""
        return ttnn.init_device_compute_kernel_config(
            self.device.arch(), math_fidelity=fidelity, math_approx_mode=approximate, fp32_dest_acc_en=fp32, packer_l1_acc=l1, dst_full_sync_en=full
        )

    def capture(self, function, queue=0):
        """Captures function in a trace; returns the trace and the function's result."""
        trace = ttnn.begin_trace_capture(self.device, cq_id=queue)
        result = function()
        ttnn.end_trace_capture(self.device, trace, cq_id=queue)
        return trace, result

    def replay(self, trace, queue=0, blocking=True):
        ttnn.execute_trace(self.device, trace, cq_id=queue, blocking=blocking)

    def wait(self):
        ttnn.synchronize_device(self.device)

    def error(self, function):
        """The error's text without the call stack, or what function returned if it raised none."""
        try:
            return {"no error": read(function())}
        except Exception as e:
            return error_text(e)


def cores(columns, rows, x=0, y=0):
    """The rectangle of cores with its first at x, y."""
    return ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(x, y), ttnn.CoreCoord(x + columns - 1, y + rows - 1))})


def four(shape):
    """A shape of one or two dimensions gets leading ones: most of TT-NN's operations want four."""
    return [1] * (4 - len(shape)) + list(shape) if len(shape) < 3 else list(shape)


NUMPY = {
    ttnn.bfloat16: np.float32,
    ttnn.bfloat8_b: np.float32,
    ttnn.bfloat4_b: np.float32,
    ttnn.float32: np.float32,
    ttnn.int32: np.int32,
    ttnn.uint32: np.uint32,
    ttnn.uint16: np.uint16,
    ttnn.uint8: np.uint8,
}


def error_text(e):
    """The error without the call stack, which has addresses."""
    return type(e).__name__ + ": " + re.split(r"backtrace:|\n *1\. ", str(e))[0].strip()


def read(value):
    """Brings tensors to the host as arrays, in any nesting."""
    if isinstance(value, ttnn.Tensor):
        if value.storage_type() != ttnn.StorageType.HOST:
            value = ttnn.from_device(value)
        if value.dtype == ttnn.bfloat16:  # to_numpy has no dtype for these
            return np.array(value.to_list(), np.float32).astype(ml_dtypes.bfloat16)
        return np.array(value.to_numpy())
    if isinstance(value, dict):
        return {k: read(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [read(v) for v in value]
    return value


def update(h, value):
    if isinstance(value, np.ndarray):
        h.update(("array %s %s" % (value.dtype.name, list(value.shape))).encode())
        h.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, dict):
        h.update(b"{")
        for k in value:
            h.update(k.encode() + b":")
            update(h, value[k])
        h.update(b"}")
    elif isinstance(value, list):
        h.update(b"[")
        for v in value:
            update(h, v)
        h.update(b"]")
    elif value is None or isinstance(value, (bool, int, float, str)):
        h.update(repr(value).encode() + b",")
    else:
        raise TypeError("no digest of a " + type(value).__name__)


def digest(value):
    """The SHA-256 of dtypes, shapes and bytes of what read returned."""
    h = hashlib.sha256()
    update(h, value)
    return h.hexdigest()


def run(name, device):
    """Runs a case on an open device and returns its result, without tensors on the device."""
    case = CASES[name]
    t = Bench(name, device, case.options)
    if case.alone:
        ALIVE.append(t)
    result = case.function(t)
    if not callable(result):
        return read(result)
    first = read(result())
    if not case.replay:
        return first
    trace, outputs = t.capture(result)
    t.replay(trace)
    replayed = read(outputs)
    ttnn.release_trace(t.device, trace)
    return {"eager": first, "replay": replayed}


def seconds(name, device, rounds):
    """The least time that an operation takes from its call until the device has done it; None for a case that is no single operation."""
    case = CASES[name]
    result = None if case.alone else case.function(Bench(name, device, case.options))
    if not callable(result):
        return None

    def once():
        begun = time.perf_counter()
        result()
        ttnn.synchronize_device(device)
        return time.perf_counter() - begun

    once()  # compiles the kernels
    return min(once() for _ in range(rounds))
