package observe_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd/session"
	"github.com/reprise-tt/reprise/observe"
	"github.com/reprise-tt/reprise/sim"
)

func TestTimelineOfEngines(t *testing.T) {
	devtest.OnEmulators(t, func(b *devtest.Bench) {
		at, idle := chip.Core{X: 2, Y: 1}, chip.Core{X: 0, Y: 1}
		p, err := devtest.SemaphoreWait(b.Ctx, b.Dev, at,
			40_000_000) // a tenth of a second and more, for a sampler that a busy host lets run late
		if errors.Is(err, kernels.ErrNoCompiler) {
			b.Skip(err)
		}
		b.Must(err)
		x := b.Load(p)
		line, err := observe.StartTimeline(b.Ctx, b.Dev)
		b.Must(err)
		var outside *chip.CoordinateError
		if err := line.SampleEngines(time.Millisecond, chip.Core{X: 99}); !errors.As(err, &outside) {
			b.Errorf("a core outside of the chip: %v", err)
		}
		if line.SampleEngines(0, at) == nil || line.SampleEngines(time.Millisecond) == nil {
			b.Error("no interval and no worker: no error")
		}
		b.Must(line.SampleEngines(200*time.Microsecond, idle, at))
		b.Must(b.Queue.Run(b.Ctx, x))
		b.Must(b.Queue.Wait(b.Ctx))
		b.Must(line.Stop(b.Ctx))
		if line.SampleEngines(time.Millisecond, at) == nil {
			b.Error("a timeline that has stopped: no error")
		}
		want := []observe.EngineSpan{{Worker: at, Thread: 1, Wait: "SEMWAIT 0xa6ff8005 waits while semaphore 0 is 0"}}
		spans := line.EngineSpans()
		if diff := cmp.Diff(want, spans, cmpopts.IgnoreFields(observe.EngineSpan{}, "Start", "End")); diff != "" {
			b.Fatalf("spans (-want +got):\n%s", diff)
		}
		if s := spans[0]; s.End <= s.Start {
			b.Errorf("from %v to %v", s.Start, s.End)
		}
		var file bytes.Buffer
		b.Must(line.WriteJSON(&file))
		if diff := cmp.Diff([]string{want[0].Wait}, readTrace(b.T, file.Bytes())["worker (2,1) math"]); diff != "" {
			b.Errorf("track (-want +got):\n%s", diff)
		}
	})
}

func TestEnginesOfADeviceThatDoesNotTell(t *testing.T) {
	b := devtest.Open(t, session.Record(sim.Wormhole(), io.Discard)) // a recorder doesn't pass it on
	line, err := observe.StartTimeline(b.Ctx, b.Dev)
	b.Must(err)
	if err := line.SampleEngines(time.Millisecond, chip.Core{}); !errors.Is(err, errors.ErrUnsupported) ||
		!strings.Contains(err.Error(), "an emulated device does") {
		b.Errorf("%v", err)
	}
	b.Must(line.Stop(b.Ctx))
}
