package hwtest

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/writertest"
)

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
		if b.String() != want {
			t.Errorf("terminal of %d: %q, want %q", width, &b, want)
		}
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
	if want := []string{filepath.Join(nodes, "2"), filepath.Join(nodes, "10")}; !slices.Equal((&Command{}).DeviceNames(), want) {
		t.Errorf("cards %q, want %q", (&Command{}).DeviceNames(), want)
	}
	for args, want := range map[string]int{"-x": 2, "-help": 0, "more": 2, "-run nothing": 2, "-report no/such/r.xml -run kmd/ident": 1,
		"-artifacts command_test.go/x -run kmd/ident": 1} {
		var errs bytes.Buffer
		if code := Main(t.Context(), strings.Fields(args), io.Discard, &errs); code != want || errs.Len() == 0 {
			t.Errorf("%q: exit code %d, want %d: %s", args, code, want, fmt.Sprint(&errs))
		}
	}
}
