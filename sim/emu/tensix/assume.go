package tensix

// Assumptions is a set of things that no document promises and that programs rely on all the same.
type Assumptions uint8

const (
	// ContextIsRead: an unpacker has read the configuration that an UNPACR uses before a later SEMGET of the same thread is
	// executed, without a STALLWAIT for the unpacker. Documents promise that units start instructions in the order in which they
	// leave the wait gate (tt-isa-documentation WormholeB0/TensixTile/TensixCoprocessor/README.md, Frontend), ask software to wait
	// until an instruction has started, or better finished, before it changes the configuration that it uses
	// (BackendConfiguration.md, Danger two), and don't say when an unpacker reads it; a packer reads some fields at an
	// unspecified point (PACR.md). tt-llk releases one of two contexts of the unpackers with SEMGET straight after the UNPACR
	// that use it (t6_semaphore_get(semaphore::UNPACK_SYNC)); its T core then stores the next address to that context.
	ContextIsRead Assumptions = 1 << iota
	// ZeroedAtOnce: ZEROACC and ZEROSRC are done before a later instruction of the same thread is executed, without a STALLWAIT
	// for the matrix unit. Wormhole's documents give them a latency of one cycle (MatrixUnit.md), and none says so of Blackhole.
	// tt-llk's pack code clears Dst and gives it back to the math thread at once (_llk_pack_dest_section_done_), and its unpack
	// code clears SrcA and SrcB when a kernel starts.
	ZeroedAtOnce
	// BootIsOver: the instructions are done when any program runs: firmware pushes them when it starts, and starts the T cores
	// and programs much later, without waiting for anything that says that they are done. tt-metal's BRISC firmware clears Dst
	// and sets up the vector unit by way of thread 0 (device_setup).
	BootIsOver
)

// Assume says what the instructions may rely on that a core pushes to thread n from now on, and those that they expand to.
// Without [Engine.RefuseHazards] it does nothing.
func (e *Engine) Assume(n int, a Assumptions) {
	if e.hazards != nil {
		e.hazards.threads[n].pushed = a
	}
}

// assumes reports whether the instruction that thread t executes may rely on a.
func (h *hazard) assumes(t *thread, a Assumptions) bool {
	have := h.pushed
	if q := &t.queue; q.n > 0 { // it is the first there
		have = h.queue[q.first].assume
	}
	return have&a == a
}
