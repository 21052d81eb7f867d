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
	must(t, err)
	d.naps.Sleep(time.Microsecond) // it may not have waited so long yet
	if n := naptest.Timers(t) - before; n < 1 {
		t.Errorf("%d timers of a device that has slept", n)
	}
	must(t, d.Close(t.Context()))
	if n := naptest.Timers(t) - before; n != 0 {
		t.Errorf("%d timers of a device that is closed", n)
	}
}
