// Answers each message of a stream with the low word of its tile's clock, until the host closes the stream, and closes the other
// one then. For BRISC and NCRISC.
//
// Unique arguments: 0 to 4 the stream to read, 5 to 9 the stream to write.

#include "reprise/stream.h"

void kernel_main(void) {
    struct stream in, out;
    stream_open(&in, 0);
    stream_open(&out, STREAM_ARGS);
    uint32_t word;
    while (stream_pop_word(&in, &word) == STREAM_OK) {
        if (stream_push_word(&out, rp_wall_clock_low()) != STREAM_OK) {
            break;
        }
    }
    stream_close(&out);
    stream_flush(&in);
}
