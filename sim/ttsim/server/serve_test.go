package server

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/sim/ttsim/internal/link"
)

// calls counts what the server asks of the library.
type calls struct {
	library
	clocks, exits int
}

func (c *calls) Clock(uint32) { c.clocks++ }
func (c *calls) Exit()        { c.exits++ }

// A server that was asked for the end ends: it neither waits for another request nor lets time advance before.
func TestEndWithoutWaiting(t *testing.T) {
	for name, manual := range map[string]uint32{"manual clock": 1, "clock": 0} {
		f, err := link.NewFile()
		if errors.Is(err, link.ErrUnsupported) {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
		mem, err := link.Map(f)
		if err != nil {
			t.Fatal(err)
		}
		s, lib, sleeps := newServer(link.New(mem)), &calls{}, 0
		s.lib = lib
		s.sleep = func(time.Duration) { sleeps++ }
		atomic.StoreUint32(s.shm.Manual, manual)
		s.shm.Requests.Slot(link.OpExit, 0, 0, 0, 0)
		s.shm.Requests.Publish(0)
		s.run()
		if sleeps != 0 || lib.clocks != 0 || lib.exits != 1 {
			t.Errorf("%s: after the end it slept %d times and clocked %d times, and told the library %d times: want 0, 0 and 1",
				name, sleeps, lib.clocks, lib.exits)
		}
		if err := errors.Join(link.Unmap(mem), f.Close()); err != nil {
			t.Error(err)
		}
	}
}
