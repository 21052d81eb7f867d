package observe

import (
	"bytes"
	_ "embed"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/sim"
)

// The file of a timeline stays as it is, to the byte: other tools read it.
func TestTimelineFile(t *testing.T) {
	dev, err := reprise.Open(t.Context(), sim.Wormhole())
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close(t.Context())
	began := time.Now()
	line := &Timeline{
		dev: dev, began: began, shift: []int64{0}, most: mostSpans, dropped: 3,
		clocks: []clockReading{{began, 1000}, {began.Add(time.Millisecond), 1001000}},
		host: []Span{
			{Queue: -1, Kind: "span", Name: "all", Start: 500, End: 90 * time.Microsecond},
			{Queue: -1, Kind: "run", Name: "add", Call: 7, Start: time.Microsecond, End: 3 * time.Microsecond},
			{Queue: -1, Kind: "wait", Name: "e", Call: 8, Start: 4 * time.Microsecond, End: 5 * time.Microsecond, failed: true},
		},
		stamps: []stamp{{span: Span{Kind: "run", Name: "add", Call: 7, StartCycles: 3000, EndCycles: 45000}, from: time.Microsecond}},
	}
	var got bytes.Buffer
	if err := line.WriteJSON(&got); err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer("\n", "", "DEVICE", dev.Name()).Replace(timelineFile) + "\n"
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

//go:embed testdata/timelineFile.json
var timelineFile string

func TestFullTimelineStaysAsItIs(t *testing.T) {
	dev, err := reprise.Open(t.Context(), sim.Wormhole())
	devtest.Must(t, err)
	defer func() {
		if err := dev.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	buf, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64})
	devtest.Must(t, err)
	line, err := StartTimeline(t.Context(), dev)
	devtest.Must(t, err)
	line.most = 4
	write := func(n int) {
		for range n {
			devtest.Must(t, dev.Queue(0).Write(t.Context(), buf, 0, make([]byte, 64)))
		}
	}
	write(2) // a span of the host and a stamp each
	clocks, spans := len(line.clocks), len(line.Spans())
	write(5)
	devtest.Must(t, errors.Join(dev.Queue(0).Wait(t.Context()), buf.Release()))
	if len(line.clocks) != clocks || len(line.begin) != 0 || line.Dropped() != 7 {
		t.Errorf("%d readings of the clock, %d before; %d calls begun, %d dropped", len(line.clocks), clocks, len(line.begin), line.Dropped())
	}
	devtest.Must(t, line.Stop(t.Context()))
	if n := len(line.Spans()); n < spans || n > 4 {
		t.Errorf("%d spans, %d when it was full", n, spans)
	}
}
