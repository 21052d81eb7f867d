"""The device: opening, what it says of itself, the program cache, memory, sub-devices, semaphores."""
import ttnn

from programs.corpus import DRAM, HEIGHT, L1, TILE, cores, group, read

case = group("device")


def rectangle(c):
    return [c.x, c.y]


@case("facts", short=True)
def _(t):
    d = t.device
    return {
        "arch": str(d.arch()),
        "grid": rectangle(d.compute_with_storage_grid_size()),
        "dram": rectangle(d.dram_grid_size()),
        "l1": ttnn.get_max_worker_l1_unreserved_size(),
        "alignment": [ttnn.get_dram_alignment(), ttnn.get_l1_alignment()],
        "sfpu": [float(d.sfpu_eps()), float(d.sfpu_inf())],
        "devices": ttnn.get_num_devices(),
        "cores": [rectangle(d.worker_core_from_logical_core(ttnn.CoreCoord(x, y))) for x in range(8) for y in range(8)],
        "banks": [rectangle(c) for c in d.get_optimal_dram_bank_to_logical_worker_assignment(ttnn.NOC.NOC_0)],
    }


@case("opened_three_times", alone=True)
def _(t):
    results = []
    for k in range(3):
        t.open()
        a, b = t.normal(64, 64), t.tensor(t.random.integers(0, 7, (1, 1, 64, 64)).astype("float32") + k)
        f = lambda: ttnn.matmul(a, b)
        f()
        trace, y = t.capture(f)
        t.replay(trace)
        results.append(read(y))
        ttnn.release_trace(t.device, trace)
        del a, b, y
        ttnn.close_device(t.device)
    return results


@case("manage_device", alone=True)
def _(t):
    with ttnn.manage_device(0) as device:
        x = t.host(t.array(32, 64)).to(device)
        return read(ttnn.add(x, x))


@case("l1_small", alone=True)
def _(t):
    t.open(l1_small_size=65536, trace_region_size=0)
    x = t.normal(32, 64, memory=L1)
    return [x.buffer_address(), ttnn.relu(x)]


@case("default_options", alone=True)
def _(t):
    t.device = ttnn.open_device(device_id=0)
    x, y = t.normal(32, 64), t.normal(32, 64, memory=L1)
    return [x.buffer_address(), y.buffer_address(), ttnn.add(x, y)]


@case("worker_l1_size", alone=True)
def _(t):
    t.open(worker_l1_size=1 << 20)
    x = t.normal(32, 64, memory=L1)
    return [x.buffer_address(), ttnn.relu(x)]


@case("dispatch_rows", alone=True)
def _(t):
    t.open(dispatch_core_config=ttnn.DispatchCoreConfig(ttnn.DispatchCoreType.WORKER, ttnn.DispatchCoreAxis.ROW))
    x = t.normal(32, 64)
    return [rectangle(t.device.compute_with_storage_grid_size()), ttnn.add(x, x)]


@case("dispatch_columns", alone=True)
def _(t):
    t.open(dispatch_core_config=ttnn.DispatchCoreConfig(ttnn.DispatchCoreType.WORKER, ttnn.DispatchCoreAxis.COL))
    x = t.normal(32, 64)
    return [rectangle(t.device.compute_with_storage_grid_size()), ttnn.add(x, x)]


@case("no_such_device", alone=True)
def _(t):
    return t.error(lambda: ttnn.open_device(device_id=3) and None)


cache = group("cache")


@cache("entries", short=True)
def _(t):
    a, entries = t.normal(64, 64), []
    for f in (
        lambda: ttnn.add(a, a),
        lambda: ttnn.add(a, a),
        lambda: ttnn.subtract(a, a),
        lambda: ttnn.matmul(a, a),
        lambda: ttnn.transpose(a, 2, 3),
        lambda: ttnn.matmul(a, a),
    ):
        f()
        entries.append(t.device.num_program_cache_entries())
    t.device.clear_program_cache()
    entries.append(t.device.num_program_cache_entries())
    y = ttnn.matmul(a, a)
    return [entries, t.device.num_program_cache_entries(), y]


@cache("shapes")
def _(t):
    entries = []
    for shape in ((32, 32), (32, 64), (64, 64), (32, 32)):
        x = t.normal(*shape)
        ttnn.add(x, x)
        entries.append(t.device.num_program_cache_entries())
    return entries


@cache("other_addresses")
def _(t):
    """A program of the cache runs with other buffers than it was made for."""
    results, kept = [], []
    for _ in range(6):
        x, y = t.normal(64, 64), t.normal(64, 64)
        kept.append(t.normal(32, 64))
        results.append(ttnn.add(ttnn.matmul(x, y), x))
    return results


@cache("disabled", alone=True)
def _(t):
    t.open()
    t.device.disable_and_clear_program_cache()
    x, y = t.normal(64, 64), t.normal(64, 64)
    return [[ttnn.add(x, y) for _ in range(3)], t.device.num_program_cache_entries()]


@cache("enabled_again", alone=True)
def _(t):
    t.open()
    x, n = t.normal(64, 64), []
    t.device.disable_and_clear_program_cache()
    ttnn.add(x, x)
    n.append(t.device.num_program_cache_entries())
    t.device.enable_program_cache()
    for _ in range(2):
        y = ttnn.add(x, x)
        n.append(t.device.num_program_cache_entries())
    return [n, y]


