package hwtest

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// books collect results under go test. Cases are added when they begin and completed by their own cleanup.
type books struct {
	mu      sync.Mutex
	results []*Result
}

// begin opens the books of a case. Its cleanup, which runs last, fills in the outcome.
func (b *books) begin(t *testing.T, device string, c *testCase) {
	res := &Result{Device: device, Layer: c.layer, Name: c.name, Protects: c.protects, Outcome: Pass}
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

// report returns what is in the books when all cases have ended.
func (b *books) report() *Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &Report{}
	for _, res := range b.results {
		r.Add(*res)
	}
	return r
}

// Both formats say of each case what became of it.
func TestReportFormats(t *testing.T) {
	rep := &books{}
	for _, name := range []string{"a", "b"} {
		t.Run(name, func(t *testing.T) {
			rep.begin(t, "dev", &testCase{name: name, layer: "cq", protects: "x"})
			if name == "b" {
				t.Skip("to be reported as skipped")
			}
		})
	}
	dir := t.TempDir()
	for file, want := range map[string][]string{
		"r.json": {`"name": "a"`, `"outcome": "pass"`, `"outcome": "skip"`},
		"r.xml":  {`<testsuite name="dev" tests="2" failures="0" skipped="1">`, `<testcase classname="dev.cq" name="b"`, `<skipped></skipped>`},
	} {
		path := filepath.Join(dir, file)
		if err := rep.report().WriteFile(path); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(string(b), w) {
				t.Errorf("%s lacks %s:\n%s", file, w, b)
			}
		}
	}
}
