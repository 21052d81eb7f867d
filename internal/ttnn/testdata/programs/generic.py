"""Programs with kernels of one's own, by ttnn.generic_op: data movement, circular buffers, semaphores between cores, runtime arguments."""
import numpy as np
import ttnn

from programs.corpus import ROWS, cores, group

case = group("generic")
PAGE = 2048  # bytes of a tile of bfloat16

READER = """
#include "api/dataflow/dataflow_api.h"
void kernel_main() {
    uint32_t address = get_arg_val<uint32_t>(0), first = get_arg_val<uint32_t>(1), count = get_arg_val<uint32_t>(2);
    constexpr auto layout = TensorAccessorArgs<0>();
    const auto tensor = TensorAccessor(layout, address, 2048);
    for (uint32_t i = first; i < first + count; i++) {
        cb_reserve_back(0, 1);
        noc_async_read_page(i, tensor, get_write_ptr(0));
        noc_async_read_barrier();
        cb_push_back(0, 1);
    }
}
"""
WRITER = """
#include "api/dataflow/dataflow_api.h"
void kernel_main() {
    uint32_t address = get_arg_val<uint32_t>(0), first = get_arg_val<uint32_t>(1), count = get_arg_val<uint32_t>(2);
    constexpr uint32_t buffer = get_compile_time_arg_val(0);
    constexpr auto layout = TensorAccessorArgs<1>();
    const auto tensor = TensorAccessor(layout, address, 2048);
    for (uint32_t i = first; i < first + count; i++) {
        cb_wait_front(buffer, 1);
        noc_async_write_page(i, tensor, get_read_ptr(buffer));
        noc_async_write_barrier();
        cb_pop_front(buffer, 1);
    }
}
"""
COPY = """
#include "api/compute/common.h"
#include "api/compute/tile_move_copy.h"
#include "api/compute/eltwise_unary/eltwise_unary.h"
void kernel_main() {
    uint32_t count = get_arg_val<uint32_t>(0);
    init_sfpu(tt::CBIndex::c_0, tt::CBIndex::c_16);
    for (uint32_t i = 0; i < count; i++) {
        tile_regs_acquire();
        cb_wait_front(tt::CBIndex::c_0, 1);
        copy_tile(tt::CBIndex::c_0, 0, 0);
        tile_regs_commit();
        tile_regs_wait();
        cb_reserve_back(tt::CBIndex::c_16, 1);
        pack_tile(0, tt::CBIndex::c_16);
        cb_pop_front(tt::CBIndex::c_0, 1);
        cb_push_back(tt::CBIndex::c_16, 1);
        tile_regs_release();
    }
}
"""
ADD_ONE = """
#include "api/dataflow/dataflow_api.h"
void kernel_main() {
    uint32_t in = get_arg_val<uint32_t>(0), out = get_arg_val<uint32_t>(1), words = get_arg_val<uint32_t>(2);
    constexpr auto layout = TensorAccessorArgs<0>();
    const auto source = TensorAccessor(layout, in, words * 4), target = TensorAccessor(layout, out, words * 4);
    uint32_t l1 = get_write_ptr(0);
    noc_async_read_page(0, source, l1);
    noc_async_read_barrier();
    volatile tt_l1_ptr uint32_t* data = reinterpret_cast<volatile tt_l1_ptr uint32_t*>(l1);
    uint32_t last = 0;
    for (uint32_t i = 0; i < words; i++) data[i] = last = data[i] + 1;
    while (data[words - 1] != last);  // the NoC might read L1 before the stores are there
    noc_async_write_page(0, target, l1);
    noc_async_write_barrier();
}
"""
RING = """
#include "api/dataflow/dataflow_api.h"
void kernel_main() {  // each core of a ring waits for the one before, adds its number, and hands the sum on; the first core stores it
    uint32_t out = get_arg_val<uint32_t>(0), me = get_arg_val<uint32_t>(1), x = get_arg_val<uint32_t>(2), y = get_arg_val<uint32_t>(3);
    constexpr uint32_t rounds = get_compile_time_arg_val(0);
    constexpr auto layout = TensorAccessorArgs<1>();
    uint32_t l1 = get_write_ptr(0);
    volatile tt_l1_ptr uint32_t* sum = reinterpret_cast<volatile tt_l1_ptr uint32_t*>(l1);
    volatile tt_l1_ptr uint32_t* turn = reinterpret_cast<volatile tt_l1_ptr uint32_t*>(get_semaphore(0));
    for (uint32_t round = 0; round < rounds; round++) {
        if (me != 0 || round != 0) noc_semaphore_wait_min(turn, round + (me != 0));
        else for (uint32_t i = 0; i < 32; i++) sum[i] = 0;
        sum[0] += me + 1;
        uint32_t last = sum[1 + me % 7] + round;
        sum[1 + me % 7] = last;
        while (sum[1 + me % 7] != last);  // the NoC might read L1 before the stores are there
        if (me != 0 || round + 1 < rounds || true) {
            noc_async_write(l1, get_noc_addr(x, y, l1), 128);
            noc_async_write_barrier();
            noc_semaphore_inc(get_noc_addr(x, y, get_semaphore(0)), 1);
            noc_async_atomic_barrier();
        }
    }
    if (me == 0) {
        noc_semaphore_wait_min(turn, rounds);
        const auto target = TensorAccessor(layout, out, 128);
        noc_async_write_page(0, target, l1);
        noc_async_write_barrier();
    }
}
"""


