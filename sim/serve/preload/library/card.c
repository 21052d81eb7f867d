// A program with this library in LD_PRELOAD sees emulated cards as /dev/tenstorrent/0 and so on, with their files in /sys and /proc.
//
// The variable REPRISE_CARD names a folder that stands for the root of those paths. A device node in it is the socket of a server, package
// sim/serve/cards, whose protocol this is. Other files have the right names and types; their contents come from the server.
//
// The descriptor of an open card is the connection that stands for its file: the kernel closes it when the last duplicate goes, also at the
// end of a killed process, and the server then releases the file. Requests have connections of their own, so that threads don't wait for
// each other.
#define _GNU_SOURCE
#include "card.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

void *next(const char *name) {
  void *f = dlsym(RTLD_NEXT, name);
  if (f == NULL)
    dprintf(2, "reprise card: the C library has no %s\n", name), abort();
  return f;
}

// The protocol of packages serve and cards: see head.go and socket.go there.
struct head {
  uint8_t op, width, status, kind;
  uint32_t object, size, zero;
  uint64_t off, val;
};

enum { HELLO = 1, LOAD, STORE, READ, WRITE, PROCESS = 32, JOIN, NAMED_FILE, OPEN, CLOSE, IOCTL, MMAP, UNMAP };
enum { OK, ERRNO, TEXT, FAULT };

#define VERSION 1
#define SERVICE_CARD 1
#define MAX_PAYLOAD (1 << 20)
#define CONNECTIONS 16 // idle ones of a card

struct card {
  atomic_int used;
  ino_t inode;    // of the descriptor's socket
  uint64_t token; // names the file's process in a JOIN
  uint32_t file;
  ino_t node;     // of the socket's file
  char path[sizeof((struct sockaddr_un *)0)->sun_path];
  atomic_int idle[CONNECTIONS]; // 1 + descriptor, or 0
};

static struct card cards[256];
static struct mapping mappings[4096];
_Atomic(const char *) first_mapped, last_mapped;
static atomic_int mapping_end; // no mapping is beyond
const char *root;
size_t root_length;

// high moves an internal descriptor away from the low numbers, which programs expect to get for their own files.
static int high(int fd) {
  int moved = fcntl(fd, F_DUPFD_CLOEXEC, 700);
  if (moved < 0)
    return fd;
  syscall(SYS_close, fd);
  return moved;
}

static int send_all(int s, const void *p, size_t n, int give) {
  union {
    struct cmsghdr head;
    char space[CMSG_SPACE(sizeof(int))];
  } control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
  while (n > 0) {
    struct iovec part = {(void *)p, n};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    if (give >= 0) {
      memcpy(CMSG_DATA(&control.head), &give, sizeof give);
      m.msg_control = &control, m.msg_controllen = sizeof control;
    }
    ssize_t k = sendmsg(s, &m, MSG_NOSIGNAL);
    if (k < 0 && errno == EINTR)
      continue;
    if (k <= 0)
      return -1;
    p = (const char *)p + k, n -= k, give = -1;
  }
  return 0;
}

static int receive_all(int s, void *p, size_t n, int *given) {
  while (n > 0) {
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {p, n};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t k = recvmsg(s, &m, MSG_CMSG_CLOEXEC);
    if (k < 0 && errno == EINTR)
      continue;
    if (k <= 0)
      return -1;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (given != NULL && c != NULL && c->cmsg_type == SCM_RIGHTS)
      memcpy(given, CMSG_DATA(c), sizeof *given);
    p = (char *)p + k, n -= k;
  }
  return 0;
}

// call sends a request and replaces it by its reply, whose payload is cut to n bytes. Descriptors are given and taken unless NULL.
static int call(int s, struct head *h, const void *payload, int give, void *out, size_t n, int *given) {
  char rest[256];
  if (send_all(s, h, sizeof *h, give) != 0 || send_all(s, payload, h->size, -1) != 0 || receive_all(s, h, sizeof *h, given) != 0)
    return -1;
  size_t fits = h->size < n ? h->size : n;
  if (receive_all(s, out, fits, NULL) != 0)
    return -1;
  for (size_t left = h->size - fits; left > 0;) {
    size_t k = left < sizeof rest ? left : sizeof rest;
    if (receive_all(s, rest, k, NULL) != 0)
      return -1;
    left -= k;
  }
  return 0;
}

