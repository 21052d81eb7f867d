package print_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/sim"
)

func TestNoCost(t *testing.T) {
	const plain = "#include \"reprise/kernel.h\"\nvoid kernel_main(void) { uint32_t n = rp_arg(0); rp_store(0x20000, n); }\n"
	const prints = "#include \"reprise/print.h\"\nvoid kernel_main(void) { uint32_t n = rp_arg(0); reprise_print(\"%u\", n * n); rp_store(0x20000, n); }\n"
	const unused = "#include \"reprise/print.h\"\nvoid kernel_main(void) { uint32_t n = rp_arg(0); rp_store(0x20000, n); }\n"
	const stream = "#include \"debug/dprint.h\"\nvoid kernel_main() { uint32_t n = rp_arg(0); DPRINT << n << \"text\" << rp_load(0x20000) << ENDL(); rp_store(0x20000, n); }\n"
	build := func(path, text string, on bool) *kernels.Image {
		t.Helper()
		im, err := kernels.Compile(t.Context(), kernels.Source{Path: path, Text: text, Arch: chip.Wormhole, Prints: on})
		if errors.Is(err, kernels.ErrNoCompiler) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		return im
	}
	want := build("k.c", plain, false)
	for what, got := range map[string]*kernels.Image{
		"out": build("k.c", prints, false), "in and unused": build("k.c", unused, true), "DPRINT out": build("k.cpp", stream, false),
	} {
		if !bytes.Equal(got.Text, want.Text) || got.DataSize != want.DataSize || got.BSSSize != want.BSSSize || got.Formats != nil {
			t.Errorf("%s: %d B of text and %d B of formats, want %d and none", what, len(got.Text), len(got.Formats), len(want.Text))
		}
	}
	in := build("k.c", prints, true)
	t.Logf("in use: %d B more of text, %d of data, %d of formats", len(in.Text)-len(want.Text), in.DataSize-want.DataSize, len(in.Formats))
	if len(in.Text)-len(want.Text) > 800 || in.DataSize != want.DataSize {
		t.Errorf("one print takes %d B of text and %d B of data", len(in.Text)-len(want.Text), in.DataSize-want.DataSize)
	}
}

const (
	dprinting = `
#include "debug/dprint.h"
void kernel_main() {
    for (uint32_t i = 0; i < rp_arg(0); i++) {
        DPRINT << i << ENDL();
    }
}
`
	slicing = `
#include "api/dataflow/dataflow_api.h"
#include "debug/dprint.h"
void kernel_main() {
    cb_reserve_back(0, 1);
    for (uint32_t i = 0; i < rp_arg(0); i++) {
        DPRINT << TSLICE(0, 0, SliceRange::h0_w0_32(), TSLICE_OUTPUT_CB, TSLICE_WR_PTR);
    }
}
`
)

func TestCost(t *testing.T) {
	for _, card := range []func() *sim.Card{func() *sim.Card { return sim.Wormhole(sim.Seed(1)) },
		func() *sim.Card { return sim.Blackhole(sim.Seed(1)) }} {
		b := devtest.Open(t, card())
		for _, c := range []struct {
			name, file, text string
			lines            uint32 // that the ring has room for
			most             uint64
		}{{"print", "kernel.c", counter, 20, 90}, {"DPRINT", "kernel.cpp", dprinting, 20, 200}, {"TSLICE", "slice.cpp", slicing, 5, 1000}} {
			im := compile(b, c.file, c.text)
			cores := []chip.Range{chip.Single(0, 0)}
			b.Must(b.Queue.Run(b.Ctx, b.Load(&reprise.Program{
				Name: "count", CircularBuffers: []reprise.CircularBuffer{{Index: 0, Cores: cores, PageSize: 2048, Pages: 1}},
				Kernels: []reprise.Kernel{{Name: "counter", Image: im, Cores: cores, Args: func(chip.Core) []uint32 { return []uint32{c.lines, 0} }}},
			})))
			b.Must(b.Queue.Wait(b.Ctx))
			l, got := listen(b, print.Options{}) // now: its visits take cycles of the core
			b.Must(l.Close())
			if len(*got) != int(c.lines) {
				b.Fatalf("%s: %d lines: %v", c.name, len(*got), *got)
			}
			var took []uint64
			for i, r := range (*got)[1:] {
				took = append(took, r.Time-(*got)[i].Time)
			}
			slices.Sort(took) // between slices of a core's time others take theirs
			d := took[len(took)/2]
			b.Logf("%v: %s: %d cycles and %d B of text", b.Dev.Arch(), c.name, d, len(im.Text))
			if d > c.most {
				b.Errorf("%v: %s: half of the lines took %d cycles or more: %v", b.Dev.Arch(), c.name, d, took)
			}
		}
	}
}
