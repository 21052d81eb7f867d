package hwtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/hwtest/target"
)

func emulatorOf(t *testing.T) *target.Device {
	t.Helper()
	return parseDevice(t, "emu:blackhole")
}

func pattern(t *testing.T, s string) *Pattern {
	t.Helper()
	p, err := ParsePattern(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func attemptAt(name string, limit, grace time.Duration) *attempt {
	r := Running{Device: "dev", Case: Case{Layer: "kmd", Name: name}, Limit: limit}
	return &attempt{Running: r, grace: grace, abandon: func(tb, error) {}}
}

var errStop = errors.New("that is enough")

func complain(t tb) {
	t.Error("complaint of a helper")
}

func TestRunnerOutcomes(t *testing.T) {
	for name, tt := range map[string]struct {
		fn   func(tb)
		want Outcome
		log  []string // parts of the lines, in order
	}{
		"pass":          {fn: func(t tb) { t.Log("a", 1) }, want: Pass},
		"error goes on": {fn: func(t tb) { t.Errorf("first %d", 1); t.Error("second") }, want: Fail, log: []string{"runner_test.go", "second"}},
		"fatal ends":    {fn: func(t tb) { t.Fatalf("the %s", "end"); t.Error("it went on") }, want: Fail, log: []string{"the end"}},
		"nil error":     {fn: func(t tb) { t.Fatalf("no %T", (*dispatch.HangError)(nil)) }, want: Fail, log: []string{"no *"}},
		"skip":          {fn: func(t tb) { t.Skipf("not %s", "today"); t.Error("it went on") }, want: Skip},
		"panic":         {fn: func(tb) { panic("something broke") }, want: Fail, log: []string{"panic: something broke"}},
		"helper":        {fn: func(t tb) { complain(t) }, want: Fail, log: []string{"runner_test.go"}},
		"part fails":    {fn: func(t tb) { t.Run("part", func(t tb) { t.Fatal("of it") }) }, want: Fail, log: []string{"part: "}},
		"part is skipped": {fn: func(t tb) {
			if !t.Run("part", func(t tb) { t.Skip("it") }) || t.Skipped() {
				t.Error("a part that is skipped is neither a failure nor the whole case")
			}
		}, want: Pass},
		"cleanup fails":  {fn: func(t tb) { t.Cleanup(func() { t.Error("late") }) }, want: Fail, log: []string{"late"}},
		"cleanup panics": {fn: func(t tb) { t.Cleanup(func() { panic("late") }) }, want: Fail, log: []string{"panic: late"}},
	} {
		res, ended := attemptAt(name, time.Minute, time.Minute).run(t.Context(), tt.fn)
		if !ended || res.Outcome != tt.want || len(res.Log) != len(tt.log) {
			t.Errorf("%s: %+v, ended %t, want %s with %d lines", name, res, ended, tt.want, len(tt.log))
			continue
		}
		for i, part := range tt.log {
			if !strings.Contains(res.Log[i], part) {
				t.Errorf("%s: line %q lacks %q", name, res.Log[i], part)
			}
		}
		if (res.Reason != "") != (tt.want != Pass) {
			t.Errorf("%s: reason %q", name, res.Reason)
		}
	}
}

func TestRunnerPlaces(t *testing.T) {
	tr := newTrial(t.Context())
	<-tr.start(func(t tb) { complain(t) })
	if !regexp.MustCompile(`^runner_test.go:\d+, from runner_test.go:\d+: complaint`).MatchString(tr.log[0]) {
		t.Errorf("log %q lacks the helper and its caller", tr.log)
	}
}

func TestRunnerCleanups(t *testing.T) {
	var got []string
	tr := newTrial(t.Context())
	<-tr.start(func(t tb) {
		t.Cleanup(func() { got = append(got, "first") })
		t.Cleanup(func() { got = append(got, "second"); t.Fatal("no") })
		t.Cleanup(func() {
			got = append(got, "third")
			t.Cleanup(func() { got = append(got, "of a cleanup") })
			if t.Context().Err() == nil {
				t.Error("the context isn't over in a cleanup")
			}
		})
		t.Fatal("end")
	})
	if diff := cmp.Diff([]string{"third", "of a cleanup", "second", "first"}, got); diff != "" {
		t.Error(diff)
	}
	if len(tr.log) != 2 {
		t.Errorf("log %q", tr.log)
	}
}

func TestRunnerGivesUp(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{"time": t.Context(), "context": over} {
		release := make(chan struct{})
		limit := time.Millisecond
		if name == "context" {
			limit = time.Hour
		}
		const grace = time.Millisecond
		res, ended := attemptAt("endless", limit, grace).run(ctx, func(tb) { <-release })
		close(release)
		if ended || res.Outcome != Fail || !strings.Contains(res.Log[0], "TestRunnerGivesUp") {
			t.Errorf("%s: ended %t, %+v", name, ended, res)
		}
	}
}

// A case that fails because the run is over has found nothing; what it found before stays a
// failure.
func TestRunnerInterrupted(t *testing.T) {
	for name, tt := range map[string]struct {
		fn   func(t tb, end func())
		want Outcome
		log  int // lines
	}{
		"fatal":           {fn: func(t tb, end func()) { end(); t.Fatal(t.Context().Err()) }, want: Skip},
		"error":           {fn: func(t tb, end func()) { t.Log("so far so good"); end(); t.Error("no") }, want: Skip},
		"panic":           {fn: func(_ tb, end func()) { end(); panic("no device") }, want: Skip},
		"part":            {fn: func(t tb, end func()) { t.Run("part", func(t tb) { end(); t.Error("no") }) }, want: Skip},
		"cleanup":         {fn: func(t tb, end func()) { t.Cleanup(func() { t.Error("no") }); end() }, want: Skip},
		"failed before":   {fn: func(t tb, end func()) { t.Error("wrong"); end(); t.Error("no") }, want: Fail, log: 2},
		"panicked before": {fn: func(t tb, end func()) { t.Cleanup(end); panic("wrong") }, want: Fail, log: 1},
		"part before":     {fn: func(t tb, end func()) { t.Run("part", func(t tb) { t.Error("wrong"); end() }) }, want: Fail, log: 1},
		"cleanup of part": {fn: func(t tb, _ func()) {
			t.Cleanup(func() { t.Run("part", func(t tb) { t.Error("wrong") }) })
		}, want: Fail, log: 1},
		"passes": {fn: func(_ tb, end func()) { end() }, want: Pass},
		"skips":  {fn: func(t tb, end func()) { end(); t.Skip("not today") }, want: Skip},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		res, ended := attemptAt(name, time.Minute, time.Minute).run(ctx, func(t tb) { tt.fn(t, func() { cancel(errStop) }) })
		if !ended || res.Outcome != tt.want || len(res.Log) != tt.log {
			t.Errorf("%s: %+v, ended %t, want %s with %d lines", name, res, ended, tt.want, tt.log)
		}
		if res.interrupted != (tt.want == Skip && name != "skips") || res.interrupted && res.Reason != "interrupted: "+errStop.Error() {
			t.Errorf("%s: interrupted %t, reason %q", name, res.interrupted, res.Reason)
		}
		cancel(nil)
	}
}

func TestInterruptedRun(t *testing.T) {
	for name, after := range map[string]int{"in the last case": 0, "with more after it": 2} {
		ctx, cancel := context.WithCancelCause(t.Context())
		list := []Case{
			{Layer: "soak", Name: "good", Run: func(*rig.T) {}},
			{Layer: "soak", Name: "bad", Run: func(f *rig.T) { f.Error("wrong") }},
			{Layer: "soak", Name: "long", Run: func(f *rig.T) { cancel(errStop); f.Fatal(f.Context().Err()) }},
		}
		for range after {
			list = append(list, rig.Case{Layer: "soak", Name: "after", Run: func(f *rig.T) { t.Error("it was run") }})
		}
		rep, cfg := Report{}, Config{}
		err := cfg.device(ctx, emulatorOf(t), list, &rep)
		if !errors.Is(err, errStop) || rep.Passed != 1 || rep.Failed != 1 || rep.Skipped != 1 || len(rep.Results) != 3 {
			t.Errorf("%s: error %v, %+v", name, err, rep)
		}
		want := fmt.Sprintf("ended after 2 of %d cases of emu:blackhole: %v", len(list), errStop)
		if rep.Ended != want {
			t.Errorf("%s: ended %q, want %q", name, rep.Ended, want)
		}
		if last := rep.written()[3]; last.Reason != want || rep.Results[2].Reason != "interrupted: "+errStop.Error() {
			t.Errorf("%s: reasons %+v", name, rep.written())
		}
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStop)
	rep, err := Run(ctx, Config{Devices: []*target.Device{emulatorOf(t)}})
	var open *OpenError
	if !errors.Is(err, errStop) || errors.As(err, &open) || !strings.HasPrefix(rep.Ended, "ended after 0 of ") {
		t.Errorf("before the first case: %v, ended %q", err, rep.Ended)
	}
}

func TestPattern(t *testing.T) {
	c := Case{Layer: "traces", Name: "replay many times"}
	for s, want := range map[string]bool{
		"": true, "traces": true, "^tr": true, "cq": false, "/replay": true, "traces/many times": true, "traces/many_times": true,
		"/^many": false, "cq/replay": false,
	} {
		p, err := ParsePattern(s)
		if err != nil || p.Match(c) != want {
			t.Errorf("%q: %v, want %t", s, err, want)
		}
	}
	for _, s := range []string{"(", "/["} {
		if _, err := ParsePattern(s); err == nil {
			t.Errorf("%q is taken for a pattern", s)
		}
	}
	var all *Pattern
	if !all.Match(c) {
		t.Error("no pattern selects nothing")
	}
}

func TestRun(t *testing.T) {
	p := pattern(t, "kmd|model/identity|reset register|buffers against")
	var seen []string
	d := emulatorOf(t)
	cfg := Config{Devices: []*target.Device{d}, Select: p, Done: func(r Result) { seen = append(seen, r.Name) }}
	cfg.Short = true
	rep, err := Run(t.Context(), cfg)
	if err != nil || rep.Failed != 0 || rep.Passed != 3 || rep.Passed != len(rep.Results) {
		t.Errorf("error %v, %+v", err, rep)
	}
	if want := []string{"identity", "reset register", "buffers against a model"}; !slices.Equal(seen, want) {
		t.Errorf("ran %q, want %q", seen, want)
	}

	for _, name := range []string{"/no/such/node", "emu:blackhole,fault=all-ones"} { // the second one can be opened, and no more
		bad := parseDevice(t, name)
		var open *OpenError
		rep, err := Run(t.Context(), Config{Devices: []*target.Device{bad}, Select: p})
		if !errors.As(err, &open) || open.Device != name || len(rep.Results) != 0 {
			t.Errorf("%s: %v after %d cases", name, err, len(rep.Results))
		}
	}
	if _, err := Run(t.Context(), Config{Devices: []*target.Device{d}, Select: pattern(t, "nothing")}); !errors.Is(err, ErrNoCases) {
		t.Errorf("no cases: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cfg.Done = func(Result) { cancel() }
	rep, err = Run(ctx, cfg)
	if !errors.Is(err, context.Canceled) || len(rep.Results) != 1 {
		t.Errorf("interrupted: %v, %+v", err, rep)
	}
}

func TestEmptyReport(t *testing.T) {
	rep, _ := Run(t.Context(), Config{})
	b, err := json.Marshal(rep)
	if err != nil || !strings.Contains(string(b), `"results":[]`) {
		t.Errorf("%v: %s", err, b)
	}
}

func TestUnsafeCases(t *testing.T) {
	for name, tt := range map[string]struct{ asked, RunCase bool }{
		"/dev/tenstorrent/0": {false, false},
		"/dev/tenstorrent/1": {true, true},
		"socket:card":        {false, true},
		"ttsim:lib.so":       {false, true},
		"emu:blackhole":      {false, true},
	} {
		d := parseDevice(t, name)
		n := 0
		for _, c := range Cases() {
			if c.Needs != rig.NeedSimulator && c.Unsafe == "" {
				continue
			}
			n++
			if why := (&rig.Settings{Unsafe: tt.asked}).Skip(d, &c); (why == "") != tt.RunCase {
				t.Errorf("%s, asked for %t: %s/%s is skipped because %q", name, tt.asked, c.Layer, c.Name, why)
			}
		}
		if n == 0 {
			t.Error("there is no such case")
		}
	}
}
