// What the files of the library share.
#ifndef REPRISE_CARD_H
#define REPRISE_CARD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define EXPORT __attribute__((visibility("default")))
#define COUNT(a) (sizeof(a) / sizeof *(a))

// REAL is the C library's function.
#define REAL(name) ((__typeof__(&name))next(#name))
void *next(const char *name);

extern const char *root; // the folder of the cards' files, or NULL
extern size_t root_length;

struct stat;
int raw_stat(int dir, const char *path, struct stat *st, int flags);

// open_card opens a card, whose node is a file in the folder.
int open_card(int ordinal, ino_t node, int flags);

// card_of returns the card of an open descriptor, also of a duplicate, or NULL; node_of returns its node.
struct card *card_of(int fd);
ino_t node_of(const struct card *c);

// contents returns a new file with what the server says of a path.
int contents(const char *path);

// A mapping of a BAR or a window, whose pages can't be accessed, or of a buffer of the driver.
struct mapping {
  _Atomic(char *) start; // NULL if unused
  size_t size;
  struct card *card;
  uint32_t id;   // the server's number
  int reference; // duplicate of the card's descriptor, since a mapping keeps the file open
  int memory;    // a buffer, which is memory
};

// find_mapping returns the mapping of a BAR or a window at an address, or NULL.
struct mapping *find_mapping(const char *at);

// mapped tells quickly that an address is in no mapping.
extern _Atomic(const char *) first_mapped, last_mapped;
static inline int mapped(const char *at) { return at >= atomic_load(&first_mapped) && at < atomic_load(&last_mapped); }

// device_read and device_write access n bytes at an offset of a mapping. After a reset or without a server they return -1.
int device_read(struct mapping *m, uint64_t off, void *to, size_t n);
int device_write(struct mapping *m, uint64_t off, const void *from, size_t n);

// zap makes all further accesses to a mapping raise SIGBUS, as the driver does.
void zap(struct mapping *m);

// catch_faults installs the handlers of signals, once.
void catch_faults(void);

#endif
