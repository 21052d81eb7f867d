// Base firmware of BRISC, the core that is in charge of its tile.
//
// The tile's state machine, with the waypoint that a hang report shows in each state:
//
//   BOOT  set up NoCs and the other cores' reset addresses
//   SUBS  release NCRISC and TRISC0..2, wait until each says it is there
//   IDLE  wait for a go signal, or for a launch message that may be prepared before its go signal (preload)
//   PREP  read the launch message, start the other cores, get ready
//   (the kernel sets its own waypoints; its start-up waits for the go signal)
//   GOW   no BRISC kernel here: wait for the go signal in the kernel's place
//   WAIT  its own kernel has ended, wait for the other cores
//   DONE  tell the core or host that launched
//
// The launch ring: entry launch[read pointer] is next. The dispatcher writes entries ahead of their go signals, at
// most seven; this core clears an entry it has run and moves on. Cores that a program doesn't use get its go signal
// without an entry: they find enables 0 in theirs, and just report back. In host mode nothing moves: the host writes
// entry and go signal, and polls for DONE.

#include "firmware.h"

// Mask bits of the instruction cache invalidation register, all five cores.
#define ALL_INSTRUCTION_CACHES 0x1Fu

static volatile uint32_t* const sync_word = (volatile uint32_t*)(RP_L1_MAILBOX + offsetof(struct rp_mailbox, sync));

// set_reset_pcs says where the other cores begin when they leave reset.
static void set_reset_pcs(void) {
#if defined(REPRISE_WORMHOLE)
    rp_store(RP_TENSIX_CONFIG(RP_CONFIG_NCRISC_RESET_PC), RP_L1_FIRMWARE_NCRISC);
    rp_store(RP_TENSIX_CONFIG(RP_CONFIG_TRISC0_RESET_PC), RP_L1_FIRMWARE_TRISC0);
    rp_store(RP_TENSIX_CONFIG(RP_CONFIG_TRISC1_RESET_PC), RP_L1_FIRMWARE_TRISC1);
    rp_store(RP_TENSIX_CONFIG(RP_CONFIG_TRISC2_RESET_PC), RP_L1_FIRMWARE_TRISC2);
    rp_store(RP_TENSIX_CONFIG(RP_CONFIG_TRISC_RESET_PC_OVERRIDE), 7);
    rp_store(RP_TENSIX_CONFIG(RP_CONFIG_NCRISC_RESET_PC_OVERRIDE), 1);
#else
    rp_store(RP_NCRISC_RESET_PC, RP_L1_FIRMWARE_NCRISC);
    rp_store(RP_TRISC0_RESET_PC, RP_L1_FIRMWARE_TRISC0);
    rp_store(RP_TRISC1_RESET_PC, RP_L1_FIRMWARE_TRISC1);
    rp_store(RP_TRISC2_RESET_PC, RP_L1_FIRMWARE_TRISC2);
    rp_store(RP_TRISC_RESET_PC_OVERRIDE, 7);
    rp_store(RP_NCRISC_RESET_PC_OVERRIDE, 1);
#endif
}

static void invalidate_instruction_caches(void) {
    rp_store(RP_TENSIX_CONFIG(RP_CONFIG_IC_INVALIDATE), ALL_INSTRUCTION_CACHES);
}

static void boot_device(void) {
    set_reset_pcs();
#if defined(REPRISE_BLACKHOLE)
    rp_store(RP_DEST_CG_CTRL, 0);
#endif
    rp_store(RP_TDMA_CLK_GATE_EN, 0x3F);
    for (uint32_t noc = 0; noc < RP_NUM_NOCS; noc++) {
        uint32_t regs = RP_NOC_REGS(noc);
        // bit 0: let NIU and router gate their clocks when idle
        rp_store(regs + RP_NOC_NIU_CFG_0, rp_load(regs + RP_NOC_NIU_CFG_0) | 1);
        rp_store(regs + RP_NOC_ROUTER_CFG_0, rp_load(regs + RP_NOC_ROUTER_CFG_0) | 1);
        rp_noc_init(noc);
    }
    for (uint32_t a = RP_L1_ZEROS; a < RP_L1_ZEROS + RP_ZEROS_SIZE; a += 4) {
        rp_store(a, 0);
    }
    invalidate_instruction_caches();
}

// clear_core_states clears what an earlier life of the tile left: a core that doesn't start shows no waypoint at all.
static void clear_core_states(void) {
    for (uint32_t p = 0; p < RP_NUM_PROCESSORS; p++) {
        volatile struct rp_core_state* state = &RP_MAILBOX->core_state[p];
        state->waypoint = 0;
        state->detail = 0;
        state->kernels = 0;
        state->fence = 0;
    }
}

// start_subordinates releases the other four cores. Their reset addresses were stored hundreds of stores ago, in
// another memory region; the sync word is in L1 and must be there before they poll it.
static void start_subordinates(void) {
    *sync_word = RP_SYNC_ALL_INIT;
    rp_l1_commit((uint32_t)sync_word);
    rp_store(RP_SOFT_RESET, 0);
}

static void wait_subordinates(void) {
    while (*sync_word != RP_SYNC_ALL_DONE) {
        rp_invalidate_l1();
    }
}

