package emu

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/check"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
)

// localBase is where every processor sees its own local RAM (tt-isa-documentation
// */TensixTile/BabyRISCV/README.md).
const localBase = 0xFFB00000

const (
	pageBytes = 4096
	pageOps   = pageBytes / 4
	pageLines = pageOps / lineWords

	// A line is the unit in which stores are watched.
	lineShift = 6
	lineBytes = 1 << lineShift
	// maxLines is a power of two that no L1 reaches, so that indexing needs no bounds check.
	maxLines = 1 << 15
)

// Flags of a line of L1. A store to a line without flags goes straight to memory.
const (
	flagWatch = translate.Watched // a parked core has read a word of the line: a bit for each word, by the low bits of its index
	flagCode  = 1 << 4            // instructions in the line are decoded
	flagTrap  = 1 << 5            // every store is checked, because reads of memory never written are refused
)

// watchFlag returns the flag for a word of L1 that a parked core has read.
func watchFlag(word uint32) uint8 { return 1 << (word & 3) }

const (
	lineWords    = 1 << lineShift / 4
	decodedLines = 512 // a power of two
)

// Registers of a tile by address, as its cores and the NoC see them (tt-isa-documentation
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
	mailboxBase = 0xFFEC0000
	configBase  = 0xFFEF0000
)

// cmdBuf is a request initiator: the registers of one command buffer.
type cmdBuf [16]uint32

// Registers of a command buffer by index.
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
	bufBusy // what CMD_CTRL reads: 1 while there is no virtual channel yet
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

// niuWords are the registers of an NIU that are words, which translated code loads and stores by
// itself where that is all there is to it.
type niuWords struct {
	buf   [4]cmdBuf
	count [64]uint32 // numCounters
}

// How many registers niuWords has, and which of them is the first counter.
const (
	niuCounters = 4 * 16
	numNIUWords = niuCounters + 64
)

// niuLayout is where an NIU has its registers.
type niuLayout struct {
	stride, shift               uint32    // of command buffers: 1 << shift
	registers                   [32]uint8 // of a command buffer, by offset
	hi, retHi                   uint32    // in a command buffer, like the next three; none where absent
	atData, exclude, cmd        uint32
	nodeID, clearReqs, logical  uint32
	endpointID                  uint32
	translateX, translateY, end uint32
}

const none = ^uint32(0)

// layoutOf returns the register offsets (tt-isa-documentation */NoC/MemoryMap.md, ttsim
// data/*/tile_regs.json).
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

// register returns which register of which command buffer an offset is, if it is one.
func (l *niuLayout) register(off uint32) (buf, r uint32, ok bool) {
	buf, off = off>>l.shift, off&(l.stride-1)
	if buf >= 4 || off >= 4*uint32(len(l.registers)) || off&3 != 0 {
		return 0, 0, false
	}
	r = uint32(l.registers[off/4])
	return buf, r, r != noRegister
}

// noRegister stands for no register of a command buffer.
const noRegister = 0xFF

// name fills in registers.
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

// stream is what is left of an overlay stream when it is used as a counter (tt-isa-documentation
// WormholeB0/NoC/Overlay/AsGeneralUse.md).
type stream struct {
	remoteSource uint32 // 24 bits
	bufStart     uint32 // 17 bits
	bufSize      uint32 // 17 bits
	available    uint32 // 17 bits
}

const (
	streamBytes  = 0x1000 // of registers
	streamMask   = 1<<chip.StreamCounterBits - 1
	pageCounters = 32 // circular buffers, by streams from chip.StreamParams.FirstCB on
)

// streamReg names a register of a stream by its offset on either architecture
// (ttsim data/*/tile_regs.json, metal noc_overlay_parameters.h).
type streamReg uint8

const (
	streamNone streamReg = iota
	streamRemoteSource
	streamBufStart
	streamBufSize
	streamUpdate
	streamAvailable
)

func streamRegister(arch chip.Arch, off uint32) streamReg {
	if arch == chip.Wormhole {
		switch off {
		case 0x000:
			return streamRemoteSource
		case 0x00C:
			return streamBufStart
		case 0x010:
			return streamBufSize
		case 0x088:
			return streamUpdate
		case 0x100:
			return streamAvailable
		}
		return streamNone
	}
	switch off {
	case 0x010:
		return streamRemoteSource
	case 0x020:
		return streamBufStart
	case 0x028:
		return streamBufSize
	case 0x438:
		return streamUpdate
	case 0x4A4:
		return streamAvailable
	}
	return streamNone
}

// cfgInvalidate is the word that empties caches of instructions.
func cfgInvalidate(a chip.Arch) uint32 {
	if a == chip.Wormhole {
		return 157
	}
	return 185
}
