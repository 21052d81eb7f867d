package function

import (
	"errors"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/sim/serve"
)

type calls struct {
	Library
	clocks, exits int
}

func (c *calls) Clock(uint32) { c.clocks++ }
func (c *calls) Exit()        { c.exits++ }

func TestEndWithoutWaiting(t *testing.T) {
	for name, manual := range map[string]bool{"manual clock": true, "clock": false} {
		shm, f, err := serve.NewMemory()
		if errors.Is(err, serve.ErrUnsupported) {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
		s, lib, sleeps := newServer(shm, nil), &calls{}, 0
		s.lib, s.manual = lib, manual
		s.sleep = func(time.Duration) { sleeps++ }
		shm.Requests.Slot(&serve.Head{Op: opExit})
		shm.Requests.Publish(0)
		must(t, s.run())
		if sleeps != 0 || lib.clocks != 0 || lib.exits != 1 {
			t.Errorf("%s: after the end it slept %d times and clocked %d times, and told the library %d times: want 0, 0 and 1",
				name, sleeps, lib.clocks, lib.exits)
		}
		must(t, errors.Join(shm.Unmap(), f.Close()))
	}
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
