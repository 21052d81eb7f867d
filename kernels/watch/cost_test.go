package watch_test

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
)

func TestNoCost(t *testing.T) {
	build := func(path, text string, on bool) *kernels.Image {
		t.Helper()
		return build(t, kernels.Source{Path: path, Text: text, Arch: chip.Wormhole, Watch: on})
	}
	text := func(header, code string) string {
		return "#include \"" + header + "\"\nvoid kernel_main() { " + code + " }\n"
	}
	const before, after = "uint32_t n = rp_arg(0);", "rp_store(0x20000, n);"
	plain := text("reprise/kernel.h", before+after)
	asserts := text("reprise/assert.h", before+"reprise_assert(rp_load(0x20004) == n * n);"+after)
	metal := text("debug/assert.h", before+`ASSERT(n < 4); ASSERT(rp_load(0x20004) == n, "a message");`+after)
	want := build("k.c", plain, false)
	for what, got := range map[string]*kernels.Image{"assertion": build("k.c", asserts, false), "ASSERT": build("k.cpp", metal, false)} {
		if !bytes.Equal(got.Text, want.Text) || got.DataSize != want.DataSize || got.BSSSize != want.BSSSize || got.Formats != nil {
			t.Errorf("%s out: %d B of text and %d B of formats, want %d and none", what, len(got.Text), len(got.Formats), len(want.Text))
		}
	}
	buffer := text("reprise/kernel.h", "rp_cb_reserve_back(3, 1); rp_cb_push_back(3, 1);")
	read := text("reprise/kernel.h", "rp_noc_read(0, rp_arg(0), rp_arg(1), 0x20000, 64);")
	for _, c := range []struct {
		what, text        string
		mostText, mostBSS int
	}{{"stack", plain, 352, 0}, {"assertion", asserts, 544, 0}, {"circular buffer", buffer, 960, 128}, {"NoC", read, 1664, 0}} {
		out, in := build("k.c", c.text, false), build("k.c", c.text, true)
		text, bss := len(in.Text)-len(out.Text), int(in.BSSSize)-int(out.BSSSize)
		if text > c.mostText || bss > c.mostBSS || in.DataSize != out.DataSize {
			t.Errorf("%s: %d B of text and %d B of .bss more, want at most %d and %d", c.what, text, bss, c.mostText, c.mostBSS)
		}
	}
}

//go:embed testdata/costs.cc
var costs string

func TestCost(t *testing.T) {
	b := devtest.Open(t, sim.Wormhole(sim.Seed(1)))
	b.Must(b.Dev.Debug().WriteL1(chip.Core{X: 2, Y: 1}, 0x40000, make([]byte, 4)))
	measure := func(checked bool) (least [3]int) { // a clock runs ahead now and then, for others that have run longer in the same round
		x := b.Load(withBuffer(on(build(b, kernels.Source{Path: "k.c", Text: costs, Arch: b.Dev.Arch(), Watch: checked}), chip.BRISC)))
		for run := range 10 {
			b.Must(b.Queue.Run(b.Ctx, x))
			b.Must(b.Queue.Wait(b.Ctx))
			p := make([]byte, 4*len(least))
			b.Must(b.Dev.Debug().ReadL1(chip.Core{X: 2, Y: 1}, 0x50000, p))
			for i := range least {
				if n := int(binary.LittleEndian.Uint32(p[4*i:])) / 16; run == 0 || n < least[i] {
					least[i] = n
				}
			}
		}
		return least
	}
	out, in := measure(false), measure(true)
	for i, c := range []struct {
		what string
		most int
	}{{"assertion", 8}, {"four calls for a circular buffer", 320}, {"request", 200}} {
		if more := in[i] - out[i]; more > c.most {
			t.Errorf("%s: %d cycles more, want at most %d", c.what, more, c.most)
		}
	}
}
