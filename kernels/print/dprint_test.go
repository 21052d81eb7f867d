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

const cppKernel = `
#include "debug/dprint.h"

template <typename T>
static inline void tell(T v) { DPRINT << "told " << v << ENDL(); }

void kernel_main() {
    uint32_t n = get_arg_val<uint32_t>(0);
    char local[4] = {'a', 'b', (char)('a' + n), 0};
    const char* p = local;
    DPRINT << "x " << n << ' ' << -3 << " " << HEX() << 255u << DEC() << " " << F32(1.5f) << SETW(6) << 42 << ENDL();
    DPRINT << local << p << BF16(0x4000) << "\n" << SETPRECISION(2) << FIXED() << 3.14159f << DEFAULTFLOAT() << ENDL();
    if (n) DPRINT << "if" << ENDL(); else DPRINT << "else" << ENDL();
    DPRINT << "a line of " << 1ull << " ";
    DPRINT << "several statements, with a literal that is longer than others are so that it takes more of the section";
    DPRINT << true << (uint8_t)7 << (int16_t)-8 << ENDL();
    tell(n);
    tell(-5ll);
    DPRINT_DATA0(DPRINT << "data 0" << ENDL());
    DPRINT << "no newline";
}
`

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

const bracesKernel = `
#include "api/debug/device_print.h"

void kernel_main() {
    uint32_t n = get_arg_val<uint32_t>(0);
    const char* name = n ? "some" : "none";
    DPRINT("x {} {}|{:5}|{:<5}|{:^5}|{:*>5}|\n", n, -3, 42u, 42u, 42u, 42u);
    DPRINT("{:#x} {:08X} {:b} {:+} {:.3f} {:e}\n", 255u, 0xBEEFu, 5u, 7, 1.5f, 2.0f);
    DEVICE_PRINT("{1} before {0}, {1} again, {{}}\n", 1u, name);
    DPRINT("{:6}|{:>6}|{} {}\n", name, name, BF16(0x4000), 1ull << 40);
    DPRINT("no value, ");
    DPRINT << "and a stream" << ENDL();
    DPRINT("{{{}}} {{}} }} {:>3}, ", 1, 2);
    DPRINT("{1:02}{0}{1}\n", 2, 3);
    if (n) DPRINT("if {}\n", n); else DPRINT("else\n");
    DEVICE_PRINT_DATA0("data {}\n", 0);
}
`

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

const tileKernel = `
#include "api/compute/common.h"
#include "api/compute/compute_kernel_hw_startup.h"
#include "api/compute/tile_move_copy.h"
#include "api/compute/pack.h"
#include "debug/dprint.h"
#include "debug/dprint_tensix.h"

void kernel_main() {
    compute_kernel_hw_startup(0, 16);
    copy_tile_init(0);
    cb_wait_front(0, 1);
    DPRINT_UNPACK({ DPRINT << "in " << TSLICE(0, 0, SliceRange::hw041()); });
    tile_regs_acquire();
    copy_tile(0, 0, 1);
    dprint_tensix_dest_reg(1);
    tile_regs_commit();
    cb_pop_front(0, 1);
    tile_regs_wait();
    cb_reserve_back(16, 1);
    pack_tile(1, 16);
    DPRINT_PACK({ DPRINT << TSLICE(16, 0, SliceRange::hw0_32_16()); });
    DPRINT_MATH({ DPRINT << TSLICE(16, 0, SliceRange::hw041()) << ENDL(); });
    cb_push_back(16, 1);
    tile_regs_release();
}
`

const fillKernel = `
#include "api/dataflow/dataflow_api.h"
#include "debug/dprint.h"

void kernel_main() {
    cb_reserve_back(0, 1);
    volatile uint16_t* tile = (volatile uint16_t*)get_write_ptr(0);
    for (uint32_t i = 0; i < 1024; i++) {
        uint32_t h = (i >> 9) * 16 + ((i >> 4) & 15), w = ((i >> 8) & 1) * 16 + (i & 15);
        tile[i] = (uint16_t)((h * 4 + (w & 3)) == 0 ? 0 : 0x4000 + h * 4 + (w & 3));
    }
    DPRINT << TileSlice(0, 0, SliceRange{1, 2, 1, 0, 32, 16}, TSLICE_INPUT_CB, TSLICE_WR_PTR);
    cb_push_back(0, 1);
    cb_wait_front(16, 1);
    cb_pop_front(16, 1);
}
`

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
