package emu

import (
	"slices"
	"sync"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/check"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
)

// localBase is where processors see their local RAM (tt-isa-documentation
// */TensixTile/BabyRISCV/README.md).
const localBase = 0xFFB00000

const (
	pageBytes = 4096
	pageOps   = pageBytes / 4
	pageLines = pageOps / lineWords

	// Stores are watched by lines.
	lineShift = 6
	lineBytes = 1 << lineShift
	// A power of two beyond any L1: indexing needs no bounds check.
	maxLines = 1 << 15
)

// Flags of a line of L1. A store to a line without flags goes straight to memory.
const (
	flagWatch = translate.Watched // a parked core has read a word of the line: a bit for each word, by the low bits of its index
	flagCode  = 1 << 4            // instructions in the line are decoded
	flagTrap  = 1 << 5            // RefuseUnwritten: every store is checked
	flagGo    = 1 << 6            // has go messages: see Launches

	flagNotify = flagWatch | flagCode | flagGo // a store to the line calls touched
)

func watchFlag(word uint32) uint8 { return 1 << (word & 3) }

const (
	lineWords    = 1 << lineShift / 4
	decodedLines = 512 // a power of two
)

// Registers of a tile, as its cores and the NoC see them (tt-isa-documentation
// */TensixTile/BabyRISCV/README.md, ttsim data/*/tile_regs.json).
const (
	tdmaBase    = 0xFFB11000
	debugBase   = 0xFFB12000
	picBase     = 0xFFB13000
	ethCtrlBase = 0xFFB14000 // Blackhole's Ethernet tiles: reset PCs
	niu0Base    = 0xFFB20000
	niu1Base    = 0xFFB30000
	streamBase  = 0xFFB40000
	streamEnd   = 0xFFB80000
	mopBase     = 0xFFB80000

	gprBase     = 0xFFE00000
	pushBase    = 0xFFE40000
	pcBufBase   = 0xFFE80000
	pcBufEnd    = 0xFFEB0000
	mailboxBase = 0xFFEC0000
	configBase  = 0xFFEF0000
)

// cmdBuf is the registers of a command buffer.
type cmdBuf [16]uint32

const (
	bufTargLo = iota
	bufTargMid
	bufTargHi
	bufRetLo
	bufRetMid
	bufRetHi
	bufTag
	bufCtrl
	bufLenBE
	bufData
	bufBusy // CMD_CTRL: 1 while there is no virtual channel yet
)

func (b *cmdBuf) busy() bool { return b[bufBusy] != 0 }

// Counters of an NIU by index (tt-isa-documentation WormholeB0/NoC/Counters.md).
const (
	cntAtomicResp      = check.CounterAtomics
	cntWriteAck        = check.CounterAcks
	cntReadResp        = check.CounterReads
	cntReadWords       = 0x3
	cntAccepted        = 0x4
	cntReadSent        = 0x5
	cntAtomicSent      = 0x6 // + 1 if posted, like the next four
	cntWriteWords      = 0x8
	cntWriteSent       = check.CounterSent
	cntWriteStarted    = 0xC
	cntReadStarted     = 0xE
	cntAtomicStarted   = 0xF
	cntOutstanding     = check.CounterOutstanding
	cntOutgoing        = check.CounterOutgoing
	cntSlaveAtomicResp = 0x30
	cntSlaveWriteAck   = 0x31
	cntSlaveReadResp   = 0x32
	cntSlaveReadWords  = 0x33
	cntSlaveAccepted   = 0x34
	cntSlaveRead       = 0x35
	cntSlaveAtomic     = 0x36 // + 1 if posted
	cntSlaveWords      = 0x38
	cntSlaveWrite      = 0x3A
	cntSlaveStarted    = 0x3C
	numCounters        = 0x3E
)

// niuWords are an NIU's registers that are words, which translated code accesses itself.
type niuWords struct {
	buf   [4]cmdBuf
	count [64]uint32 // numCounters
}

const (
	niuCounters = 4 * 16
	numNIUWords = niuCounters + 64
)

type niuLayout struct {
	stride, shift               uint32    // of command buffers
	registers                   [32]uint8 // of a command buffer, by offset
	hi, retHi                   uint32    // in a command buffer, like the next three; or none
	atData, exclude, cmd        uint32
	nodeID, clearReqs, logical  uint32
	endpointID                  uint32
	translateX, translateY, end uint32
}

