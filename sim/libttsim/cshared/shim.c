// The entry points of ttsim docs/libttsim_api.md. What needs no Go runtime is here: a forked child has none.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "_cgo_export.h"

#define EXPORT __attribute__((visibility("default")))

// A child gets the forking thread alone: neither the chip nor Go's runtime goes on in it.
static volatile int forked;

static void in_child(void) { forked = 1; }

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, in_child); }

static void check_fork(const char *function) {
  if (!forked)
    return;
  dprintf(2,
          "ERROR: libttsim: %s in a forked process: the chip stays with the process that opened it; open the device in the child alone "
          "(Python: multiprocessing.set_start_method('spawn'))\n",
          function);
  _exit(1);
}

static void at_exit(void) {
  if (!forked)
    reprise_at_exit();
}

EXPORT void libttsim_init(void) {
  static int registered;
  check_fork(__func__);
  if (!registered) {
    registered = 1;
    atexit(at_exit);
  }
  reprise_init();
}

EXPORT void libttsim_exit(void) {
  if (!forked) // a child that ends closes what it inherited
    reprise_exit();
}

EXPORT void libttsim_set_pci_dma_mem_callbacks(read_memory read, write_memory write) {
  check_fork(__func__);
  reprise_set_callbacks(read, write);
}

EXPORT uint32_t libttsim_pci_config_rd32(uint32_t bdf, uint32_t off) {
  check_fork(__func__);
  return reprise_config_read(bdf, off);
}

EXPORT void libttsim_pci_config_wr32(uint32_t bdf, uint32_t off, uint32_t data) {
  check_fork(__func__);
  (void)data;
  reprise_config_write(bdf, off);
}

static _Thread_local unsigned idle; // calls of libttsim_clock since the last access

EXPORT void libttsim_pci_mem_rd_bytes(uint64_t address, void *p, uint32_t n) {
  check_fork(__func__);
  idle = 0;
  reprise_read(address, p, n);
}

EXPORT void libttsim_pci_mem_wr_bytes(uint64_t address, const void *p, uint32_t n) {
  check_fork(__func__);
  idle = 0;
  reprise_write(address, (void *)p, n);
}

EXPORT void libttsim_tile_rd_bytes(uint32_t x, uint32_t y, uint64_t address, void *p, uint32_t n) {
  check_fork(__func__);
  reprise_tile_read(x, y, address, p, n);
}

EXPORT void libttsim_tile_wr_bytes(uint32_t x, uint32_t y, uint64_t address, const void *p, uint32_t n) {
  check_fork(__func__);
  reprise_tile_write(x, y, address, (void *)p, n);
}

static atomic_uint written; // counts the chip's writes to host memory
static atomic_int sleepers;  // threads that wait for the next one

// host_memory_written wakes the threads that wait in libttsim_clock.
void host_memory_written(void) {
  atomic_fetch_add(&written, 1);
  if (atomic_load(&sleepers) != 0)
    syscall(SYS_futex, &written, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

// The chip runs beside its host. A host that calls this again and again polls host memory: it sleeps until the chip has written there.
// tt-umd calls with a lock held that other threads need to reach the chip, so it sleeps seldom and not for long.
EXPORT void libttsim_clock(uint32_t clocks) {
  static _Thread_local unsigned seen;
  const struct timespec longest = {.tv_nsec = 200 * 1000};
  (void)clocks;
  check_fork(__func__);
  unsigned now = atomic_load(&written);
  if (now != seen) {
    seen = now;
    idle = 0;
  } else if (++idle % 256 == 0) {
    atomic_fetch_add(&sleepers, 1);
    syscall(SYS_futex, &written, FUTEX_WAIT_PRIVATE, seen, &longest, NULL, 0);
    atomic_fetch_sub(&sleepers, 1);
  }
}

// python_file returns the descriptor of a file that Python writes (internal/ttnn/observer/sitecustomize.py), or -1 in processes without
// that. After an exec, or Python's end, the descriptor may be another file's; the observer's handler of the signal is then gone.
int python_file(const char *variable) {
  const char *value = getenv(variable);
  struct sigaction handler;
  int process = 0, fd = -1;
  if (value == NULL || sscanf(value, "%d %d", &process, &fd) != 2 || process != getpid() || sigaction(41, NULL, &handler) != 0 ||
      handler.sa_handler == SIG_DFL)
    return -1;
  return fd;
}

// python_stacks makes Python write what its threads execute to its file.
int python_stacks(void) {
  int fd = python_file("REPRISE_STACKS");
  if (fd < 0 || ftruncate(fd, 0) != 0)
    return -1;
  lseek(fd, 0, SEEK_SET);
  raise(41);
  return fd;
}
