// Runs a script on the Tensix engines, as the thread of the T core that runs this. A word of the script is an instruction, which is
// pushed by a store, or a command of the core itself, in what would be the opcode:
//
//	C0  wait until the thread has finished all instructions
//	C1  store: address and value follow
//	C2  load: the address follows; the value is appended to the log
//	C3  wait until a load gives a value: address and value follow
//
// Unique arguments: 0 L1 address of the script, which begins with its number of words, 1 L1 address of the log, 2 number of
// instructions after which the core waits for the engines (a REPLAY counts as its length, a MOP as all).

#include "reprise/tensix.h"

enum { SYNC = 0xC0, STORE = 0xC1, LOAD = 0xC2, POLL = 0xC3 };

// expands returns how many instructions a word puts into the queue at most.
RP_INLINE uint32_t expands(uint32_t word, uint32_t all) {
    switch (word >> 24) {
    case RP_OP_MOP(0, 0, 0) >> 24:
        return all;
    case RP_OP_REPLAY(0, 0, 0, 0) >> 24:
        return 1 + (word >> 4 & 0x3FF);
    }
    return 1;
}

void kernel_main(void) {
    rp_invalidate_l1();
    uint32_t at = rp_arg(0), log = rp_arg(1), room = rp_arg(2), queued = 0;
    uint32_t end = at + 4 * rp_load(at);
    while (at != end) {
        uint32_t word = rp_load(at += 4);
        switch (word >> 24) {
        case SYNC:
            rp_tensix_sync();
            queued = 0;
            continue;
        case STORE:
            rp_store(rp_load(at + 4), rp_load(at + 8));
            at += 8;
            continue;
        case LOAD:
            rp_store(log, rp_load(rp_load(at += 4)));
            log += 4;
            continue;
        case POLL:
            RP_WAIT("TPOL", rp_load(at + 4), rp_load(rp_load(at + 4)) == rp_load(at + 8));
            at += 8;
            continue;
        }
        rp_tensix_push(word);
        queued += expands(word, room);
        if (queued >= room) {
            rp_tensix_sync();
            queued = 0;
        }
    }
    rp_tensix_sync();
}
