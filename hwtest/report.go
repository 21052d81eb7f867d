package hwtest

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/internal/tables"
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
	Device    string    `json:"device"`
	Layer     string    `json:"layer"`
	Name      string    `json:"name"`
	Protects  string    `json:"protects"`
	Outcome   Outcome   `json:"outcome"`
	Started   time.Time `json:"started,omitzero"` // in UTC
	Seconds   float64   `json:"seconds"`
	Reason    string    `json:"reason,omitempty"`    // of a skip, or what a failed case found first
	Log       []string  `json:"log,omitempty"`       // of a failure: what it found, each with its place
	Artifacts []string  `json:"artifacts,omitempty"` // files that the case left

	interrupted bool // the run was over first
}

// Device is what a run tested.
type Device struct {
	Name     string `json:"name"`  // of results
	Given    string `json:"given"` // as the user called it
	Arch     string `json:"arch"`
	Firmware string `json:"firmware"`
}

// Report is the result of [Run].
type Report struct {
	Host    string    `json:"host"`
	Version string    `json:"version"` // of the program's module
	Devices []Device  `json:"devices"`
	Started time.Time `json:"started"` // in UTC
	Seconds float64   `json:"seconds"`
	Passed  int       `json:"passed"`
	Failed  int       `json:"failed"`
	Skipped int       `json:"skipped"`
	Ended   string    `json:"ended,omitempty"` // why the run was cut short, if it was
	Results []Result  `json:"results"`         // in the order in which the cases ended
}

