package hwtest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/hwtest/rig"
)

type books struct {
	mu      sync.Mutex
	results []*Result
}

func (b *books) begin(t *testing.T, device string, c *rig.Case) {
	res := &Result{Device: device, Layer: c.Layer, Name: c.Name, Protects: c.Protects, Outcome: Pass}
	start := time.Now()
	b.mu.Lock()
	b.results = append(b.results, res)
	b.mu.Unlock()
	t.Cleanup(func() {
		res.Seconds = time.Since(start).Seconds()
		switch {
		case t.Failed():
			res.Outcome = Fail
		case t.Skipped():
			res.Outcome = Skip
		}
	})
}

func (b *books) report() *Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &Report{}
	for _, res := range b.results {
		r.Add(*res)
	}
	return r
}

func written(t *testing.T, r *Report, file string) string {
	t.Helper()
	var b strings.Builder
	if err := r.write(&b, file); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
