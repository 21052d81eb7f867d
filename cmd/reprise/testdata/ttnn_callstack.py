"""Prints the callstack that tt-exalens shows of a kernel that waits, then lets tt-exalens end the wait. The kernel and the firmware are compiled with debug
information. Usage: ttnn_callstack.py, with `reprise ttnn run --serve-umd`"""
import glob
import importlib.util
import os
import re
import struct
import subprocess
import sys

installed = importlib.util.find_spec("ttnn").submodule_search_locations[0]
cache = os.environ.get("TT_METAL_CACHE", os.environ["TMPDIR"]) + "-debug"
root = os.path.join(cache, "root")
COMPILER = "runtime/sfpi/compiler/bin/riscv-tt-elf-g++"


def link(folder):
    """Makes a copy of the installation's folder. It has links, but for the folders with the compiler, and the compiler."""
    os.makedirs(os.path.join(root, folder), exist_ok=True)
    for name in os.listdir(os.path.join(installed, folder)):
        path = os.path.join(folder, name)
        copy = os.path.join(root, path)
        if COMPILER.startswith(path + "/"):
            link(path)
        elif path == COMPILER:  # a stand-in may leave out debug information
            with open(os.path.join(installed, path), "rb") as f, open(copy, "wb") as g:
                g.write(f.read().replace(b'"-g0", ', b""))
            os.chmod(copy, 0o755)
        elif not os.path.lexists(copy):
            os.symlink(os.path.join(installed, path), copy)


link("")
os.environ.update(TT_METAL_CACHE=cache, TT_METAL_RUNTIME_ROOT=root, TT_METAL_RISCV_DEBUG_INFO="1")
import ttnn  # noqa: E402

ADDRESS = 0xFF000  # in L1, where the program has nothing
device = ttnn.open_device(device_id=0)
at = ttnn.CoreCoord(0, 0)
kernel = ttnn.KernelDescriptor(
    kernel_source="""#include "api/dataflow/dataflow_api.h"
#line 1 "callstack.cpp"
// Leaf functions without a frame have no CFA in GNU as' debug information.
__attribute__((noinline)) void waits() {
    volatile uint32_t on_stack = 0;
    noc_semaphore_wait(reinterpret_cast<volatile tt_l1_ptr uint32_t*>(%d), 7);
}
void kernel_main() {
    volatile uint32_t on_stack = 0;
    waits();
    on_stack = 1;
}
""" % ADDRESS,
    source_type=ttnn.KernelDescriptor.SourceType.SOURCE_CODE, core_ranges=ttnn.CoreRangeSet({ttnn.CoreRange(at, at)}),
    config=ttnn.WriterConfigDescriptor())
x = ttnn.Tensor([1] * 32, [1, 1, 1, 32], ttnn.uint32, ttnn.ROW_MAJOR_LAYOUT).to(device)
ttnn.generic_op([x, x], ttnn.ProgramDescriptor(kernels=[kernel], semaphores=[], cbs=[]))


def exalens(*commands):
    server = os.path.join(os.environ["TMPDIR"], "tt-umd-sim-server-0")
    text = ";".join(("go -l 0,0",) + commands + ("exit",))
    return subprocess.run([os.path.join(os.path.dirname(sys.executable), "tt-exalens"), "-s", server, "--commands=" + text],
                          stdout=subprocess.PIPE, text=True).stdout


def entry(elf):
    """Returns the address and the first words of an ELF's code."""
    with open(elf, "rb") as f:
        b = f.read()
    start, headers = struct.unpack_from("<2I", b, 24)
    size, count = struct.unpack_from("<2H", b, 42)
    for i in range(count):
        kind, offset, virtual, _, length = struct.unpack_from("<5I", b, headers + i * size)
        if kind == 1 and virtual <= start < virtual + length:
            return start, struct.unpack_from("<4I", b, offset + start - virtual)


# The cache may have kernels of other chips and versions, which aren't in the core's L1.
for elf in glob.glob(os.path.join(cache, "*/kernels/Kernel_Source_Code/*/brisc/brisc.elf")):
    found = re.search(r"(0x\w+) +\(l1\)", exalens("search %s --end 0x100000" % " ".join(map(hex, entry(elf)[1]))))
    firmware = os.path.join(elf[:elf.index("/kernels/")], "firmware/brisc/brisc.elf")
    if found:
        print(exalens("bt %s,%s -o %#x,%s -r brisc" % (firmware, elf, entry(firmware)[0], found[1])))
print(exalens("wxy 0,0 %#x 7" % ADDRESS))
ttnn.synchronize_device(device)
ttnn.close_device(device)
print("ended", flush=True)
