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
)

// A target is one committed image.
type target struct {
	output  string // path below the images directory, slash-separated
	arch    chip.Arch
	form    form
	sources []string // relative to the module's root, in link order; a kernel has one
	defines []string // preprocessor definitions

	// Of compute kernels only: output is what the names of their three images begin with.
	compute *computeTarget

	// Of firmware and of kernels of which the image is committed.
	lines string // path of a table of its functions and lines (stack.Module.AppendTable), or empty

	// Of firmware only.
	script  string   // linker script
	symbols []string // linker symbols, name=value
}

// computeTarget is how a compute kernel is compiled. An image is named after what it depends on: the unpack thread's after the
// format of the operands, the math thread's after that and the function, the pack thread's after the format of the result, and that of
// operands which it packs.
type computeTarget struct {
	function string // of the elements of a result, or empty
	packs    bool   // the pack thread packs operands too
	source   kernels.ComputeSource
}

// names returns what the names of the images of TRISC0, TRISC1 and TRISC2 end in.
func (c *computeTarget) names() [3]string {
	in, out, function := c.source.Formats[1].String(), c.source.Formats[0], ""
	if right := c.source.Formats[2]; right != c.source.Formats[1] {
		in += "_" + right.String()
	}
	if c.function != "" {
		function = "_" + c.function
	}
	pack := fmt.Sprintf("_%v.pack.elf", out)
	if from := c.source.Formats[1]; c.packs && from != out {
		pack = fmt.Sprintf("_%v%s", from, pack)
	}
	return [3]string{"_" + in + ".unpack.elf", fmt.Sprintf("%s_%s.math.elf", function, in), pack}
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
	wordsSource    = "examples/words/transformer/kernels"
	hwtestSource   = "hwtest/internal/rig/kernels"
	benchSource    = "internal/bench/kernels"
	opsSource      = "ops/kernels"
	opsCompute     = "ops/kernels/compute"
	relaySource    = "dispatch/firmware/relay/src"
)

// firmwareTargets returns the base firmware of each processor, and a command-queue kernel for each of its source files.
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

// opsFunctions are the functions of elements that operations have, by the name of their functions in the compute API.
var opsFunctions = []string{
	"abs", "ceil", "exp", "floor", "frac", "gelu", "log", "negative", "recip", "relu", "round", "rsqrt", "sigmoid", "sign", "silu",
	"sqrt", "square",
	"tanh", "trunc",
}

// opsActivations are those that a product of matrices can have applied to its result.
var opsActivations = []string{"gelu", "relu", "silu"}

// opsRows are the kernels that pass several times over a row of tiles.
var opsRows = []string{"norm", "softmax"}

// opsAllBits are the kernels that take all bits of fp32 operands.
var opsAllBits = []string{"binary", "dequantize", "fold", "pool", "quantize", "rotary", "typecast", "unary", "where"}

