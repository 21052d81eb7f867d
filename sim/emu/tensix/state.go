package tensix

import "github.com/reprise-tt/reprise/sim/emu/tensix/arith"

const (
	queueSize  = 512 // of which one place stays empty
	queueHigh  = 52  // a core's .ttinsn waits while more than these are in the queue
	replaySize = 32
	mopWords   = 9
	nop        = opNOP << 24
)

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

type frontEnd struct {
	mop      [mopWords]uint32
	maskHigh uint32 // high half of the MOP's mask

	replay    [replaySize]uint32
	recordAt  uint32
	recording uint32 // instructions still to be recorded
	run       bool   // executes them too
}

// syncUnit synchronises threads (tt-isa-documentation
// WormholeB0/TensixTile/TensixCoprocessor/SyncUnit.md).
type syncUnit struct {
	value, max [numSemaphores]uint8
	owner      [8]uint8 // of each mutex: its thread + 1, or 0
	changes    uint32
}

const (
	numSemaphores = 8
	maxSemaphore  = 15
)

type counter struct{ value, carry uint32 }

type step struct {
	by                    uint32
	clear, carry, toCarry bool
}

// rows is a power of two.
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

type addressMode struct {
	a, b, d       step
	fidelity      uint32
	clearFidelity bool
	bias          uint32
	clearBias     bool
}

const numModes = 8

// adc is the address counters of an unpacker or of the packers, for reads and writes.
type adc struct{ channel [2]channel }

type channel struct{ x, y, z, w counter }

const (
	adcUnpack0 = iota
	adcUnpack1
	adcPack
	numADC
)

const (
	sizeX = 1 << 18
	sizeY = 1 << 13
	sizeZ = 1 << 8
	sizeW = 1 << 8
)

// dimension is X, Y, Z or W.
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

type packMode struct{ yIn, yOut, zIn, zOut step }

const numPackModes = 4

// mathPlan caches what the configuration implies.
type mathPlan struct {
	bank    *[numConfigWords]uint32 // nil if there is none
	version uint32
	a, b    uint32 // formats
	math    arith.Math
}

const numPackers = 4

// packer is the state between the PACRs of a tile.
type packer struct {
	open  bool // a tile has been begun
	place [numPackers]packPlace
	plan  packPlan
}

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

type packPlace struct {
	data, exponents uint32 // byte addresses in L1
	column, row     uint32 // of the face, for its edges
}

// unpackChunk is how many data are converted at once.
const unpackChunk = srcRows * rowSize

type buffers struct {
	bytes     [4*unpackChunk + 8]byte
	exponents [unpackChunk/16 + 2]byte
	values    [unpackChunk]uint32
}
