package hwtest

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/writertest"
)

func emulatorOf(t *testing.T) *target.Device {
	t.Helper()
	return parseDevice(t, "emu:blackhole")
}

func pattern(t *testing.T, s string) *Pattern {
	t.Helper()
	p, err := ParsePattern(s)
	devtest.Must(t, err)
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
		expect.Equal(t, res.Reason != "", tt.want != Pass, "%s: reason %q", name, res.Reason)
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
			expect.Error(t, t.Context().Err())
		})
		t.Fatal("end")
	})
	if diff := cmp.Diff([]string{"third", "of a cleanup", "second", "first"}, got); diff != "" {
		t.Error(diff)
	}
	expect.Equal(t, len(tr.log), 2, "log %q", tr.log)
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
		expect.Equal(t, rep.Ended, want, "%s: ended", name)
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
		expect.Equal(t, expect.Value(ParsePattern(s))(t).Match(c), want, "%q", s)
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
	expect.NoDiff(t, seen, []string{"identity", "reset register", "buffers against a model"}, "ran")

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
	devtest.Must(t, r.write(&b, file))
	return b.String()
}

func reportOf(results ...Result) *Report {
	r := &Report{Host: "box", Version: "board v1", Seconds: 4, Devices: []Device{{"dev", "emu:x", "wormhole", "own"}}}
	for i, res := range results {
		res.Device = "dev"
		res.Started = time.Date(2026, 2, 3, 4, 5, 6+i, 0, time.UTC)
		r.Add(res)
	}
	return r
}

var (
	good = Result{Layer: "kmd", Name: "identity", Outcome: Pass, Seconds: 1}
	bad  = Result{Layer: "cq", Name: "a write", Protects: "bytes arrive", Outcome: Fail, Seconds: 1.5, Reason: "x.go:1: wrong <&",
		Log: []string{"x.go:1: wrong <&\nvery\x01"}, Artifacts: []string{"dir/hang.dump"}}
	left = Result{Layer: "cq", Name: "other", Outcome: Skip, Reason: "needs more"}
)

func TestSuiteText(t *testing.T) {
	rep := reportOf(good, bad, left)
	var b bytes.Buffer
	rep.Results[1].print(&b)
	if want := "fail     1.500s  dev  cq/a write\n      protects: bytes arrive\n      x.go:1: wrong <&\n        very\x01\n" +
		"      file: dir/hang.dump\n"; b.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", &b, want)
	}
	rep.Ended = "ended after 3 of 9 cases of dev: enough"
	b.Reset()
	devtest.Must(t, rep.Print(&b))
	for _, want := range []string{
		"dev     kmd         1       0        0  1.0 s\n",
		"dev     cq          0       1        1  1.5 s\n",
		"        all         1       1        1  4.0 s\n",
		"\nfailed: dev cq/a write\n  protects: bytes arrive\n",
		"\ncut short: ended after 3 of 9 cases of dev: enough\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, &b)
		}
	}
	writertest.EveryWrite(t, rep.Print)
}

func TestProgress(t *testing.T) {
	r := Running{Device: "dev", Case: Case{Layer: "cq", Name: "a write"}, Number: 2, Of: 9, Limit: time.Minute}
	for width, want := range map[int]string{
		40: "\r\x1b[K2 of 9: dev  cq/a write\r\x1b[K2 of 9: dev  cq/a write, for 9s of at m\r\x1b[K",
		0:  "running 2 of 9: dev  cq/a write, for 10s of at most 1m0s\nrunning 2 of 9: dev  cq/a write, for 20s of at most 1m0s\n",
	} {
		var b bytes.Buffer
		s := screen{out: io.Discard, errs: &b, width: width}
		for _, r.Elapsed = range []time.Duration{0, 9 * time.Second, 10 * time.Second, 11 * time.Second, 20 * time.Second} {
			if s.running(r); width > 0 && r.Elapsed == 9*time.Second {
				break
			}
		}
		s.done(good, false)
		expect.Equal(t, b.String(), want, "terminal of %d: %q", width, &b)
	}
}

