"""library.py LIBRARY CASE: loads the simulator library as tt-umd does and prints what CASE finds. It needs no TT-NN."""
import ctypes
import os
import sys
import threading

RD = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint32)
WORMHOLE, BLACKHOLE = 0x401E1E52, 0xB1401E52


def load(path):
    """A copy in a memory file, which is sealed."""
    fd = os.memfd_create("libttsim", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(path, "rb") as f:
        data = f.read()
    os.write(fd, data)
    lib = ctypes.CDLL("/proc/self/fd/%d" % fd, mode=os.RTLD_LAZY)
    lib.libttsim_pci_config_rd32.restype = ctypes.c_uint32
    for name in ("rd", "wr"):
        getattr(lib, "libttsim_pci_mem_%s_bytes" % name).argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint32]
        getattr(lib, "libttsim_tile_%s_bytes" % name).argtypes = [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint32]
    return lib


def tile(lib):
    """What a tile gives back of what was written to it."""
    out = ctypes.create_string_buffer(5)
    lib.libttsim_tile_wr_bytes(1, 2, 0x20000, b"bytes", 5)
    lib.libttsim_tile_rd_bytes(1, 2, 0x20000, out, 5)
    return out.raw


def again(path):
    lib = load(path)
    for _ in range(3):
        lib.libttsim_init()
        assert tile(lib) == b"bytes"
        lib.libttsim_exit()


def twice(path):
    a, b = load(path), load(path)
    a.libttsim_init()
    b.libttsim_init()
    a.libttsim_tile_wr_bytes(1, 2, 0x20000, b"first", 5)
    b.libttsim_tile_wr_bytes(1, 2, 0x20000, b"other", 5)
    out = ctypes.create_string_buffer(5)
    a.libttsim_tile_rd_bytes(1, 2, 0x20000, out, 5)
    assert out.raw == b"first"
    a.libttsim_exit()
    assert tile(b) == b"bytes"
    b.libttsim_exit()


def threads(path):
    lib, found = load(path), []
    lib.libttsim_init()

    def work():
        for _ in range(200):
            lib.libttsim_clock(1)
            found.append(lib.libttsim_pci_config_rd32(0, 0) in (WORMHOLE, BLACKHOLE))

    all_threads = [threading.Thread(target=work) for _ in range(8)]
    for t in all_threads:
        t.start()
    for t in all_threads:
        t.join()
    assert len(found) == 1600 and all(found)
    lib.libttsim_exit()


def no_exit(path):
    load(path).libttsim_init()


def misuse(name):
    def case(path):
        lib = load(path)
        if name != "early":
            lib.libttsim_init()
        out = ctypes.create_string_buffer(4)
        {
            "early": lambda: lib.libttsim_pci_config_rd32(0, 0),
            "init": lib.libttsim_init,
            "callbacks": lambda: lib.libttsim_set_pci_dma_mem_callbacks(RD(), RD()),
            "write_config": lambda: lib.libttsim_pci_config_wr32(0, 4, 0),
            "function": lambda: lib.libttsim_pci_config_rd32(1, 0),
            "address": lambda: lib.libttsim_pci_mem_rd_bytes(0, out, 4),
            "tile": lambda: lib.libttsim_tile_rd_bytes(99, 0, 0, out, 4),
            "exit": lambda: (lib.libttsim_exit(), lib.libttsim_exit()),
        }[name]()
        print("it went on")

    return case


CASES = {f.__name__: f for f in (again, twice, threads, no_exit)}
CASES.update({"misuse_" + n: misuse(n) for n in ("early", "init", "callbacks", "write_config", "function", "address", "tile", "exit")})
CASES[sys.argv[2]](sys.argv[1])
print("done")
