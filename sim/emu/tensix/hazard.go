package tensix

// Assumptions are promises that no document makes but programs rely on.
type Assumptions uint8

const (
	// ContextIsRead: an unpacker has read the configuration of an UNPACR before a later SEMGET of
	// the same thread.
	//
	// Documents ask software to wait until an instruction has started before changing its
	// configuration (BackendConfiguration.md, Danger two), but not when an unpacker reads it.
	// tt-llk releases a context with SEMGET straight after the UNPACR that uses it
	// (t6_semaphore_get(semaphore::UNPACK_SYNC)); its T core then stores the next address.
	ContextIsRead Assumptions = 1 << iota
	// ZeroedAtOnce: ZEROACC and ZEROSRC are done before a later instruction of the same thread.
	// Wormhole's have a latency of one cycle (MatrixUnit.md). tt-llk clears Dst and gives it back
	// to the math thread at once (_llk_pack_dest_section_done_), and clears SrcA and SrcB when a
	// kernel starts.
	ZeroedAtOnce
	// BootIsOver: instructions that firmware pushes at its start are done before any program.
	// tt-metal's BRISC clears Dst and sets up the vector unit through thread 0 without waiting
	// (device_setup).
	BootIsOver
	// PartOfTile: what the vector unit makes of rows of Dst that are undefined since ZEROACC isn't
	// used, if other rows of the tile have been written. A sum of rows leaves half of a tile so
	// (_llk_math_reduce_). tt-metal's recip_tile and the like then work on all of it.
	PartOfTile
)

type unit uint16

const (
	unitUnpack0 unit = 1 << iota
	unitUnpack1
	unitPack
	unitMatrix
	unitVector
	unitScalar
	unitMisc
	unitConfig
	unitSync
	// Stores of the T core.
	configStores
	gprStores

	stores     = configStores | gprStores
	unitUnpack = unitUnpack0 | unitUnpack1
)

func (u unit) String() string {
	names := []string{"unpacker 0", "unpacker 1", "packers", "matrix unit", "vector unit", "scalar unit", "counters", "configuration unit",
		"sync unit", "stores to configuration", "stores to GPRs"}
	s := ""
	for i, n := range names {
		if u>>i&1 != 0 {
			if s != "" {
				s += ", "
			}
			s += n
		}
	}
	return s
}

// hazards is the work that no instruction has waited for; nil unless hazards are refused.
type hazards struct {
	threads [numThreads]hazard
}

type hazard struct {
	busy    unit // units that may still execute instructions of the thread, and stores
	blocked unit // units that the last STALLWAIT holds back until waits are no longer busy
	waits   unit
	toDst   bool // an unpacker has written Dst since the last SEMPOST

	matrix   [3]dstUse // what the matrix unit has written in the last instructions, the newest first
	results  uint16    // LRegs that the vector unit writes one cycle late, if its next instruction comes at once
	shuffles bool      // the vector unit's last instruction shuffled lanes, which takes another cycle
	config   wordRange // of the configuration, that the last instruction writes one cycle late

	pushed Assumptions           // of what the core pushes
	stored unit                  // stores since the core has pushed an instruction
	queue  [queueSize]pushedNote // what belongs to the instructions in the queue
	popped uint64                // instructions of the queue that were executed
	over   []storeOver
}

type pushedNote struct {
	assume Assumptions
	stored unit // stores of the core before it has pushed the instruction, and after the one before
}

type storeOver struct {
	to   Place
	at   uint32
	last uint64 // the first of the queue's instructions that was pushed later
}

type dstUse struct {
	first, end uint32
	moved      bool
}

type wordRange struct{ first, end uint32 }

// Place is a destination of a T core's stores to the engines.
type Place uint8

const (
	Configuration Place = iota
	GPRs
)

func (p Place) stores() unit { return configStores << p }

func (p Place) String() string {
	if p == GPRs {
		return "GPR"
	}
	return "configuration word"
}

func (h *hazard) arrived(q *queue, u unit) {
	h.busy &^= u
	h.stored &^= u
	for i := range q.n {
		h.queue[(q.first+i)%queueSize].stored &^= u
	}
}

func (h *hazard) pushes(at uint32) {
	h.queue[at] = pushedNote{h.pushed, h.stored}
	h.stored = 0
}

func (h *hazard) begins(q *queue) {
	from := &h.stored
	if q.n > 0 {
		from = &h.queue[q.first].stored
	}
	h.busy |= *from
	*from = 0
}

func (h *hazard) assumes(q *queue, a Assumptions) bool {
	have := h.pushed
	if q.n > 0 { // it is the first there
		have = h.queue[q.first].assume
	}
	return have&a == a
}

func (h *hazard) overlaps(row uint32) bool {
	row &^= 3
	for _, m := range h.matrix {
		if m.first < row+4 && row < m.end {
			return true
		}
	}
	return false
}