// connect_to returns a connection to the server of a device node, which has been greeted.
static int connect_to(const char *path) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  struct head hello = {.op = HELLO, .kind = SERVICE_CARD, .object = VERSION};
  memcpy(&hello.off, "RPRSERVE", 8);
  const uint64_t magic = hello.off;
  strncpy(to.sun_path, path, sizeof to.sun_path - 1);
  int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (s < 0)
    return -1;
  if (connect(s, (struct sockaddr *)&to, sizeof to) != 0 || call(s, &hello, NULL, -1, NULL, 0, NULL) != 0 || hello.op != HELLO ||
      hello.off != magic || hello.object != VERSION) {
    syscall(SYS_close, s);
    errno = ENODEV;
    return -1;
  }
  return s;
}

static int take_connection(struct card *c) {
  for (size_t i = 0; i < CONNECTIONS; i++) {
    int s = atomic_exchange(&c->idle[i], 0);
    if (s != 0)
      return s - 1;
  }
  struct head join = {.op = JOIN, .val = c->token};
  int s = connect_to(c->path);
  if (s >= 0 && call(s = high(s), &join, NULL, -1, NULL, 0, NULL) != 0) {
    syscall(SYS_close, s);
    s = -1;
  }
  return s;
}

static void put_connection(struct card *c, int s) {
  for (size_t i = 0; i < CONNECTIONS; i++) {
    int empty = 0;
    if (atomic_compare_exchange_strong(&c->idle[i], &empty, s + 1))
      return;
  }
  syscall(SYS_close, s);
}

// request is call on a connection of the card's. It returns an errno.
static int request(struct card *c, struct head *h, const void *payload, int give, void *out, size_t n, int *given) {
  int s = take_connection(c);
  if (s < 0)
    return ENODEV;
  if (call(s, h, payload, give, out, n, given) != 0) {
    syscall(SYS_close, s);
    return ENODEV;
  }
  put_connection(c, s);
  switch (h->status) {
  case OK:
    return 0;
  case ERRNO:
    return (int)h->val;
  }
  return h->status == FAULT ? EFAULT : EIO;
}

// The connections of the process that forked are its own. The file is shared, as its descriptor is.
static void in_child(void) {
  for (size_t i = 0; i < COUNT(cards); i++)
    for (size_t k = 0; k < CONNECTIONS; k++) {
      int s = atomic_exchange(&cards[i].idle[k], 0);
      if (s != 0)
        syscall(SYS_close, s - 1);
    }
}

__attribute__((constructor)) static void begin(void) {
  root = getenv("REPRISE_CARD");
  if (root == NULL)
    return;
  root_length = strlen(root);
  pthread_atfork(NULL, NULL, in_child);
}

static void *raw_mmap(void *at, size_t n, int protection, int flags, int fd, off_t off) {
  return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, off);
}

int raw_stat(int dir, const char *path, struct stat *st, int flags) {
#ifdef SYS_newfstatat
  return (int)syscall(SYS_newfstatat, dir, path, st, flags);
#else
  return (int)syscall(SYS_fstatat, dir, path, st, flags);
#endif
}

// card_of returns the card of an open descriptor, also of a duplicate, or NULL.
struct card *card_of(int fd) {
  struct stat st;
  if (fd < 0 || syscall(SYS_fstat, fd, &st) != 0 || !S_ISSOCK(st.st_mode))
    return NULL;
  for (size_t i = 0; i < COUNT(cards); i++)
    if (atomic_load(&cards[i].used) == 2 && cards[i].inode == st.st_ino)
      return &cards[i];
  return NULL;
}

ino_t node_of(const struct card *c) { return c->node; }

// new_card finds an unused place, or one whose file the server has released.
static struct card *new_card(void) {
  for (size_t i = 0; i < COUNT(cards); i++) {
    int was = 0;
    if (atomic_compare_exchange_strong(&cards[i].used, &was, 1))
      return &cards[i];
    struct pollfd p = {.fd = atomic_load(&cards[i].idle[0]) - 1, .events = POLLRDHUP};
    was = 2;
    if (p.fd >= 0 && poll(&p, 1, 0) == 1 && atomic_compare_exchange_strong(&cards[i].used, &was, 1)) {
      for (size_t k = 0; k < CONNECTIONS; k++) {
        int s = atomic_exchange(&cards[i].idle[k], 0);
        if (s != 0)
          syscall(SYS_close, s - 1);
      }
      return &cards[i];
    }
  }
  return NULL;
}

