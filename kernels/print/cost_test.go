package print_test

import (
	"bytes"
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
	text := func(header, code string) string {
		return "#include \"" + header + "\"\nvoid kernel_main() { uint32_t n = rp_arg(0); " + code + " rp_store(0x20000, n); }\n"
	}
	prints := text("reprise/print.h", `reprise_print("%u", n * n);`)
	stream := text("debug/dprint.h", `DPRINT << n << "text" << rp_load(0x20000) << ENDL();`)
	zones := text("reprise/zone.h", `reprise_zone("all"); reprise_zone_begin(part, "part"); reprise_zone_end(part);`)
	build := func(path, text string, on bool) *kernels.Image {
		t.Helper()
		return build(t, kernels.Source{Path: path, Text: text, Arch: chip.Wormhole, Prints: on})
	}
	want := build("k.c", text("reprise/kernel.h", ""), false)
	for what, got := range map[string]*kernels.Image{
		"out": build("k.c", prints, false), "zones out": build("k.c", zones, false),
		"in and unused": build("k.c", text("reprise/print.h", ""), true), "DPRINT out": build("k.cpp", stream, false),
	} {
		if !bytes.Equal(got.Text, want.Text) || got.DataSize != want.DataSize || got.BSSSize != want.BSSSize || got.Formats != nil {
			t.Errorf("%s: %d B of text and %d B of formats, want %d and none", what, len(got.Text), len(got.Formats), len(want.Text))
		}
	}
	in := build("k.c", prints, true)
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
			p := program(im, chip.BRISC, chip.Single(0, 0), c.lines, 0)
			p.CircularBuffers = []reprise.CircularBuffer{{Index: 0, Cores: p.Kernels[0].Cores, PageSize: 2048, Pages: 1}}
			run(b, p)
			l, got := listen(b, print.Options{}) // now: its visits take cycles of the core
			b.Must(l.Close())
			if len(*got) != int(c.lines) {
				b.Fatalf("%s: %d lines: %v", c.name, len(*got), *got)
			}
			var took []uint64
			for i, r := range (*got)[1:] {
				took = append(took, r.Time-(*got)[i].Time)
			}
			slices.Sort(took) // other cores run between the slices of a core
			if d := took[len(took)/2]; d > c.most {
				b.Errorf("%v: %s: half of the lines took %d cycles or more: %v", b.Dev.Arch(), c.name, d, took)
			}
		}
	}
}
