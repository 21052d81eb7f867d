package print_test

import (
	_ "embed"
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

//go:embed testdata/cppKernel.cc
var cppKernel string

func TestDPRINT(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		im := compile(b, "kernel.cpp", cppKernel)
		l, got := listen(b, print.Options{})
		for _, p := range []chip.Processor{chip.BRISC, chip.NCRISC} {
			*got = nil
			run(b, program(im, p, chip.Single(0, 0), 3))
			b.Must(l.Drain())
			printed(b, p, *got, "x 3 -3 ff 1.5    42", "abdabd2", "3.14", "if",
				"a line of 1 several statements, with a literal that is longer than others are so that it takes more of the section17-8",
				"told 3", "told -5", "data 0", "no newline")
		}
	})
}

//go:embed testdata/bracesKernel.cc
var bracesKernel string

func TestDPRINTFormat(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		im := compile(b, "kernel.cpp", bracesKernel)
		l, got := listen(b, print.Options{})
		run(b, program(im, chip.BRISC, chip.Single(0, 0), 3))
		b.Must(l.Drain())
		printed(b, "formats", *got, "x 3 -3|   42|42   | 42  |***42|", "0xff 0000BEEF 101 +7 1.500 2.000000e+00",
			"some before 1, some again, {}", "some  |  some|2 1099511627776", "no value, and a stream", "{1} {} }   2, 0323",
			"if 3", "data 0")
	})
}

func TestDPRINTFormatRefused(t *testing.T) {
	for _, call := range []string{`"{} and {}\n", 1`, `"{}\n", 2, 3`, `"{{}}\n", 1`, `"{1}\n", 1`, `"{0}\n", 1, 2`, `"x\n", 1`,
		`"{:4}\n"`} {
		_, err := kernels.Compile(t.Context(), kernels.Source{
			Path: "k.cpp", Arch: chip.Blackhole, Prints: true, Text: "#include \"api/debug/device_print.h\"\nvoid kernel_main() { DEVICE_PRINT(" +
				call + "); }\n",
		})
		if errors.Is(err, kernels.ErrNoCompiler) {
			t.Skip(err)
		}
		if err == nil || !strings.Contains(err.Error(), "placeholders than there are values") {
			t.Errorf("DEVICE_PRINT(%s): %v", call, err)
		}
	}
}

//go:embed testdata/tileKernel.cc
var tileKernel string

//go:embed testdata/fillKernel.cc
var fillKernel string

// Emulators take turns with some formats; other backends have all.
func formats(b *devtest.Bench) []kernels.Format {
	switch b.Dev.Name() {
	case sim.Wormhole().String():
		return []kernels.Format{kernels.FP32}
	case sim.Blackhole().String():
		return []kernels.Format{kernels.BFP8}
	}
	return []kernels.Format{kernels.BF16, kernels.FP32, kernels.BFP8}
}

func TestTiles(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		for _, out := range formats(b) {
			wide := out == kernels.FP32
			fill := compile(b, "fill.cpp", fillKernel) // first: it skips the test where there is no compiler
			c, err := kernels.CompileCompute(b.Ctx, kernels.ComputeSource{
				Source:  kernels.Source{Path: "tiles.cpp", Text: tileKernel, Arch: b.Dev.Arch(), Prints: true},
				Formats: map[int]kernels.Format{16: out}, WideDst: wide,
			})
			b.Must(err)
			cores := []chip.Range{chip.Single(0, 1)}
			p := &reprise.Program{Name: "tiles", CircularBuffers: []reprise.CircularBuffer{
				{Index: 0, Cores: cores, PageSize: 2048, Pages: 2}, {Index: 16, Cores: cores, PageSize: out.TileBytes(), Pages: 2},
			}}
			p.Kernels = append(p.Kernels, reprise.Kernel{Name: "fill", Image: fill, Cores: cores})
			for i, im := range c.Images() {
				p.Kernels = append(p.Kernels, reprise.Kernel{Name: []string{"unpack", "math", "pack"}[i], Image: im,
					Processor: chip.TRISC0 + chip.Processor(i), Cores: cores})
			}
			l, got := listen(b, print.Options{})
			run(b, p)
			b.Must(l.Close())
			by := map[string][]string{}
			time := uint64(0)
			for _, r := range *got {
				by[r.Kernel] = append(by[r.Kernel], r.Text)
				if r.Time < time {
					b.Errorf("%+v after %d", r, time)
				}
				time = r.Time
			}
			value := func(h, w int) string {
				if h == 0 && w&3 == 0 {
					return "0"
				}
				return fmt.Sprintf("%.6g", 2+float64(4*h+w&3|(4*h))/64)
			}
			row := func(h int, ws ...int) string {
				var vs []string
				for _, w := range ws {
					vs = append(vs, value(h, w))
				}
				return strings.Join(vs, " ")
			}
			all := make([]int, 32)
			for w := range all {
				all[w] = w
			}
			var dst []string
			for h := range 32 {
				dst = append(dst, row(h, all...))
			}
			want := map[string][]string{
				"fill":   {row(1, 0, 16)},
				"unpack": {"in " + row(0, 0, 1, 2, 3), row(1, 0, 1, 2, 3), row(2, 0, 1, 2, 3), row(3, 0, 1, 2, 3)},
				"math":   append(dst, "<tile slice: the math thread has no circular buffers>"),
				"pack":   {row(0, 0, 16), row(16, 0, 16)},
			}
			if diff := cmp.Diff(want, by); diff != "" {
				b.Errorf("%v (-want +got):\n%s", out, diff)
			}
		}
	})
}
