package hwtest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

func emulatorOf(t *testing.T) *target.Device {
	t.Helper()
	d, err := target.Parse("emu:blackhole", ttsim.Server("false"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func complain(t tb) {
	t.Helper()
	t.Error("complaint of a helper")
}

// The package's own runner ends a case, counts it and tells of it as go test does.
func TestRunnerOutcomes(t *testing.T) {
	for name, tt := range map[string]struct {
		fn   func(tb)
		want Outcome
		log  []string // parts of the lines, in order
	}{
		"pass":          {fn: func(t tb) { t.Log("a", 1) }, want: Pass},
		"error goes on": {fn: func(t tb) { t.Errorf("first %d", 1); t.Error("second") }, want: Fail, log: []string{"runner_test.go", "second"}},
		"fatal ends":    {fn: func(t tb) { t.Fatalf("the %s", "end"); t.Error("behind it") }, want: Fail, log: []string{"the end"}},
		"skip":          {fn: func(t tb) { t.Skipf("not %s", "today"); t.Error("behind it") }, want: Skip},
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
		c := &testCase{layer: "kmd", name: name, protects: "x"}
		res, ended := trying(t.Context(), emulatorOf(t), c, time.Minute, time.Minute, tt.fn)
		if !ended || res.Outcome != tt.want || len(res.Log) != len(tt.log) {
			t.Errorf("%s: %+v, ended %t, want %s with %d lines", name, res, ended, tt.want, len(tt.log))
			continue
		}
		for i, part := range tt.log {
			if !strings.Contains(res.Log[i], part) {
				t.Errorf("%s: line %q lacks %q", name, res.Log[i], part)
			}
		}
		if (res.Reason != "") != (tt.want == Skip) {
			t.Errorf("%s: reason %q", name, res.Reason)
		}
	}
}

// A line has the place of the helper's caller, as people look for what went wrong there.
func TestRunnerHelpers(t *testing.T) {
	var direct, helped string
	place := func(fn func(tb)) string {
		tr := newTrial(t.Context())
		<-tr.start(fn)
		file, _, _ := strings.Cut(tr.log[0], ": ")
		return file
	}
	both := func(fn func(tb)) func(tb) { return func(t tb) { fn(t) } }
	direct, helped = place(both(func(t tb) { t.Error("direct") })), place(both(func(t tb) { complain(t) }))
	if direct != helped {
		t.Errorf("a helper's line is at %s, its caller at %s", helped, direct)
	}
}

// Helpers are called while a case counts what replays allocate.
func TestRunnerHelperAllocatesNothing(t *testing.T) {
	tr := newTrial(t.Context())
	if n := testing.AllocsPerRun(100, func() { tr.Helper() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Cleanups run in reverse order behind the case, also those behind one that ends its goroutine, with the context over.
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

// A case that ends neither in time nor with its context is a failure that shows where it stands.
func TestRunnerGivesUp(t *testing.T) {
	c := &testCase{layer: "kmd", name: "endless"}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{"time": t.Context(), "context": over} {
		release := make(chan struct{})
		limit, grace := time.Millisecond, time.Hour
		if name == "context" {
			limit, grace = time.Hour, time.Millisecond
		}
		res, ended := trying(ctx, emulatorOf(t), c, limit, grace, func(tb) { <-release })
		close(release)
		if ended || res.Outcome != Fail || !strings.Contains(res.Log[0], "TestRunnerGivesUp") {
			t.Errorf("%s: ended %t, %+v", name, ended, res)
		}
	}
}

// Patterns select by layer and by name, also as go test writes names.
func TestPattern(t *testing.T) {
	c := Case{Layer: "traces", Name: "replay many times"}
	for s, want := range map[string]bool{
		"": true, "traces": true, "^tr": true, "cq": false, "/replay": true, "traces/many times": true, "traces/many_times": true, "/^many": false, "cq/replay": false,
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

// The public API runs what was selected, in order, and reports it; so does a device that can't be opened or a context
// that is over, as an error.
func TestRun(t *testing.T) {
	p, err := ParsePattern("kmd|model/identity|reset register|buffers against")
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	d := emulatorOf(t)
	cfg := Config{Devices: []*target.Device{d}, Select: p, Short: true, Done: func(r Result) { seen = append(seen, r.Name) }}
	rep, err := Run(t.Context(), cfg)
	if err != nil || rep.Failed != 0 || rep.Passed != 3 || rep.Passed != len(rep.Results) {
		t.Errorf("error %v, %+v", err, rep)
	}
	if want := []string{"identity", "reset register", "buffers against a model"}; !slices.Equal(seen, want) {
		t.Errorf("ran %q, want %q", seen, want)
	}

	for _, name := range []string{"/no/such/node", "emu:blackhole,fault=all-ones"} { // the second one can be opened, and no more
		bad, err := target.Parse(name, ttsim.Server("false"))
		if err != nil {
			t.Fatal(err)
		}
		var open *OpenError
		rep, err := Run(t.Context(), Config{Devices: []*target.Device{bad}, Select: p})
		if !errors.As(err, &open) || open.Device != name || len(rep.Results) != 0 {
			t.Errorf("%s: %v after %d cases", name, err, len(rep.Results))
		}
	}
	none, err := ParsePattern("nothing")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), Config{Devices: []*target.Device{d}, Select: none}); !errors.Is(err, ErrNoCases) {
		t.Errorf("no cases: %v", err)
	}
	// Interrupted in the first case.
	ctx, cancel := context.WithCancel(t.Context())
	cfg.Done = func(Result) { cancel() }
	rep, err = Run(ctx, cfg)
	if !errors.Is(err, context.Canceled) || len(rep.Results) != 1 {
		t.Errorf("interrupted: %v, %+v", err, rep)
	}
}

// A report of nothing is still an array.
func TestEmptyReport(t *testing.T) {
	rep, _ := Run(t.Context(), Config{})
	b, err := json.Marshal(rep)
	if err != nil || !strings.Contains(string(b), `"results":[]`) {
		t.Errorf("%v: %s", err, b)
	}
}

// What leaves a card in need of a reset runs on one only if its user has asked for that, and then all of it does; other
// devices may always be thrown away.
func TestUnsafeCases(t *testing.T) {
	for name, tt := range map[string]struct{ asked, run bool }{
		"/dev/tenstorrent/0": {false, false},
		"/dev/tenstorrent/1": {true, true},
		"socket:card":        {false, true},
		"ttsim:lib.so":       {false, true},
		"emu:blackhole":      {false, true},
	} {
		d, err := target.Parse(name, ttsim.Server("false"))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, c := range cases() {
			if c.needs != needSimulator && c.unsafe == "" {
				continue
			}
			n++
			if why := (&settings{unsafe: tt.asked}).skip(d, &c); (why == "") != tt.run {
				t.Errorf("%s, asked for %t: %s/%s is skipped because %q", name, tt.asked, c.layer, c.name, why)
			}
		}
		if n == 0 {
			t.Error("there is no such case")
		}
	}
}
