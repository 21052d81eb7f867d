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
	"github.com/reprise-tt/reprise/sim"
)

func compile(b *devtest.Bench, path, text string) *kernels.Image {
	b.Helper()
	var warnings strings.Builder
	im, err := kernels.Compile(b.Ctx, kernels.Source{Path: path, Text: text, Arch: b.Dev.Arch(), Prints: true, Warnings: &warnings})
	if errors.Is(err, kernels.ErrNoCompiler) {
		b.Skip(err)
	}
	b.Must(err)
	if warnings.Len() > 0 {
		b.Error(warnings.String())
	}
	return im
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

func texts(rs []print.Record) (out []string) {
	for _, r := range rs {
		out = append(out, r.Text)
	}
	return out
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

func TestNamesOfFiles(t *testing.T) {
	b := devtest.Open(t, sim.Blackhole())
	for _, path := range []string{`a "name", 100%d\x{y|z}.c`, `%.cpp`} {
		im := compile(b, path, "#include \"reprise/print.h\"\nvoid kernel_main(void) { reprise_print(\"here\"); }\n")
		l, got := listen(b, print.Options{})
		b.Must(b.Queue.Run(b.Ctx, b.Load(&reprise.Program{Name: "p", Kernels: []reprise.Kernel{{
			Name: "k", Image: im, Cores: []chip.Range{chip.Single(0, 0)},
		}}})))
		b.Must(b.Queue.Wait(b.Ctx))
		b.Must(l.Close())
		want := "./" + strings.NewReplacer(`"`, "_", "%", "_", `\`, "_", "{", "_", "|", "_", "}", "_").Replace(path)
		if len(*got) != 1 || (*got)[0].Text != "here" || (*got)[0].File != want || (*got)[0].Line != 2 {
			t.Errorf("%q: %+v, want the file %q", path, *got, want)
		}
	}
}

func TestListen(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		for _, path := range []string{"kernel.c", "kernel.cpp"} {
			im := compile(b, path, cKernel)
			l, got := listen(b, print.Options{})
			*got = nil
			for p := range chip.Processor(chip.NumProcessors) {
				*got = nil
				x := b.Load(&reprise.Program{Name: "prints", Kernels: []reprise.Kernel{{
					Name: "teller", Image: im, Processor: p, Cores: []chip.Range{chip.Single(1, 2)}, Args: func(chip.Core) []uint32 { return []uint32{3} },
				}}})
				b.Must(b.Queue.Run(b.Ctx, x))
				b.Must(b.Queue.Wait(b.Ctx))
				b.Must(l.Drain())
				want := []string{
					"position 0 of 3", "position 1 of 3", "position 2 of 3",
					"-7|   42|ab   |0000BEEF|+3|x|%", "-5000000000|1.50|text|0x100", "done",
				}
				if diff := cmp.Diff(want, texts(*got)); diff != "" {
					b.Errorf("%s, %v (-want +got):\n%s", path, p, diff)
				}
				time := uint64(0)
				for _, r := range *got {
					if r.Time <= time || r.Processor != p || r.Core != (chip.Core{X: 1, Y: 2}) || r.Program != "prints" || r.Kernel != "teller" {
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
