// What a program does with a card by the driver's interface, for TestCard: accesses of all kinds to a window on L1 of a Tensix tile, host
// memory that the chip reaches, locks of two processes and threads, and a reset. Arguments: the tile's x and y, those of the PCIe tile; without
// those the tile's BRISC executes zeros, which stops the chip.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#define REQUEST(n) (0xfa00 | (n))
#define CHECK(c)                                                                                                                           \
  if (!(c))                                                                                                                                \
  printf("line %d: %s: %s\n", __LINE__, #c, strerror(errno)), exit(1)

#define SIZE (2 << 20)

static volatile uint8_t *window(int fd, int x, int y, uint64_t address, uint32_t *id) {
  struct {
    uint64_t size, reserved;
    uint32_t id, reserved0;
    uint64_t uncached, combined, reserved1;
  } window = {SIZE, 0, 0, 0, 0, 0, 0};
  struct {
    uint32_t id, reserved;
    uint64_t address;
    uint16_t x_end, y_end, x_start, y_start;
    uint8_t noc, multicast, ordering, linked, channel, reserved0[3];
    uint32_t reserved1[2];
    uint64_t out;
  } config = {.address = address, .x_end = (uint16_t)x, .y_end = (uint16_t)y, .ordering = 1};
  CHECK(ioctl(fd, REQUEST(11), &window) == 0);
  config.id = *id = window.id;
  CHECK(ioctl(fd, REQUEST(13), &config) == 0);
  void *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)window.uncached);
  CHECK(p != MAP_FAILED);
  return p;
}

static int lock(int fd, uint32_t how) {
  struct {
    uint32_t size, flags;
    uint8_t index, reserved[3], value, reserved1[3];
  } in = {.size = 4, .flags = how, .index = 40};
  CHECK(ioctl(fd, REQUEST(8), &in) == 0);
  return in.value;
}

static void *in_thread(void *p) {
  volatile uint32_t *word = p;
  for (uint32_t i = 0; i < 200; i++) {
    *word = i;
    CHECK(*word == i);
  }
  return NULL;
}

static sigjmp_buf lost;
static void on_bus(int number) { siglongjmp(lost, number); }

// The C library's copies have a method for each size. A program can also have such code of its own.
static void copies(volatile uint8_t *l1) {
  void *(*own)(void *, const void *, size_t) = (__typeof__(own))dlsym(dlopen("libc.so.6", RTLD_NOW), "memcpy");
  CHECK(own != NULL);
  static uint8_t from[70000], to[70000];
  for (size_t i = 0; i < sizeof from; i++)
    from[i] = (uint8_t)(i * 7 + (i >> 8));
  for (size_t n = 0; n < sizeof from; n += n < 300 ? 1 + n / 40 : n) {
    for (size_t at = 0; at < 66; at += 1 + at / 3) {
      memset(to, 0, n);
      memset((void *)(l1 + at), 0xa5, n + 1);
      CHECK(l1[at + n] == 0xa5);
      (at & 1 ? own : memcpy)((void *)(l1 + at), from + at % 3, n);
      (at & 2 ? own : memcpy)(to, (void *)(l1 + at), n);
      CHECK(memcmp(to, from + at % 3, n) == 0);
      CHECK(memcmp((void *)(l1 + at), from + at % 3, n) == 0);
      CHECK(l1[at + n] == 0xa5);
    }
  }
  memmove((void *)(l1 + 100), (void *)l1, 1000);
  CHECK(memcmp((void *)(l1 + 100), from, 100) != 0);
}

