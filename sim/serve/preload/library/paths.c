// Paths of the cards, and what is said of the files there.
#define _GNU_SOURCE
#include "card.h"

#include <dirent.h>
#include <fcntl.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char *const prefixes[] = {"/dev/tenstorrent", "/sys/class/tenstorrent", "/sys/bus/pci/devices", "/sys/module/tenstorrent",
                                       "/proc/driver/tenstorrent"};

// redirect returns the path in the folder of REPRISE_CARD if the path is of the cards, else the path itself.
static const char *redirect(const char *path, char *buffer) {
  if (root == NULL || path == NULL)
    return path;
  for (size_t i = 0; i < COUNT(prefixes); i++) {
    size_t n = strlen(prefixes[i]);
    if (strncmp(path, prefixes[i], n) != 0 || (path[n] != 0 && path[n] != '/') || root_length + strlen(path) >= PATH_MAX)
      continue;
    return strcat(strcpy(buffer, root), path);
  }
  return path;
}

// without_root undoes redirect in a result.
static void without_root(char *path) {
  if (root != NULL && strncmp(path, root, root_length) == 0 && path[root_length] == '/')
    memmove(path, path + root_length, strlen(path + root_length) + 1);
}

// ordinal_of returns the number of the device node that a socket stands for, or -1.
static int ordinal_of(ino_t inode) {
  char node[PATH_MAX];
  struct stat st;
  for (int i = 0; root != NULL; i++) {
    snprintf(node, sizeof node, "%s/dev/tenstorrent/%d", root, i);
    if (raw_stat(AT_FDCWD, node, &st, 0) != 0)
      break;
    if (st.st_ino == inode)
      return i;
  }
  return -1;
}

// show_node makes what stat says of a socket that of the device node.
static void show_node(struct stat *st, ino_t inode) {
  int ordinal = S_ISSOCK(st->st_mode) ? ordinal_of(inode) : -1;
  if (ordinal >= 0) {
    st->st_mode = S_IFCHR | 0666;
    st->st_rdev = makedev(511, (unsigned)ordinal);
  }
}

static int open_at(int dir, const char *path, int flags, mode_t mode) {
  char buffer[PATH_MAX];
  const char *to = redirect(path, buffer);
  struct stat st;
  int failed = root != NULL && (to != path || dir != AT_FDCWD) ? raw_stat(dir, to, &st, 0) : -1;
  if (failed == 0 && S_ISSOCK(st.st_mode) && ordinal_of(st.st_ino) >= 0)
    return open_card(ordinal_of(st.st_ino), st.st_ino, flags);
  if (failed != 0 || to == path || S_ISDIR(st.st_mode))
    return (int)syscall(SYS_openat, dir, to, flags, mode);
  if ((flags & O_ACCMODE) != O_RDONLY)
    return errno = EACCES, -1;
  int fd = contents(path);
  if (fd >= 0 && !(flags & O_CLOEXEC))
    fcntl(fd, F_SETFD, 0);
  return fd;
}

#define MODE(flags)                                                                                                                        \
  mode_t mode = 0;                                                                                                                         \
  if (flags & (O_CREAT | O_TMPFILE)) {                                                                                                     \
    va_list list;                                                                                                                          \
    va_start(list, flags);                                                                                                                 \
    mode = va_arg(list, mode_t);                                                                                                           \
    va_end(list);                                                                                                                          \
  }

#define OPEN_AT(name)                                                                                                                      \
  EXPORT int name(int dir, const char *path, int flags, ...) {                                                                             \
    MODE(flags)                                                                                                                            \
    return open_at(dir, path, flags, mode);                                                                                                \
  }

#define OPEN(name)                                                                                                                         \
  EXPORT int name(const char *path, int flags, ...) {                                                                                      \
    MODE(flags)                                                                                                                            \
    return open_at(AT_FDCWD, path, flags, mode);                                                                                           \
  }

OPEN(open)
OPEN(open64)
OPEN(__open_2)
OPEN(__open64_2)
OPEN_AT(openat)
OPEN_AT(openat64)
OPEN_AT(__openat_2)
OPEN_AT(__openat64_2)

#define FOPEN(name)                                                                                                                        \
  EXPORT FILE *name(const char *path, const char *mode) {                                                                                  \
    char buffer[PATH_MAX];                                                                                                                 \
    if (redirect(path, buffer) == path)                                                                                                    \
      return REAL(name)(path, mode);                                                                                                       \
    int fd = open_at(AT_FDCWD, path, (mode[0] == 'r' && strchr(mode, '+') == NULL ? O_RDONLY : O_RDWR) | O_CLOEXEC, 0);                    \
    return fd < 0 ? NULL : fdopen(fd, mode);                                                                                               \
  }

FOPEN(fopen)
FOPEN(fopen64)

static int stat_at(int dir, const char *path, void *out, int flags) {
  char buffer[PATH_MAX];
  int failed = raw_stat(dir, redirect(path, buffer), out, flags);
  if (failed == 0)
    show_node(out, ((struct stat *)out)->st_ino);
  return failed;
}

static int stat_open(int fd, void *out) {
  struct card *c = root != NULL ? card_of(fd) : NULL;
  int failed = (int)syscall(SYS_fstat, fd, out);
  if (failed == 0 && c != NULL)
    show_node(out, node_of(c));
  return failed;
}

