// Writes messages to a stream: the first word of each is its number, the others are what is in L1.
//
// Unique arguments: 0 to 4 the stream, 5 L1 address of a message, a multiple of 16, 6 bytes of each, at least 4, 7 number of
// messages, 8 number of the first one, 9 whether to close the stream afterwards.

#include "reprise/stream.h"

void kernel_main(void) {
    struct stream out;
    stream_open(&out, 0);
    uint32_t l1 = rp_arg(STREAM_ARGS), bytes = rp_arg(STREAM_ARGS + 1);
    uint32_t number = rp_arg(STREAM_ARGS + 3), end = number + rp_arg(STREAM_ARGS + 2);
    for (; number != end; number++) {
        rp_store(l1, number);
        rp_l1_commit(l1);
        if (stream_push(&out, l1, bytes) != STREAM_OK) {
            break;
        }
    }
    if (rp_arg(STREAM_ARGS + 4)) {
        stream_close(&out);
    }
    stream_flush(&out);
}
