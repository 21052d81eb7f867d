package hwtest

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/internal/tables"
)

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
		err = printed(out, func(w io.Writer, t *tables.Table) {
			for _, c := range changes {
				t.Row(c.Kind, c.Device, c.Layer+"/"+c.Name, fmt.Sprintf("%.3f s, before %.3f s", c.Seconds, c.Before), c.Reason)
			}
			t.Flush()
			fmt.Fprintf(w, "%d changes, %d for the worse\n", len(changes), worse)
		})
	}
	if worse > 0 {
		err = errors.Join(err, fmt.Errorf("hwtest: %d cases of %s are worse than in %s", worse, after, before))
	}
	return err
}
