"""Kernels with one fault each, and the same put right: ttnn_faults.py [fixed] NAME...; all if there is no name.

A function for each fault runs its program, so that the calls of a finding name it.
"""
import sys
import ttnn

fixed = "fixed" in sys.argv[1:]
HEAD = '#include "api/dataflow/dataflow_api.h"\nusing word = volatile tt_l1_ptr uint32_t;\n'
BEGIN = """
    uint32_t in = get_arg_val<uint32_t>(0), out = get_arg_val<uint32_t>(1), l1 = get_write_ptr(0);
    constexpr auto layout = TensorAccessorArgs<0>();
    const auto source = TensorAccessor(layout, in, 128), target = TensorAccessor(layout, out, 128);
    word* data = reinterpret_cast<word*>(l1);
"""

device = ttnn.open_device(device_id=0, trace_region_size=1 << 20)
x, y = (ttnn.Tensor([i] * 32, [1, 1, 1, 32], ttnn.uint32, ttnn.ROW_MAJOR_LAYOUT).to(device) for i in (1, 2))
one = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(0, 0))})
two = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(1, 0))})


def run(body, right="", cores=one, other="", semaphores=0, arguments=(), wait=True):
    """Runs a kernel whose statement RIGHT is there only if it is put right, and another one on the second core."""
    kernels = []
    for i, (text, config) in enumerate([(body, ttnn.ReaderConfigDescriptor()), (other, ttnn.WriterConfigDescriptor())]):
        if not text:
            continue
        args = ttnn.RuntimeArgs()
        args[i][0] = [x.buffer_address(), y.buffer_address(), *arguments]
        core = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(i, 0), ttnn.CoreCoord(i, 0))})
        source = HEAD + "void kernel_main() {" + BEGIN + text.replace("RIGHT", right if fixed else "") + "}\n"
        kernels.append(ttnn.KernelDescriptor(kernel_source=source, source_type=ttnn.KernelDescriptor.SourceType.SOURCE_CODE, core_ranges=core,
            compile_time_args=list(ttnn.TensorAccessorArgs(x).get_compile_time_args()), runtime_args=args, config=config))
    cb = ttnn.CBDescriptor(total_size=256, core_ranges=cores, format_descriptors=[ttnn.CBFormatDescriptor(buffer_index=0, data_format=ttnn.uint32, page_size=128)])
    sems = [ttnn.SemaphoreDescriptor(id=i, core_type=ttnn.CoreType.WORKER, core_ranges=cores, initial_value=0) for i in range(semaphores)]
    ttnn.generic_op([x, y], ttnn.ProgramDescriptor(kernels=kernels, semaphores=sems, cbs=[cb]))
    if wait:
        ttnn.synchronize_device(device)


def read_barrier():
    run("""noc_async_read_page(0, source, l1); RIGHT
        data[0] += 1; noc_async_read_barrier();""", "noc_async_read_barrier();")


def source_reused():
    run("""data[0] = 1; while (data[0] != 1);
        noc_async_write_page(0, target, l1); RIGHT
        data[0] = 2; noc_async_write_barrier();""", "noc_async_write_barrier();")


def write_at_end():
    run("data[0] = 1; while (data[0] != 1); noc_async_write_page(0, target, l1); RIGHT", "noc_async_write_barrier();")


def read_at_end():
    run("noc_async_read_page(0, source, l1); RIGHT", "noc_async_read_barrier();")


def atomic_at_end():
    run("noc_semaphore_inc(get_noc_addr(get_semaphore(0)), 1); RIGHT", "noc_async_atomic_barrier();", semaphores=1)


def store_sent():
    run("data[0] = 1; RIGHT noc_async_write_page(0, target, l1); noc_async_write_barrier();", "while (data[0] != 1);")


def page_taken():
    run("cb_reserve_back(0, 1); RIGHT cb_push_back(0, 1); cb_wait_front(0, 1); cb_pop_front(0, 2);", "cb_reserve_back(0, 2); cb_push_back(0, 1);")


