package reprise_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/tracebuf"
)

// halves loads a division into the rows 0 and 1, and some cores below.
func (b *bench) halves(localL1 int) *reprise.SubDevices {
	b.Helper()
	s, err := b.dev.NewSubDevices(localL1, []chip.Range{{End: chip.Core{X: 3, Y: 1}}},
		[]chip.Range{{Start: chip.Core{X: 0, Y: 3}, End: chip.Core{X: 2, Y: 3}},
			{Start: chip.Core{X: 2, Y: 4}, End: chip.Core{X: 3, Y: 4}}})
	b.must(err)
	b.must(s.Load(b.ctx))
	return s
}

// A program of one sub-device runs while one of another doesn't end. Transfers and waits don't wait
// for what is outside of the stall group.
func TestSubDevices(t *testing.T) {
	onAll(t, func(b *bench) {
		in, out := b.pages("in", 4), b.pages("out", 4)
		add := b.load(b.adder("add", chip.Core{X: 1, Y: 3}, in, out, 5))
		word := b.word()
		b.must(b.queue.Write(b.ctx, word, 0, make([]byte, word.Size())))
		spin := b.spin("spin", word, chip.BRISC, chip.Grid(2, 2))
		wide := b.load(b.blank("wide", chip.Range{End: chip.Core{X: 1, Y: 3}}))
		for range 2 {
			s := b.halves(0)
			b.must(b.queue.Write(b.ctx, word, 0, make([]byte, word.Size())))
			b.must(b.queue.Run(b.ctx, spin))
			b.must(b.queue.SetStallGroup(1))
			for i := range uint32(20) {
				b.write(in, i)
				b.must(b.queue.Run(b.ctx, add))
				b.must(b.queue.Wait(b.ctx))
				b.holds(out, i+5)
			}
			var sub *dispatch.SubDeviceError
			if err := b.queue.Run(b.ctx, wide); !errors.As(err, &sub) {
				b.Errorf("a program on both sub-devices: %v", err)
			}
			if err := b.queue.WaitFor(b.ctx, 2); !errors.As(err, &sub) {
				b.Errorf("a wait for sub-device 2: %v", err)
			}
			b.must(b.queue.Write(b.ctx, word, 0, bytes.Repeat([]byte{1, 0, 0, 0}, word.Size()/4)))
			done := b.dev.NewEvent("done")
			b.must(b.queue.RecordFor(b.ctx, done, 0))
			b.must(done.Wait(b.ctx))
			b.must(b.queue.SetStallGroup())
			b.must(b.queue.Wait(b.ctx))
			b.must(b.dev.ClearSubDevices(b.ctx))
			b.must(s.Release())
			b.must(b.queue.Run(b.ctx, wide))
			b.must(b.queue.Run(b.ctx, add))
			b.must(b.queue.Wait(b.ctx))
		}
	})
}

// Sub-devices have L1 of their own: a buffer of one doesn't take room from another.
func TestSubDeviceMemory(t *testing.T) {
	onEmulators(t, func(b *bench) {
		s := b.halves(32 << 10)
		defer func() { b.must(s.Release()) }()
		shard := func(name string, c chip.Core) reprise.BufferConfig {
			return reprise.BufferConfig{Name: name, PageSize: 16 << 10, Sharding: &allocator.ShardSpec{
				Layout: allocator.HeightSharded, Tensor: []int{2, 1}, Shard: []int{2, 1}, Cores: []chip.Range{{Start: c, End: c}}}}
		}
		first, err := s.Pool(0).NewBuffer(shard("first", chip.Core{X: 1}))
		b.must(err)
		second, err := s.Pool(1).NewBuffer(shard("second", chip.Core{X: 1, Y: 3}))
		b.must(err)
		if first.Addr() != second.Addr() {
			b.Errorf("buffers at %#x and %#x", first.Addr(), second.Addr())
		}
		data := bytes.Repeat([]byte{1, 2, 3, 4}, first.Size()/4)
		b.must(b.queue.Write(b.ctx, first, 0, data))
		b.must(b.queue.Write(b.ctx, second, 0, make([]byte, second.Size())))
		got := make([]byte, len(data))
		b.must(b.queue.Read(b.ctx, first, 0, got))
		if !bytes.Equal(got, data) {
			b.Error("the buffer of one sub-device is that of the other")
		}
		_, err = s.Pool(0).NewBuffer(shard("third", chip.Core{X: 1}))
		if !errors.Is(err, reprise.ErrOutOfMemory) {
			b.Errorf("more than there is: %v", err)
		}
		_, err = s.Pool(0).NewBuffer(shard("outside", chip.Core{X: 1, Y: 3}))
		b.says(err, "core (1,3) is not in the sub-device")
		_, err = s.Pool(0).NewBuffer(reprise.BufferConfig{Name: "interleaved", PageSize: 64, Size: 64})
		b.says(err, "sharded ones only")
		b.says(b.dev.ClearSubDevices(b.ctx), "sub-device 0 has buffers")
		b.must(errors.Join(first.Release(), second.Release()))
		b.says(s.Release(), "they are loaded")
		b.must(b.dev.ClearSubDevices(b.ctx))
	})
}

