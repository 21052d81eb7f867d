// Package kernels compiles and loads programs for the RISC-V processors of a Tensix tile, and holds
// the ones that come with Reprise.
//
// A kernel is a C or C++ file with a function kernel_main. [Compile] makes an image of it that a
// program can run:
//
//	image, err := kernels.Compile(ctx, kernels.Source{Path: "mine.cpp", Arch: dev.Arch()})
//
// It needs the GNU cross compiler for RISC-V (Debian: gcc-riscv64-unknown-elf). Without one, load a
// file that was made before:
//
//	$ reprise kernel build mine.cpp --arch blackhole -o mine.elf
//
//	image, err := kernels.Load(file) // the bytes of mine.elf, embedded for instance
//
// Kernels against tt-metal's data-movement API include "api/dataflow/dataflow_api.h" or
// "dataflow_api.h"; include/reprise/kernel.h is the layer below. [Sources] are these files, for
// other build systems.
//
// A kernel for the Tensix engines is one C++ file too. It includes headers of api/compute, and
// [CompileCompute] makes images of it for TRISC0, TRISC1 and TRISC2. What is known when compiling
// is part of [ComputeSource]: formats of circular buffers, fidelity, the width of Dst. The layer
// below, in C, is include/reprise/tensix.h.
//
// A kernel's text may run anywhere in L1, so it must not contain its own address: no jump tables,
// stored function pointers, virtual functions or static constructors. Its data lives in the
// processor's local RAM, a few KiB that it shares with the stack. [Load] and Compile refuse what
// would break these rules, and say what to change.
//
// Kernels may use float, double and 64-bit integers. The cores have no such units, so the compiler
// calls routines of its library, libgcc, of which only those are linked: 1 to 2 KiB for each
// operation of double, with IEEE 754's bits. The error wraps [ErrNoArithmetic] if the compiler has
// no libgcc for the cores.
//
// [LoadMetal] reads kernels that tt-metal built; they run on tt-metal's base firmware, which
// package kernels/metal finds.
package kernels

//go:generate go run github.com/reprise-tt/reprise/internal/fwbuild kernels
