package dispatch

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
)

func TestCloseWithFullRings(t *testing.T) {
	kd := opened(t, sim.Blackhole())
	d, err := Start(t.Context(), kd, Options{QueueMemory: 1 << 20, HangTimeout: 200 * time.Millisecond})
	must(t, err)
	q := d.Queue(0)
	garbage := make([]byte, 64)
	garbage[0] = 0xEE
	must(t, q.Send(t.Context(), garbage, false))
	for d.report.Core(q.tiles.prefetch).Processors[chip.BRISC].Waypoint != "BADC" { // or it would take some of what comes next
		time.Sleep(time.Millisecond)
	}
	fillRing(t, q, memmap.MaxCommandSize)
	fillRing(t, q, 64)
	err = d.Close(t.Context())
	var hang *HangError
	if !errors.As(err, &hang) || hang.Waiting != "space in the issue queue" || errors.Is(err, errClosed) {
		t.Errorf("closed with %v, want a *HangError", err)
	}
	for what, err := range map[string]error{"finish": d.Queue(0).Wait(t.Context()), "send": q.Send(context.Background(), garbage, false)} {
		if !errors.As(err, &hang) && !errors.Is(err, errClosed) {
			t.Errorf("%s of a closed queue: %v", what, err)
		}
	}
}

func opened(t *testing.T, target kmd.Target) *kmd.Device {
	t.Helper()
	kd, err := kmd.Open(t.Context(), target)
	must(t, err)
	t.Cleanup(func() {
		must(t, kd.Close())
	})
	return kd
}

func started(t *testing.T, target kmd.Target, o Options) *Device {
	t.Helper()
	d, err := Start(t.Context(), opened(t, target), o)
	must(t, err)
	t.Cleanup(func() {
		must(t, d.Close(context.WithoutCancel(t.Context())))
	})
	return d
}
