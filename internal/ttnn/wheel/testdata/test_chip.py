"""Tests for the plugin of pytest: some must fail, as their names say."""
import os

import pytest
import ttnn

HEAD = '#include "api/dataflow/dataflow_api.h"\n'
RACE = HEAD + """void kernel_main() {
    constexpr auto layout = TensorAccessorArgs<0>();
    const auto source = TensorAccessor(layout, get_arg_val<uint32_t>(0), 128);
    volatile tt_l1_ptr uint32_t* data = reinterpret_cast<volatile tt_l1_ptr uint32_t*>(get_write_ptr(0));
    noc_async_read_page(0, source, get_write_ptr(0));
    data[0] += 1;
    noc_async_read_barrier();
}
"""
HANG = HEAD + "void kernel_main() { noc_semaphore_wait(reinterpret_cast<volatile tt_l1_ptr uint32_t*>(get_semaphore(0)), 1); }\n"
STOP = HEAD + """void kernel_main() {
    constexpr auto layout = TensorAccessorArgs<0>();
    const auto source = TensorAccessor(layout, get_arg_val<uint32_t>(0), 128);
    noc_async_read(source.get_noc_addr(0), get_write_ptr(0) + 4, 64);
    noc_async_read_barrier();
}
"""


@pytest.fixture(scope="module")
def device():
    d = ttnn.open_device(device_id=0)
    yield d
    ttnn.close_device(d)


def run(device, source):
    one = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(0, 0))})
    x = ttnn.Tensor([1] * 32, [1, 1, 1, 32], ttnn.uint32, ttnn.ROW_MAJOR_LAYOUT).to(device)
    args = ttnn.RuntimeArgs()
    args[0][0] = [x.buffer_address()]
    kernel = ttnn.KernelDescriptor(kernel_source=source, source_type=ttnn.KernelDescriptor.SourceType.SOURCE_CODE, core_ranges=one,
        compile_time_args=list(ttnn.TensorAccessorArgs(x).get_compile_time_args()), runtime_args=args, config=ttnn.ReaderConfigDescriptor())
    cb = ttnn.CBDescriptor(total_size=256, core_ranges=one, format_descriptors=[ttnn.CBFormatDescriptor(buffer_index=0, data_format=ttnn.uint32, page_size=128)])
    semaphore = ttnn.SemaphoreDescriptor(id=0, core_type=ttnn.CoreType.WORKER, core_ranges=one, initial_value=0)
    ttnn.generic_op([x, x], ttnn.ProgramDescriptor(kernels=[kernel], semaphores=[semaphore], cbs=[cb]))
    ttnn.synchronize_device(device)


def test_passes(device):
    run(device, HEAD + "void kernel_main() {}\n")


@pytest.mark.parametrize("time", ["first", "again"])
def test_race(device, time):
    run(device, RACE)


def test_stops(device):
    run(device, STOP)


def test_hangs(device):
    run(device, HANG)


def test_passes_after(device):
    print("worker", os.environ.get("PYTEST_XDIST_WORKER"))
    run(device, HEAD + "void kernel_main() {}\n")
