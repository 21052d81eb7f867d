package hwtest

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Outcome is a case's outcome.
type Outcome string

// The outcomes.
const (
	Pass Outcome = "pass"
	Fail Outcome = "fail"
	Skip Outcome = "skip" // not for this device, not asked for, or interrupted
)

// Result is the outcome of a case on a device. Its JSON keys are those of report files.
type Result struct {
	Device   string   `json:"device"`
	Layer    string   `json:"layer"`
	Name     string   `json:"name"`
	Protects string   `json:"protects"`
	Outcome  Outcome  `json:"outcome"`
	Seconds  float64  `json:"seconds"`
	Reason   string   `json:"reason,omitempty"` // of a skip
	Log      []string `json:"log,omitempty"`    // of a failure: what it found, each with its place

	interrupted bool // the run was over first
}

// Report is the result of [Run].
type Report struct {
	Started time.Time `json:"started"` // in UTC
	Seconds float64   `json:"seconds"`
	Passed  int       `json:"passed"`
	Failed  int       `json:"failed"`
	Skipped int       `json:"skipped"`
	Ended   string    `json:"ended,omitempty"` // why the run was cut short, if it was
	Results []Result  `json:"results"`         // in the order in which the cases ended
}

// Add appends a result and counts it; cases may run in parallel, so Seconds is the caller's.
func (r *Report) Add(res Result) {
	switch res.Outcome {
	case Pass:
		r.Passed++
	case Fail:
		r.Failed++
	case Skip:
		r.Skipped++
	}
	r.Results = append(r.Results, res)
}

func (r *Report) written() []Result {
	if r.Ended == "" {
		return r.Results
	}
	rest := Result{Layer: "suite", Name: "rest of the run", Outcome: Skip, Reason: r.Ended}
	if n := len(r.Results); n > 0 {
		rest.Device = r.Results[n-1].Device
	}
	return append(slices.Clone(r.Results), rest)
}

// WriteJSON writes the results as an array; one more says that the run was cut short.
func (r *Report) WriteJSON(w io.Writer) error {
	out, err := json.MarshalIndent(r.written(), "", "  ")
	return writeReport(w, out, err)
}

// WriteJUnit is WriteJSON as JUnit's XML.
func (r *Report) WriteJUnit(w io.Writer) error {
	out, err := r.junit()
	return writeReport(w, out, err)
}

func writeReport(w io.Writer, out []byte, err error) error {
	if err == nil {
		_, err = w.Write(append(out, '\n'))
	}
	if err != nil {
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
		Class   string     `xml:"classname,attr"`
		Name    string     `xml:"name,attr"`
		Time    string     `xml:"time,attr"`
		Failure *junitText `xml:"failure"`
		Skipped *junitText `xml:"skipped"`
	}
	junitText struct {
		Message string `xml:"message,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

func (r *Report) junit() ([]byte, error) {
	var out junitSuites
	index := map[string]int{}
	for _, res := range r.written() {
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
		case Fail:
			s.Failures++
			c.Failure = &junitText{Text: strings.Join(res.Log, "\n")}
			if len(res.Log) > 0 {
				c.Failure.Message = res.Protects
			}
		case Skip:
			s.Skipped++
			c.Skipped = &junitText{Message: res.Reason}
		}
		s.Cases = append(s.Cases, c)
	}
	b, err := xml.MarshalIndent(out, "", "  ")
	return append([]byte(xml.Header), b...), err
}
