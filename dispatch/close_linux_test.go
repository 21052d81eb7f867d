package dispatch

import (
	"testing"
	"time"

	"github.com/reprise-tt/reprise/internal/nap/naptest"
	"github.com/reprise-tt/reprise/sim"
)

func TestCloseFreesTimers(t *testing.T) {
	before := naptest.Timers(t)
	d, err := Start(t.Context(), opened(t, sim.Wormhole()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	d.naps.Sleep(time.Microsecond) // it may not have waited so long yet
	if n := naptest.Timers(t) - before; n < 1 {
		t.Errorf("%d timers of a device that has slept", n)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := naptest.Timers(t) - before; n != 0 {
		t.Errorf("%d timers of a device that is closed", n)
	}
}
