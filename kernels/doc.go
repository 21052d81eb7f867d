// Package kernels compiles and loads programs for the RISC-V processors of a Tensix tile, and holds
// the ones that come with Reprise.
//
// A kernel is a C or C++ file with a function kernel_main. [Compile] makes an image of it that a
// program can run:
//
//	image, err := kernels.Compile(ctx, kernels.Source{Path: "mine.cpp", Arch: dev.Arch()})
//
// It needs the GNU cross compiler for RISC-V (Debian: gcc-riscv64-unknown-elf); headers, start-up
// code and linker script are part of this package. Programs that run where there is no compiler
// load a file that was made before:
//
//	$ reprise kernel build mine.cpp --arch blackhole -o mine.elf
//
//	image, err := kernels.Load(file) // the bytes of mine.elf, embedded for instance
//
// Kernels written against tt-metal's data-movement API include "api/dataflow/dataflow_api.h" or
// "dataflow_api.h" as they do there; include/reprise/kernel.h has the layer below it. [Sources] are
// these files, for other build systems.
//
// A kernel for the Tensix engines is one C++ file too. It includes headers of api/compute, as
// kernels of tt-metal do, and [CompileCompute] makes three images of it, for TRISC0, TRISC1 and
// TRISC2:
//
//	compute, err := kernels.CompileCompute(ctx, kernels.ComputeSource{Source: kernels.Source{Path: "matmul.cpp", Arch: dev.Arch()}})
//	for i, image := range compute.Images() {
//		program.Kernels = append(program.Kernels, reprise.Kernel{Image: image, Processor: chip.TRISC0 + chip.Processor(i), Cores: cores})
//	}
//
// What is known when compiling is part of [ComputeSource]: formats of circular buffers, fidelity,
// the width of Dst. The layer below, in C, is include/reprise/tensix.h.
//
// A kernel's text may run anywhere in L1, so it must not contain its own address: no jump tables,
// no stored function pointers, no virtual functions, no static constructors. Its data lives in the
// processor's local RAM, a few KiB that it shares with the stack. [Load] refuses what would break
// these rules, and says what to change; so does Compile.
//
// Kernels that tt-metal built are read by [LoadMetal]; they run on tt-metal's base firmware, which
// package kernels/metal finds.
package kernels

//go:generate go run github.com/reprise-tt/reprise/internal/fwbuild kernels