// clear_cb_counters zeroes what producers and consumers of circular buffers tell each other, for the buffers this
// program uses. The counters are stream registers, another memory region than the sync word that lets the other
// cores go: the read-back makes sure that the zeros are first.
static void clear_cb_counters(uint32_t mask) {
    uint32_t stream = RP_STREAM_BASE(RP_STREAM_FIRST_CB);
    uint32_t last = 0;
    for (; mask != 0; mask >>= 1, stream += RP_STREAM_BASE(1) - RP_STREAM_BASE(0)) {
        if (mask & 1) {
            rp_store(stream + RP_STREAM_BUF_SIZE, 0);
            rp_store(stream + RP_STREAM_BUF_START, 0);
            last = stream;
        }
    }
    if (last != 0) {
        uint32_t v = rp_load(last + RP_STREAM_BUF_START);
        __asm__ volatile("addi x0, %0, 0" ::"r"(v) : "memory");
    }
}

// report_done adds one to the completion count of the core that sent go. What this core stored before, go->signal
// last, must be in L1 first: the dispatcher may answer with the next go signal at once.
static void report_done(uint32_t noc, const volatile struct rp_go* go) {
    uint32_t coord = rp_noc_coord(go->master_x, go->master_y);
    uint32_t stream = RP_STREAM_FIRST_DISPATCH + go->stream_offset;
    rp_l1_commit_byte((uint32_t)&go->signal);
    rp_noc_stream_add(noc, coord, stream, 1);
}

// idle waits until there is something to prepare or run. It answers the signals that reset the launch ring.
static void idle(void) {
    for (;;) {
        volatile struct rp_go* go = &RP_MAILBOX->go[RP_MAILBOX->go_index];
        uint32_t signal = go->signal;
        if (signal == RP_SIGNAL_GO || (RP_MAILBOX->launch[RP_MAILBOX->launch_read_ptr].preload & RP_PRELOAD)) {
            return;
        }
        if (signal >= RP_SIGNAL_RESET_READ_PTR) {
            if (signal == RP_SIGNAL_RESET_READ_PTR_HOST) {
                if (RP_MAILBOX->launch_read_ptr != 0) {
                    RP_MAILBOX->launch_read_ptr = 0;
                }
            } else if (signal == RP_SIGNAL_RESET_READ_PTR || signal == RP_SIGNAL_REPLAY_TRACE) {
                RP_MAILBOX->launch_read_ptr = 0;
                go->signal = RP_SIGNAL_DONE;
                report_done(RP_LOCAL->noc_index, go);
            }
        }
        rp_invalidate_l1();
    }
}

// start_kernels lets the enabled other cores get ready for the launch message, then go on to their kernels.
static void start_kernels(const volatile struct rp_launch* launch, uint32_t enables) {
    if (enables & 1u << RP_NCRISC) {
        RP_MAILBOX->sync[RP_NCRISC - 1] = RP_SYNC_LOAD;  // it reads the launch message while this core does
    }
    invalidate_instruction_caches();
    clear_cb_counters(launch->local_cb_mask);
    for (uint32_t p = RP_TRISC0; p <= RP_TRISC2; p++) {
        if (enables & 1u << p) {
            RP_MAILBOX->sync[p - 1] = RP_SYNC_GO;
        }
    }
    if (enables & 1u << RP_NCRISC) {
        RP_MAILBOX->sync[RP_NCRISC - 1] = RP_SYNC_GO;
    }
}

void firmware_main(void) {
    uint32_t kernels = 0;

    clear_core_states();
    rp_waypoint("BOOT");
    RP_MAILBOX->launch_read_ptr = 0;
    boot_local();
    boot_device();
    prepare_noc(0);
    rp_waypoint("SUBS");
    start_subordinates();
    wait_subordinates();
    RP_MAILBOX->go[0].signal = RP_SIGNAL_DONE;

    for (;;) {
        rp_waypoint("IDLE");
        idle();

        rp_waypoint("PREP");
        uint32_t ptr = RP_MAILBOX->launch_read_ptr;
        volatile struct rp_launch* launch = &RP_MAILBOX->launch[ptr];
        volatile struct rp_go* go = &RP_MAILBOX->go[RP_MAILBOX->go_index];
        uint32_t enables = launch->enables;
        if (enables != 0) {
            start_kernels(launch, enables);
            prepare_local(launch);
            prepare_noc(launch->brisc_noc_id & 1);
        }
        if (enables & 1u << RP_BRISC) {
            rp_core_state()->kernels = ++kernels;
            run_kernel(launch);
        } else {
            rp_waypoint("GOW ");
            wait_go(go);
        }
        rp_waypoint("WAIT");
        wait_subordinates();

        rp_waypoint("DONE");
        if (launch->mode == RP_MODE_DEVICE) {
            launch->enables = 0;
            launch->preload = 0;
            RP_MAILBOX->launch_read_ptr = (ptr + 1) & (RP_LAUNCH_ENTRIES - 1);
            go->signal = RP_SIGNAL_DONE;
            report_done(RP_LOCAL->noc_index, go);
        } else {
            go->signal = RP_SIGNAL_DONE;
        }
    }
}