// Divisions that can't be are refused.
func TestSubDevicesThatCannotBe(t *testing.T) {
	onEmulators(t, func(b *bench) {
		one := []chip.Range{chip.Grid(2, 2)}
		for want, sets := range map[string][][]chip.Range{
			"there may be 1 to 8":               make([][]chip.Range, 9),
			"sub-device 1 has no cores":         {one, nil},
			"have core (0,0) both":              {one, one},
			"is not inside the worker grid":     {{{End: chip.Core{X: 90, Y: 1}}}},
			"0 sub-devices: there may be 1 to ": nil,
		} {
			_, err := b.dev.NewSubDevices(0, sets...)
			b.says(err, want)
		}
	})
}

// Recover brings the division back.
func TestRecoverKeepsSubDevices(t *testing.T) {
	onEmulators(t, func(b *bench) {
		in, out := b.pages("in", 4), b.pages("out", 4)
		add := b.load(b.adder("add", chip.Core{X: 2, Y: 4}, in, out, 5))
		s := b.halves(0)
		b.must(b.dev.Recover(b.ctx))
		if b.dev.SubDevices() != s {
			b.Error("the division is gone")
		}
		b.write(in, 1)
		b.must(b.queue.Run(b.ctx, add))
		b.must(b.queue.WaitFor(b.ctx, 1))
		b.holds(out, 6)
		b.must(b.dev.ClearSubDevices(b.ctx))
		b.must(b.queue.Run(b.ctx, add))
	}, reprise.WithHangTimeout(2*time.Second))
}

