// The C library's copies from and to cards, as few large accesses instead of one signal for each of many small ones. Copies of other memory
// are the C library's.
#define _GNU_SOURCE
#include "card.h"

#include <stdlib.h>
#include <string.h>

typedef void *copy(void *, const void *, size_t);

static copy *real_copy; // NULL while the program starts

__attribute__((constructor)) static void find_copy(void) { real_copy = (copy *)next("memmove"); }

static void *plain(char *to, const char *from, size_t n) {
  copy *f = real_copy;
  if (f != NULL)
    return f(to, from, n);
  if (to <= from) // volatile: not as a call of this function
    for (size_t i = 0; i < n; i++)
      ((volatile char *)to)[i] = from[i];
  else
    while (n-- > 0)
      ((volatile char *)to)[n] = from[n];
  return to;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

// copy_device copies up to the end of a mapping and returns how much that was; 0 if the card is gone.
static size_t copy_device(struct mapping *out, char *to, struct mapping *in, const char *from, size_t n) {
  char chunk[4096];
  if (out != NULL)
    n = least(n, (size_t)(out->start + out->size - to));
  if (in != NULL)
    n = least(n, (size_t)(in->start + in->size - from));
  n = least(n, in != NULL && out != NULL ? sizeof chunk : 1 << 20);
  char *memory = out == NULL ? to : in == NULL ? (char *)from : chunk;
  if (in != NULL && device_read(in, (uint64_t)(from - in->start), memory, n) != 0)
    return zap(in), 0;
  if (out != NULL && device_write(out, (uint64_t)(to - out->start), memory, n) != 0)
    return zap(out), 0;
  return n;
}

static void *move(void *to, const void *from, size_t n) {
  for (size_t done = 0; done < n;) {
    char *t = (char *)to + done;
    const char *f = (const char *)from + done;
    struct mapping *out = mapped(t) ? find_mapping(t) : NULL, *in = mapped(f) ? find_mapping(f) : NULL;
    size_t k = out == NULL && in == NULL ? 0 : copy_device(out, t, in, f, n - done);
    if (k == 0) // no card, or what raises SIGBUS
      return plain(t, f, n - done), to;
    done += k;
  }
  return to;
}

EXPORT void *memmove(void *to, const void *from, size_t n) { return move(to, from, n); }
EXPORT void *memcpy(void *restrict to, const void *restrict from, size_t n) { return move(to, from, n); }
EXPORT void *__memmove_chk(void *to, const void *from, size_t n, size_t room) { return n <= room ? move(to, from, n) : (abort(), to); }
EXPORT void *__memcpy_chk(void *restrict to, const void *restrict from, size_t n, size_t room) { return __memmove_chk(to, from, n, room); }