const none = ^uint32(0)

// (tt-isa-documentation */NoC/MemoryMap.md, ttsim data/*/tile_regs.json)
func layoutOf(a chip.Arch) niuLayout {
	l := niuLayout{
		stride: 0x800, shift: 11, hi: 0x08, retHi: 0x14, atData: 0x28, exclude: 0x2C, cmd: 0x40,
		nodeID: 0x44, endpointID: none, clearReqs: 0x60, logical: 0x148,
		translateX: none, translateY: none, end: none,
	}
	if a == chip.Wormhole {
		l = niuLayout{
			stride: 0x400, shift: 10, hi: none, retHi: none, atData: 0x24, exclude: none, cmd: 0x28,
			nodeID: 0x2C, endpointID: 0x30, clearReqs: 0x50, logical: 0x138,
			translateX: 0x118, translateY: 0x128, end: 0x138,
		}
	}
	l.name()
	return l
}

func (l *niuLayout) register(off uint32) (buf, r uint32, ok bool) {
	buf, off = off>>l.shift, off&(l.stride-1)
	if buf >= 4 || off >= 4*uint32(len(l.registers)) || off&3 != 0 {
		return 0, 0, false
	}
	r = uint32(l.registers[off/4])
	return buf, r, r != noRegister
}

const noRegister = 0xFF

func (l *niuLayout) name() {
	for i := range l.registers {
		l.registers[i] = noRegister
	}
	for r, off := range [...]uint32{
		bufTargLo: 0, bufTargMid: 4, bufRetLo: 0xC, bufRetMid: 0x10, bufTag: 0x18, bufCtrl: 0x1C, bufLenBE: 0x20,
		bufData: l.atData, bufBusy: l.cmd, bufTargHi: l.hi, bufRetHi: l.retHi,
	} {
		if off != none {
			l.registers[off/4] = uint8(r)
		}
	}
}

// stream is an overlay stream used as a counter (tt-isa-documentation
// WormholeB0/NoC/Overlay/AsGeneralUse.md).
type stream struct {
	remoteSource uint32 // 24 bits, the others 17
	bufStart     uint32
	bufSize      uint32
	available    uint32
}

// word is what a register shows or changes, or nil.
func (s *stream) word(r streamReg) *uint32 {
	return [...]*uint32{nil, &s.remoteSource, &s.bufStart, &s.bufSize, &s.available, &s.available}[r]
}

const (
	streamBytes  = 0x1000
	streamMask   = 1<<chip.StreamCounterBits - 1
	pageCounters = 32 // circular buffers, from chip.StreamParams.FirstCB on
)

// streamReg is a register of a stream, whose offset depends on the architecture (ttsim
// data/*/tile_regs.json, metal noc_overlay_parameters.h).
type streamReg uint8

const (
	streamNone streamReg = iota
	streamRemoteSource
	streamBufStart
	streamBufSize
	streamUpdate
	streamAvailable
)

var streamOffsets = [...][5]uint32{chip.Wormhole: {0x000, 0x00C, 0x010, 0x088, 0x100}, chip.Blackhole: {0x010, 0x020, 0x028, 0x438, 0x4A4}}

func streamRegister(arch chip.Arch, off uint32) streamReg {
	return streamReg(1 + slices.Index(streamOffsets[arch][:], off))
}

// cfgInvalidate is the word that empties instruction caches.
func cfgInvalidate(a chip.Arch) uint32 {
	if a == chip.Wormhole {
		return 157
	}
	return 185
}

// Registers of Ethernet tiles alone (ttsim data/*/tile_regs.json).
const (
	ethTxBase   = 0xFFB90000 // a page for each transmit queue
	ethMACBase  = 0xFFBA0000 // Wormhole
	ethTxCtrl   = 0x00
	ethTxCmd    = 0x04
	ethTxStatus = 0x08 // Blackhole
	ethTxSource = 0x14
	ethTxBytes  = 0x18
	ethTxDest   = 0x1C
	ethTxData   = 0x44
	ethTxAhead  = 0x6C
	ethTxSelSW  = 0x80 // Blackhole
	ethTxSelHW  = 0x84

	ethCmdData     = 2
	ethCmdRegister = 4

	// MAC registers while the link is in use (ttsim data/wh/tile_regs.json).
	ethMAC0, ethMAC1 = 0x30000001, 7
)

