package reprise_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf"
)

// The memory of a released trace's commands is used for the next one. Nothing of that one can be
// read or changed through the released trace, through a Subset of it, or through what debugs it;
// and what was given out of a trace stays as it was.
func TestReleasedTraceHasNoneOfTheNext(t *testing.T) {
	b := open(t, sim.Blackhole())
	in, out := b.pages("in", 2), b.pages("out", 2)
	x := b.load(b.adder("adder", chip.Core{}, in, out, 5))
	capture := func(name string) *reprise.Trace {
		trace, err := b.queue.Capture(b.ctx, name, func(_ context.Context, r *reprise.Recorder) error {
			return errors.Join(r.Loop(1, runs(r, x)), r.Run(x), r.Param("addend", addend), r.ParamBuffer("in", in, readFrom))
		})
		b.must(err)
		return trace
	}
	for _, shown := range []bool{false, true} {
		old := capture("old")
		subset, err := old.Subset(b.queue)
		b.must(err)
		b.must(errors.Join(old.Set("addend", 50), old.Replay(b.ctx)))
		var image *tracebuf.Image
		var commands []byte
		if shown {
			for _, image = range old.Debug().ControlImages(0) {
				commands = bytes.Clone(image.Bytes)
			}
		}
		steps := old.Parts()[0].Steps
		was := slices.Clone(steps)
		b.must(old.Release(b.ctx))
		next := capture("next")
		for name, trace := range map[string]*reprise.Trace{"trace": old, "subset": subset} {
			for what, err := range map[string]error{
				"print":      trace.Print(io.Discard),
				"set":        trace.Set("addend", 9),
				"set buffer": trace.SetBuffer("in", out),
				"replay":     trace.Replay(b.ctx),
				"save":       trace.Save(b.ctx, io.Discard),
				"verify":     trace.Debug().Verify(b.ctx),
				"inspect":    second(trace.Debug().Inspect(b.ctx)),
				"step":       trace.Debug().Step(b.ctx, nil),
			} {
				if !errors.Is(err, reprise.ErrReleased) {
					b.Errorf("%s of a released %s: %v", what, name, err)
				}
			}
		}
		if shown && !bytes.Equal(image.Bytes, commands) {
			b.Error("commands that were given out of a trace have changed")
		}
		if diff := cmp.Diff(was, steps); diff != "" {
			b.Errorf("steps that were given out of a trace have changed:\n%s", diff)
		}
		b.write(in, 1)
		b.must(errors.Join(next.Replay(b.ctx), next.Debug().Verify(b.ctx)))
		b.holds(out, 6)
		b.must(next.Release(b.ctx))
	}
}

// Goroutines that capture, change, replay, print and release traces at the same time have what they
// recorded.
func TestReleasedMemoryIsOneTraces(t *testing.T) {
	b := open(t, sim.Blackhole())
	var all sync.WaitGroup
	for i := range 4 {
		in, out := b.pages("in", 1), b.pages("out", 1)
		x := b.load(b.adder("adder", chip.Core{X: i}, in, out, uint32(i)))
		all.Go(func() {
			first := ""
			for range 8 {
				trace, err := b.queue.Capture(b.ctx, "trace", record(x))
				b.must(err)
				var text strings.Builder
				b.must(errors.Join(trace.Replay(b.ctx), trace.Print(&text), trace.Release(b.ctx)))
				if first == "" {
					first = text.String()
				}
				if text.String() != first {
					b.Errorf("worker %d: the trace is\n%s\nand was\n%s", i, text.String(), first)
				}
			}
		})
	}
	all.Wait()
}
