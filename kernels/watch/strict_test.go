package watch_test

import (
	_ "embed"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu"
)

//go:embed testdata/unwatched.cc
var unwatched string

func TestWithoutRecompiling(t *testing.T) {
	effort.Long(t)
	for _, c := range []struct {
		name     string
		args     []uint32
		says     []string // nil: nothing is wrong
		function string   // that isn't inlined
	}{
		{"deep", []uint32{0, 5}, nil, ""},
		{"deeper", []uint32{0, 200}, []string{"deep at kernel.c:", "stack overflow: the stack pointer goes down from "}, "deep"},
		{"pops", []uint32{1, 2}, nil, ""},
		{"pops more", []uint32{1, 3}, []string{"in pop at kernel.c:13", "circular buffer 3: 3 pages are taken, and 2 are there"}, "pop"},
	} {
		for name, card := range map[string]func(...sim.Option) *sim.Card{"blackhole": sim.Blackhole, "wormhole": sim.Wormhole} {
			for _, p := range []chip.Processor{chip.BRISC, chip.NCRISC, chip.TRISC0} {
				t.Run(c.name+" "+name+" "+p.String(), func(t *testing.T) {
					b := devtest.Open(t, card(sim.Strict(2)), reprise.WithHangTimeout(time.Minute))
					im := build(b, kernels.Source{Path: "kernel.c", Text: unwatched, Arch: b.Dev.Arch(), Debug: true})
					b.Must(b.Queue.Run(b.Ctx, b.Load(withBuffer(on(im, p, c.args...)))))
					err := b.Queue.Wait(b.Ctx)
					if c.says == nil {
						b.Must(err)
						return
					}
					var k *dispatch.KernelError
					var r *emu.Refusal
					if !errors.As(err, &k) || !errors.As(err, &r) {
						b.Fatalf("the wait ended with %v", err)
					}
					devtest.Says(t, err, c.says...)
					if k.Core != (chip.Core{X: 2, Y: 1}) || k.Processor != p || r.Core != p || len(k.Frames) == 0 ||
						!strings.HasPrefix(k.Frames[len(k.Frames)-1].Function, c.function) {
						b.Errorf("%v: frames %v", k, k.Frames)
					}
				})
			}
		}
	}
}