int open_card(int ordinal, ino_t node, int flags) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/dev/tenstorrent/%d", root, ordinal);
  struct head h = {.op = PROCESS};
  struct stat st;
  struct card *c = new_card();
  int fd = c == NULL || strlen(path) >= sizeof c->path ? (errno = EMFILE, -1) : connect_to(path);
  int problem = fd < 0 ? errno : 0;
  if (fd >= 0) {
    strcpy(c->path, path);
    syscall(SYS_fstat, fd, &st);
    c->inode = st.st_ino, c->node = node;
    problem = call(fd, &h, NULL, -1, NULL, 0, NULL) == 0 ? 0 : ENODEV;
    c->token = h.val;
  }
  if (problem == 0) {
    h = (struct head){.op = OPEN, .val = (uint32_t)flags};
    problem = request(c, &h, NULL, -1, NULL, 0, NULL);
    c->file = h.object;
  }
  if (c != NULL)
    atomic_store(&c->used, problem == 0 ? 2 : 0);
  if (problem == 0) {
    if (!(flags & O_CLOEXEC))
      fcntl(fd, F_SETFD, 0);
    return fd;
  }
  if (fd >= 0)
    syscall(SYS_close, fd);
  errno = problem;
  return -1;
}

// argument_size returns the length of a request's argument, which the number of the request doesn't have (package internal/kabi).
static size_t argument_size(unsigned long number, const uint32_t *argument) {
  static const struct {
    uint8_t fixed, each; // bytes, and those for each that the first word asks for
  } sizes[] = {{4, 1}, {4, 0}, {8, 24}, {64, 0}, {4, 0}, {4, 1}, {8, 1}, {24, 1}, {12, 1}, {40, 0},
               {24, 0}, {48, 0}, {4, 0}, {48, 0}, {32, 0}, {40, 0}, {32, 0}, {48, 0}, {32, 0}, {32, 0}};
  if (number >= COUNT(sizes) || argument == NULL)
    return 0;
  size_t n = sizes[number].fixed;
  if (sizes[number].each != 0)
    n += (size_t)sizes[number].each * (argument[0] < 4096 ? argument[0] : 4096);
  return n;
}

static pthread_mutex_t pinning = PTHREAD_MUTEX_INITIALIZER;
#define PINNED "reprise-pinned"

struct memory_file {
  int fd;
  ino_t inode;
};

static struct memory_file memory_files[1024]; // anonymous files with pages of this process that were pinned

