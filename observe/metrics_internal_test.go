package observe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/promtext/promtest"
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
	series, err := promtest.Parse(text.String())
	if err != nil {
		t.Fatal(err)
	}
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
	if n := testing.AllocsPerRun(100, func() {
		o.Begin(t.Context(), &c)
		o.End(t.Context(), &c)
	}); n != 0 {
		t.Errorf("%v allocations per call", n)
	}
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
		series, err := promtest.Parse(text.String())
		if err != nil {
			t.Fatal(err)
		}
		return series[`reprise_call_duration_seconds_count{device="d",call="run"}`],
			series[`reprise_call_duration_seconds_sum{device="d",call="replay"}`]
	}
	for range 50 {
		counts()
	}
	callers.Wait()
	if run, replay := counts(); run != 1000 || replay != 1000 {
		t.Errorf("%v runs, %v s of replays", run, replay)
	}
}
