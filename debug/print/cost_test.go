package print_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/debug/print"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
)

// A print that is compiled out takes no byte, and so does one that is in and never used.
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

// A line with one argument takes no more than 90 cycles where each instruction takes one, if the ring has room.
func TestCost(t *testing.T) {
	b := devtest.Open(t, sim.Wormhole(sim.Seed(1)))
	im := compile(b, "kernel.c", counter)
	b.Must(b.Queue.Run(b.Ctx, b.Load(&reprise.Program{Name: "count", Kernels: []reprise.Kernel{{
		Name: "counter", Image: im, Cores: []chip.Range{chip.Single(0, 0)}, Args: func(chip.Core) []uint32 { return []uint32{20, 0} },
	}}})))
	b.Must(b.Queue.Wait(b.Ctx))
	l, got := listen(b, print.Options{}) // now: its visits take cycles of the core
	b.Must(l.Close())
	var took []uint64
	for i, r := range (*got)[1:] {
		took = append(took, r.Time-(*got)[i].Time)
	}
	slices.Sort(took) // between slices of a core's time others take theirs
	if d := took[len(took)/2]; d > 90 {
		t.Errorf("half of the lines took %d cycles or more: %v", d, took)
	} else {
		t.Logf("%d cycles", d)
	}
}