// to_file moves pages into an anonymous file that the server can map. Other threads may not write to them meanwhile.
static int to_file(char *at, size_t size, int protection, struct memory_file *f) {
  struct stat st;
  int fd = high(memfd_create(PINNED, MFD_CLOEXEC));
  if (fd < 0 || ftruncate(fd, (off_t)size) != 0 || syscall(SYS_fstat, fd, &st) != 0)
    return errno;
  for (size_t done = 0; done < size;) {
    ssize_t k = pwrite(fd, at + done, size - done, (off_t)done);
    if (k <= 0)
      return errno;
    done += (size_t)k;
  }
  if (raw_mmap(at, size, protection, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
    return errno;
  f->fd = fd, f->inode = st.st_ino;
  return 0;
}

// pinned_file finds the file of pages that are to be pinned, or makes one. It returns an errno. Without pages there the file is -1, and
// the server reports the error.
static int pinned_file(char *at, size_t size, int write, int *fd, uint64_t *off) {
  char line[512], mode[5];
  unsigned long start, end, offset, inode;
  char *checked = at, *limit = at + size;
  int protection = PROT_READ | PROT_WRITE, found = 0, foreign = 0;
  uint8_t seen[COUNT(memory_files)] = {0};
  *fd = -1;
  FILE *maps = REAL(fopen)("/proc/self/maps", "re");
  if (maps == NULL)
    return errno;
  while (fgets(line, sizeof line, maps) != NULL) {
    if (sscanf(line, "%lx-%lx %4s %lx %*s %lu", &start, &end, mode, &offset, &inode) != 5)
      continue;
    size_t own = COUNT(memory_files);
    if (strstr(line, "/memfd:" PINNED) != NULL)
      for (own = 0; own < COUNT(memory_files) && (memory_files[own].fd == 0 || memory_files[own].inode != inode); own++)
        ;
    if (own < COUNT(memory_files))
      seen[own] = 1;
    if ((char *)end <= checked || (char *)start > checked || checked >= limit)
      continue;
    if (mode[0] != 'r' || (write && mode[1] != 'w'))
      continue;
    if (mode[1] != 'w')
      protection = PROT_READ;
    if (own < COUNT(memory_files) && (char *)start <= at && limit <= (char *)end) {
      *fd = memory_files[own].fd, *off = offset + (uint64_t)(at - (char *)start);
      found = 1;
    }
    foreign |= mode[3] == 's' && strstr(line, "/dev/zero (deleted)") == NULL;
    checked = (char *)end;
  }
  fclose(maps);
  size_t unused = COUNT(memory_files);
  for (size_t i = 0; i < COUNT(memory_files); i++) {
    if (memory_files[i].fd != 0 && !seen[i]) { // its pages were unmapped
      syscall(SYS_close, memory_files[i].fd);
      memory_files[i].fd = 0;
    }
    if (memory_files[i].fd == 0)
      unused = i;
  }
  if (found || checked == at)
    return 0;
  if (checked < limit)
    return EINVAL; // as the driver, if it pins fewer pages than asked
  if (foreign || unused == COUNT(memory_files))
    return EOPNOTSUPP; // others share the pages
  int problem = to_file(at, size, protection, &memory_files[unused]);
  *fd = memory_files[unused].fd, *off = 0;
  return problem;
}

static int pin(struct card *c, struct head *h, char *argument) {
  struct {
    uint32_t output, flags;
    uint64_t address, size;
  } in;
  int fd = -1, problem = 0;
  memcpy(&in, argument, sizeof in);
  const uint64_t pages = (uint64_t)getpagesize() - 1;
  pthread_mutex_lock(&pinning);
  if (in.size != 0 && ((in.address | in.size) & pages) == 0 && in.address + in.size >= in.address)
    problem = pinned_file((char *)in.address, in.size, !(in.flags & 8), &fd, &h->off);
  if (problem == 0)
    problem = request(c, h, argument, fd, argument, h->size, NULL);
  pthread_mutex_unlock(&pinning);
  return problem;
}

EXPORT int ioctl(int fd, unsigned long number, ...) {
  va_list list;
  va_start(list, number);
  char *argument = va_arg(list, char *);
  va_end(list);
  struct card *c = root != NULL && (number & 0xffffff00) == 0xfa00 ? card_of(fd) : NULL;
  if (c == NULL)
    return (int)syscall(SYS_ioctl, fd, number, argument);
  struct head h = {.op = IOCTL, .object = c->file, .val = (uint32_t)number};
  h.size = (uint32_t)argument_size(number & 0xff, (uint32_t *)argument);
  int problem = (number & 0xff) == 7 && h.size != 0 ? pin(c, &h, argument) : request(c, &h, argument, -1, argument, h.size, NULL);
  errno = problem != 0 ? problem : errno;
  return problem == 0 ? 0 : -1;
}

struct mapping *find_mapping(const char *at) {
  for (int i = 0; i < atomic_load(&mapping_end); i++) {
    char *start = atomic_load(&mappings[i].start);
    if (start != NULL && at >= start && at < start + mappings[i].size && !mappings[i].memory)
      return &mappings[i];
  }
  return NULL;
}

// widen includes a mapping in what mapped says.
static void widen(const char *start, const char *end) {
  const char *is = atomic_load(&first_mapped);
  while ((is == NULL || start < is) && !atomic_compare_exchange_weak(&first_mapped, &is, start))
    ;
  is = atomic_load(&last_mapped);
  while (end > is && !atomic_compare_exchange_weak(&last_mapped, &is, end))
    ;
}

static int access_device(struct mapping *m, struct head *h, const void *from, void *to, size_t n) {
  h->object = m->id;
  return request(m->card, h, from, -1, to, n, NULL) == 0 ? 0 : -1;
}

// One load or store of the program is one of the device.
static int single(size_t n) { return n <= 8 && (n & (n - 1)) == 0; }

int device_read(struct mapping *m, uint64_t off, void *to, size_t n) {
  struct head h = {.op = single(n) ? LOAD : READ, .width = single(n) ? (uint8_t)n : 0, .off = off, .val = single(n) ? 0 : n};
  int lost = access_device(m, &h, NULL, to, n);
  if (single(n))
    memcpy(to, &h.val, n);
  return lost;
}

int device_write(struct mapping *m, uint64_t off, const void *from, size_t n) {
  struct head h = {.op = single(n) ? STORE : WRITE, .width = single(n) ? (uint8_t)n : 0, .off = off};
  if (single(n))
    memcpy(&h.val, from, n);
  else
    h.size = (uint32_t)n;
  return access_device(m, &h, from, NULL, 0);
}

void zap(struct mapping *m) {
  int empty = memfd_create("reprise-zapped", MFD_CLOEXEC);
  raw_mmap(atomic_load(&m->start), m->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, empty, 0);
  syscall(SYS_close, empty);
}

static struct mapping *new_mapping(void) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static char taken; // an address that no mapping has
  struct mapping *m = NULL;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < COUNT(mappings) && m == NULL; i++)
    if (atomic_load(&mappings[i].start) == NULL) {
      m = &mappings[i];
      m->size = 0;
      atomic_store(&m->start, &taken);
      if ((int)i >= atomic_load(&mapping_end))
        atomic_store(&mapping_end, (int)i + 1);
    }
  pthread_mutex_unlock(&lock);
  return m;
}

