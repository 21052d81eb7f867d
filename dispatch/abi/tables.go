package abi

import "github.com/reprise-tt/reprise/chip"

const numNOCs = 2

// revisionTable is a revision of tt-metal. Sources:
// tt_metal/hw/inc/internal/tt-1xx/{wormhole,blackhole}/dev_mem_map.h for memory maps;
// tt_metal/hw/inc/hostdev/dev_msgs.h for the mailbox; tt_metal/llrt/hal/tt-1xx/*/*_hal_tensix.cpp
// for the kernel configuration and the first free byte.
type revisionTable struct {
	revision            Revision
	launch              Launch
	launchSize, mailbox uint32 // bytes
	watcher, coreInfo   uint32 // offsets in the mailbox
	tripped             uint32 // offset of assert_status.tripped in the watcher's fields
	queues              []QueueForm
	wormhole, blackhole archTable
}

type archTable struct {
	zeros, config uint32 // L1 addresses
	firmware      [chip.NumProcessors]uint32
	cbs           int // NUM_CIRCULAR_BUFFERS of tt_metal/api/tt-metalium/circular_buffer_constants.h
}

func tables() []revisionTable {
	type sizes = [chip.NumProcessors]uint32
	return []revisionTable{{
		revision: Revision{Name: "2026-01-09", Commit: "a4347c0dda", Date: "2026-01-09"},
		launch:   launch96(), launchSize: 96, mailbox: 0x31E0, watcher: 0x348, coreInfo: 0x858, tripped: 0x4E,
		queues:    []QueueForm{{FetchEntry: 2, WaitStream: 8, ClearStream: 16}},
		wormhole:  archTable{zeros: 0x3200, config: 0x7CF0, firmware: sizes{0x1800, 0x800, 0x600, 0x600, 0x600}, cbs: 32},
		blackhole: archTable{zeros: 0x3240, config: 0x82B0, firmware: sizes{0x1C00, 0x600, 0x600, 0x600, 0x600}, cbs: 32},
	}, {
		revision: Revision{Name: "2026-03-12", Commit: "2f3626c410", Date: "2026-03-12"},
		launch:   launch112(), launchSize: 112, mailbox: 0x3260, watcher: 0x3C8, coreInfo: 0x8D8, tripped: 0x4E,
		queues:    []QueueForm{{FetchEntry: 2, Progress: true, WaitStream: 8, ClearStream: 16}},
		wormhole:  archTable{zeros: 0x3280, config: 0x8120, firmware: sizes{0x1800, 0x800, 0x600, 0x600, 0x600}, cbs: 32},
		blackhole: archTable{zeros: 0x32C0, config: 0x9DE0, firmware: sizes{0x2200, 0xA00, 0xA00, 0xA00, 0xA00}, cbs: 64},
	}, {
		// The newest revision whose memory maps of both architectures can be read together: those
		// at 00f67de of a fork. The mailbox, March's with the 16 B of debug_assert_msg_t of later
		// dev_msgs.h, is inferred: the size agrees with MEM_MAILBOX_SIZE.
		revision: Revision{Name: "2026-05", Commit: "00f67de", Date: "2026-05"},
		launch:   launch112(), launchSize: 112, mailbox: 0x3270, watcher: 0x3C8, coreInfo: 0x8E8, tripped: 0x52,
		// Prefetch queue entries have 4 bytes since tt-metal's pull request 44039 of that month.
		// When the flags of a WAIT moved isn't known.
		queues: []QueueForm{
			{FetchEntry: 4, Progress: true, WaitStream: 8, ClearStream: 16},
			{FetchEntry: 2, Progress: true, WaitStream: 8, ClearStream: 16},
		},
		wormhole:  archTable{zeros: 0x3280, config: 0x81C0, firmware: sizes{0x1820, 0x800, 0x600, 0x600, 0x600}, cbs: 32},
		blackhole: archTable{zeros: 0x32E0, config: 0x9E80, firmware: sizes{0x2200, 0xA00, 0xA00, 0xA00, 0xA00}, cbs: 64},
	}}
}

func (t *revisionTable) layout(arch chip.Arch) *Layout {
	l := &Layout{
		Revision: t.revision, Arch: arch, Launch: t.launch,
		Banks: BankTable{Fields: []BankField{DRAMPlaces, L1Places, DRAMOffsets, L1Offsets}},
		Info: CoreInfo{
			Magic: 0x50EC09A3, MagicAt: 0xF0, Logical: 0xE8, Dispatch: Absent, NOCSize: 0xE4, Workers: 0xE6, Unreserved: 0xEC,
			Watched: WatchedTiles{Bounds: 0, Physical: 0x20, Virtual: 0x89, Harvested: 0xE0, End: 0xE4},
		},
		State: CoreState{Waypoint: 0, Detail: Absent, Kernels: Absent},
	}
	switch arch {
	case chip.Wormhole:
		l.L1, l.Launch.CircularBuffers = l1Map(arch, t.launchSize, &t.wormhole), t.wormhole.cbs
		l.Banks.Shift = 4 // NOC_COORD_REG_OFFSET of noc_parameters.h
		l.L1.BankTable = l.L1.KernelConfig + 0x4800
		l.Boot = Boot{Scratch: scratch(l.L1.KernelConfig, 4096, 2048), IRAM: 0xFFC00000, IRAMSize: 0x4000, VirtualRows: 12, VirtualSize: 24}
	case chip.Blackhole:
		l.L1, l.Launch.CircularBuffers = l1Map(arch, t.launchSize, &t.blackhole), t.blackhole.cbs
		l.L1.BankTable = l.L1.KernelConfig + 0x9000
		l.Boot = Boot{Scratch: scratch(l.L1.KernelConfig, 8192, 4096), VirtualRows: 20, VirtualSize: 32}
	default:
		return nil
	}
	m := &l.L1
	m.MailboxSize, m.BankTableSize, l.Boot.Virtual = t.mailbox, 0x800, m.BankTable+0x800
	m.CoreInfo, m.CoreInfoSize, m.CoreState, m.CoreStateSize = m.Mailbox+t.coreInfo, 0xF8, m.Mailbox+t.watcher+4, 4
	l.Boot.Watcher = Watcher{
		Enable: t.watcher, Sanitize: t.watcher + 0x18 + 0x12, Stride: 0x18, Assert: t.watcher + t.tripped, HasWatcher: true,
	}
	return l
}

// scratch returns adjacent areas of initial data of local RAM, each as large as its processor's.
func scratch(first, dataMovement, compute uint32) [chip.NumProcessors]uint32 {
	t := first + 2*dataMovement
	return [chip.NumProcessors]uint32{first, first + dataMovement, t, t + compute, t + 2*compute}
}

func launch96() Launch {
	return Launch{
		ConfigBase: 0, Semaphores: 12, Circular: 18, Args: 22, Mode: 42, Text: 44, CBMask: 64, NOC: 68, NOCMode: 69, FirstRemote: 70,
		HostID: 72, Enables: 76, NCRISCSize: 90, Origin: 92, Preload: 95, CircularBuffers: 32,
	}
}

// launch112 is the launch message from 29 January 2026 on.
func launch112() Launch {
	return Launch{
		ConfigBase: 0, Semaphores: 12, Circular: 18, Args: 22, Mode: 42, Text: 44, CBMask: 64, NOC: 72, NOCMode: 73, FirstRemote: 74,
		HostID: 76, Enables: 80, NCRISCSize: 94, Preload: 111,
	}
}
