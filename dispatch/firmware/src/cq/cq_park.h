// The end of the road: a command that makes no sense.
#ifndef REPRISE_CQ_PARK_H
#define REPRISE_CQ_PARK_H

#include "reprise/abi.h"

// cq_park stops this core for good and says why. Running on would treat payload as commands and write wherever it
// says; a host that waits finds the waypoint and the detail in the core's state instead.
RP_INLINE __attribute__((noreturn)) void cq_park(uint32_t waypoint, uint32_t detail) {
    RP_MAILBOX->core_state[rp_processor()].detail = detail;
    RP_MAILBOX->core_state[rp_processor()].waypoint = waypoint;
    for (;;) {
        __asm__ volatile("");
    }
}

#define CQ_BAD_COMMAND RP_WAYPOINT_WORD("BADC")  // detail: first word of the command (its id is the lowest byte)
#define CQ_BAD_LENGTH RP_WAYPOINT_WORD("BADL")   // detail: the same; it says more bytes than there are, or can be
#define CQ_BAD_ENTRY RP_WAYPOINT_WORD("BADE")    // detail: the fetch queue entry
#define CQ_BAD_STALL RP_WAYPOINT_WORD("BADS")    // detail: command. A stall entry without a trace, or the reverse
#define CQ_BAD_TRACE RP_WAYPOINT_WORD("BADT")    // detail: trace address. Its end came before EXEC_BUF_END

#endif