static void *map_card(struct card *c, int fd, void *at, size_t n, int protection, int flags, off_t off) {
  struct head h = {.op = MMAP, .object = c->file, .off = (uint64_t)off, .val = n};
  struct mapping *m = new_mapping();
  int memory = -1;
  errno = m == NULL ? ENOMEM : request(c, &h, NULL, -1, NULL, 0, &memory);
  if (errno != 0) {
    if (m != NULL)
      atomic_store(&m->start, NULL);
    return MAP_FAILED;
  }
  catch_faults();
  flags &= MAP_FIXED | MAP_FIXED_NOREPLACE;
  char *p = memory >= 0 ? raw_mmap(at, n, protection, flags | MAP_SHARED, memory, (off_t)h.val)
                        : raw_mmap(at, n, PROT_NONE, flags | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory >= 0)
    syscall(SYS_close, memory);
  m->size = n, m->card = c, m->id = h.object, m->memory = memory >= 0;
  if (p == MAP_FAILED) {
    h = (struct head){.op = UNMAP, .object = m->id};
    request(c, &h, NULL, -1, NULL, 0, NULL);
  } else {
    m->reference = fcntl(fd, F_DUPFD_CLOEXEC, 700);
  }
  if (memory < 0 && p != MAP_FAILED)
    widen(p, p + n);
  atomic_store(&m->start, p == MAP_FAILED ? NULL : p);
  return p;
}

EXPORT void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t off) {
  struct card *c = root != NULL && !(flags & MAP_ANONYMOUS) ? card_of(fd) : NULL;
  if (c == NULL)
    return raw_mmap(at, n, protection, flags, fd, off);
  return map_card(c, fd, at, n, protection, flags, off);
}

EXPORT void *mmap64(void *at, size_t n, int protection, int flags, int fd, off_t off) { return mmap(at, n, protection, flags, fd, off); }

EXPORT int munmap(void *at, size_t n) {
  for (int i = 0; i < atomic_load(&mapping_end); i++) {
    struct mapping *m = &mappings[i];
    char *start = atomic_load(&m->start);
    if (start == NULL || start < (char *)at || start + m->size > (char *)at + n || m->size == 0)
      continue;
    struct head h = {.op = UNMAP, .object = m->id};
    atomic_store(&m->start, NULL); // before another thread gets the address
    request(m->card, &h, NULL, -1, NULL, 0, NULL);
    if (m->reference >= 0)
      syscall(SYS_close, m->reference);
  }
  return (int)syscall(SYS_munmap, at, n);
}

// contents returns a file with what the server says of a path.
int contents(const char *path) {
  char at[PATH_MAX];
  struct head h = {.op = NAMED_FILE, .size = (uint32_t)strlen(path + 1)};
  char *data = malloc(MAX_PAYLOAD);
  snprintf(at, sizeof at, "%s/server", root);
  int fd = -1, s = data == NULL ? -1 : connect_to(at);
  int problem = s < 0 || call(s, &h, path + 1, -1, data, MAX_PAYLOAD, NULL) != 0 ? EIO : 0;
  if (problem == 0 && h.status != OK)
    problem = h.status == ERRNO ? (int)h.val : ENOENT;
  if (problem == 0 && (fd = memfd_create("reprise-sysfs", MFD_CLOEXEC)) >= 0 && write(fd, data, h.size) == (ssize_t)h.size)
    lseek(fd, 0, SEEK_SET);
  if (s >= 0)
    syscall(SYS_close, s);
  free(data);
  errno = problem != 0 ? problem : errno;
  return fd;
}
