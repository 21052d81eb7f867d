// Assertions in kernels of any processor, for C and C++: reprise_assert(n < 4) ends the host's wait with an error that has the
// condition, file and line, core and processor if it is false; the processor stops there.
//
// Without REPRISE_WATCH (kernels.Source.Watch) it takes no instruction and no byte; the condition is not evaluated.
#ifndef REPRISE_ASSERT_H
#define REPRISE_ASSERT_H

#include "reprise/watch.h"

#if defined(REPRISE_WATCH)
#define RP_ASSERT_SAYS(condition, text)                        \
    do {                                                       \
        if (__builtin_expect(!(condition), 0)) {               \
            uint32_t rp_watch_text_;                           \
            RP_WATCH_TEXT(rp_watch_text_, text);               \
            rp_watch_stop(RP_WATCH_ASSERT, rp_watch_text_, 0); \
        }                                                      \
    } while (0)
#else
#define RP_ASSERT_SAYS(condition, text) \
    do {                                \
        if (0) {                        \
            (void)!(condition);         \
        }                               \
    } while (0)
#endif

#define reprise_assert(...) RP_ASSERT_SAYS((__VA_ARGS__), "`" #__VA_ARGS__ "`")

#endif
