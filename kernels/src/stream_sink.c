// Reads messages of a stream, and leaves in L1: how the last read ended (enum stream_result), its code, the number of messages
// and the sum of their first words.
//
// Unique arguments: 0 to 4 the stream, 5 L1 address of room for a message, aligned as host memory is, 6 its size, 7 L1
// address of the result, 8 how many messages to read, 0 for all up to the stream's end.

#include "reprise/stream.h"

void kernel_main(void) {
    struct stream in;
    stream_open(&in, 0);
    uint32_t room = rp_arg(STREAM_ARGS), size = rp_arg(STREAM_ARGS + 1), result = rp_arg(STREAM_ARGS + 2);
    uint32_t most = rp_arg(STREAM_ARGS + 3), n = 0, sum = 0, bytes;
    int r = STREAM_OK;
    while (!most || n < most) {
        r = stream_pop(&in, room, size, &bytes);
        if (r != STREAM_OK) {
            break;
        }
        n++;
        sum += bytes ? rp_load(room) : 0;
    }
    stream_flush(&in);
    rp_store(result, (uint32_t)r);
    rp_store(result + 4, in.code);
    rp_store(result + 8, n);
    rp_store(result + 12, sum);
    rp_publish();
}
