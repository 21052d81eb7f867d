// Package kernels loads programs for the RISC-V processors of a Tensix tile, and holds the ones that come with Reprise.
//
// A kernel is C or C++ with a function kernel_main, compiled with the headers in include and linked by the script
// lib/kernel.ld, lib/start.c first:
//
//	cc="riscv64-unknown-elf-gcc -DREPRISE_BLACKHOLE -march=rv32im -mabi=ilp32 -mcmodel=medlow -mno-relax -O2 \
//	    -ffreestanding -nostdlib -fno-jump-tables -fno-tree-loop-distribute-patterns -ffunction-sections \
//	    -fno-delete-null-pointer-checks --param=min-pagesize=0 -Iinclude"
//	$cc -c lib/start.c lib/memory.c
//	$cc -std=c++17 -fno-exceptions -fno-rtti -fno-threadsafe-statics -c mine.cpp
//	$cc -T lib/kernel.ld -Wl,--emit-relocs,--gc-sections,--build-id=none start.o mine.o memory.o -o mine.elf
//
// (-DREPRISE_WORMHOLE for the other architecture.) Kernels written against tt-metal's data-movement API include
// "api/dataflow/dataflow_api.h" or "dataflow_api.h" as they do there; include/reprise/noc.h is the layer below it.
//
// A kernel's text may run anywhere in L1, so it must not contain its own address: no jump tables, no stored function
// pointers, no virtual functions, no static constructors. Its data lives in the processor's local RAM, a few KiB that
// it shares with the stack. [Load] refuses what would break these rules, and says what to change.
package kernels

//go:generate go run github.com/reprise-tt/reprise/internal/fwbuild kernels
