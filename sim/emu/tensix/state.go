package tensix

import "github.com/reprise-tt/reprise/sim/emu/tensix/arith"

// What units keep from one instruction to the next. These types know nothing of the engine.

const (
	queueSize  = 512 // of which one place stays empty
	queueHigh  = 52  // a core's .ttinsn waits while more than these are in the queue
	replaySize = 32
	mopWords   = 9
	nop        = opNOP << 24
)

// queue holds the instructions of a thread that are still to be executed.
type queue struct {
	words [queueSize]uint32
	first uint32
	n     uint32
}

func (q *queue) peek() uint32 { return q.words[q.first] }

func (q *queue) pop() {
	q.first = (q.first + 1) % queueSize
	q.n--
}

// frontEnd is the state of a thread's expanders.
type frontEnd struct {
	mop      [mopWords]uint32
	maskHigh uint32 // high half of the MOP's mask

	replay    [replaySize]uint32
	recordAt  uint32
	recording uint32 // instructions still to be recorded
	run       bool   // executes them too
}

// syncUnit is what threads wait for each other with
// (tt-isa-documentation WormholeB0/TensixTile/TensixCoprocessor/SyncUnit.md).
type syncUnit struct {
	value, max [numSemaphores]uint8
	owner      [8]uint8 // of each mutex: its thread + 1, or 0
	changes    uint32
}

const (
	numSemaphores = 8
	maxSemaphore  = 15
)

// counter is a row counter: its value, and what it returns to ("carriage return").
type counter struct{ value, carry uint32 }

// step is what an address mode does to a counter.
type step struct {
	by                    uint32
	clear, carry, toCarry bool
}

// advance applies a step to a counter of a power of two of rows.
func (c *counter) advance(s *step, rows uint32) {
	switch {
	case s.toCarry:
		c.value = (c.value + s.by) & (rows - 1)
		c.carry = c.value
	case s.clear:
		*c = counter{}
	case s.carry:
		c.carry = (c.carry + s.by) & (rows - 1)
		c.value = c.carry
	default:
		c.value = (c.value + s.by) & (rows - 1)
	}
}

// addressMode is what an instruction of the matrix or vector unit does to the counters.
type addressMode struct {
	a, b, d       step
	fidelity      uint32
	clearFidelity bool
	bias          uint32
	clearBias     bool
}

// numModes is how many address modes a thread has.
const numModes = 8

// adc is a set of address counters: of an unpacker or of the packers. Channel 0 counts what is
// read, channel 1 what is written.
type adc struct{ channel [2]channel }

type channel struct{ x, y, z, w counter }

// Sets of address counters of a thread.
const (
	adcUnpack0 = iota
	adcUnpack1
	adcPack
	numADC
)

// Sizes of the address counters, in values.
const (
	sizeX = 1 << 18
	sizeY = 1 << 13
	sizeZ = 1 << 8
	sizeW = 1 << 8
)

// dimension returns a counter of a channel, in the order X, Y, Z, W, and its size.
func (c *channel) dimension(i uint32) (*counter, uint32) {
	switch i {
	case 0:
		return &c.x, sizeX
	case 1:
		return &c.y, sizeY
	case 2:
		return &c.z, sizeZ
	}
	return &c.w, sizeW
}

// packMode is what a packers' address mode does to their counters.
type packMode struct {
	yIn, yOut, zIn, zOut step
	restores             bool // the Y counter of channel 1
}

// numPackModes is how many address modes packers have.
const numPackModes = 4

// mathPlan is what the matrix unit makes of the configuration, as long as that stays the same.
type mathPlan struct {
	bank    *[numConfigWords]uint32 // nil if there is none
	version uint32
	a, b    uint32 // formats
	math    arith.Math
}

const numPackers = 4

// packer is what a packer carries from one PACR of a tile to the next.
type packer struct {
	open  bool // a tile has been begun
	place [numPackers]packPlace
	plan  packPlan
}

// packPlan is what PACRs make of the configuration, as long as that stays the same.
type packPlan struct {
	bank       *[numConfigWords]uint32 // nil if there is none
	version    uint32
	conversion arith.Pack
	in, out    uint32 // formats
	outBits    uint32
	bfp        bool
	rows       uint32 // of a face
	strides    [4]uint32
	align      uint32             // of strides
	places     [numPackers]uint32 // in Dst, of each packer
	sets       uint32             // of edges, by packer
	whole      [2]bool            // the edges of a set hide nothing
}

// packPlace is where a packer goes on.
type packPlace struct {
	data, exponents uint32 // byte addresses in L1
	column, row     uint32 // of the face, for its edges
}

// unpackChunk is how many data are converted at once.
const unpackChunk = srcRows * rowSize

// buffers hold data on their way through an unpacker or packer.
type buffers struct {
	bytes     [4*unpackChunk + 8]byte
	exponents [unpackChunk/16 + 2]byte
	values    [unpackChunk]uint32
}
