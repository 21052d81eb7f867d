package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
)

// A target is one committed image.
type target struct {
	output  string // path below the images directory, slash-separated
	arch    chip.Arch
	form    form
	sources []string // relative to the module's root, in link order; a kernel has one
	defines []string // preprocessor definitions

	// Of compute kernels only: each is three files, whose names begin with output.
	compute *kernels.ComputeSource

	// Of firmware only.
	script  string   // linker script
	symbols []string // linker symbols, name=value
}

// A form is the form in which the linker's output is committed.
type form int

const (
	elfFile form = iota // of a kernel the ELF file with its relocations, for kernels.Load
	image               // of a kernel the bytes that kernels.Load makes of its ELF file
	flat                // of firmware the bytes as they are loaded
)

var arches = []chip.Arch{chip.Wormhole, chip.Blackhole}

const (
	firmwareSource = "dispatch/firmware/src"
	kernelHeaders  = "kernels/include"
	kernelSource   = "kernels/src"
	digitsSource   = "examples/digits/kernels"
	hwtestSource   = "hwtest/kernels"
	benchSource    = "bench/kernels"
	opsSource      = "ops/kernels"
	opsCompute     = "ops/kernels/compute"
	relaySource    = "dispatch/firmware/relay/src"
)

// firmwareTargets returns the base firmware of each processor, and a command-queue kernel for each of its source files.
func firmwareTargets(root string) ([]target, error) {
	sources := [chip.NumProcessors]string{"brisc", "ncrisc", "trisc", "trisc", "trisc"}
	var targets []target
	for _, arch := range arches {
		params := arch.Params()
		for p := range chip.Processor(chip.NumProcessors) {
			targets = append(targets, target{
				output:  fmt.Sprintf("%v/%s.bin", arch, strings.ToLower(p.String())),
				arch:    arch,
				sources: []string{firmwareSource + "/start.S", firmwareSource + "/" + sources[p] + ".c"},
				script:  firmwareSource + "/firmware.ld",
				defines: []string{fmt.Sprintf("REPRISE_PROCESSOR=%d", p)},
				symbols: []string{
					fmt.Sprintf("__base=%#x", params.L1.Firmware[p]),
					fmt.Sprintf("__size=%#x", params.L1.FirmwareSize[p]),
					fmt.Sprintf("__stack_top=%#x", params.LocalRAM+params.LocalRAMSize[p]),
				},
				form: flat,
			})
		}
	}
	queue, err := kernelTargetsIn(root, firmwareSource+"/cq", "cq/", image)
	return append(targets, queue...), err
}

// relayTargets returns the programs that carry command queues over Ethernet, which only Wormhole needs: a kernel, and the
// program of Ethernet tiles. That one is linked to the region for customers' code (tt-isa-documentation
// WormholeB0/EthernetTile/L1.md) and keeps its data on the base firmware's stack.
func relayTargets(root string) ([]target, error) {
	kernels, err := kernelTargetsIn(root, relaySource+"/tensix", "", image)
	kernels = slices.DeleteFunc(kernels, func(t target) bool { return t.arch != chip.Wormhole })
	return append(kernels, target{
		output:  "wormhole/relay.bin",
		arch:    chip.Wormhole,
		sources: []string{relaySource + "/start.S", relaySource + "/relay.c"},
		script:  firmwareSource + "/firmware.ld",
		symbols: []string{"__base=0x9040", "__size=0x7FC0"},
		form:    flat,
	}), err
}

// opsTargets returns the kernels of operations: those of data movement and of RISC-V cores, and those of the engines for the
// formats of operands and result that they support.
func opsTargets(root string) ([]target, error) {
	targets, err := kernelTargetsIn(root, opsSource, "", elfFile)
	for _, arch := range arches {
		for _, k := range []struct {
			name    string
			in, out kernels.Format
		}{
			{"matmul", kernels.BF16, kernels.BF16},
			{"matmul", kernels.BF16, kernels.FP32},
		} {
			targets = append(targets, target{
				output:  fmt.Sprintf("%v/compute/%s_%v_%v", arch, k.name, k.in, k.out),
				arch:    arch,
				sources: []string{opsCompute + "/" + k.name + ".cpp"},
				compute: &kernels.ComputeSource{Formats: map[int]kernels.Format{0: k.in, 1: k.in, 2: k.out}, Fidelity: kernels.HiFi4, WideDst: true},
			})
		}
	}
	return targets, err
}

// kernelTargets returns a kernel for each source file in kernels/src.
func kernelTargets(root string) ([]target, error) {
	return kernelTargetsIn(root, kernelSource, "", elfFile)
}

// kernelTargetsIn returns a kernel for each source file in a directory.
func kernelTargetsIn(root, dir, prefix string, form form) ([]target, error) {
	ext := map[bool]string{true: "elf", false: "bin"}[form == elfFile]
	entries, err := os.ReadDir(filepath.Join(root, dir))
	if err != nil {
		return nil, fmt.Errorf("fwbuild: list kernel sources: %w", err)
	}
	var targets []target
	for _, arch := range arches {
		for _, e := range entries {
			language := filepath.Ext(e.Name())
			if language != ".c" && language != ".cpp" {
				continue
			}
			targets = append(targets, target{
				output:  fmt.Sprintf("%v/%s%s.%s", arch, prefix, strings.TrimSuffix(e.Name(), language), ext),
				arch:    arch,
				form:    form,
				sources: []string{dir + "/" + e.Name()},
			})
		}
	}
	return targets, nil
}
