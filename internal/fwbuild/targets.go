package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/reprise-tt/reprise/chip"
)

// A target is one committed image.
type target struct {
	output  string // path below the images directory, slash-separated
	arch    chip.Arch
	sources []string // relative to the module's root, in link order
	include []string // further include directories
	script  string   // linker script
	defines []string // preprocessor definitions
	symbols []string // linker symbols, name=value
	flat    bool     // bytes to load, instead of an ELF file with relocations
}

var arches = []chip.Arch{chip.Wormhole, chip.Blackhole}

const (
	firmwareSource = "dispatch/firmware/src"
	kernelLib      = "kernels/lib"
	kernelSource   = "kernels/src"
	digitsSource   = "examples/digits/kernels"
)

// firmwareTargets are the base firmware of each processor, and the command-queue kernels that there are sources for.
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
				flat: true,
			})
		}
	}
	queue, err := elfTargets(root, firmwareSource+"/cq", "cq/")
	return append(targets, queue...), err
}

// kernelTargets are one kernel for each source file in kernels/src.
func kernelTargets(root string) ([]target, error) { return elfTargets(root, kernelSource, "") }

func elfTargets(root, dir, prefix string) ([]target, error) {
	entries, err := os.ReadDir(filepath.Join(root, dir))
	if err != nil {
		return nil, fmt.Errorf("fwbuild: list kernel sources: %w", err)
	}
	var targets []target
	for _, arch := range arches {
		for _, e := range entries {
			ext := filepath.Ext(e.Name())
			if ext != ".c" && ext != ".cpp" {
				continue
			}
			targets = append(targets, target{
				output:  fmt.Sprintf("%v/%s%s.elf", arch, prefix, strings.TrimSuffix(e.Name(), ext)),
				arch:    arch,
				sources: []string{kernelLib + "/start.c", dir + "/" + e.Name(), kernelLib + "/memory.c"},
				include: []string{dir},
				script:  kernelLib + "/kernel.ld",
			})
		}
	}
	return targets, nil
}