static void instructions(volatile uint8_t *l1) {
  volatile uint64_t *word = (volatile uint64_t *)l1;
  volatile int32_t *small = (volatile int32_t *)(l1 + 64);
  *word = 0x8877665544332211;
  CHECK(*(volatile uint16_t *)(l1 + 1) == 0x3322 && *(volatile int8_t *)(l1 + 7) == (int8_t)0x88 && *(volatile uint32_t *)(l1 + 3) == 0x77665544);
  *(volatile uint16_t *)(l1 + 2) = 0xbeef;
  l1[7] = 1;
  CHECK(*word == 0x01776655beef2211);
  CHECK(__atomic_fetch_add(word, 0x10, __ATOMIC_SEQ_CST) == 0x01776655beef2211 && *word == 0x01776655beef2221);
  uint64_t expected = 0x01776655beef2221;
  CHECK(__atomic_compare_exchange_n(word, &expected, 5, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) && *word == 5);
  CHECK(__atomic_exchange_n(word, 6, __ATOMIC_ACQ_REL) == 5 && __atomic_load_n(word, __ATOMIC_ACQUIRE) == 6);
  __atomic_store_n(word, 7, __ATOMIC_RELEASE);
  *small = -3;
  *small += 10;
  *small |= 0x100;
  *small -= 1;
  *small <<= 1;
  CHECK(*small == 0x20c && *small > 0x20b && -*small == -0x20c && *word + (uint64_t)*small == 0x213 && *small * 3 == 0x624);
  volatile double *f = (volatile double *)(l1 + 128);
  *f = 1.5;
  *f = *f * 3 + (double)*small;
  CHECK(*f == 528.5 && (int)*(volatile float *)l1 == 0);
#ifdef __x86_64__
  __m128i v = _mm_set_epi32(4, 3, 2, 1), w;
  _mm_stream_si128((__m128i *)(l1 + 256), v);
  _mm_stream_si32((int *)(l1 + 272), 99);
  w = _mm_load_si128((__m128i *)(l1 + 256));
  CHECK(_mm_movemask_epi8(_mm_cmpeq_epi32(v, w)) == 0xffff && small[(272 - 64) / 4] == 99);
  _mm_storel_epi64((__m128i *)(l1 + 304), v);
  CHECK(word[304 / 8] == 0x200000001);
  uint8_t buffer[5000];
  void *to = (void *)(l1 + 1001), *from = buffer;
  size_t n = sizeof buffer;
  memset(buffer, 0x5a, sizeof buffer);
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
  CHECK(n == 0 && l1[1000] != 0x5a && l1[1001] == 0x5a && l1[6000] == 0x5a && l1[6001] != 0x5a);
  to = (void *)(l1 + 1000), n = 9;
  __asm__ volatile("rep stosq" : "+D"(to), "+c"(n) : "a"(0x123456789abcdef0) : "memory");
  CHECK(*(volatile uint64_t *)(l1 + 1064) == 0x123456789abcdef0 && l1[1072] == 0x5a);
  to = buffer, from = (void *)(l1 + 1064), n = 2;
  __asm__ volatile("rep movsl" : "+D"(to), "+S"(from), "+c"(n)::"memory");
  CHECK(memcmp(buffer, "\xf0\xde\xbc\x9a\x78\x56\x34\x12", 8) == 0);
#endif
}

// What a program can't do with an emulated card, and how it hears of that.
static void limits(int fd, volatile uint8_t *l1) {
  int ends[2], second = open("/dev/tenstorrent/0", O_RDWR | O_APPEND);
  CHECK(pipe(ends) == 0 && write(ends[1], (void *)l1, 16) < 0 && errno == EFAULT);
  CHECK(write(ends[1], "four", 4) == 4 && read(ends[0], (void *)l1, 4) < 0 && errno == EFAULT);
  uint32_t peer[10] = {(uint32_t)second, 0, 0, 4096};
  CHECK(ioctl(fd, REQUEST(9), peer) < 0 && errno == EOPNOTSUPP);
  errno = 0;
  struct {
    uint32_t output, flags;
    uint64_t address, size, physical, noc;
  } pin = {16, 2, 0, 4096, 0, 0};
  int file = memfd_create("file", 0);
  CHECK(file >= 0 && ftruncate(file, 4096) == 0);
  pin.address = (uint64_t)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CHECK(ioctl(fd, REQUEST(7), &pin) < 0 && errno == EOPNOTSUPP);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
#ifdef __x86_64__
    char buffer[16];
    void *to = buffer + 15, *from = (void *)(l1 + 15);
    size_t n = 16;
    __asm__ volatile("std; rep movsb; cld" : "+D"(to), "+S"(from), "+c"(n)::"memory");
#else
    uint32_t value;
    __asm__ volatile("ldxr %w0, [%1]" : "=r"(value) : "r"(l1) : "memory");
#endif
    _exit(0);
  }
  int status;
  char message[200] = "";
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  close(ends[1]);
  for (ssize_t n, got = 0; (n = read(ends[0], message + got, sizeof message - 1 - (size_t)got)) > 0;)
    got += n;
  CHECK(strstr(message, "can't access an emulated card's memory") != NULL);
  close(ends[0]), close(second), close(file);
}

