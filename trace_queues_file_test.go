package reprise_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf/debug"
)

// A trace with nothing but edges can be looked at like others: it has no program that could go
// wrong.
func TestTraceOverQueuesWithoutPrograms(t *testing.T) {
	b := split(t, sim.Blackhole())
	q := []*reprise.Queue{b.dev.Queue(0), b.dev.Queue(1)}
	e := b.dev.NewEvent("e")
	trace, err := captureQueues(b.ctx, "edges", q, func(rs []*reprise.Recorder) error {
		return errors.Join(rs[0].Record(e), rs[1].WaitEvent(e))
	})
	b.must(err)
	for range 2 {
		b.must(errors.Join(trace.Replay(b.ctx), q[1].Wait(b.ctx), trace.Debug().Check(b.ctx), trace.Debug().Step(b.ctx, nil),
			trace.Debug().Verify(b.ctx)))
		if times, err := trace.Debug().Times(b.ctx); err != nil || len(times) != 0 {
			t.Errorf("times %v, %v", times, err)
		}
		step, err := trace.Debug().Bisect(b.ctx, nil, func(int) (bool, error) { return true, nil })
		if err != nil || step != -1 {
			t.Errorf("bisect: step %d, %v", step, err)
		}
		b.says(trace.Debug().Split(b.ctx, 1, nil), "it has 0 programs")
	}
	b.must(trace.Release(b.ctx))
}

// A check runs programs in an order that the edges allow, and a replay as they let it: so it finds
// an edge that is missing. The emulator runs inside of the host's accesses, so what comes into the
// first queue is done before the second gets anything to do, every time.
func TestCheckFindsMissingEdge(t *testing.T) {
	b := split(t, sim.Wormhole(sim.Synchronous(), sim.Seed(1)))
	x, y := b.pages("x", 2), b.pages("y", 2)
	back, there := b.load(b.adder("back", chip.Core{X: 1}, y, x, 2)), b.load(b.adder("there", chip.Core{X: 5, Y: 1}, x, y, 1))
	left, right := b.load(b.blank("left", chip.Single(0, 0))), b.load(b.blank("right", chip.Single(6, 0)))
	e := b.dev.NewEvent("there")
	for _, edge := range []bool{true, false} {
		trace, err := captureQueues(b.ctx, "edges", []*reprise.Queue{b.dev.Queue(0), b.dev.Queue(1)}, func(rs []*reprise.Recorder) error {
			err := errors.Join(rs[1].Run(right), rs[1].Run(there), rs[1].Record(e), rs[0].Run(left), rs[0].Run(left), rs[0].Run(left))
			if edge {
				err = errors.Join(err, rs[0].WaitEvent(e))
			}
			return errors.Join(err, rs[0].Run(back))
		})
		b.must(err)
		b.write(x, 0)
		b.write(y, 1000)
		var ce *debug.CheckError
		if err := trace.Debug().Check(b.ctx); edge && err != nil || !edge && (!errors.As(err, &ce) || ce.Step != 5 || ce.Name != "back" ||
			ce.Buffer != "y" || ce.Want != 1) {
			t.Errorf("with the edge %v: %v", edge, err)
		}
		b.must(trace.Release(b.ctx))
	}
}

// Whatever a file says whose checksum is right: it is loaded or refused, nothing panics, and
// nothing is left.
func TestLoadMutatedFiles(t *testing.T) {
	b := split(t, sim.Wormhole())
	x, y := b.pages("x", 4), b.pages("y", 4)
	shards := b.buffer(reprise.BufferConfig{Kind: allocator.L1, PageSize: 64, Name: "sharded", Sharding: heights(4, 1, 4)})
	one, two := b.load(b.adder("one", chip.Core{X: 1}, x, y, 1)), b.load(b.adder("two", chip.Core{X: 5}, y, x, 1))
	numbers, e := b.load(b.numbers(shards)), b.dev.NewEvent("e")
	trace, err := captureQueues(b.ctx, "mutated", []*reprise.Queue{b.dev.Queue(0), b.dev.Queue(1)}, func(rs []*reprise.Recorder) error {
		return errors.Join(rs[0].Run(one), rs[0].ParamBuffer("x", x, readFrom), rs[0].Run(numbers), rs[0].Record(e), rs[1].WaitEvent(e),
			rs[1].Run(two))
	})
	b.must(err)
	var file bytes.Buffer
	b.must(trace.Save(b.ctx, &file, reprise.WithData()))
	b.must(errors.Join(trace.Release(b.ctx), one.Release(b.ctx), two.Release(b.ctx), numbers.Release(b.ctx), x.Release(), y.Release(),
		shards.Release()))
	before := b.allocated()
	rng := rand.New(rand.NewPCG(1, 2))
	loaded := 0
	for range 1500 {
		c := bytes.Clone(file.Bytes())
		tag := []byte([]string{"TRGT", "STEP", "RELO", "BUFF", "PARM", "QUEU", "PART", "DATA"}[rng.IntN(8)])
		at := bytes.Index(c, tag)
		if rng.IntN(2) == 0 {
			at = bytes.LastIndex(c, tag)
		}
		for range 1 + rng.IntN(2) {
			o := at + 16 + rng.IntN(int(binary.LittleEndian.Uint64(c[at+8:])))
			if rng.IntN(3) > 0 {
				c[o] = byte(rng.IntN(10))
			} else {
				c[o] ^= 1 << rng.IntN(8)
			}
		}
		sum := sha256.Sum256(c[:len(c)-sha256.Size])
		copy(c[len(c)-sha256.Size:], sum[:])
		if tr, err := b.dev.LoadTrace(b.ctx, bytes.NewReader(c)); err == nil {
			loaded++
			b.must(tr.Release(b.ctx))
		}
		if diff := cmp.Diff(before, b.allocated()); diff != "" {
			t.Fatalf("something is left (-before +after):\n%s", diff)
		}
	}
	if loaded == 0 || loaded == 1500 {
		t.Errorf("%d files were loaded: some changes matter, and some don't", loaded)
	}
}