// A trace runs with the division that it was recorded with, and waits for the sub-devices that it
// uses only.
func TestTracesOnSubDevices(t *testing.T) {
	onAll(t, func(b *bench) {
		in, mid, out := b.pages("in", 4), b.pages("mid", 4), b.pages("out", 4)
		first := b.load(b.adder("first", chip.Core{X: 1, Y: 3}, in, mid, 5))
		again := b.load(b.adder("again", chip.Core{X: 2, Y: 4}, mid, out, 70))
		above := b.load(b.adder("above", chip.Core{X: 3, Y: 1}, in, in, 1))
		word := b.word()
		spin := b.spin("spin", word, chip.BRISC, chip.Grid(2, 2))
		s := b.halves(0)
		below := b.capture("below", first, again)
		b.write(word, 0)
		b.must(b.queue.Write(b.ctx, word, 0, make([]byte, word.Size())))
		b.must(b.queue.Run(b.ctx, spin))
		b.must(b.queue.SetStallGroup(1))
		for i := range uint32(10) {
			b.write(in, i)
			b.must(b.queue.Run(b.ctx, first))
			b.must(below.Replay(b.ctx))
			b.must(b.queue.Wait(b.ctx))
			b.holds(out, i+75)
		}
		b.must(b.queue.Write(b.ctx, word, 0, bytes.Repeat([]byte{1, 0, 0, 0}, word.Size()/4)))
		b.must(b.queue.SetStallGroup())
		both := b.capture("both", above, above, first, again)
		b.write(in, 0)
		for range 12 {
			b.must(both.Replay(b.ctx))
			b.must(b.queue.Run(b.ctx, above))
		}
		b.must(b.queue.Wait(b.ctx))
		b.holds(in, 36)
		if _, err := b.queue.Capture(b.ctx, "loop", func(_ context.Context, r *reprise.Recorder) error {
			return r.Loop(3, func() error { return r.Run(first) })
		}); !errors.Is(err, dispatch.ErrSubDevices) {
			b.Errorf("a loop: %v", err)
		}
		var file bytes.Buffer
		b.must(both.Save(b.ctx, &file))
		b.refusesDivisions(file.Bytes())
		b.must(b.dev.ClearSubDevices(b.ctx))
		var other *tracebuf.TargetError
		if _, err := b.dev.LoadTrace(b.ctx, bytes.NewReader(file.Bytes())); !errors.As(err, &other) {
			b.Errorf("a file without its division: %v", err)
		}
		var sub *dispatch.SubDeviceError
		if err := both.Replay(b.ctx); !errors.As(err, &sub) {
			b.Errorf("a replay without the division: %v", err)
		}
		b.must(s.Load(b.ctx))
		b.must(both.Replay(b.ctx))
		b.must(b.queue.Wait(b.ctx))
		b.holds(in, 38)
		loaded, err := b.dev.LoadTrace(b.ctx, &file, reprise.WithBuffers(in, mid, out))
		b.must(err)
		for range 12 {
			b.must(loaded.Replay(b.ctx))
			b.must(b.queue.Run(b.ctx, above))
		}
		b.must(b.queue.Wait(b.ctx))
		b.holds(in, 38+36)
		b.must(errors.Join(below.Release(b.ctx), both.Release(b.ctx), loaded.Release(b.ctx), b.dev.ClearSubDevices(b.ctx)))
	})
}

// refusesDivisions says that a trace on two sub-devices isn't one with other sub-devices.
func (b *bench) refusesDivisions(file []byte) {
	b.Helper()
	f, err := tracebuf.Decode(bytes.NewReader(file))
	b.must(err)
	sets := f.Target.SubDevices
	for want, other := range map[string][][]chip.Range{
		"SEND_GO_SIGNAL after 8 completions": nil,
		"starts none of the 1 sub-devices":   sets[:1],
		"make them disjoint":                 {sets[0], sets[0]},
		"is no worker":                       {sets[1], sets[0]},
		"after 8 completions, all steps":     {append([]chip.Range{chip.Single(0, 2)}, sets[0]...), sets[1]},
		"0 sub-devices":                      {},
	} {
		f.Target.SubDevices = other
		b.says(tracebuf.Encode(io.Discard, f), want)
	}
	f.Target.SubDevices = sets
	var again bytes.Buffer
	b.must(tracebuf.Encode(&again, f))
	if !bytes.Equal(again.Bytes(), file) {
		b.Error("the file isn't the same after a round trip")
	}
}

// Two queues run programs on different sub-devices without an event, and not on the same one.
func TestSubDevicesOfTwoQueues(t *testing.T) {
	onEmulators(t, func(b *bench) {
		in, out := b.pages("in", 4), b.pages("out", 4)
		b.write(in, 3)
		first, second := b.load(b.adder("first", chip.Core{X: 1, Y: 1}, in, in, 1)),
			b.load(b.adder("second", chip.Core{X: 1, Y: 3}, in, out, 1))
		b.halves(0)
		b.must(b.queue.Run(b.ctx, first))
		b.must(b.dev.Queue(1).Run(b.ctx, second))
		var overlap *dispatch.OverlapError
		if err := b.dev.Queue(1).Run(b.ctx, first); !errors.As(err, &overlap) {
			b.Errorf("the sub-device of the other queue's program: %v", err)
		}
		b.must(b.queue.Wait(b.ctx))
		b.must(b.dev.Queue(1).Run(b.ctx, first))
		b.must(b.dev.Queue(1).Wait(b.ctx))
		b.holds(in, 5)
		b.must(b.dev.ClearSubDevices(b.ctx))
	}, reprise.WithQueues(2))
}