@cache("misses_refused", alone=True)
def _(t):
    t.open()
    x = t.normal(64, 64)
    ttnn.add(x, x)
    t.device.set_program_cache_misses_allowed(False)
    return [ttnn.add(x, x), t.error(lambda: ttnn.subtract(x, x))]


memory = group("memory")


def view(t, kind):
    v = ttnn.get_memory_view(t.device, kind)
    return {k: getattr(v, k) for k in dir(v) if not k.startswith("_") and isinstance(getattr(v, k), int)}


@memory("views", alone=True)
def _(t):
    t.open()
    kinds = (ttnn.BufferType.DRAM, ttnn.BufferType.L1, ttnn.BufferType.L1_SMALL, ttnn.BufferType.TRACE)
    before = [view(t, k) for k in kinds]
    x, y = t.normal(256, 256), t.normal(64, 64, memory=L1)
    ttnn.add(y, y, memory_config=L1)
    return [before, [view(t, k) for k in kinds], x.buffer_address(), y.buffer_address()]


@memory("addresses", alone=True)
def _(t):
    t.open()
    kept, addresses = [], []
    for i in range(12):
        kept.append(t.normal(32 * (1 + i % 3), 64, memory=L1 if i % 2 else DRAM))
        addresses.append(kept[-1].buffer_address())
        if i % 4 == 3:
            kept.pop(i // 2 - 1).deallocate(force=True)
    return addresses


@memory("sharded_addresses", alone=True)
def _(t):
    t.open()
    kept = [t.normal(128, 128, memory=t.shards((128, 128), 2, 2, HEIGHT)) for _ in range(3)]
    return [x.buffer_address() for x in kept] + [x.buffer_num_pages() for x in kept] + [x.buffer_page_size() for x in kept]


@memory("l1_exhausted")
def _(t):
    return t.error(lambda: [t.empty(4096, 8192, memory=L1) for _ in range(4)] and None)


@memory("dram_exhausted")
def _(t):
    return t.error(lambda: [t.empty(32768, 65536) for _ in range(12)] and None)


@memory("freed_tensor")
def _(t):
    x = t.normal(32, 64)
    x.deallocate(force=True)
    return [x.is_allocated(), t.error(lambda: ttnn.add(x, x))]


@memory("partial_copy")
def _(t):
    x = t.normal(1, 4, 32, 64, layout=ttnn.ROW_MAJOR_LAYOUT)
    return [x, t.error(lambda: ttnn.copy_device_to_host_tensor(x, t.host(t.array(1, 4, 32, 64), layout=ttnn.ROW_MAJOR_LAYOUT)))]


@memory("copy_to_host_tensor")
def _(t):
    x, host = t.normal(64, 96), t.host(t.array(64, 96))
    ttnn.copy_device_to_host_tensor(x, host)
    return [x, host]


sub = group("subdevice")


def two_sub_devices(t):
    d = t.device
    manager = d.create_sub_device_manager([ttnn.SubDevice([cores(4, 4)]), ttnn.SubDevice([cores(4, 4, 4, 0)])], 0)
    d.load_sub_device_manager(manager)
    return manager


@sub("load", alone=True)
def _(t):
    t.open()
    manager = two_sub_devices(t)
    x = t.normal(64, 64)
    t.device.set_sub_device_stall_group([ttnn.SubDeviceId(0)])
    y = read(x)
    t.device.reset_sub_device_stall_group()
    t.device.clear_loaded_sub_device_manager()
    t.device.remove_sub_device_manager(manager)
    return [y, ttnn.add(x, x)]


@sub("operation", alone=True)
def _(t):
    t.open()
    two_sub_devices(t)
    x, y = t.normal(64, 64), t.normal(64, 64)
    results = []
    for grid in (cores(4, 4), cores(4, 4, 4, 0)):
        results.append(t.error(lambda: ttnn.add(x, y, sub_core_grids=grid)))
    t.wait()
    return results


@sub("trace", alone=True)
def _(t):
    t.open()
    two_sub_devices(t)
    x, y = t.normal(64, 64), t.normal(64, 64)
    f = lambda: ttnn.add(x, y, sub_core_grids=cores(4, 4))
    f()
    trace, z = t.capture(f)
    for _ in range(3):
        t.replay(trace, blocking=False)
    t.wait()
    return z


@sub("across", alone=True)
def _(t):
    t.open()
    two_sub_devices(t)
    x = t.normal(256, 512)
    return t.error(lambda: ttnn.add(x, x))


@sub("overlap", alone=True)
def _(t):
    t.open()
    return t.error(lambda: t.device.create_sub_device_manager([ttnn.SubDevice([cores(4, 4)]), ttnn.SubDevice([cores(4, 4, 3, 0)])], 0) and None)


@sub("local_l1", alone=True)
def _(t):
    t.open()
    manager = t.device.create_sub_device_manager([ttnn.SubDevice([cores(4, 4)])], 65536)
    t.device.load_sub_device_manager(manager)
    x = t.normal(32, 64, memory=L1)
    return [x.buffer_address(), x]


@sub("semaphore", alone=True)
def _(t):
    t.open()
    first, second = (ttnn.create_global_semaphore(t.device, cores(4, 4), i) for i in (0, 5))
    ttnn.reset_global_semaphore_value(first, 3)
    return [ttnn.get_global_semaphore_address(s) for s in (first, second)]
