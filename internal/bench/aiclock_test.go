package bench

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
)

// A figure that was taken while the chip's clock moved isn't told. One whose clock comes to rest is
// measured again.
func TestFigureNeedsSteadyClock(t *testing.T) {
	ctx := context.Background()
	card := sim.Blackhole()
	dev, err := reprise.Open(ctx, card)
	must(t, err)
	defer dev.Close(ctx)
	set := telemetryWriter(t, card, chip.TagAICLK)

	s := &session{ctx: ctx, dev: dev, report: &report.Report{}, runner: measure.Runner{Rounds: 4}}
	s.runner.AIClock = s.aiClock
	moves := 0 // how many more times the clock moves
	op := func(int) error {
		if moves > 0 {
			moves--
			set(uint32(800 + 10*moves))
		}
		return nil
	}
	measure := func(name string) {
		t.Helper()
		must(t, s.measure("test", &measure.Job{Name: name, Do: op, Burst: 1}))
	}
	set(1000)
	measure("steady")
	moves = 40
	measure("moving")
	moves = 2
	measure("settling")

	want := []*report.AIClock{{Before: 1000, During: 1000, After: 1000}, {Before: 800, During: 800, After: 800}}
	var got []*report.AIClock
	for _, f := range s.report.Figures {
		got = append(got, f.AIClock)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("clocks of the figures told (-want +got):\n%s", diff)
	}
	if l := s.report.Refused; len(l) != 1 || l[0].Figure != "test/moving" || len(l[0].AIClocks) != clockAttempts {
		t.Fatalf("refused: %+v", l)
	}
	var out bytes.Buffer
	must(t, s.report.WriteTable(&out))
	if !strings.Contains(out.String(), "test/moving: not reported, since the clock of the chip moved") {
		t.Errorf("the table doesn't say what was refused:\n%s", &out)
	}
}

// A device's times are put beside the host's only where its clock runs with the host's.
func TestClockAlongside(t *testing.T) {
	for name, want := range map[string]struct {
		mhz   float64
		along bool
	}{"as told": {1000, true}, "within a hundredth": {1009, true}, "faster": {1350, false}, "an emulator's": {3, false},
		"standing": {0, false}} {
		now, cycles := time.Unix(1, 0), uint64(1)<<63
		read := func() (dispatch.Clock, error) { return dispatch.Clock{Cycles: cycles, Host: now}, nil }
		sleep := func(d time.Duration) {
			now, cycles = now.Add(d), cycles+uint64(want.mhz*float64(d)/1e3)
		}
		ref, along, err := alongside(read, 1000, sleep)
		if err != nil || along != want.along || ref.Cycles != cycles {
			t.Errorf("%s: %t (%v), reading %+v, want %t", name, along, err, ref, want.along)
		}
	}
}

// telemetryWriter plays the firmware that changes a value of its telemetry.
func telemetryWriter(t *testing.T, card kmd.Target, tag chip.TelemetryTag) func(uint32) {
	t.Helper()
	d, err := kmd.Open(context.Background(), card, kmd.WithoutPower())
	must(t, err)
	t.Cleanup(func() { d.Close() })
	arc, xy := &d.Params().ARC, chip.XY{X: 8, Y: 0}
	word := func(addr uint64) uint32 {
		v, err := d.Read32(xy, addr)
		must(t, err)
		return v
	}
	table, values := word(arc.ResetUnit+uint64(arc.TelemetryTable)), word(arc.ResetUnit+uint64(arc.TelemetryValues))
	for i := range word(arc.PointerBase + uint64(table) + 4) {
		if e := word(arc.PointerBase + uint64(table+8+4*i)); chip.TelemetryTag(e&0xFFFF) == tag {
			at := arc.PointerBase + uint64(values+4*(e>>16))
			return func(v uint32) { must(t, d.Write32(xy, at, v)) }
		}
	}
	t.Fatalf("no telemetry of tag %d", tag)
	return nil
}
