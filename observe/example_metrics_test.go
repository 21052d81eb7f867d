package observe_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/observe"
	"github.com/reprise-tt/reprise/sim"
)

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
