// Hands messages of one stream on to another until the host closes the first one, and closes the second one then in the same
// way. If the host reads no more, it stops reading, too.
//
// Unique arguments: 0 to 4 the stream to read, 5 to 9 the stream to write, 10 L1 address of room for a message, aligned as
// host memory is, 11 its size.

#include "reprise/stream.h"

void kernel_main(void) {
    struct stream in, out;
    stream_open(&in, 0);
    stream_open(&out, STREAM_ARGS);
    uint32_t room = rp_arg(2 * STREAM_ARGS), size = rp_arg(2 * STREAM_ARGS + 1), bytes;
    for (;;) {
        int r = stream_pop(&in, room, size, &bytes);
        if (r == STREAM_OK) {
            if (stream_push(&out, room, bytes) == STREAM_OK) {
                continue;
            }
            stream_stop(&in, STREAM_STOPPED);
        } else if (r == STREAM_END) {
            stream_close(&out);
        } else {
            stream_fail(&out, r == STREAM_FAILED ? in.code : (uint32_t)r);
        }
        break;
    }
    stream_flush(&in);
}
