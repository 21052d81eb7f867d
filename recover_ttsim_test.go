package reprise_test

import (
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

// A hang is found, told and recovered from on the vendor's simulator as on the emulator.
func TestRecoverOnTheVendorsSimulator(t *testing.T) {
	for _, v := range []string{ttsimtest.Wormhole, ttsimtest.Blackhole} {
		t.Run(v, func(t *testing.T) {
			b := open(t, ttsimtest.Card(t, v), reprise.WithHangTimeout(5*time.Second), reprise.WithDumpDir(t.TempDir()))
			word := b.word()
			r := newRig(b)
			forever := b.spin("forever", word, chip.NCRISC, chip.Single(0, 0))
			r.before = b.allocated()
			b.must(b.queue.Run(b.ctx, forever))
			h := b.hang(b.queue.Wait(b.ctx))
			if h.File == "" {
				t.Errorf("no dump: %v", h.FileErr)
			}
			busy := 0
			for _, c := range h.Cores {
				if c.Kind == "worker" && c.Busy() {
					busy++
				}
			}
			if busy != 1 {
				t.Errorf("%d workers are busy, want 1:\n%s", busy, h.Detail())
			}
			r.recovers()
		})
	}
}
