package hwtest

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// report collects results. Cases are added when they begin and completed by their own cleanup.
type report struct {
	mu      sync.Mutex
	results []*result
}

type result struct {
	Device   string  `json:"device"`
	Layer    string  `json:"layer"`
	Name     string  `json:"name"`
	Protects string  `json:"protects"`
	Outcome  string  `json:"outcome"` // pass, fail, skip
	Seconds  float64 `json:"seconds"`
}

// begin opens the books of a case. Its cleanup, which runs last, fills in the outcome.
func (r *report) begin(t *testing.T, device string, c *testCase) {
	res := &result{Device: device, Layer: c.layer, Name: c.name, Protects: c.protects, Outcome: "pass"}
	start := time.Now()
	r.mu.Lock()
	r.results = append(r.results, res)
	r.mu.Unlock()
	t.Cleanup(func() {
		res.Seconds = time.Since(start).Seconds()
		switch {
		case t.Failed():
			res.Outcome = "fail"
		case t.Skipped():
			res.Outcome = "skip"
		}
	})
}

// write writes JSON, or JUnit's XML if the file's name ends so.
func (r *report) write(path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []byte
	var err error
	if strings.EqualFold(filepath.Ext(path), ".xml") {
		out, err = r.junit()
	} else {
		out, err = json.MarshalIndent(r.results, "", "  ")
	}
	if err != nil {
		return fmt.Errorf("hwtest: write report: %w", err)
	}
	if err := os.WriteFile(path, append(out, '\n'), 0o644); err != nil {
		return fmt.Errorf("hwtest: write report: %w", err)
	}
	return nil
}

type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string    `xml:"classname,attr"`
		Name    string    `xml:"name,attr"`
		Time    string    `xml:"time,attr"`
		Failure *struct{} `xml:"failure"`
		Skipped *struct{} `xml:"skipped"`
	}
)

func (r *report) junit() ([]byte, error) {
	var out junitSuites
	index := map[string]int{}
	for _, res := range r.results {
		i, ok := index[res.Device]
		if !ok {
			i = len(out.Suites)
			index[res.Device] = i
			out.Suites = append(out.Suites, junitSuite{Name: res.Device})
		}
		s := &out.Suites[i]
		c := junitCase{Class: res.Device + "." + res.Layer, Name: res.Name, Time: fmt.Sprintf("%.3f", res.Seconds)}
		s.Tests++
		switch res.Outcome {
		case "fail":
			s.Failures++
			c.Failure = &struct{}{}
		case "skip":
			s.Skipped++
			c.Skipped = &struct{}{}
		}
		s.Cases = append(s.Cases, c)
	}
	b, err := xml.MarshalIndent(out, "", "  ")
	return append([]byte(xml.Header), b...), err
}

// Both formats say of each case what became of it.
func TestReportFormats(t *testing.T) {
	rep := &report{}
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
		if err := rep.write(path); err != nil {
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
