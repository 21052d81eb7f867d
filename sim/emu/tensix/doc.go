// Package tensix is the Tensix engines of one tile, the vendor's coprocessor of its three T cores.
// It executes the instructions that the cores push, on the tile's L1 and on registers of its own,
// one file per unit. Units know the state (state.go) and not each other; only run.go knows all
// units, by the switch in executors.go.
//
// Behaviour follows tenstorrent/tt-isa-documentation and, where that says little, tenstorrent/ttsim
// 1.10.0; results are equal to ttsim's bit for bit. The engine refuses what the architecture leaves
// undefined and what is not emulated, with ttsim's category. Beyond ttsim it has SFPLOADMACRO,
// UNPACR with its own context and counters, and on Wormhole UNPACR of zeros, which TT-NN's kernels
// use. Every instruction completes at once, in the order of its thread; the threads take turns.
package tensix

//go:generate go test ./internal/tablegen -count=1 -update
