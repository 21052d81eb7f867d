package dispatch

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/postmortem"
)

// MaxSubDevices is how many sub-devices a device can be divided into.
const MaxSubDevices = cq.MaxSubDevices

// SubDevices is a division of a device's workers into disjoint sets, each of which queues start and
// wait for on its own. Workers in none run nothing.
type SubDevices struct {
	sets [][]chip.Range
	of   map[chip.Core]uint8
	n    [MaxSubDevices]uint32 // workers by sub-device
}

// NewSubDevices checks that at most MaxSubDevices sets are disjoint and inside of the worker grid.
func (d *machine) NewSubDevices(sets ...[]chip.Range) (*SubDevices, error) {
	of, n, err := chip.Divide(d.grid, MaxSubDevices, sets)
	if err != nil {
		return nil, fmt.Errorf("dispatch: %w", err)
	}
	s := &SubDevices{of: of}
	for i, set := range sets {
		s.sets, s.n[i] = append(s.sets, slices.Clone(set)), uint32(n[i])
	}
	return s, nil
}

// Sets returns the sub-devices' cores.
func (s *SubDevices) Sets() [][]chip.Range { return s.sets }

// Workers returns how many workers a sub-device has.
func (s *SubDevices) Workers(sub uint8) uint32 { return s.n[sub] }

// selectGoMessages has the workers read the go messages of their sub-devices, or of their queues'
// sets with tt-metal's dispatchers. Workers of none read a message that no queue sends.
func (d *machine) selectGoMessages() error {
	slot := func(c chip.Core) uint32 {
		if d.opts.QueueFirmware == nil {
			return 0
		}
		for _, s := range d.sets {
			if s.cores.Contains(c) {
				return uint32(s.slot)
			}
		}
		return uint32(len(d.sets))
	}
	if d.subs != nil {
		slot = func(c chip.Core) uint32 {
			if i, ok := d.subs.of[c]; ok {
				return uint32(i)
			}
			return MaxSubDevices
		}
	}
	for c := range d.grid.Cores() {
		n := slot(c)
		if n == uint32(d.goSlots[c]) {
			continue
		}
		l1 := &d.worker.L1
		if l1.GoIndex == abi.Absent {
			return fmt.Errorf("dispatch: base firmware of %v has one go message, so no sub-devices: use one from ttnn 0.63.0 or newer",
				d.worker.Revision)
		}
		if err := d.write(c, l1.Go+4*n, []byte{0, 0, 0, postmortem.SignalDone}); err != nil {
			return fmt.Errorf("dispatch: go message %d of %v: %w", n, c, err)
		}
		if err := d.write(c, l1.GoIndex, binary.LittleEndian.AppendUint32(nil, n)); err != nil {
			return fmt.Errorf("dispatch: number of the go message of %v: %w", c, err)
		}
		d.goSlots[c] = uint8(n)
	}
	return nil
}
