package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/ops/catalog"
)

type target struct {
	output  string // below the images directory, slash-separated
	arch    chip.Arch
	form    form
	sources []string // relative to the module's root, in link order; a kernel has one
	defines []string

	// output is the prefix of their three images' names.
	compute *computeTarget

	lines string // path of a table of functions and lines (stack.Module.AppendTable), or empty

	script  string
	symbols []string // linker symbols, name=value
}

type computeTarget struct {
	names  [3]string // suffixes
	source kernels.ComputeSource
}

type form int

const (
	elfFile form = iota // a kernel's ELF file with relocations, for kernels.Load
	image               // a kernel as encoded by kernels.Load
	flat
)

var arches = []chip.Arch{chip.Wormhole, chip.Blackhole}

const (
	firmwareSource = "dispatch/firmware/src"
	kernelHeaders  = "kernels/include"
	kernelSource   = "kernels/src"
	opsSource      = "ops/kernels"
	relaySource    = "dispatch/firmware/relay/src"
)

func firmwareTargets(root string) ([]target, error) {
	sources := [chip.NumProcessors]string{"brisc", "ncrisc", "trisc", "trisc", "trisc"}
	var targets []target
	for _, arch := range arches {
		params, l1 := arch.Params(), abi.Own(arch).L1
		for p := range chip.Processor(chip.NumProcessors) {
			targets = append(targets, target{
				output:  fmt.Sprintf("%v/%s.bin", arch, strings.ToLower(p.String())),
				arch:    arch,
				sources: []string{firmwareSource + "/start.S", firmwareSource + "/" + sources[p] + ".c"},
				script:  firmwareSource + "/firmware.ld",
				defines: []string{fmt.Sprintf("REPRISE_PROCESSOR=%d", p)},
				symbols: []string{
					fmt.Sprintf("__base=%#x", l1.Firmware[p]),
					fmt.Sprintf("__size=%#x", l1.FirmwareSize[p]),
					fmt.Sprintf("__stack_top=%#x", params.LocalRAM+params.LocalRAMSize[p]),
				},
				form:  flat,
				lines: fmt.Sprintf("%v/%s.lines", arch, strings.ToLower(p.String())),
			})
		}
	}
	queue, err := kernelTargetsIn(root, firmwareSource+"/cq", "cq/", image)
	for i := range queue {
		queue[i].lines = strings.TrimSuffix(queue[i].output, ".bin") + ".lines"
	}
	return append(targets, queue...), err
}

// relayTargets returns the programs that carry Wormhole's command queues over Ethernet: kernels,
// and the program of Ethernet tiles, in the region for customers' code (tt-isa-documentation
// WormholeB0/EthernetTile/L1.md), with its data on the base firmware's stack.
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

func opsTargets(root string) ([]target, error) {
	targets, err := kernelTargetsIn(root, opsSource, "", elfFile)
	for _, arch := range arches {
		for _, e := range catalog.Engines() {
			targets = append(targets, engineTargets(arch, e, "/compute/", opsSource)...)
		}
	}
	return targets, err
}

// It returns one target for formats and functions that give a distinct image.
func engineTargets(arch chip.Arch, e *catalog.Engine, folder, sources string) []target {
	var targets []target
	made := map[string]bool{}
	for _, types := range e.Types {
		for _, function := range e.FunctionsOf(types) {
			t := target{output: arch.String() + folder + e.Name, arch: arch, sources: []string{sources + "/compute/" + e.Name + ".cpp"}}
			if function != "" {
				t.defines = []string{"FUNCTION=" + function + "_tile"}
			}
			t.compute = &computeTarget{source: e.Source(types)}
			isNew := false
			for i, name := range e.Images(function, types) {
				t.compute.names[i] = strings.TrimPrefix(name, e.Name) + ".elf"
				isNew = isNew || !made[name]
				made[name] = true
			}
			if isNew {
				targets = append(targets, t)
			}
		}
	}
	return targets
}

func kernelTargets(root string) ([]target, error) {
	targets, err := kernelTargetsIn(root, kernelSource, "", elfFile)
	sum := &catalog.Engine{
		Name: "sum", Types: []catalog.Types{{Left: kernels.BF16, Right: kernels.BF16, Result: kernels.BF16},
			{Left: kernels.FP32, Right: kernels.FP32, Result: kernels.FP32}},
		Buffers: []catalog.Content{catalog.Result, catalog.Left, catalog.Left}, Exact: []int{1, 2},
	}
	for _, arch := range arches {
		targets = append(targets, engineTargets(arch, sum, "/", kernelSource)...)
	}
	return targets, err
}

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
