package print_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/print"
)

func build(t testing.TB, src kernels.Source) *kernels.Image {
	t.Helper()
	var warnings strings.Builder
	src.Warnings = &warnings
	im, err := kernels.Compile(t.Context(), src)
	if errors.Is(err, kernels.ErrNoCompiler) {
		t.Skip(err)
	}
	devtest.Must(t, err)
	if warnings.Len() > 0 {
		t.Error(warnings.String())
	}
	return im
}

func compile(b *devtest.Bench, path, text string) *kernels.Image {
	b.Helper()
	return build(b, kernels.Source{Path: path, Text: text, Arch: b.Dev.Arch(), Prints: true})
}

func program(im *kernels.Image, p chip.Processor, at chip.Range, args ...uint32) *reprise.Program {
	return &reprise.Program{Name: "program", Kernels: []reprise.Kernel{{
		Name: "kernel", Image: im, Processor: p, Cores: []chip.Range{at}, Args: func(chip.Core) []uint32 { return args },
	}}}
}

func run(b *devtest.Bench, p *reprise.Program) {
	b.Helper()
	b.Must(b.Queue.Run(b.Ctx, b.Load(p)))
	b.Must(b.Queue.Wait(b.Ctx))
}

func printed(b *devtest.Bench, what any, rs []print.Record, want ...string) {
	b.Helper()
	var got []string
	for _, r := range rs {
		got = append(got, r.Text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.Errorf("%v (-want +got):\n%s", what, diff)
	}
}

func listen(b *devtest.Bench, o print.Options) (*print.Listener, *[]print.Record) {
	b.Helper()
	var got []print.Record
	l, err := print.Listen(b.Dev.Debug(), func(r print.Record) { got = append(got, r) }, o)
	b.Must(err)
	b.Cleanup(func() {
		if err := l.Close(); err != nil {
			b.Error(err)
		}
	})
	return l, &got
}

const cKernel = `
#include "reprise/print.h"

void kernel_main(void) {
    uint32_t n = rp_arg(0);
    for (uint32_t i = 0; i < n; i++) {
        reprise_print("position %u of %d", i, n);
    }
    int16_t small = -7;
    volatile float f = 1.5f;
    reprise_print_at(RP_PRINT_WARN, "%d|%5u|%-5x|%08X|%+d|%c|%%", small, 42u, 0xABu, 0xBEEFu, 3, 'x');
    reprise_print("%lld|%.2f|%s|%p", -5000000000ll, f, "text", (void*)0x100);
    reprise_print("done\n");
}
`

func TestListen(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		for _, path := range []string{"kernel.c", "kernel.cpp"} {
			im := compile(b, path, cKernel)
			l, got := listen(b, print.Options{})
			for p := range chip.Processor(chip.NumProcessors) {
				*got = nil
				run(b, program(im, p, chip.Single(1, 2), 3))
				b.Must(l.Drain())
				printed(b, p, *got, "position 0 of 3", "position 1 of 3", "position 2 of 3",
					"-7|   42|ab   |0000BEEF|+3|x|%", "-5000000000|1.50|text|0x100", "done")
				time := uint64(0)
				for _, r := range *got {
					if r.Time <= time || r.Processor != p || r.Core != (chip.Core{X: 1, Y: 2}) || r.Program != "program" ||
						r.Kernel != "kernel" {
						b.Errorf("%+v after %d", r, time)
					}
					time = r.Time
				}
				if len(*got) == 6 {
					if r := (*got)[3]; r.Level != 4 || r.Line != 11 || r.File != "./"+path {
						b.Errorf("%+v", r)
					}
				}
			}
			b.Must(l.Close())
		}
	})
}

func ExampleToWriter() {
	var out strings.Builder
	print.ToWriter(&out)(print.Record{Core: chip.Core{X: 1}, Processor: chip.TRISC2, Program: "layer", Kernel: "pack", Text: "tile 3"})
	fmt.Print(out.String())
	// Output: (1,0) TRISC2 layer/pack: tile 3
}
