// Package tensix is the Tensix engines of one tile: what the vendor calls the coprocessor of its
// three T cores. It executes the instructions that the cores push, on the tile's L1 and on
// registers of its own, one file per unit:
//
//	tables.go, state.go, source.go, dst.go   what others are made of: types of tables, and of what units keep
//	engine.go     the engine and its threads: the state that all units work on
//	frontend.go   MOP and REPLAY expanders and the queues that they fill
//	run.go        how threads step and instructions are executed
//	config.go     configuration, shared and of a thread
//	sync.go       semaphores, mutexes, STALLWAIT; banks.go: banks of SrcA and SrcB
//	counters.go   address counters of unpackers and packers (ADC), of the matrix unit (RWC), and address modes
//	scalar.go     general-purpose registers and the instructions on them
//	unpack.go     unpackers
//	matrix.go     products, elementwise operations and pooling; move.go: moves, transposes and clears
//	sfpu*.go      the vector unit; sfpu_macro.go: what it does while instructions are scheduled
//	pack.go       packers
//	strict.go     hazards: what only works if a unit is quick enough; hazard.go: what is kept for that;
//	              effects.go: what instructions read and write
//	debug.go      what debug registers show, and in words what an instruction waits for
//
// Units know the state and not each other. Only run.go knows all of them, by the table of
// executors.go.
//
// Instructions and configuration are tables of facts, instructions.txt and registers.txt, that say
// where they are from.
//
// Behaviour follows tenstorrent/tt-isa-documentation and, where that says little, tenstorrent/ttsim
// 1.10.0, to which results are equal bit for bit. What the architecture leaves undefined and what
// is not emulated is refused, with the category that ttsim gives it. Of what ttsim refuses, the
// engine has what TT-NN's kernels use and the documentation describes: SFPLOADMACRO, UNPACR with a
// context and counters of its own, and on Wormhole UNPACR of zeros. Every instruction completes at
// once, in the order of its thread; the threads take turns.
package tensix

//go:generate go run ./internal/tablegen
