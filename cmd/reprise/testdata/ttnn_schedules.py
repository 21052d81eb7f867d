"""Two cores whose kernels are wrong in one order that they rarely run in: ttnn_schedules.py [fixed] NAME."""
import os
import sys

name = sys.argv[-1]
os.environ.setdefault("TT_METAL_OPERATION_TIMEOUT_SECONDS", "10")  # of TT-NN: kernels that hang are an exception then
if name == "stale":  # TT-NN turns the cache off otherwise
    os.environ.update(TT_METAL_ENABLE_L1_DATA_CACHE_CORES="all", TT_METAL_ENABLE_L1_DATA_CACHE_RISCVS="BR+NC")
source = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ttnn_faults.py")).read().split("faults = [")[0]
sys.argv = sys.argv[:1] + [a for a in sys.argv[1:] if a == "fixed"]
exec(source)

WAIT = "noc_semaphore_wait(reinterpret_cast<word*>(get_semaphore(%d)), 1);"
PLACES = "uint32_t px = get_arg_val<uint32_t>(%d), py = get_arg_val<uint32_t>(%d);"
RESULT = "while (data[0] != got); noc_async_write_page(0, target, l1); noc_async_write_barrier();"
GOT_7 = "uint32_t got = 7; data[0] = got;" + RESULT


def overtakes():
    """The second core doesn't flush its data before the signal (tt-metal #48478). Here they also take different NoCs."""
    run(WAIT % 0 + "uint32_t got = data[16]; data[0] = got;" + RESULT, "", two,
        PLACES % (4, 5) + """for (uint32_t i = 0; i < 16; i++) data[i] = 7;
        while (data[15] != 7);
        noc_async_write(l1, get_noc_addr(px, py, l1 + 64, 1), 64, 1);
        RIGHT noc_semaphore_inc(get_noc_addr(px, py, get_semaphore(0), 0), 1, 0);
        noc_async_write_barrier(1); noc_async_atomic_barrier(0);""".replace("RIGHT", "noc_async_write_barrier(1);" if fixed else ""), 1, places())


def credits():
    """The first core counts two credits, and forgets the second one if it comes before the first is taken."""
    take = "noc_semaphore_wait_min(sem, n + 1);" if fixed else "for (int i = 0; *sem == 0 && i < 2000; i++) {} if (*sem == 0) break; noc_semaphore_set(sem, 0);"
    run("word* sem = reinterpret_cast<word*>(get_semaphore(0)); uint32_t n = 0; while (n < 2) {" + take + """ n++; }
        uint32_t got = 5 + n; data[0] = got;""" + RESULT, "", two,
        PLACES % (4, 5) + """for (int i = 0; i < 2; i++) {
            noc_semaphore_inc(get_noc_addr(px, py, get_semaphore(0)), 1); noc_async_atomic_barrier();
            for (int k = 0; k < 4000; k++) asm volatile("nop");
        }""", 1, places())


def barriers():
    """The first core reads what the second one has, and uses it before the read's barrier (tt-metal #50981)."""
    run("data[15] = 0; while (data[15] != 0);" + WAIT % 0 + PLACES % (2, 3) + """
        noc_async_read(get_noc_addr(px, py, l1 + 64), l1, 64); RIGHT
        uint32_t got = data[15]; noc_async_read_barrier(); data[0] = got;""" + RESULT, "noc_async_read_barrier();", two,
        PLACES % (4, 5) + """for (uint32_t i = 16; i < 32; i++) data[i] = 7;
        while (data[31] != 7);
        noc_semaphore_inc(get_noc_addr(px, py, get_semaphore(0)), 1); noc_async_atomic_barrier();""", 1, places())


def increments():
    """The first core counts by a load and a store, the second one by an atomic on the same semaphore (tt-metal #51037)."""
    count = "noc_semaphore_inc(get_noc_addr(get_semaphore(0)), 1); noc_async_atomic_barrier();" if fixed else "*sem = *sem + 1;"
    run("word* sem = reinterpret_cast<word*>(get_semaphore(0));" + count + WAIT % 1 + "uint32_t got = 5 + *sem; data[0] = got;" + RESULT,
        "", two, PLACES % (4, 5) + """for (int i = 0; i < 2; i++) {
            noc_semaphore_inc(get_noc_addr(px, py, get_semaphore(i)), 1); noc_async_atomic_barrier();
        }""", 2, places())


def laps():
    """The first core begins two rounds at once, and the second one waits for the very number of each (tt-metal #50315)."""
    start = "word* start = reinterpret_cast<word*>(get_semaphore(0));"
    run(start + PLACES % (2, 3) + """for (uint32_t n = 1; n <= 2; n++) {
            noc_semaphore_set(start, n); while (*start != n);
            noc_semaphore_set_remote(get_semaphore(0), get_noc_addr(px, py, get_semaphore(0))); noc_async_write_barrier();
            for (int k = 0; k < 4000; k++) asm volatile("nop");
        }""" + WAIT % 1 + GOT_7, "", two, start + PLACES % (4, 5) + """
        for (uint32_t n = 1; n <= 2; n++) noc_semaphore_waitMIN(start, n);
        noc_semaphore_inc(get_noc_addr(px, py, get_semaphore(1)), 1); noc_async_atomic_barrier();""".replace("MIN", "_min" if fixed else ""), 2, places())


def rows():
    """The second core says on one semaphore that it has done a row, and that it is ready for the next one (tt-metal #50313)."""
    run("word* done = reinterpret_cast<word*>(get_semaphore(DONE)); word* ready = reinterpret_cast<word*>(get_semaphore(0));".replace("DONE", str(int(fixed)))
        + PLACES % (2, 3) + """for (int row = 0; row < 2; row++) {
            noc_semaphore_wait(ready, 1); noc_semaphore_set(ready, 0);
            noc_semaphore_inc(get_noc_addr(px, py, get_semaphore(2)), 1); noc_async_atomic_barrier();
            noc_semaphore_wait(done, 1); noc_semaphore_set(done, 0);
        }""" + GOT_7, "", two, PLACES % (4, 5) + """for (int row = 0; row < 2; row++) {
            noc_semaphore_inc(get_noc_addr(px, py, get_semaphore(0)), 1); noc_async_atomic_barrier();
            noc_semaphore_wait_min(reinterpret_cast<word*>(get_semaphore(2)), row + 1);
            noc_semaphore_inc(get_noc_addr(px, py, get_semaphore(DONE)), 1); noc_async_atomic_barrier();
            for (int k = 0; k < 4000; k++) asm volatile("nop");
        }""".replace("DONE", str(int(fixed))), 3, places())


def resets():
    """The first core sets a count to 0, as it is, when the second one may have counted (tt-metal #48534)."""
    reset = "" if fixed else "noc_semaphore_set(reinterpret_cast<word*>(get_semaphore(0)), 0);"
    run(reset + WAIT % 0 + GOT_7, "", two, PLACES % (4, 5) + """for (int k = 0; k < 4000; k++) asm volatile("nop");
        noc_semaphore_inc(get_noc_addr(px, py, get_semaphore(0)), 1); noc_async_atomic_barrier();""", 1, places())


def ends():
    """The second core's kernel ends with an atomic under way, which then is counted in the next program (tt-metal #51004).

    A trace has both programs, so that one access of the host runs them.
    """
    count = ttnn.create_global_semaphore(device, two, 0)
    at = ttnn.get_global_semaphore_address(count)
    inc = PLACES % (4, 5) + "noc_semaphore_inc(get_noc_addr(px, py, get_arg_val<uint32_t>(6)), 1);"
    signals = "noc_semaphore_inc(get_noc_addr(px, py, get_semaphore(0)), 1); noc_async_atomic_barrier();"

    def programs(wait):
        run("", "", two, inc + ("noc_async_atomic_barrier();" if fixed else ""), 1, [*places(), at], wait)
        run("word* count = reinterpret_cast<word*>(get_arg_val<uint32_t>(6)); noc_semaphore_set(count, 0); while (*count != 0);" + WAIT % 0 +
            "uint32_t got = 7 + *count; data[0] = got;" + RESULT, "", two, PLACES % (4, 5) + signals, 1, [*places(), at], wait)

    programs(True)
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    programs(False)
    ttnn.end_trace_capture(device, trace, cq_id=0)
    ttnn.execute_trace(device, trace, cq_id=0, blocking=True)


def stale():
    """The first core looks for the second one's answer without invalidating Blackhole's data cache, in a bare loop (tt-metal #51031)."""
    run("word* count = reinterpret_cast<word*>(get_semaphore(1));" + PLACES % (2, 3) + """
        noc_semaphore_inc(get_noc_addr(px, py, get_semaphore(0)), 1); noc_async_atomic_barrier();
        for (int k = 0; k < 4000; k++) asm volatile("nop");
        do { RIGHT } while (*count != 1);""" + GOT_7, "invalidate_l1_cache();", two,
        WAIT % 0 + PLACES % (4, 5) + "noc_semaphore_inc(get_noc_addr(px, py, get_semaphore(1)), 1); noc_async_atomic_barrier();", 2, places())


try:
    globals()[name]()
except RuntimeError as e:
    if "TIMEOUT" not in str(e):
        raise
    print("it hangs", flush=True)
    os._exit(3)
got = y.cpu().to_list()[0][0][0][0]
print("got", got)
ttnn.close_device(device)
sys.exit(0 if got == 7 else 3)
