package kernels_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
)

func TestStrict(t *testing.T) {
	kernels.NeedCompiler(t)
	const n = 2
	in := []pages{random(bf16, 2*n, 17), random(bf16, 2*n, 18), random(bf16, 2*n, 19)}
	triple, ints := random(bf16, 3, 24), random(int8s, n, 25)
	mixed := []pages{random(bf16, 1, 26), random(bf16, 1, 27), random(bfp8, 1, 28), random(bfp4, 1, 29)}
	for arch, card := range map[chip.Arch]func(...sim.Option) *sim.Card{chip.Wormhole: sim.Wormhole, chip.Blackhole: sim.Blackhole} {
		for seed := range effort.Of[uint64](1, 2, 1000) {
			name := fmt.Sprintf("%v, seed %d", arch, seed)
			ok := t.Run(name, func(t *testing.T) {
				b := open(t, backend{name, arch, func(*testing.T) kmd.Target { return card(sim.Strict(seed), harvested[arch]) }})
				for op := range 10 {
					b.everywhere(fmt.Sprint("seeds, matrix unit ", op), b.fpu(0, op, 0, in[:2], n))
				}
				for op := range 6 {
					b.everywhere(fmt.Sprint("seeds, reduction ", op), b.fpu(2, op, 0, []pages{in[0], factors(bf16)}, n))
				}
				for f := range inexact {
					b.everywhere(fmt.Sprint("seeds, function ", f), b.sfpu(0, f, false, in[:1], bf16))
				}
				b.everywhere("seeds, three tiles", b.sfpu(2, 6, false, in, bf16))
				for action := range 2 {
					b.everywhere(fmt.Sprint("seeds, rows ", action), b.rows(action, in[0], bf16, false, 2*n, n, 2))
				}
				b.everywhere("seeds, packed rows", b.rows(3, triple, bf16, false, 3, 1, 3))
				b.everywhere("seeds, other formats", b.run(source("reconfig.cpp", true), mixed, fp32, 5, 1))
				b.everywhere("seeds, integers", b.run(kernels.ComputeSource{
					Source: kernels.Source{Path: "testdata/compute/matmul.cpp", CompileArgs: []uint32{1, n, 1}}, WideDst: true,
				}, []pages{ints, ints}, int32s, 1))
				b.everywhere("seeds, sums in L1", b.rows(2, in[0], bf16, false, n, n, 2))
			})
			if !ok {
				return
			}
		}
	}
}

func TestComputeHeaders(t *testing.T) {
	kernels.NeedCompiler(t)
	var text strings.Builder
	n := 0
	err := fs.WalkDir(kernels.Sources(), "include/api/compute", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name := strings.TrimPrefix(path, "include/api/compute/")
			earlier := "compute_kernel_api/" + name
			if name == "compute_kernel_api.h" {
				earlier = name
			}
			fmt.Fprintf(&text, "#include \"api/compute/%s\"\n#include %q\n", name, earlier)
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if n < 30 {
		t.Errorf("only %d headers", n)
	}
	text.WriteString("void kernel_main() {}\n")
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		var warnings bytes.Buffer
		src := kernels.ComputeSource{Source: kernels.Source{Path: "all.cpp", Text: text.String(), Arch: arch, Warnings: &warnings},
			WideDst: true}
		if _, err := kernels.CompileCompute(t.Context(), src); err != nil {
			t.Fatal(err)
		}
		if warnings.Len() > 0 {
			t.Error(warnings.String())
		}
	}
}

func TestComputeRefused(t *testing.T) {
	src := kernels.Source{Path: "k.cpp", Text: "void kernel_main() {}", Arch: chip.Wormhole}
	for says, s := range map[string]kernels.ComputeSource{
		"circular buffer 32":       {Source: src, Formats: map[int]kernels.Format{32: bf16}},
		"no such format: format 3": {Source: src, Formats: map[int]kernels.Format{0: 3}},
		"fidelity 4":               {Source: src, Fidelity: 4},
		"can't be unpacked to Dst": {Source: src, UnpackToDst: []int{0}},
	} {
		if _, err := kernels.CompileCompute(t.Context(), s); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want a refusal that says %q", err, says)
		}
	}
}
