package hwtest

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/hwtest/internal/rig"
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

func TestReportFormats(t *testing.T) {
	rep := &books{}
	for _, name := range []string{"a", "b"} {
		t.Run(name, func(t *testing.T) {
			rep.begin(t, "dev", &rig.Case{Name: name, Layer: "cq", Protects: "x"})
			if name == "b" {
				t.Skip("to be reported as skipped")
			}
		})
	}
	for file, want := range map[string][]string{
		"r.json": {`"name": "a"`, `"outcome": "pass"`, `"outcome": "skip"`},
		"r.xml":  {`<testsuite name="dev" tests="2" failures="0" skipped="1">`, `<testcase classname="dev.cq" name="b"`, `<skipped></skipped>`},
	} {
		b := written(t, rep.report(), file)
		for _, w := range want {
			if !strings.Contains(b, w) {
				t.Errorf("%s lacks %s:\n%s", file, w, b)
			}
		}
	}
}

func written(t *testing.T, r *Report, file string) string {
	t.Helper()
	var b strings.Builder
	write := r.WriteJSON
	if filepath.Ext(file) == ".xml" {
		write = r.WriteJUnit
	}
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