def never_written():
    run("word* far = reinterpret_cast<word*>(0x100000); RIGHT if (far[0] == 7) data[0] = 1;", "far[0] = 1;")


def signal_lost():
    """The second core counts; the first one resets the count without having looked."""
    run("""word* count = reinterpret_cast<word*>(get_semaphore(0));
        RIGHT noc_semaphore_set(count, 0);
        noc_semaphore_inc(get_noc_addr(get_arg_val<uint32_t>(2), get_arg_val<uint32_t>(3), get_semaphore(1)), 1); noc_async_atomic_barrier();""",
        "noc_semaphore_wait(count, 1);", two,
        "noc_semaphore_inc(get_noc_addr(get_arg_val<uint32_t>(4), get_arg_val<uint32_t>(5), get_semaphore(0)), 1); noc_async_atomic_barrier();"
        "noc_semaphore_wait(reinterpret_cast<word*>(get_semaphore(1)), 1);", 2, places())


def signal_overtakes():
    """The second core's data take NoC 1, its signal NoC 0. It waits for an answer before it looks at its data's acknowledgement."""
    run("""noc_semaphore_wait(reinterpret_cast<word*>(get_semaphore(0)), 1);
        if (data[0] == 7) data[8] = 1;
        noc_semaphore_inc(get_noc_addr(get_arg_val<uint32_t>(2), get_arg_val<uint32_t>(3), get_semaphore(1)), 1); noc_async_atomic_barrier();""",
        "", two, """for (uint32_t i = 0; i < 16; i++) data[i] = 7;
        while (data[15] != 7);
        uint32_t px = get_arg_val<uint32_t>(4), py = get_arg_val<uint32_t>(5);
        noc_async_write(l1, get_noc_addr(px, py, l1, 1), 64, 1); RIGHT
        noc_semaphore_inc(get_noc_addr(px, py, get_semaphore(0), 0), 1, 0);
        noc_semaphore_wait(reinterpret_cast<word*>(get_semaphore(1)), 1);
        noc_async_write_barrier(1); noc_async_atomic_barrier(0);""".replace("RIGHT", "noc_async_write_barrier(1);" if fixed else ""), 2, places())


def deep_stack():
    run('uint32_t big[%d]; asm volatile("" : : "r"(big)); data[0] = 1;' % (16 if fixed else 3000))


def places():
    """The two cores as kernels name them, the second one first."""
    cores = [device.worker_core_from_logical_core(ttnn.CoreCoord(i, 0)) for i in (1, 0)]
    return [v for c in cores for v in (c.x, c.y)]


def misaligned():
    run("noc_async_read(source.get_noc_addr(0), l1 + RIGHT 4, 64); noc_async_read_barrier();", "60 +")


def in_trace():
    """The fault depends on data that come after the capture."""
    body = """noc_async_read_page(0, source, l1); noc_async_read_barrier();
        if (data[0] == 9) { noc_async_read_page(0, source, l1); RIGHT data[1] += 1; noc_async_read_barrier(); }"""
    run(body, "noc_async_read_barrier();")
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    run(body, "noc_async_read_barrier();", wait=False)
    ttnn.end_trace_capture(device, trace, cq_id=0)
    ttnn.add(y, y)
    ttnn.copy_host_to_device_tensor(ttnn.Tensor([9] * 32, [1, 1, 1, 32], ttnn.uint32, ttnn.ROW_MAJOR_LAYOUT), x)
    ttnn.execute_trace(device, trace, cq_id=0, blocking=True)


faults = [
    read_barrier, source_reused, write_at_end, read_at_end, atomic_at_end, store_sent, page_taken, never_written, signal_lost, signal_overtakes, deep_stack,
    in_trace, misaligned]
for fault in faults:
    if not set(sys.argv[1:]) - {"fixed"} or fault.__name__ in sys.argv:
        fault()
        print("ran", fault.__name__, flush=True)
ttnn.close_device(device)
