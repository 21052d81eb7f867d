// Constants of one architecture, chosen by -DREPRISE_WORMHOLE or -DREPRISE_BLACKHOLE.
//
// Addresses that tt-metal pins keep its values (its dev_mem_map.h of each architecture); what is ours says so.
// Register offsets: tt-isa-documentation {WormholeB0,BlackholeA0}/NoC/MemoryMap.md, NoC/Counters.md,
// NoC/Overlay/AsGeneralUse.md, TensixTile/SoftReset.md.
#ifndef REPRISE_ARCH_H
#define REPRISE_ARCH_H

#if defined(REPRISE_WORMHOLE) == defined(REPRISE_BLACKHOLE)
#error "define exactly one of REPRISE_WORMHOLE and REPRISE_BLACKHOLE"
#endif

// --- L1 of a Tensix tile -------------------------------------------------------------------------------------
#define RP_L1_ATOMIC_RETURN 0x4u  // u32: old values of atomics land here, which nothing reads
#define RP_L1_BARRIER 0xCu        // u32: host barrier word
#define RP_ZEROS_SIZE 512u
#define RP_KERNEL_CONFIG_SIZE 0x11400u  // 69 KiB

#if defined(REPRISE_WORMHOLE)
#define RP_L1_SIZE 0x16E000u
#define RP_L1_MAILBOX 0x10u
#define RP_L1_ZEROS 0x3200u
#define RP_L1_FIRMWARE_BRISC 0x3800u
#define RP_L1_FIRMWARE_NCRISC 0x5000u
#define RP_L1_FIRMWARE_TRISC0 0x5800u
#define RP_L1_FIRMWARE_TRISC1 0x5E00u
#define RP_L1_FIRMWARE_TRISC2 0x6400u
#define RP_L1_BANK_TABLE 0x6A00u
#define RP_L1_KERNEL_CONFIG 0x7D80u
#define RP_L1_UNRESERVED 0x19180u
#define RP_LOCAL_RAM_SIZE_DM 0x1000u     // BRISC and NCRISC, bytes
#define RP_LOCAL_RAM_SIZE_TRISC 0x800u
#else
#define RP_L1_SIZE 0x180000u
#define RP_L1_INLINE_SCRATCH 0x20u  // 64 B: two words of 16 B for each data-movement processor, one a NoC
#define RP_L1_MAILBOX 0x60u
#define RP_L1_ZEROS 0x3240u
#define RP_L1_FIRMWARE_BRISC 0x3840u
#define RP_L1_FIRMWARE_NCRISC 0x5440u
#define RP_L1_FIRMWARE_TRISC0 0x5A40u
#define RP_L1_FIRMWARE_TRISC1 0x6040u
#define RP_L1_FIRMWARE_TRISC2 0x6640u
#define RP_L1_BANK_TABLE 0x6C40u
#define RP_L1_KERNEL_CONFIG 0x8740u
#define RP_L1_UNRESERVED 0x19B40u
#define RP_LOCAL_RAM_SIZE_DM 0x2000u
#define RP_LOCAL_RAM_SIZE_TRISC 0x1000u
#endif

// --- NoC -----------------------------------------------------------------------------------------------------
#define RP_NUM_NOCS 2u
#define RP_NOC_REGS(noc) (0xFFB20000u + ((unsigned)(noc) << 16))
#define RP_L1_ALIGNMENT 16u

// RP_NOC_COORD_SHIFT: where the 12-bit coordinate x | y << 6 begins in a coordinate register. Wormhole keeps it
// above the four upper address bits of the MID register, Blackhole has a register of its own.
#if defined(REPRISE_WORMHOLE)
#define RP_NOC_WORD 32u
#define RP_NOC_MAX_BURST 8192u
#define RP_DRAM_ALIGNMENT 32u
#define RP_PCIE_ALIGNMENT 32u
#define RP_NOC_COORD_SHIFT 4u
#define RP_NOC_BUF_STRIDE 0x400u
#define RP_NOC_TARG_COORD 0x04u
#define RP_NOC_RET_COORD 0x10u
#define RP_NOC_AT_DATA 0x24u
#define RP_NOC_CMD_CTRL 0x28u
#define RP_NOC_NODE_ID 0x2Cu
#define RP_NOC_CLEAR_OUTSTANDING 0x50u
#define RP_NOC_ID_LOGICAL 0x138u
#else
#define RP_NOC_WORD 64u
#define RP_NOC_MAX_BURST 16384u
#define RP_DRAM_ALIGNMENT 64u
#define RP_PCIE_ALIGNMENT 64u
#define RP_NOC_COORD_SHIFT 0u
#define RP_NOC_BUF_STRIDE 0x800u
#define RP_NOC_TARG_COORD 0x08u
#define RP_NOC_RET_COORD 0x14u
#define RP_NOC_AT_DATA 0x28u
#define RP_NOC_CMD_CTRL 0x40u
#define RP_NOC_NODE_ID 0x44u
#define RP_NOC_CLEAR_OUTSTANDING 0x60u
#define RP_NOC_ID_LOGICAL 0x148u
#endif
#define RP_NOC_TARG_LO 0x00u
#define RP_NOC_TARG_MID 0x04u
#define RP_NOC_RET_LO 0x0Cu
#define RP_NOC_RET_MID 0x10u
#define RP_NOC_PACKET_TAG 0x18u
#define RP_NOC_CTRL 0x1Cu
#define RP_NOC_LEN_BE 0x20u
#define RP_NOC_NIU_CFG_0 0x100u
#define RP_NOC_ROUTER_CFG_0 0x104u
#define RP_NOC_COUNTER(index) (0x200u + 4u * (unsigned)(index))

