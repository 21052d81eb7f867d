package emu

import "github.com/reprise-tt/reprise/sim/emu/internal/translate"

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
