package observe_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/promtext/promtest"
	"github.com/reprise-tt/reprise/observe"
	"github.com/reprise-tt/reprise/sim"
)

func scrape(t *testing.T, m *observe.Metrics) map[string]float64 {
	t.Helper()
	var text strings.Builder
	if _, err := m.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	series, err := promtest.Parse(text.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	return series
}

func TestMetrics(t *testing.T) {
	devtest.OnEmulators(t, func(b *devtest.Bench) {
		var m observe.Metrics
		stop := m.Observe(b.Dev)
		m.Observe(b.Dev)() // it is observed already
		in := b.Pages("in", 2)
		x := b.Load(b.Adder("add", chip.Core{}, in, in, 1))
		tr := b.Record("adds", func(r *reprise.Recorder) error { return r.Run(x) })
		for range 3 {
			b.Replay(tr)
		}
		replayed := 0
		for _, p := range tr.Parts() {
			replayed += p.ReplayBytes
		}
		data := make([]byte, in.Size())
		b.Must(b.Queue.Write(b.Ctx, in, 0, data))
		b.Must(b.Queue.Read(b.Ctx, in, 0, data))
		if b.Queue.WaitEvent(b.Ctx, b.Dev.NewEvent("never recorded")) == nil {
			b.Error("a wait for what was never recorded")
		}
		series := scrape(b.T, &m)
		value := func(name, labels string) float64 {
			b.Helper()
			key := fmt.Sprintf("%s{device=%q,%s}", name, b.Dev.Name(), labels)
			v, ok := series[key]
			if !ok {
				b.Errorf("no %s", key)
			}
			return v
		}
		for _, x := range []struct {
			name, labels string
			want         float64
		}{
			{"reprise_call_duration_seconds_count", `call="replay"`, 3},
			{"reprise_call_duration_seconds_count", `call="allocate"`, 1},
			{"reprise_call_duration_seconds_count", `call="pending wait"`, 1},
			{"reprise_call_errors_total", `call="wait event",reason="other"`, 1},
			{"reprise_call_bytes_total", `call="write"`, float64(in.Size())},
			{"reprise_call_bytes_total", `call="read"`, float64(in.Size())},
			{"reprise_call_bytes_total", `call="allocate"`, float64(in.Size())},
			{"reprise_call_bytes_total", `call="replay"`, float64(3 * replayed)},
			{"reprise_calls_in_flight", `call="replay"`, 0},
			{"reprise_devices", fmt.Sprintf("arch=%q", b.Dev.Arch()), 1},
		} {
			equal(b, value(x.name, x.labels), x.want, "%s of %s", x.name, x.labels)
		}
		for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1, allocator.Trace} {
			st, kind := b.Dev.Memory(k), fmt.Sprintf("kind=%q", k.Code())
			if got, want := value("reprise_device_memory_allocated_bytes", kind), float64(st.Allocated)*float64(st.Banks); got != want {
				b.Errorf("%v: %v B allocated, want %v", k, got, want)
			}
			if value("reprise_device_memory_extents", kind) != float64(st.Extents) ||
				value("reprise_device_memory_capacity_bytes", kind) == 0 ||
				value("reprise_device_memory_largest_free_bytes", kind) == 0 ||
				value("reprise_device_memory_peak_bytes", kind) < value("reprise_device_memory_allocated_bytes", kind) {
				b.Errorf("%v: extents, capacity, peak or what is free", k)
			}
		}
		stop()
		stop()
		b.Replay(tr)
		series = scrape(b.T, &m)
		equal(b, value("reprise_call_duration_seconds_count", `call="replay"`), 3, "replays after the end")
		for name := range series {
			if strings.HasPrefix(name, "reprise_device_memory_") || strings.HasPrefix(name, "reprise_devices") {
				b.Errorf("after the end there is %s", name)
			}
		}
		defer m.Observe(b.Dev)()
		b.Replay(tr)
		series = scrape(b.T, &m)
		equal(b, value("reprise_call_duration_seconds_count", `call="replay"`), 4, "replays once it is observed again")
	})
}

// A program serves the metrics of its devices beside its own.
func ExampleMetrics() {
	ctx := context.Background()
	var metrics observe.Metrics
	mux := http.NewServeMux() // for http.ListenAndServe
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", observe.MetricsContentType)
		_, _ = metrics.WriteTo(w)
	})

	dev, err := reprise.Open(ctx, sim.Wormhole())
	check(err)
	defer dev.Close(ctx)
	defer metrics.Observe(dev)()
	in, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 4096, Name: "in"})
	check(err)
	for range 3 {
		check(dev.Queue(0).Write(ctx, in, 0, make([]byte, 4096)))
	}

	scrape := httptest.NewRecorder()
	mux.ServeHTTP(scrape, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(scrape.Body.String()) {
		if strings.Contains(line, "reprise_call_bytes_total{") {
			fmt.Print(line)
		}
	}
	// Output:
	// reprise_call_bytes_total{device="emulated wormhole 0",call="write"} 12288
	// reprise_call_bytes_total{device="emulated wormhole 0",call="allocate"} 4096
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