// The names of attributes, and of elements in their order, by Jenkins's schema of JUnit reports.
var junitSchema = map[string]struct{ attributes, elements string }{
	"testsuites": {"name tests failures errors time", "testsuite"},
	"testsuite":  {"name tests failures errors time skipped timestamp hostname", "properties testcase"},
	"properties": {"", "property"},
	"property":   {"name value", ""},
	"testcase":   {"classname name time", "skipped failure system-out"},
	"skipped":    {"message", ""},
	"failure":    {"message type", ""},
	"system-out": {"", ""},
}

type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Elements []element  `xml:",any"`
	Text     string     `xml:",chardata"`
}

func (e *element) check(t *testing.T) {
	name := e.XMLName.Local
	want, ok := junitSchema[name]
	var attributes []string
	for _, a := range e.Attrs {
		attributes = append(attributes, a.Name.Local)
	}
	if got := strings.Join(attributes, " "); !ok || got != want.attributes {
		t.Errorf("<%s> has attributes %q, want %q", name, got, want.attributes)
	}
	last := 0
	for i := range e.Elements {
		c := &e.Elements[i]
		at := slices.Index(strings.Fields(want.elements), c.XMLName.Local)
		if at < last {
			t.Errorf("<%s> in <%s> where the schema has none", c.XMLName.Local, name)
		}
		last = max(at, 0)
		c.check(t)
	}
}

func TestJUnit(t *testing.T) {
	rep := reportOf(good, bad, left)
	rep.Ended = "enough"
	text := written(t, rep, "r.xml")
	var root element
	devtest.Must(t, xml.Unmarshal([]byte(text), &root))
	root.check(t)
	for _, want := range []string{
		`<testsuites name="hwtest" tests="4" failures="1" errors="0" time="4.000">`,
		`<testsuite name="dev" tests="4" failures="1" errors="0" time="2.500" skipped="2" timestamp="2026-02-03T04:05:06" hostname="box">`,
		`<property name="device" value="emu:x">`, `<property name="firmware" value="own">`, `<property name="version" value="board v1">`,
		`<testcase classname="dev.cq" name="a write" time="1.500">`,
		`<failure message="x.go:1: wrong &lt;&amp;" type="failure">x.go:1: wrong &lt;&amp;&#xA;very` + "\uFFFD</failure>",
		`[[ATTACHMENT|dir/hang.dump]]`, `<skipped message="needs more">`, `name="rest of the run"`, `<skipped message="enough">`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %s:\n%s", want, text)
		}
	}
	for file, ignored := range map[string][]string{"r.json": nil, "r.xml": {"Protects", "Log", "Artifacts", "Started"}} {
		got, err := ReadReport(strings.NewReader(written(t, rep, file)))
		devtest.Must(t, err)
		same := cmp.Options{cmpopts.IgnoreFields(Result{}, ignored...), cmpopts.IgnoreUnexported(Result{})}
		if diff := cmp.Diff(rep.Results, got.Results[:3], same); diff != "" {
			t.Errorf("%s comes back (-want +got):\n%s", file, diff)
		}
	}
	for _, s := range []string{"", "[]", "{}", "<a/>", "[1]", "<testsuites><testsuite>", `{"results": []}`} {
		if _, err := ReadReport(strings.NewReader(s)); err == nil {
			t.Errorf("%q is taken for a report", s)
		}
	}
}

