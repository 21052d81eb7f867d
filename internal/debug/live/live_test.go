package live_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/postmortem"
	"github.com/reprise-tt/reprise/internal/debug/live"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
)

var must = expect.Must

func TestStackOfWaitingKernel(t *testing.T) {
	for _, arch := range []chip.Arch{chip.Blackhole, chip.Wormhole} {
		t.Run(arch.String(), func(t *testing.T) {
			card := sim.Blackhole()
			if arch == chip.Wormhole {
				card = sim.Wormhole()
			}
			defer card.Close()
			file := expect.Value(os.ReadFile("testdata/nested." + arch.String() + ".elf"))(t)
			im, err := kernels.Load(file)
			must(t, err)
			ctx := t.Context()
			dev, err := reprise.Open(ctx, card)
			must(t, err)
			defer dev.Close(ctx)
			at := chip.Core{X: 1, Y: 1}
			word, result := uint32(0x100000), uint32(0x100010)
			program := &reprise.Program{Name: "nested"}
			for _, p := range []chip.Processor{chip.BRISC, chip.NCRISC, chip.TRISC1} {
				program.Kernels = append(program.Kernels, reprise.Kernel{
					Name: "nested", Image: im, Processor: p, Cores: []chip.Range{{Start: at, End: at}},
					Args: func(chip.Core) []uint32 { return []uint32{word, 77, result} },
				})
			}
			x, err := dev.Load(ctx, program)
			must(t, err)
			q := dev.Queue(0)
			must(t, q.Run(ctx, x))

			other, err := kmd.Open(ctx, card)
			must(t, err)
			defer other.Close()
			topo, err := chip.New(arch, chip.Harvesting{})
			must(t, err)
			xy, err := topo.Virtual(at)
			must(t, err)
			c := &live.Catalogue{}
			must(t, c.Add("nested.elf", file))
			l := abi.Own(arch)
			for _, p := range []chip.Processor{chip.BRISC, chip.TRISC1, chip.NCRISC} {
				var text string
				for range 10000 {
					s, err := c.Of(ctx, other, l, xy, p)
					must(t, err)
					text = s.Note
					for _, f := range s.Frames {
						text += "\n" + f.String()
					}
					if strings.Contains(text, "wait_for") {
						break
					}
				}
				want := []string{"wait_for(addr=0x100000, value=77) at nested.c:", "outer(addr=?, depth=2) at nested.c:18",
					"kernel_main() at nested.c:22", "firmware_main() at firmware/"}
				switch {
				case p == chip.NCRISC && arch == chip.Wormhole: // no other processor and no host reads its local RAM
					want = []string{"only pc is known", "wait_for(addr=?, value=?) at nested.c:"}
				case p == chip.NCRISC:
					want = []string{
						"guessed from pc and memory", "wait_for(addr=?, value=?) at nested.c:", "outer(addr=?, depth=2) at nested.c:18, pc 0x",
						"kernel_main() at nested.c:22", "firmware_main() at firmware/ncrisc.c:",
					}
				}
				for _, w := range want {
					if !strings.Contains(text, w) {
						t.Errorf("%v: no %q in the stack:\n%s", p, w, text)
					}
				}
			}
			must(t, other.Write32(xy, uint64(word), 77))
			must(t, q.Wait(ctx))
		})
	}
}

func TestStacksOfAHang(t *testing.T) {
	devtest.OnEmulators(t, func(b *devtest.Bench) {
		sampled := "only pc is known"
		if b.Dev.Arch() == chip.Blackhole {
			sampled = "guessed from pc and memory"
		}
		file, err := os.ReadFile("testdata/nested." + b.Dev.Arch().String() + ".elf")
		b.Must(err)
		for _, known := range []bool{true, false} {
			im, err := kernels.Load(file)
			b.Must(err)
			if !known {
				im.File = nil
			}
			word, result := uint32(0x100000), uint32(0x100010)
			at := chip.Single(1, 1)
			program := &reprise.Program{Name: "waits"}
			for _, p := range []chip.Processor{chip.BRISC, chip.NCRISC, chip.TRISC1} {
				program.Kernels = append(program.Kernels, reprise.Kernel{
					Name: "nested", Image: im, Processor: p, Cores: []chip.Range{at, chip.Single(2, 1)},
					Args: func(chip.Core) []uint32 { return []uint32{word, 77, result} },
				})
			}
			b.Must(b.Queue.Run(b.Ctx, b.Load(program)))
			var h *dispatch.HangError
			if err := b.Queue.Wait(b.Ctx); !errors.As(err, &h) {
				b.Fatal(err)
			}
			var saved bytes.Buffer
			_, err = h.Dump.WriteTo(&saved)
			b.Must(err)
			dump, err := postmortem.ReadDump(&saved)
			b.Must(err)
			name := "waits/nested"
			if !known {
				if s := h.Detail(); !strings.Contains(s, ", pc 0x") || strings.Contains(s, "nested.c") {
					b.Errorf("without the file:\n%s", s)
				}
				c := &live.Catalogue{}
				name = "nested.elf"
				b.Must(c.Add(name, file))
				expect.Equal(b, expect.Value(dump.Symbolize(c))(b), 6, "stacks made again")
			}
			var text strings.Builder
			b.Must(dump.Print(&text))
			_, queue, _ := strings.Cut(text.String(), "\ncall stacks of the queue's cores:\n")
			for _, want := range []string{
				"kernel_main() at prefetch.c:", "cq_wait_stream() at cq_go.h:", "kernel_main() at dispatch.c:", "firmware_main() at firmware/brisc.c:",
				" NCRISC (" + sampled + ": it has no debug interface)\n", " in dispatch_s\n",
			} {
				if !strings.Contains(queue, want) {
					b.Errorf("no %q in the stacks of the queue's cores:\n%s", want, queue)
				}
			}
			for _, want := range []string{
				"  (1,1) BRISC, (2,1) BRISC\n", "  (1,1) TRISC1, (2,1) TRISC1\n",
				"(1,1) NCRISC, (2,1) NCRISC (" + sampled + ": it has no debug interface)\n    #0 ",
				"wait_for(addr=0x100000, value=77) at nested.c:", "outer(addr=?, depth=2) at nested.c:18, pc 0x", "kernel_main() at nested.c:22, pc 0x",
				" in " + name + "\n", "run_kernel() at firmware/firmware.h:", "firmware_main() at firmware/brisc.c:",
				"firmware_main() at firmware/trisc.c:",
			} {
				if !strings.Contains(text.String(), want) {
					b.Errorf("no %q in:\n%s", want, &text)
				}
			}
			b.Must(b.Dev.Recover(b.Ctx))
		}
	}, reprise.WithHangTimeout(300*time.Millisecond))
}
