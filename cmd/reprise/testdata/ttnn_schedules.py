"""Two cores whose kernels are wrong in one order that they rarely run in: ttnn_schedules.py [fixed] NAME."""
import os
import sys

name = sys.argv[-1]
source = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ttnn_faults.py")).read().split("faults = [")[0]
sys.argv = sys.argv[:1] + [a for a in sys.argv[1:] if a == "fixed"]
exec(source)

WAIT = "noc_semaphore_wait(reinterpret_cast<word*>(get_semaphore(%d)), 1);"
PLACES = "uint32_t px = get_arg_val<uint32_t>(%d), py = get_arg_val<uint32_t>(%d);"
RESULT = "while (data[0] != got); noc_async_write_page(0, target, l1); noc_async_write_barrier();"


def overtakes():
    """The second core sends data over NoC 1 and the signal over NoC 0, as ring kernels do whose payload and credit differ."""
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


globals()[name]()
got = y.cpu().to_list()[0][0][0][0]
print("got", got)
ttnn.close_device(device)
sys.exit(0 if got == 7 else 3)