def kernel(source, where, config, compile_time=(), arguments=None, defines=()):
    """arguments: by core, a list for each x of a list for each y."""
    k = ttnn.KernelDescriptor(
        kernel_source=source,
        source_type=ttnn.KernelDescriptor.SourceType.SOURCE_CODE,
        core_ranges=where,
        compile_time_args=list(compile_time),
        defines=list(defines),
        runtime_args=runtime_arguments(arguments),
        config=config,
    )
    return k


def runtime_arguments(by_core):
    a = ttnn.RuntimeArgs()
    for (x, y), values in (by_core or {}).items():
        a[x][y] = list(values)
    return a


def buffer(number, where, dtype=ttnn.bfloat16, page=PAGE, pages=2):
    f = ttnn.CBFormatDescriptor(buffer_index=number, data_format=dtype, page_size=page)
    return ttnn.CBDescriptor(total_size=pages * page, core_ranges=where, format_descriptors=[f])


def layout_of(tensor):
    return ttnn.TensorAccessorArgs(tensor).get_compile_time_args()


def pipeline(t, compute, columns=1, rows=1, tiles=8, config=None, defines=()):
    """Reader, compute kernel, writer on each core; returns a function that runs the program."""
    x, y = t.normal(32, 32 * tiles), t.empty(32, 32 * tiles)
    where, share = cores(columns, rows), tiles // (columns * rows)
    places = [(i % columns, i // columns) for i in range(columns * rows)]
    moves = lambda tensor: {p: [tensor.buffer_address(), i * share, share] for i, p in enumerate(places)}
    kernels = [
        kernel(READER, where, ttnn.ReaderConfigDescriptor(), layout_of(x), moves(x)),
        kernel(WRITER, where, ttnn.WriterConfigDescriptor(), [16 if compute else 0] + list(layout_of(y)), moves(y)),
    ]
    buffers = [buffer(0, where)]
    if compute:
        kernels.append(kernel(compute, where, config or ttnn.ComputeConfigDescriptor(), (), {p: [share] for p in places}, defines))
        buffers.append(buffer(16, where))
    program = ttnn.ProgramDescriptor(kernels=kernels, semaphores=[], cbs=buffers)
    return lambda: ttnn.generic_op([x, y], program)


@case("move", short=True)
def _(t):
    return pipeline(t, None)


@case("move_cores")
def _(t):
    return pipeline(t, None, 4, 2, 16)


@case("copy")
def _(t):
    return pipeline(t, COPY)


@case("copy_cores")
def _(t):
    return pipeline(t, COPY, 4, 2, 32)


@case("add_one", short=True)
def _(t):
    x = t.integers(0, 2**31, 1, 256, dtype=ttnn.uint32, layout=ROWS)
    y = t.empty(1, 256, dtype=ttnn.uint32, layout=ROWS)
    where = cores(1, 1)
    k = kernel(ADD_ONE, where, ttnn.ReaderConfigDescriptor(), layout_of(x), {(0, 0): [x.buffer_address(), y.buffer_address(), 256]})
    program = ttnn.ProgramDescriptor(kernels=[k], semaphores=[], cbs=[buffer(0, where, ttnn.uint32, 1024, 1)])
    return lambda: ttnn.generic_op([x, y], program)


@case("ring")
def _(t):
    x, y = t.integers(0, 9, 1, 32, dtype=ttnn.uint32, layout=ROWS), t.tensor(np.zeros((1, 1, 1, 32), np.uint32), ttnn.uint32, ROWS)
    places = [(0, 0), (1, 0), (2, 0), (2, 1), (1, 1), (0, 1)]
    where = cores(3, 2)
    physical = [t.device.worker_core_from_logical_core(ttnn.CoreCoord(*p)) for p in places]
    arguments = {p: [y.buffer_address(), i, physical[(i + 1) % 6].x, physical[(i + 1) % 6].y] for i, p in enumerate(places)}
    k = kernel(RING, where, ttnn.WriterConfigDescriptor(), [5] + list(layout_of(y)), arguments)
    semaphore = ttnn.SemaphoreDescriptor(id=0, core_ranges=where, initial_value=0)
    program = ttnn.ProgramDescriptor(kernels=[k], semaphores=[semaphore], cbs=[buffer(0, where, ttnn.uint32, 128, 1)])
    return lambda: ttnn.generic_op([x, y], program)