int main(int argc, char **argv) {
  CHECK(argc == 5 || argc == 3);
  int fd = open("/dev/tenstorrent/0", O_RDWR | O_CLOEXEC | O_APPEND);
  CHECK(fd >= 0);
  struct stat st;
  CHECK(fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && open("/dev/tenstorrent/9", O_RDWR) < 0 && errno == ENOENT);
  uint32_t id, other;
  volatile uint8_t *l1 = window(fd, atoi(argv[1]), atoi(argv[2]), 0, &id) + 0x20000;
  if (argc == 3) {
    *(volatile uint32_t *)(l1 - 0x20000) = 0;
    *(volatile uint32_t *)(window(fd, atoi(argv[1]), atoi(argv[2]), 0xffa00000, &other) + 0x1121b0) = 0x47000;
    while (*(volatile uint32_t *)l1 != 0xffffffff)
      ;
    pause();
  }
  instructions(l1);
  copies(l1);
  puts("accesses");

  struct {
    uint32_t output, flags;
    uint64_t address, size, physical, noc;
  } pin = {16, 2, 0, 8192, 0, 0};
  uint32_t *host = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  host[1] = 0x1234, host[1500] = 0x5678;
  pin.address = (uint64_t)host;
  CHECK(ioctl(fd, REQUEST(7), &pin) == 0 && host[1] == 0x1234);
  struct {
    uint32_t size;
    uint8_t index, flags, reserved[2];
    uint64_t reserved1[2], physical, offset;
    uint32_t got, reserved2;
    uint64_t noc, reserved3;
  } dma = {.size = 4096, .index = 3, .flags = 2};
  CHECK(ioctl(fd, REQUEST(3), &dma) == 0);
  uint32_t *buffer = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)dma.offset);
  CHECK(buffer != MAP_FAILED);
  buffer[2] = 0x9abc;
  const uint64_t within = SIZE - 1;
  volatile uint8_t *pcie = window(fd, atoi(argv[3]), atoi(argv[4]), pin.noc & ~within, &other);
  volatile uint32_t *pinned = (volatile uint32_t *)(pcie + (pin.noc & within));
  CHECK(pinned[1] == 0x1234 && pinned[1500] == 0x5678);
  pinned[7] = 42;
  CHECK(pinned[7] == 42 && host[7] == 42);
  pcie = window(fd, atoi(argv[3]), atoi(argv[4]), dma.noc & ~within, &other);
  CHECK(((volatile uint32_t *)(pcie + (dma.noc & within)))[2] == 0x9abc);
  puts("host memory");

  int second = open("/dev/tenstorrent/0", O_RDWR | O_APPEND), copy = dup(second);
  CHECK(lock(fd, 0) == 1 && lock(second, 0) == 0 && lock(second, 2) == 2);
  CHECK(lock(fd, 1) == 1 && lock(second, 0) == 1);
  close(second);
  CHECK(lock(copy, 2) == 3);
  close(copy);
  CHECK(lock(fd, 2) == 0);
  pid_t child = fork();
  if (child == 0) { // has the same file
    CHECK(lock(fd, 0) == 1 && *(volatile uint64_t *)(l1 + 1000) == *(volatile uint64_t *)(l1 + 1000));
    int own = open("/dev/tenstorrent/0", O_RDWR | O_APPEND);
    CHECK(own >= 0 && lock(own, 0) == 0);
    pause();
  }
  while (lock(fd, 2) != 3)
    ;
  kill(child, SIGKILL);
  CHECK(waitpid(child, NULL, 0) == child && lock(fd, 1) == 1);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    CHECK(pthread_create(&threads[i], NULL, in_thread, (void *)(l1 + 4096 * i + 4 * i)) == 0);
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  puts("locks, processes and threads");

  limits(fd, l1);
  puts("limits");

  uint32_t freed = other;
  CHECK(ioctl(fd, REQUEST(12), &freed) < 0 && errno == EBUSY); // it is mapped
  CHECK(munmap((void *)pcie, SIZE) == 0 && ioctl(fd, REQUEST(12), &freed) == 0);
  struct {
    uint32_t output, flags, size, result;
  } reset = {8, 4, 0, 0};
  int resetter = open("/dev/tenstorrent/0", O_RDWR | O_APPEND);
  CHECK(ioctl(resetter, REQUEST(6), &reset) == 0 && reset.result == 0);
  signal(SIGBUS, on_bus);
  if (sigsetjmp(lost, 1) == 0) {
    CHECK(l1[0] == 0 && !"an access after a reset");
  }
  uint32_t info[6] = {20};
  CHECK(ioctl(fd, REQUEST(0), info) < 0 && errno == ENODEV);
  puts("reset");
  return 0;
}
