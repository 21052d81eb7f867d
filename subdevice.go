package reprise

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
)

// SubDevices divides a device's workers into up to [dispatch.MaxSubDevices] disjoint sets, the
// sub-devices, numbered from 0; tt-metal calls it a sub-device manager. While it is loaded, each
// program runs on one sub-device, and waits only for the programs before it there: programs of
// different sub-devices run at the same time. Workers in none run nothing.
//
// Transfers, waits and events of a queue wait for the programs of all sub-devices, or of those that
// [Queue.SetStallGroup] chooses. A trace runs with the division that was loaded when it was
// captured, also from a file. It has no control flow and isn't stepped through.
type SubDevices struct {
	d     *Device
	disp  *dispatch.SubDevices
	local allocator.Extent // L1 of the pools; zero without
	pools []*Pool
	freed atomic.Bool
}

// NewSubDevices divides the workers. With localL1 other than 0, that many bytes of each worker's L1
// are taken for the sub-devices' own buffers: those of one don't take room from those of another
// ([SubDevices.Pool]).
func (d *Device) NewSubDevices(localL1 int, sets ...[]chip.Range) (*SubDevices, error) {
	const op = "new sub-devices"
	fail := func(err error) (*SubDevices, error) { return nil, d.opError(op, err) }
	if err := d.usable(op); err != nil {
		return nil, err
	}
	disp, err := d.disp.NewSubDevices(sets...)
	if err != nil {
		return fail(err)
	}
	s := &SubDevices{d: d, disp: disp}
	if localL1 == 0 {
		return s, nil
	}
	first, err := d.newPool(PoolConfig{Kind: allocator.L1, Size: localL1 * d.disp.L1Banks(), Name: "sub-devices"})
	if err != nil {
		return fail(err)
	}
	s.local = first.ext
	for i := range sets {
		p := &Pool{d: d, name: fmt.Sprintf("sub-device %d", i), kind: allocator.L1, ext: first.ext, cores: sets[i]}
		if p.mem, err = allocator.New(first.mem.Config()); err != nil {
			return fail(errors.Join(err, d.mem.Free(first.ext)))
		}
		s.pools = append(s.pools, p)
	}
	return s, nil
}

// Sets returns the cores of each sub-device.
func (s *SubDevices) Sets() [][]chip.Range { return s.disp.Sets() }

// Pool returns the memory of a sub-device's own, for buffers that are sharded over cores of it; nil
// without local L1. It isn't released.
func (s *SubDevices) Pool(sub int) *Pool {
	if sub < 0 || sub >= len(s.pools) {
		return nil
	}
	return s.pools[sub]
}

// Load waits for everything in the device's queues and loads the division, instead of any other.
// All queues must have all workers. The error matches dispatch.ErrQueueFirmware for tt-metal's
// queues. Calls of other goroutines that put something into a queue meanwhile make it fail. A
// division with buffers in its pools can't be replaced.
func (s *SubDevices) Load(ctx context.Context) error {
	return s.d.loadSubDevices(ctx, "load sub-devices", s)
}

// ClearSubDevices undoes the loaded division. It waits as [SubDevices.Load] does.
func (d *Device) ClearSubDevices(ctx context.Context) error {
	return d.loadSubDevices(ctx, "clear sub-devices", nil)
}

func (d *Device) loadSubDevices(ctx context.Context, op string, s *SubDevices) error {
	var disp *dispatch.SubDevices
	if s != nil {
		if s.freed.Load() {
			return d.opError(op, ErrReleased)
		}
		disp = s.disp
	}
	for _, q := range d.queues {
		if err := d.admit(ctx, q, op, opQueueWait, ""); err != nil {
			return err
		}
	}
	d.work.Lock()
	defer d.work.Unlock()
	if old := d.subs.Load(); old != nil && old != s {
		if err := old.unused(); err != nil {
			return d.opError(op, err)
		}
	}
	if err := d.disp.LoadSubDevices(ctx, disp); err != nil {
		return d.opError(op, err)
	}
	d.subs.Store(s)
	return nil
}

func (s *SubDevices) unused() error {
	for _, p := range s.pools {
		if p.Memory().Allocated > 0 {
			return fmt.Errorf("%s has buffers: release them first", p.name)
		}
	}
	return nil
}

// SubDevices returns the division that is loaded; nil without one.
func (d *Device) SubDevices() *SubDevices { return d.subs.Load() }

// Release releases a division that isn't loaded, with its local L1.
func (s *SubDevices) Release() error {
	err := s.unused()
	switch {
	case s.d.subs.Load() == s:
		err = errors.New("they are loaded: clear them, or load others, before")
	case err != nil:
	case s.freed.Swap(true):
		err = ErrReleased
	case !s.local.IsZero():
		err = s.d.mem.Free(s.local)
	}
	return s.d.opError("release sub-devices", err)
}

// SetStallGroup chooses the sub-devices whose programs later transfers, waits and events of the
// queue wait for; without any it is all. Loading or clearing sub-devices chooses all. The error is
// a *dispatch.SubDeviceError for a sub-device that isn't there.
func (q *Queue) SetStallGroup(subs ...int) error {
	const op = "set the stall group"
	if err := q.d.usable(op); err != nil {
		return err
	}
	return q.d.opError(op, q.q.SetStallGroup(subs...))
}

// inside refuses a buffer that isn't in the pool's sub-device.
func (p *Pool) inside(c *BufferConfig) error {
	if p.cores == nil {
		return nil
	}
	if c.Sharding == nil {
		return errors.New("an interleaved buffer: a sub-device has sharded ones only")
	}
	for _, r := range c.Sharding.Cores {
		for core := range r.Cores() {
			if !core.In(p.cores) {
				return fmt.Errorf("core %v is not in the sub-device", core)
			}
		}
	}
	return nil
}