func newReport() Report {
	r := Report{Started: time.Now().UTC(), Devices: []Device{}, Results: []Result{}}
	r.Host, _ = os.Hostname()
	if info, ok := debug.ReadBuildInfo(); ok {
		r.Version = info.Main.Path + " " + info.Main.Version
	}
	return r
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

// restLayer is the layer of the entry that says that a run was cut short.
const restLayer = "suite"

func (r *Report) written() []Result {
	if r.Ended == "" {
		return r.Results
	}
	rest := Result{Layer: restLayer, Name: "rest of the run", Outcome: Skip, Reason: r.Ended}
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

func (r *Report) write(w io.Writer, name string) error {
	if strings.EqualFold(filepath.Ext(name), ".xml") {
		return r.WriteJUnit(w)
	}
	return r.WriteJSON(w)
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

// The elements and their order are those of the schema of Jenkins's xUnit plugin.
type (
	junitSuites struct {
		XMLName xml.Name `xml:"testsuites"`
		junitCounts
		Suites []*junitSuite `xml:"testsuite"`
	}
	junitCounts struct {
		Name     string  `xml:"name,attr"`
		Tests    int     `xml:"tests,attr"`
		Failures int     `xml:"failures,attr"`
		Errors   int     `xml:"errors,attr"`
		Time     seconds `xml:"time,attr"`
	}
	junitSuite struct {
		junitCounts
		Skipped    int             `xml:"skipped,attr"`
		Timestamp  string          `xml:"timestamp,attr"`
		Hostname   string          `xml:"hostname,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string     `xml:"classname,attr"`
		Name    string     `xml:"name,attr"`
		Time    seconds    `xml:"time,attr"`
		Skipped *junitText `xml:"skipped"`
		Failure *junitText `xml:"failure"`
		Out     string     `xml:"system-out,omitempty"`
	}
	junitText struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
	seconds float64
)

func (s seconds) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%.3f", float64(s)), nil }

// junitTime is ISO 8601 without a zone, which the schema leaves out: it is in UTC.
const junitTime = "2006-01-02T15:04:05"

func (r *Report) junit() ([]byte, error) {
	out := junitSuites{junitCounts: junitCounts{Name: "hwtest", Time: seconds(r.Seconds)}}
	suites := map[string]*junitSuite{}
	for _, res := range r.written() {
		s := suites[res.Device]
		if s == nil {
			s = &junitSuite{junitCounts: junitCounts{Name: res.Device}, Timestamp: res.Started.Format(junitTime), Hostname: r.Host,
				Properties: []junitProperty{{"version", r.Version}}}
			for _, d := range r.Devices {
				if d.Name == res.Device {
					s.Properties = append(s.Properties, junitProperty{"device", d.Given}, junitProperty{"arch", d.Arch},
						junitProperty{"firmware", d.Firmware})
				}
			}
			suites[res.Device] = s
			out.Suites = append(out.Suites, s)
		}
		c := junitCase{Class: res.Device + "." + res.Layer, Name: res.Name, Time: seconds(res.Seconds)}
		switch res.Outcome {
		case Fail:
			s.Failures++
			out.Failures++
			c.Failure = &junitText{Message: res.Reason, Type: "failure", Text: strings.Join(res.Log, "\n")}
			c.Out = "protects: " + res.Protects + "\n"
		case Skip:
			s.Skipped++
			c.Skipped = &junitText{Message: res.Reason}
		}
		for _, name := range res.Artifacts { // as Jenkins and GitLab show files
			c.Out += "[[ATTACHMENT|" + name + "]]\n"
		}
		s.Tests++
		out.Tests++
		s.Time += c.Time
		s.Cases = append(s.Cases, c)
	}
	b, err := xml.MarshalIndent(out, "", "  ")
	return append([]byte(xml.Header), b...), err
}

// ReadReport reads what [Report.WriteJSON] or [Report.WriteJUnit] wrote, or a Report as JSON.
func ReadReport(r io.Reader) (*Report, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("hwtest: read report: %w", err)
	}
	var rep Report
	switch b = bytes.TrimSpace(b); {
	case bytes.HasPrefix(b, []byte("[")):
		err = json.Unmarshal(b, &rep.Results)
	case bytes.HasPrefix(b, []byte("<")):
		rep.Results, err = readJUnit(b)
	default:
		err = json.Unmarshal(b, &rep)
	}
	if err == nil && len(rep.Results) == 0 {
		err = errors.New("it has no results")
	}
	if err != nil {
		return nil, fmt.Errorf("hwtest: this is no report of a run, as JSON or JUnit's XML: %w", err)
	}
	return &rep, nil
}

func readJUnit(b []byte) (all []Result, err error) {
	var in junitSuites
	if err := xml.Unmarshal(b, &in); err != nil {
		return nil, err
	}
	for _, s := range in.Suites {
		for _, c := range s.Cases {
			layer := strings.TrimPrefix(c.Class, s.Name+".")
			r := Result{Device: s.Name, Layer: layer, Name: c.Name, Outcome: Pass, Seconds: float64(c.Time)}
			switch {
			case c.Failure != nil:
				r.Outcome, r.Reason = Fail, c.Failure.Message
			case c.Skipped != nil:
				r.Outcome, r.Reason = Skip, c.Skipped.Message
			}
			all = append(all, r)
		}
	}
	return all, nil
}

// Kinds of a [Change], the worst first.
const (
	Failed  = "fails now"
	Skipped = "skipped now" // and was run before
	Missing = "missing now"
	Slower  = "slower" // passed both times
	Fixed   = "fixed"
	Added   = "added"
)

// Change is a case that a later report has otherwise than an earlier one.
type Change struct {
	Kind   string  `json:"kind"`
	Result         // the later one, or of a missing case the earlier one
	Before float64 `json:"seconds_before"`
}

// leastSlower is how many seconds longer a slower case takes: short times are noise.
const leastSlower = 1

// Compare compares a report with an earlier one, and sorts changes by their kind. A case is slower
// if it takes so many times as long as before, and a second more. If both reports are of one
// device, its name doesn't count.
func Compare(before, after *Report, slower float64) []Change {
	one := oneDevice(before) && oneDevice(after)
	index := func(r *Report) map[string]Result {
		of := map[string]Result{}
		for _, res := range r.Results {
			if res.Layer != restLayer {
				of[res.key(one)] = res
			}
		}
		return of
	}
	old, now := index(before), index(after)
	changes := []Change{}
	add := func(kind string, r Result, seconds float64) { changes = append(changes, Change{kind, r, seconds}) }
	for _, r := range after.Results {
		b, known := old[r.key(one)]
		switch {
		case r.Layer == restLayer:
		case r.Outcome == Fail && b.Outcome != Fail:
			add(Failed, r, b.Seconds)
		case !known:
			add(Added, r, 0)
		case r.Outcome == Skip && b.Outcome != Skip:
			add(Skipped, r, b.Seconds)
		case r.Outcome == Pass && b.Outcome == Fail:
			add(Fixed, r, b.Seconds)
		case r.Outcome == Pass && b.Outcome == Pass && r.Seconds > max(slower*b.Seconds, b.Seconds+leastSlower):
			add(Slower, r, b.Seconds)
		}
	}
	for _, r := range before.Results {
		if _, ok := now[r.key(one)]; !ok && r.Layer != restLayer {
			add(Missing, r, r.Seconds)
		}
	}
	kinds := []string{Failed, Skipped, Missing, Slower, Fixed, Added}
	slices.SortStableFunc(changes, func(a, b Change) int { return slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind) })
	return changes
}

func (r *Result) key(anyDevice bool) string {
	if anyDevice {
		return r.Layer + "/" + r.Name
	}
	return r.Device + "/" + r.Layer + "/" + r.Name
}

func oneDevice(r *Report) bool {
	return !slices.ContainsFunc(r.Results, func(res Result) bool { return res.Device != r.Results[0].Device })
}

// DiffFiles compares two files as [Compare] does, prints, and returns an error for new failures,
// skips and missing cases.
func DiffFiles(before, after string, slower float64, asJSON bool, out io.Writer) error {
	var reports [2]*Report
	for i, name := range []string{before, after} {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("hwtest: %w", err)
		}
		reports[i], err = ReadReport(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	changes, worse := Compare(reports[0], reports[1], slower), 0
	for _, c := range changes {
		if c.Kind == Failed || c.Kind == Skipped || c.Kind == Missing {
			worse++
		}
	}
	var err error
	if asJSON {
		err = printJSON(out, map[string]any{"changes": changes, "worse": worse})
	} else {
		err = tables.Print(out, func(b tables.Text) {
			t := b.Table()
			for _, c := range changes {
				t.Row(c.Kind, c.Device, c.Layer+"/"+c.Name, fmt.Sprintf("%.3f s, before %.3f s", c.Seconds, c.Before), c.Reason)
			}
			t.Flush()
			b.F("%d changes, %d for the worse\n", len(changes), worse)
		})
	}
	if worse > 0 {
		err = errors.Join(err, fmt.Errorf("hwtest: %d cases of %s are worse than in %s", worse, after, before))
	}
	return err
}
