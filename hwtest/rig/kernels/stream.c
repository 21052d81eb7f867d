// Carries out a script on two streams and leaves the results in L1, a word for each step.
//
// Unique arguments: 0 to 4 the stream to read, 5 to 9 the stream to write, 10 L1 address of room for a message, aligned as
// host memory is, 11 its size, 12 L1 address of the results, 13.. steps of three words: what to do, x and y; 0 ends them.

#include "reprise/stream.h"

enum step {
    STEP_PUSH = 1,       // y messages of x bytes; the first word is the number, from 0
    STEP_TRY_PUSH = 2,   // the same, until there is no room; the result is how many there were
    STEP_POP = 3,        // a message of up to x bytes; the result is what stream_pop returned, and 16 times its length
    STEP_TRY_POP = 4,    // messages until there are none; the result is how many there were
    STEP_WORDS = 5,      // y times: reads a word and writes its sum with x
    STEP_CLOSE = 6,
    STEP_FAIL = 7,       // with x
    STEP_STOP = 8,       // with x
    STEP_WAIT_STOP = 9,  // messages of x bytes until the host reads no more; the result is what stream_push returned
    STEP_FIRST_TRIES = 10  // tries both streams once; the result is what they returned, 16 times the second
};

void kernel_main(void) {
    struct stream in, out;
    stream_open(&in, 0);
    stream_open(&out, STREAM_ARGS);
    uint32_t room = rp_arg(10), size = rp_arg(11), result = rp_arg(12);
    for (uint32_t i = 13; rp_arg(i); i += 3, result += 4) {
        uint32_t x = rp_arg(i + 1), y = rp_arg(i + 2), bytes = 0, n = 0;
        int r = STREAM_OK;
        switch (rp_arg(i)) {
            case STEP_PUSH:
            case STEP_TRY_PUSH:
            case STEP_WAIT_STOP:
                for (; r == STREAM_OK && (n < y || rp_arg(i) != STEP_PUSH); n++) {
                    rp_store(room, n);
                    rp_l1_commit(room);
                    r = rp_arg(i) == STEP_TRY_PUSH ? stream_try_push(&out, room, x) : stream_push(&out, room, x);
                }
                n = rp_arg(i) == STEP_TRY_PUSH ? n - 1 : (uint32_t)r;
                break;
            case STEP_POP:
                n = (uint32_t)stream_pop(&in, room, x < size ? x : size, &bytes);
                n |= bytes << 4;
                break;
            case STEP_TRY_POP:
                while (stream_try_pop(&in, room, size, &bytes) == STREAM_OK) {
                    n++;
                }
                break;
            case STEP_WORDS:
                for (; n < y; n++) {
                    uint32_t word;
                    stream_pop_word(&in, &word);
                    stream_push_word(&out, word + x);
                }
                break;
            case STEP_CLOSE: n = (uint32_t)stream_close(&out); break;
            case STEP_FAIL: n = (uint32_t)stream_fail(&out, x); break;
            case STEP_STOP: stream_stop(&in, x); break;
            case STEP_FIRST_TRIES:
                n = (uint32_t)stream_try_pop(&in, room, size, &bytes);
                n |= (uint32_t)stream_try_push(&out, room, 4) << 4;
                break;
        }
        rp_store(result, n);
    }
    stream_flush(&in);
    rp_publish();
}
