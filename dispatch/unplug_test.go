package dispatch

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/driver"
)

func unpluggable(t *testing.T, queues int) (*Device, *driver.Driver) {
	t.Helper()
	card := sim.Blackhole()
	drv, err := card.Driver()
	must(t, err)
	kd, err := kmd.Open(t.Context(), card)
	must(t, err)
	t.Cleanup(func() { _ = kd.Close() })
	d, err := Start(t.Context(), kd, Options{QueueMemory: 1 << 20, Queues: queues})
	must(t, err)
	t.Cleanup(func() { _ = d.Close(context.Background()) }) // what can't be released belongs to a lost card
	return d, drv
}

func TestWaitsBesideQueuesOfALostCard(t *testing.T) {
	for name, look := range map[string]func(q *Queue){
		"what has come":  func(q *Queue) { q.drainOthers() },
		"what has moved": func(q *Queue) { q.progressLifeLocked() },
		"a dump":         func(q *Queue) { collected(q) },
	} {
		t.Run(name, func(t *testing.T) {
			d, drv := unpluggable(t, 2)
			q, other := d.Queue(0), d.Queue(1)
			if _, _, err := other.record(t.Context(), "something", false); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(time.Minute); other.comp.ring.available() == 0; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("nothing is reported")
				}
			}
			must(t, drv.Unplug(0))
			err := d.kd.Guard(func() error { look(q); return nil })
			if err != nil && !errors.Is(err, kmd.ErrDeviceLost) {
				t.Error(err)
			}
			for _, q := range []*Queue{q, other} {
				if !q.life.mu.TryLock() {
					t.Fatalf("after a look that ended with %v somebody has the life of queue %d", err, q.id)
				}
				q.life.mu.Unlock()
			}
			_ = d.Close(t.Context()) // what can't be released belongs to a lost card
			_ = d.kd.Close()
			if n := drv.Node(0).OpenFiles(); n != 0 {
				t.Errorf("%d files are open", n)
			}
		})
	}
}