#define RP_COUNTER_ATOMIC_RESP 0x0u
#define RP_COUNTER_WR_ACK 0x1u
#define RP_COUNTER_RD_RESP 0x2u
#define RP_COUNTER_NONPOSTED_WR_SENT 0xAu
#define RP_COUNTER_POSTED_WR_SENT 0xBu
#define RP_COUNTER_OUTSTANDING_ID(id) (0x10u + (unsigned)(id))
#define RP_COUNTER_WRITES_OUTGOING_ID(id) (0x20u + (unsigned)(id))

// Upper half of a 64-bit address that leads into host memory through the PCIe tile.
#if defined(REPRISE_WORMHOLE)
#define RP_PCIE_ADDR_HI 0x8u
#else
#define RP_PCIE_ADDR_HI 0x10000000u
#endif

// --- Overlay streams -----------------------------------------------------------------------------------------
#define RP_STREAM_BASE(stream) (0xFFB40000u + 0x1000u * (unsigned)(stream))
#define RP_STREAM_FIRST_DISPATCH 48u
#define RP_STREAM_INCREMENT_SHIFT 6u  // an update word is increment << 6, its low bits the destination number 0
#define RP_STREAM_MASK 0x1FFFFu       // stream counters have 17 bits
#if defined(REPRISE_WORMHOLE)
#define RP_STREAM_BUF_START 0x00Cu        // REMOTE_DEST_BUF_START
#define RP_STREAM_BUF_SIZE 0x010u         // REMOTE_DEST_BUF_SIZE; a store also sets SPACE_AVAILABLE
#define RP_STREAM_UPDATE 0x088u           // REMOTE_DEST_BUF_SPACE_AVAILABLE_UPDATE, write only
#define RP_STREAM_SPACE_AVAILABLE 0x100u  // read only
#define RP_STREAM_FIRST_CB 8u
#else
#define RP_STREAM_BUF_START 0x020u
#define RP_STREAM_BUF_SIZE 0x028u
#define RP_STREAM_UPDATE 0x438u
#define RP_STREAM_SPACE_AVAILABLE 0x4A4u
#define RP_STREAM_FIRST_CB 0u
#endif

// --- Debug and control registers -----------------------------------------------------------------------------
#define RP_SOFT_RESET 0xFFB121B0u
#define RP_SOFT_RESET_ALL 0x47800u
#define RP_SOFT_RESET_ALL_BUT_BRISC 0x47000u
#define RP_WALL_CLOCK_LOW 0xFFB121F0u   // a read latches the upper half
#define RP_WALL_CLOCK_HIGH 0xFFB121F8u  // the latched upper half
#define RP_TDMA_CLK_GATE_EN 0xFFB11024u
#define RP_TENSIX_CONFIG(word) (0xFFEF0000u + 4u * (unsigned)(word))
#define RP_PC_BUF_TENSIX_SYNC 0xFFE80004u  // TRISC: a load waits until its own coprocessor thread is idle
#define RP_TENSIX_GPRS 0xFFE00000u

// RP_CONFIG_IC_INVALIDATE: Tensix config word; mask bit 0 BRISC, 1..3 TRISC0..2, 4 NCRISC.
#if defined(REPRISE_WORMHOLE)
#define RP_CONFIG_IC_INVALIDATE 157u
#define RP_CONFIG_TRISC0_RESET_PC 158u
#define RP_CONFIG_TRISC1_RESET_PC 159u
#define RP_CONFIG_TRISC2_RESET_PC 160u
#define RP_CONFIG_TRISC_RESET_PC_OVERRIDE 161u
#define RP_CONFIG_NCRISC_RESET_PC 162u
#define RP_CONFIG_NCRISC_RESET_PC_OVERRIDE 163u
#else
#define RP_CONFIG_IC_INVALIDATE 185u
#define RP_TRISC0_RESET_PC 0xFFB12228u
#define RP_TRISC1_RESET_PC 0xFFB1222Cu
#define RP_TRISC2_RESET_PC 0xFFB12230u
#define RP_TRISC_RESET_PC_OVERRIDE 0xFFB12234u
#define RP_NCRISC_RESET_PC 0xFFB12238u
#define RP_NCRISC_RESET_PC_OVERRIDE 0xFFB1223Cu
#define RP_DEST_CG_CTRL 0xFFB12240u
#endif

#define RP_LOCAL_RAM 0xFFB00000u
#define RP_LOCAL_RAM_KERNEL 0xFFB00480u  // first byte of a kernel's .data and .bss

#endif
