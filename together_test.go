package reprise_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim"
)

// Lists of devices that can't be are refused before anything is allocated or loaded on those that
// can.
func TestListsOfDevices(t *testing.T) {
	b := open(t, sim.Blackhole())
	before := b.allocated()
	for _, tt := range []struct {
		ds   []*reprise.Device
		says string
	}{
		{nil, "no devices"},
		{[]*reprise.Device{nil}, "device 0 of the list is nil"},
		{[]*reprise.Device{b.dev, nil}, "device 1 of the list is nil"},
		{[]*reprise.Device{b.dev, b.dev}, "is given twice"},
	} {
		_, err := reprise.NewBuffers(tt.ds, reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, PageSize: 64, Name: "x"})
		b.says(err, `reprise: new buffer "x"`, tt.says)
		_, err = reprise.LoadAll(b.ctx, tt.ds, make([]*reprise.Program, len(tt.ds)))
		b.says(err, "reprise: load", tt.says)
	}
	if diff := cmp.Diff(before, b.allocated()); diff != "" {
		t.Errorf("allocated (-before +now):\n%s", diff)
	}
}

// Lists that name the same devices or queues in different orders don't make their callers wait for
// each other.
func TestListsInAnyOrder(t *testing.T) {
	beside := func(t *testing.T, n int, fs ...func() error) {
		t.Helper()
		done := make(chan error, len(fs))
		for _, f := range fs {
			go func() {
				var err error
				for range n {
					if err = f(); err != nil {
						break
					}
				}
				done <- err
			}()
		}
		late := time.After(time.Minute)
		for range fs {
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
			case <-late:
				panic("they wait for each other") // and so would closing the devices
			}
		}
	}
	t.Run("buffers", func(t *testing.T) {
		a, b := open(t, sim.Blackhole()), open(t, sim.Blackhole())
		allocate := func(ds ...*reprise.Device) func() error {
			return func() error {
				bufs, err := reprise.NewBuffers(ds, reprise.BufferConfig{Kind: allocator.L1, Size: 64, PageSize: 64, Name: "x"})
				for _, buf := range bufs {
					err = errors.Join(err, buf.Release())
				}
				return err
			}
		}
		beside(t, rounds(20_000, 2000), allocate(a.dev, b.dev), allocate(b.dev, a.dev))
	})
	t.Run("queues of a device", func(t *testing.T) {
		left, right := chip.Range{End: chip.Core{X: 3, Y: 3}}, chip.Range{Start: chip.Core{X: 4}, End: chip.Core{X: 7, Y: 3}}
		b := open(t, sim.Blackhole(), reprise.WithQueues(2), reprise.WithQueueWorkers(0, left), reprise.WithQueueWorkers(1, right))
		q0, q1 := b.dev.Queue(0), b.dev.Queue(1)
		x0, x1 := b.load(b.blank("x0", chip.Single(0, 0))), b.load(b.blank("x1", chip.Single(4, 0)))
		both, err := captureQueues(b.ctx, "both", []*reprise.Queue{q0, q1}, func(rs []*reprise.Recorder) error {
			return errors.Join(rs[0].Run(x0), rs[1].Run(x1))
		})
		b.must(err)
		other, err := captureQueues(b.ctx, "other", []*reprise.Queue{q1, q0}, func(rs []*reprise.Recorder) error {
			return errors.Join(rs[0].Run(x1), rs[1].Run(x0))
		})
		b.must(err)
		beside(t, 2000, func() error { return both.Replay(b.ctx) }, func() error { return other.Replay(b.ctx) },
			func() error { return both.Replay(b.ctx) })
	})
}
