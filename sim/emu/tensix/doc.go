// Package tensix is the Tensix engines of one tile: what the vendor calls the coprocessor of its
// three T cores. It executes the instructions that the cores push, on the tile's L1 and on
// registers of its own, one file per unit:
//
//	tables.go, state.go, source.go, dst.go   types of the tables, and state of units
//	engine.go     the engine and its threads
//	frontend.go   MOP and REPLAY expanders, and queues
//	run.go        steps of threads
//	config.go     configuration, shared and of a thread
//	sync.go       semaphores, mutexes, STALLWAIT; banks.go: banks of SrcA and SrcB
//	counters.go   address counters (ADC, RWC) and address modes
//	scalar.go     general-purpose registers
//	unpack.go     unpackers
//	matrix.go     products, elementwise operations and pooling; move.go: moves, transposes and clears
//	sfpu*.go      the vector unit; sfpu_macro.go: scheduled instructions
//	pack.go       packers
//	strict.go     hazards; hazard.go: their state; effects.go: operands and results of instructions
//	debug.go      debug registers, and why an instruction waits
//
// Units know the state and not each other. Only run.go knows all units, by the switch in
// executors.go.
//
// instructions.txt and registers.txt list the instructions and the configuration, with their
// sources.
//
// Behaviour follows tenstorrent/tt-isa-documentation and, where that says little, tenstorrent/ttsim
// 1.10.0; results are equal to ttsim's bit for bit. The engine refuses what the architecture leaves
// undefined and what is not emulated, with ttsim's category. Beyond ttsim it has features that
// TT-NN's kernels use and the documentation describes: SFPLOADMACRO, UNPACR with its own context
// and counters, and on Wormhole UNPACR of zeros. Every instruction completes at once, in the order
// of its thread; the threads take turns.
package tensix

//go:generate go run ./internal/tablegen