// The structs of the functions with and without 64, and with a version, are the same on 64-bit machines.
#define STAT(name, flags)                                                                                                                  \
  EXPORT int name(const char *path, struct stat *st) { return stat_at(AT_FDCWD, path, st, flags); }                                        \
  EXPORT int name##64(const char *path, struct stat64 *st) { return stat_at(AT_FDCWD, path, st, flags); }

STAT(stat, 0)
STAT(lstat, AT_SYMLINK_NOFOLLOW)

#define OLD_STAT(name, flags)                                                                                                              \
  EXPORT int name(int version, const char *path, void *st) { return version < 0 ? -1 : stat_at(AT_FDCWD, path, st, flags); }

OLD_STAT(__xstat, 0)
OLD_STAT(__xstat64, 0)
OLD_STAT(__lxstat, AT_SYMLINK_NOFOLLOW)
OLD_STAT(__lxstat64, AT_SYMLINK_NOFOLLOW)

EXPORT int fstat(int fd, struct stat *st) { return stat_open(fd, st); }
EXPORT int fstat64(int fd, struct stat64 *st) { return stat_open(fd, st); }
EXPORT int __fxstat(int version, int fd, void *st) { return version < 0 ? -1 : stat_open(fd, st); }
EXPORT int __fxstat64(int version, int fd, void *st) { return version < 0 ? -1 : stat_open(fd, st); }
EXPORT int fstatat(int dir, const char *path, struct stat *st, int flags) { return stat_at(dir, path, st, flags); }
EXPORT int fstatat64(int dir, const char *path, struct stat64 *st, int flags) { return stat_at(dir, path, st, flags); }
EXPORT int __fxstatat(int version, int dir, const char *path, void *st, int flags) {
  return version < 0 ? -1 : stat_at(dir, path, st, flags);
}
EXPORT int __fxstatat64(int version, int dir, const char *path, void *st, int flags) {
  return version < 0 ? -1 : stat_at(dir, path, st, flags);
}

EXPORT int statx(int dir, const char *restrict path, int flags, unsigned mask, struct statx *restrict st) {
  char buffer[PATH_MAX];
  int failed = (int)syscall(SYS_statx, dir, redirect(path, buffer), flags, mask, st);
  struct stat as = {.st_mode = failed == 0 ? st->stx_mode : 0};
  struct card *c = S_ISSOCK(as.st_mode) && root != NULL && flags & AT_EMPTY_PATH ? card_of(dir) : NULL;
  show_node(&as, c != NULL ? node_of(c) : st->stx_ino);
  if (S_ISCHR(as.st_mode) && !S_ISCHR(st->stx_mode))
    st->stx_mode = (uint16_t)as.st_mode, st->stx_rdev_major = major(as.st_rdev), st->stx_rdev_minor = minor(as.st_rdev);
  return failed;
}

#define READDIR(name, entry)                                                                                                               \
  EXPORT struct entry *name(DIR *d) {                                                                                                      \
    struct entry *e = REAL(name)(d);                                                                                                       \
    if (e != NULL && e->d_type == DT_SOCK && ordinal_of(e->d_ino) >= 0)                                                                    \
      e->d_type = DT_CHR;                                                                                                                  \
    return e;                                                                                                                              \
  }

READDIR(readdir, dirent)
READDIR(readdir64, dirent64)

EXPORT DIR *opendir(const char *path) {
  char buffer[PATH_MAX];
  return REAL(opendir)(redirect(path, buffer));
}

EXPORT int access(const char *path, int mode) {
  char buffer[PATH_MAX];
  return (int)syscall(SYS_faccessat, AT_FDCWD, redirect(path, buffer), mode);
}

EXPORT int faccessat(int dir, const char *path, int mode, int flags) {
  char buffer[PATH_MAX];
  const char *to = redirect(path, buffer);
  return to == path ? REAL(faccessat)(dir, path, mode, flags) : (int)syscall(SYS_faccessat, dir, to, mode);
}

EXPORT ssize_t readlink(const char *restrict path, char *restrict out, size_t n) {
  char buffer[PATH_MAX];
  return syscall(SYS_readlinkat, AT_FDCWD, redirect(path, buffer), out, n);
}

EXPORT ssize_t readlinkat(int dir, const char *restrict path, char *restrict out, size_t n) {
  char buffer[PATH_MAX];
  return syscall(SYS_readlinkat, dir, redirect(path, buffer), out, n);
}

EXPORT char *realpath(const char *restrict path, char *restrict out) {
  char buffer[PATH_MAX];
  char *found = REAL(realpath)(redirect(path, buffer), out);
  if (found != NULL)
    without_root(found);
  return found;
}

EXPORT int glob(const char *restrict pattern, int flags, int (*report)(const char *, int), glob_t *restrict g) {
  char buffer[PATH_MAX];
  const char *to = redirect(pattern, buffer);
  int failed = REAL(glob)(to, flags, report, g);
  for (size_t i = 0; failed == 0 && to != pattern && i < g->gl_pathc; i++)
    without_root(g->gl_pathv[g->gl_offs * !!(flags & GLOB_DOOFFS) + i]);
  return failed;
}

#define GETXATTR(name)                                                                                                                     \
  EXPORT ssize_t name(const char *path, const char *attribute, void *out, size_t n) {                                                      \
    char buffer[PATH_MAX];                                                                                                                 \
    return REAL(name)(redirect(path, buffer), attribute, out, n);                                                                          \
  }

GETXATTR(getxattr)
GETXATTR(lgetxattr)