// opsTargets returns the kernels of operations: those of data movement and of RISC-V cores, and those of the engines for the
// formats of operands and result that they support.
func opsTargets(root string) ([]target, error) {
	targets, err := kernelTargetsIn(root, opsSource, "", elfFile)
	for _, arch := range arches {
		add := func(kernel, function string, in, out kernels.Format) {
			t := target{output: fmt.Sprintf("%v/compute/%s", arch, kernel), arch: arch, sources: []string{opsCompute + "/" + kernel + ".cpp"}}
			if function != "" {
				t.defines = []string{"FUNCTION=" + function + "_tile"}
			}
			t.compute = &computeTarget{function: function, source: kernels.ComputeSource{
				Formats: map[int]kernels.Format{0: out, 1: in, 2: in, 3: in}, Fidelity: kernels.HiFi4, WideDst: true,
			}}
			if in == kernels.FP32 && slices.Contains(opsAllBits, kernel) {
				t.compute.source.UnpackToDst = []int{1, 2}
				if kernel == "where" {
					t.compute.source.UnpackToDst = []int{1, 2, 3}
				}
			}
			if slices.Contains(opsRows, kernel) { // with fp32 tiles of what passes over rows leave
				t.compute.source.Formats[4], t.compute.source.Formats[5] = kernels.FP32, kernels.FP32
				t.compute.source.UnpackToDst = []int{4, 5}
				if in == kernels.FP32 {
					t.compute.source.UnpackToDst = []int{1, 2, 3, 4, 5}
				}
				if kernel == "softmax" { // with exponentials
					t.compute.source.Formats[6] = kernels.FP32
					t.compute.source.UnpackToDst = append(t.compute.source.UnpackToDst, 6)
				}
			}
			if t.compute.packs = strings.HasSuffix(kernel, "_transposed"); t.compute.packs {
				t.compute.source.Formats[7] = in // turned tiles
			}
			targets = append(targets, t)
		}
		matmul := func(function string, in, out kernels.Format) {
			add("matmul", function, in, out)
			add("matmul_transposed", function, in, out)
		}
		blocks := func(function string, in, right, out kernels.Format) {
			for _, kernel := range []string{"matmul_blocks", "matmul_blocks_transposed"} {
				add(kernel, function, in, out)
				s := &targets[len(targets)-1].compute.source
				s.Formats[2], s.Formats[4], s.Formats[5], s.UnpackToDst = right, in, kernels.FP32, []int{5} // sums between passes, with all bits
			}
		}
		matmul("", kernels.BF16, kernels.FP32)
		for _, function := range slices.Concat([]string{""}, opsActivations) { // with sums of 16 bits
			add("matmul_blocks_narrow", function, kernels.BF16, kernels.BF16)
			s := &targets[len(targets)-1].compute.source
			s.WideDst, s.Formats[4], s.Formats[5] = false, kernels.BF16, kernels.BF16
		}
		add("quantize", "", kernels.Int32, kernels.Int32)
		for _, f := range []kernels.Format{kernels.BF16, kernels.FP32} {
			matmul("", f, kernels.BF16)
			blocks("", f, f, kernels.BF16)
			blocks("", f, kernels.BFP8, kernels.FP32)
			add("binary", "", f, f)
			add("reduce", "", f, f)
			add("rotary", "", f, f)
			add("pool", "", f, f)
			add("fold", "", f, f)
			add("where", "", f, f)
			add("rand", "", f, f)
			add("quantize", "", f, kernels.Int32)
			add("dequantize", "", kernels.Int32, f)
			for _, to := range []kernels.Format{kernels.BF16, kernels.FP32, kernels.Int32} {
				if to != f {
					add("typecast", "to_"+to.String(), f, to)
				}
			}
			add("typecast", "to_"+f.String(), kernels.Int32, f)
			for _, kernel := range opsRows {
				add(kernel, "", f, f)
			}
			for _, function := range opsActivations {
				matmul(function, f, f)
				blocks(function, f, f, f)
				blocks(function, f, kernels.BFP8, f)
			}
			for _, function := range opsFunctions {
				add("unary", function, f, f)
			}
			targets = append(targets, attentionTarget(arch, f))
		}
	}
	return targets, err
}

// attentionTarget returns the kernel of attention, which keeps scores and sums in fp32; the circular buffers are those of
// ops/kernels/attention.h.
func attentionTarget(arch chip.Arch, f kernels.Format) target {
	source := kernels.ComputeSource{Formats: map[int]kernels.Format{}, UnpackToDst: []int{6, 9, 10, 11, 12, 13}, Fidelity: kernels.HiFi4,
		WideDst: true}
	for _, cb := range []int{0, 1, 2, 3, 4, 5, 7} {
		source.Formats[cb] = f
	}
	for _, cb := range []int{6, 8, 9, 10, 11, 12, 13} {
		source.Formats[cb] = kernels.FP32
	}
	if f == kernels.FP32 {
		source.UnpackToDst = append(source.UnpackToDst, 4)
	}
	return target{
		output: fmt.Sprintf("%v/compute/attention", arch), arch: arch, sources: []string{opsCompute + "/attention.cpp"},
		compute: &computeTarget{source: source},
	}
}

// kernelTargets returns a kernel for each source file in kernels/src, and the engines' sums of collectives.
func kernelTargets(root string) ([]target, error) {
	targets, err := kernelTargetsIn(root, kernelSource, "", elfFile)
	for _, arch := range arches {
		for _, f := range []kernels.Format{kernels.BF16, kernels.FP32} {
			c := &computeTarget{source: kernels.ComputeSource{Formats: map[int]kernels.Format{0: f, 1: f, 2: f}, WideDst: true}}
			if f == kernels.FP32 { // with all bits
				c.source.UnpackToDst = []int{1, 2}
			}
			targets = append(targets, target{
				output: fmt.Sprintf("%v/sum", arch), arch: arch, sources: []string{kernelSource + "/compute/sum.cpp"}, compute: c,
			})
		}
	}
	return targets, err
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
