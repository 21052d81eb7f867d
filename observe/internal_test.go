package observe

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/promtext/promtest"
	"github.com/reprise-tt/reprise/sim"
)

func call(o reprise.Observer, k reprise.CallKind, bytes int, took time.Duration, err error) {
	c := reprise.Call{Kind: k, Bytes: bytes}
	o.Begin(context.Background(), &c)
	c.Start = time.Now()
	c.End, c.Err = c.Start.Add(took), err
	o.End(context.Background(), &c)
}

func TestMetricsText(t *testing.T) {
	d := &deviceMetrics{name: `a "b"`}
	m := Metrics{devices: []*deviceMetrics{d, {name: "idle"}}}
	for _, took := range []time.Duration{0, time.Microsecond, time.Microsecond + 1, 3 * time.Second, 100 * time.Second, 101 * time.Second} {
		call(d, reprise.CallReplay, 0, took, nil)
	}
	call(d, reprise.CallWrite, 100, time.Millisecond, nil)
	for _, err := range []error{
		fmt.Errorf("a: %w", context.Canceled), context.DeadlineExceeded, fmt.Errorf("b: %w", &dispatch.HangError{}),
		fmt.Errorf("c: %w", reprise.ErrDeviceLost), errors.New("d"),
	} {
		call(d, reprise.CallWrite, 100, time.Millisecond, err)
	}
	d.Begin(context.Background(), &reprise.Call{Kind: reprise.CallQueueWait})
	var text strings.Builder
	if n, err := m.WriteTo(&text); err != nil || n != int64(text.Len()) {
		t.Fatalf("%d: %v", n, err)
	}
	series := expect.Value(promtest.Parse(text.String()))(t)
	const replays, device = `reprise_call_duration_seconds_%s{device="a \"b\"",call="replay"%s}`, `{device="a \"b\"",call="`
	want := map[string]float64{
		fmt.Sprintf(replays, "bucket", `,le="1e-06"`): 2,
		fmt.Sprintf(replays, "bucket", `,le="2e-06"`): 3,
		fmt.Sprintf(replays, "bucket", `,le="2"`):     3,
		fmt.Sprintf(replays, "bucket", `,le="5"`):     4,
		fmt.Sprintf(replays, "bucket", `,le="100"`):   5,
		fmt.Sprintf(replays, "bucket", `,le="+Inf"`):  6,
		fmt.Sprintf(replays, "count", ""):             6,
		fmt.Sprintf(replays, "sum", ""):               204.000002001,

		"reprise_call_duration_seconds_count" + device + `queue wait"}`: 0,

		"reprise_call_errors_total" + device + `write",reason="canceled"}`: 2,
		"reprise_call_errors_total" + device + `write",reason="hang"}`:     1,
		"reprise_call_errors_total" + device + `write",reason="lost"}`:     1,
		"reprise_call_errors_total" + device + `write",reason="other"}`:    1,
		"reprise_call_errors_total" + device + `replay",reason="other"}`:   0,
		"reprise_call_bytes_total" + device + `write"}`:                    100,
		"reprise_calls_in_flight" + device + `queue wait"}`:                1,
		"reprise_calls_in_flight" + device + `write"}`:                     0,
	}
	got := map[string]float64{}
	for name := range want {
		if v, ok := series[name]; ok {
			got[name] = v
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s\n%s", diff, text.String())
	}
	if strings.Contains(text.String(), "idle") {
		t.Error("a device without calls, and without memory, is there")
	}
}

func TestMetricsHaveEveryKind(t *testing.T) {
	if next := reprise.CallKind(numCalls); !strings.HasPrefix(next.String(), "call ") {
		t.Errorf("%v is a kind of call, and has no counts", next)
	}
}

func TestMetricsAllocateNothing(t *testing.T) {
	d := &deviceMetrics{name: "d"}
	var o reprise.Observer = d
	c := reprise.Call{Kind: reprise.CallReplay, End: time.Unix(0, 5000), Start: time.Unix(0, 0)}
	expect.Equal(t, testing.AllocsPerRun(100, func() {
		o.Begin(t.Context(), &c)
		o.End(t.Context(), &c)
	}), 0, "allocations per call")
}

func TestMetricsOfSeveralGoroutines(t *testing.T) {
	d := &deviceMetrics{name: "d"}
	m := Metrics{devices: []*deviceMetrics{d}}
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			for range 500 {
				call(d, reprise.CallRun+reprise.CallKind(i%2), 0, time.Second, nil)
			}
		})
	}
	counts := func() (run, replay float64) {
		var text strings.Builder
		_, _ = m.WriteTo(&text)
		series := expect.Value(promtest.Parse(text.String()))(t)
		return series[`reprise_call_duration_seconds_count{device="d",call="run"}`],
			series[`reprise_call_duration_seconds_sum{device="d",call="replay"}`]
	}
	for range 50 {
		counts()
	}
	callers.Wait()
	run, replay := counts()
	expect.Equal(t, run, 1000, "run")
	expect.Equal(t, replay, 1000, "replay")
}

// The file of a timeline stays as it is, to the byte: other tools read it.
func TestTimelineFile(t *testing.T) {
	dev := expect.Value(reprise.Open(t.Context(), sim.Wormhole()))(t)
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
	devtest.Must(t, line.WriteJSON(&got))
	want := strings.NewReplacer("\n", "", "DEVICE", dev.Name()).Replace(timelineFile) + "\n"
	expect.NoDiff(t, got.String(), want, "got.String()")
}

//go:embed testdata/timelineFile.json
var timelineFile string

func TestFullTimelineStaysAsItIs(t *testing.T) {
	dev := expect.Value(reprise.Open(t.Context(), sim.Wormhole()))(t)
	defer func() {
		if err := dev.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	buf := expect.Value(dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64}))(t)
	line := expect.Value(StartTimeline(t.Context(), dev))(t)
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