// Words of base firmware in an Ethernet tile's L1 (tt-umd topology_discovery_*.cpp, ttsim
// src/tile.cpp, tt-metal hw/inc/internal/tt-1xx/blackhole/eth_fw_api.h).
const (
	whHeartbeat = 0x1C
	whVersion   = 0x210
	whQueues    = 0x170  // where the hosts' commands are
	whRouting   = 0x104C // 1: routing firmware is off
	whTrained   = 0x1104 // 0 training, 1 trained, 2 lost, 3 not connected
	whNodeInfo  = 0x1100
	whPorts     = 0x1200 // by channel: 1 not connected, 2 without routing, more with it (luwen wormhole.rs)
	whResults   = 0x1EC0
	whLaunch    = 0x9004
	whApp       = 0x9040
	whYield     = 0x9020 // pointer to the function by which applications yield

	bhStatus    = 0x7CC00
	bhHeartbeat = 0x7CC70
	bhRxLink    = 0x7CE04
	bhFunctions = 0x7CF00
	bhVersion   = 0x7CFBC
	bhLocal     = 0x7CFC0
	bhRemote    = 0x7CFE0
	bhMailbox   = 0x7D000

	whEthVersion = 6<<16 | 14<<12 // 6.14.0
	bhEthVersion = 1<<16 | 6<<8   // 1.6.0

	whResume    = 0x444 // where applications return to
	riscvReturn = 0x8067
	riscvStay   = 0x6F // a jump to itself
)

// Streams of a worker, and of an Ethernet tile.
const (
	maxStreams   = 64
	leastStreams = 32
)

// tileWords are the registers of a tile that translated code may access, apart: a request's
// counters share cache lines.
type tileWords struct {
	niu     [2]niuWords
	streams [maxStreams]stream
}

const firstStreamWord = 2 * numNIUWords

type slotsKey struct {
	arch                      chip.Arch
	streams                   int
	checked, parallel, delays bool
	bare                      bool
}

var (
	slotsMu  sync.Mutex
	allSlots = map[slotsKey]*translate.Registers{} // shared by all chips
)

func slotsOf(k slotsKey, l *niuLayout) *translate.Registers {
	slotsMu.Lock()
	defer slotsMu.Unlock()
	s := allSlots[k]
	if s == nil {
		s = newSlots(k, l)
		allSlots[k] = s
	}
	return s
}

// newSlots finds the registers whose loads or stores have no other effect. Checks of counters,
// counters that wait for a window's end, and command buffers that may be busy have other effects.
func newSlots(k slotsKey, l *niuLayout) *translate.Registers {
	s := &translate.Registers{}
	if k.bare {
		s.Ignored = configBase + 4*cfgInvalidate(k.arch)
	}
	for noc := range uint32(2) {
		for off := uint32(0); off < niu1Base-niu0Base; off += 4 {
			at, slot := (noc*(niu1Base-niu0Base)+off)/4, noc*numNIUWords+1
			i, r, ok := l.register(off)
			switch {
			case ok:
				slot += i*uint32(len(cmdBuf{})) + r
			case off >= 0x200 && off < 0x200+4*numCounters:
				slot += niuCounters + (off-0x200)/4
			default:
				continue
			}
			if !k.checked && (ok || !k.parallel) {
				s.Loads[at] = uint16(slot)
			}
			if ok && r != bufBusy && !k.delays {
				s.Stores[at] = uint16(slot)
				if r == bufTag {
					s.Stores[at] |= translate.Narrow
				}
			}
		}
	}
	words := map[streamReg]int{streamRemoteSource: 0, streamBufStart: 1, streamBufSize: 2, streamAvailable: 3} // of a stream
	for off := 0; off < streamBytes && !k.checked; off += 4 {
		if w, ok := words[streamRegister(k.arch, uint32(off))]; ok {
			for n := range k.streams {
				s.Loads[(streamBase-translate.RegistersBase+n*streamBytes+off)/4] = uint16(1 + firstStreamWord + n*len(words) + w)
			}
		}
	}
	return s
}