func TestCompare(t *testing.T) {
	with := func(r Result, o Outcome, seconds float64) Result { r.Outcome, r.Seconds = o, seconds; return r }
	dir := t.TempDir()
	before, after := filepath.Join(dir, "before.xml"), filepath.Join(dir, "after.json")
	for name, tt := range map[string]struct {
		before, after []Result
		want          string // a line each
		fails         bool
	}{
		"same":             {[]Result{good, bad, left}, []Result{good, bad, left}, "", false},
		"fails":            {[]Result{good}, []Result{with(good, Fail, 1)}, "fails now  other  kmd/identity", true},
		"skipped":          {[]Result{bad}, []Result{with(bad, Skip, 0)}, "skipped now  other  cq/a write", true},
		"missing":          {[]Result{good, left}, []Result{left}, "missing now  dev  kmd/identity", true},
		"fixed":            {[]Result{bad}, []Result{with(bad, Pass, 1)}, "fixed  other  cq/a write", false},
		"new, and fails":   {[]Result{good}, []Result{good, bad}, "fails now  other  cq/a write", true},
		"new":              {[]Result{bad}, []Result{good, bad}, "added  other  kmd/identity", false},
		"slower":           {[]Result{good}, []Result{with(good, Pass, 2.5)}, "slower  other  kmd/identity  2.500 s, before 1.000 s", false},
		"slower by little": {[]Result{with(good, Pass, 0.1)}, []Result{with(good, Pass, 1)}, "", false},
	} {
		later := reportOf(tt.after...)
		for i := range later.Results {
			later.Results[i].Device = "other" // of the same suite
		}
		devtest.Must(t, os.WriteFile(before, []byte(written(t, reportOf(tt.before...), before)), 0o600))
		devtest.Must(t, os.WriteFile(after, []byte(written(t, later, after)), 0o600))
		var b bytes.Buffer
		err := DiffFiles(before, after, 2, false, &b)
		n := strings.Count(b.String(), "\n") - 1
		if !strings.HasPrefix(b.String(), tt.want) || (n > 0) != (tt.want != "") || (err != nil) != tt.fails {
			t.Errorf("%s: error %v, printed\n%s", name, err, &b)
		}
	}
}

func TestCommand(t *testing.T) {
	nodes = t.TempDir()
	defer func() { nodes = "/dev/tenstorrent" }()
	for _, tt := range []struct{ args, want string }{
		{"", "emu:wormhole emu:blackhole"},
		{"-device emu:blackhole -timeout 5s -run cq/ -long -artifacts x", "emu:blackhole"},
		{"-device emu:red", `--device "emu:red": there is no emulator of "red"`},
		{"-run (", `--run "(": `},
		{"-run nothing", `--run "nothing": ` + ErrNoCases.Error()},
		{"-short -long", "give one of --short and --long"},
		{"-timeout -1s", `--timeout "-1s": it is negative`},
		{"-report r.txt", "give a name that ends in .json"},
		{"-compare /dev/a,/dev/b", "it names several device nodes"},
	} {
		c := Command{}
		fs := flag.NewFlagSet("t", flag.ContinueOnError)
		c.Register(fs)
		devtest.Must(t, fs.Parse(strings.Fields(tt.args)))
		cfg, err := c.Config()
		got := strings.Join(c.DeviceNames(), " ")
		if err != nil {
			got = err.Error()
		} else if c.Timeout > 0 && (cfg.Limit != 5*time.Second || !cfg.Long || cfg.Artifacts != "x") {
			t.Errorf("%s: %+v", tt.args, cfg)
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%q: %s, want %s", tt.args, got, tt.want)
		}
	}
	for _, n := range []string{"10", "2", "x"} {
		devtest.Must(t, os.WriteFile(filepath.Join(nodes, n), nil, 0o600))
	}
	expect.NoDiff(t, (&Command{}).DeviceNames(), []string{filepath.Join(nodes, "2"), filepath.Join(nodes, "10")}, "cards")
	for args, want := range map[string]int{"-x": 2, "-help": 0, "more": 2, "-run nothing": 2, "-report no/such/r.xml -run kmd/ident": 1,
		"-artifacts runner_test.go/x -run kmd/ident": 1} {
		var errs bytes.Buffer
		if code := Main(t.Context(), strings.Fields(args), io.Discard, &errs); code != want || errs.Len() == 0 {
			t.Errorf("%q: exit code %d, want %d: %s", args, code, want, fmt.Sprint(&errs))
		}
	}
}
