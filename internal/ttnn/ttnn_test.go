package ttnn

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/debug/stack"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/elftest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/libttsim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func interpreter(t *testing.T, prints string, status int) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the stand-in for Python is a shell script")
	}
	path := filepath.Join(t.TempDir(), "python")
	devtest.Must(t, os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\ncat <<'END'\n%s\nEND\nexit %d\n", prints, status), 0o755))
	return path
}

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]Version{
		"0.77.0": {0, 77, 0}, "0.70.1": {0, 70, 1}, "0.81.1rc3": {0, 81, 1}, "1.2": {1, 2, 0}, "0.68.0.dev20260101": {0, 68, 0},
	} {
		expect.Equal(t, expect.Value(ParseVersion(text))(t), want, "%s", text)
	}
	for _, text := range []string{"", "new", ".1", "0.x"} {
		if v, err := ParseVersion(text); err == nil {
			t.Errorf("%q is %v", text, v)
		}
	}
	for _, c := range []struct {
		a, b Version
		less bool
	}{{Version{0, 68, 0}, Version{0, 70, 1}, true}, {Version{0, 70, 1}, Version{0, 70, 1}, false},
		{Version{1, 0, 0}, Version{0, 99, 9}, false}, {Version{0, 70, 0}, Version{0, 70, 1}, true}} {
		expect.Equal(t, c.a.Less(c.b), c.less, "%v before %v: %t", c.a, c.b, !c.less)
	}
}

func TestFind(t *testing.T) {
	ok := interpreter(t, "a banner\nreprise:"+`{"python":"/venv/bin/python","pythonVersion":"3.12.1","dir":"/venv/ttnn","version":"0.77.0"}`,
		0)
	in, err := Find(t.Context(), ok, "")
	devtest.Must(t, err)
	want := &Installation{Python: "/venv/bin/python", PythonVersion: "3.12.1", Dir: "/venv/ttnn", Text: "0.77.0",
		Version: Version{0, 77, 0}}
	expect.NoDiff(t, in, want, "in")
	for _, c := range []struct {
		name, python, fix string
		kind              error
	}{
		{"no such file", filepath.Join(t.TempDir(), "none"), "--python", ErrNoPython},
		{"it fails", interpreter(t, "", 3), "--python", ErrNoPython},
		{"it is no Python", interpreter(t, "hello", 0), "--python", ErrNoPython},
		{"without ttnn", interpreter(t, `reprise:{"python":"/p","pythonVersion":"3.12.1","dir":"","version":""}`, 0), "/p -m pip install ttnn", ErrNotInstalled},
		{"a folder that is called ttnn", interpreter(t, `reprise:{"python":"/p","pythonVersion":"3.12.1","dir":"/x/ttnn","version":""}`, 0), "/p -m pip install ttnn", ErrNotInstalled},
		{"another version scheme", interpreter(t, `reprise:{"python":"/p","dir":"/x/ttnn","version":"main"}`, 0), "pip install", ErrNotInstalled},
	} {
		_, err := Find(t.Context(), c.python, "")
		var e *Error
		if !errors.Is(err, c.kind) || !errors.As(err, &e) || !strings.Contains(e.Fix, c.fix) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expect.Fails(t, expect.ErrOf(Find(ctx, ok, "")), context.Canceled, "canceled")
}

func installed(t *testing.T, v Version) *Installation {
	t.Helper()
	dir := t.TempDir()
	soc := filepath.Join(dir, "tt_metal", "soc_descriptors")
	devtest.Must(t, os.MkdirAll(soc, 0o755))
	for a, name := range socFiles {
		devtest.Must(t, os.WriteFile(filepath.Join(soc, name), []byte("arch_name: "+a.String()+"\n"), 0o644))
	}
	return &Installation{Python: "/usr/bin/python3", Dir: dir, Text: v.String(), Version: v}
}

func TestPrepare(t *testing.T) {
	alone := []string{"libttsim.so", "sitecustomize.py", "soc_descriptor.yaml"}
	described := append([]string{"cluster_descriptor.yaml"}, alone...)
	for _, c := range []struct {
		machine string
		version Version
		environ []string
		checks  []string
		set     map[string]string // but for those that name files of the cache
		files   []string
		err     string
	}{
		{machine: "n150", version: Version{0, 77, 0}, set: map[string]string{"PYTHONFAULTHANDLER": "1"}, files: alone},
		{machine: "n150", version: Version{0, 77, 0}, checks: []string{"counters"},
			set: map[string]string{"PYTHONFAULTHANDLER": "1", variableTelemetry: "1"}, files: alone},
		{machine: "p150", version: Version{0, 68, 0}, set: map[string]string{"PYTHONFAULTHANDLER": "1", variableSlow: "1"}, files: alone},
		{machine: "p300", version: Version{0, 81, 1}, set: map[string]string{"PYTHONFAULTHANDLER": "1"}, files: described},
		{machine: "n300", version: Version{0, 81, 1}, set: map[string]string{"PYTHONFAULTHANDLER": "1", variableSlow: "1"}, files: described},
		{machine: "p150", version: Version{0, 77, 0}, environ: []string{"PYTHONFAULTHANDLER=0", "TT_METAL_SIMULATOR=/old", "HOME=/h"}, set: map[string]string{"PYTHONFAULTHANDLER": "0", "HOME": "/h"}, files: alone},
		{machine: "p100", version: Version{0, 76, 0}, set: map[string]string{"PYTHONFAULTHANDLER": "1"}, files: described},
		{machine: "p100", version: Version{0, 72, 0}, err: "ttnn 0.72.0 can't open a simulated p100: 0.76.0 is the first that can"},
		{machine: "n300", version: Version{0, 77, 0}, err: "ttnn 0.77.0 can't open a simulated n300: 0.80.0 is the first that can"},
		{machine: "p300", version: Version{0, 72, 0}, err: "ttnn 0.72.0 can't open a simulated p300: 0.76.0 is the first that can"},
		{machine: "n151", version: Version{0, 77, 0}, err: `machine "n151"`},
	} {
		r := &Run{Installation: installed(t, c.version), Library: "testdata/libttsim.so", Cache: t.TempDir(),
			Settings: libttsim.Settings{Machine: c.machine, Checks: c.checks}}
		env, err := r.Prepare(c.environ)
		if c.err != "" {
			expect.Says(t, err, nil, c.err)
			continue
		}
		if err != nil {
			t.Errorf("%s, %v: %v", c.machine, c.version, err)
			continue
		}
		got, library := map[string]string{}, ""
		for _, v := range env {
			name, value, _ := strings.Cut(v, "=")
			switch name {
			case variableSimulator:
				library = value
			case variableCluster:
				expect.Equal(t, value, filepath.Join(filepath.Dir(library), clusterFile), "%s: %s", c.machine, v)
			case "PYTHONPATH":
				expect.Equal(t, value, filepath.Dir(library), "%s: %s", c.machine, v)
			case libttsim.Variable:
				expect.Equal(t, expect.Value(libttsim.ParseSettings(value))(t).Machine, c.machine, "%s", v)
			default:
				got[name] = value
			}
		}
		expect.NoDiff(t, got, c.set, "%s, %v: environment", c.machine, c.version)
		var files []string
		list := expect.Value(os.ReadDir(filepath.Dir(library)))(t)
		for _, f := range list {
			files = append(files, f.Name())
		}
		expect.NoDiff(t, files, c.files, "%s, %v: files", c.machine, c.version)
	}
}

func TestPrepareAgain(t *testing.T) {
	r := &Run{Installation: installed(t, Version{0, 77, 0}), Library: "/a/libttsim.so", Cache: filepath.Join(t.TempDir(), "new", "cache"),
		Settings: libttsim.Settings{Machine: "p150"}}
	for range 3 {
		expect.Value(r.Prepare(nil))(t)
	}
	other := *r
	other.Library = "/b/libttsim.so"
	expect.Value(other.Prepare(nil))(t)
	expect.Equal(t, len(expect.Value(os.ReadDir(r.Cache))(t)), 2, "entries in the cache")
}

func TestPrepareWithoutCache(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	devtest.Must(t, os.WriteFile(file, nil, 0o644))
	r := &Run{Installation: installed(t, Version{0, 77, 0}), Library: "/a/libttsim.so", Cache: filepath.Join(file, "cache"),
		Settings: libttsim.Settings{Machine: "p150"}}
	expect.Says(t, expect.ErrOf(r.Prepare(nil)), ErrUnusable, "XDG_CACHE_HOME")
	r.Installation.Dir = t.TempDir()
	expect.Says(t, expect.ErrOf(r.Prepare(nil)), ErrUnusable, "no description of a blackhole")
}

func TestCheckLibrary(t *testing.T) {
	other := filepath.Join(t.TempDir(), LibraryName)
	devtest.Must(t, os.WriteFile(other, []byte("\x7fELF"), 0o644))
	test := expect.Value(os.Executable())(t)
	for _, path := range []string{other, test, filepath.Join(t.TempDir(), "none")} {
		expect.Fails(t, CheckLibrary(path), ErrNoLibrary, "%s", path)
	}
}

func TestDiagnose(t *testing.T) {
	l := &Libraries{Cache: t.TempDir(), Executable: os.Args[0]}
	status := func(python string) string {
		var b strings.Builder
		for _, c := range Diagnose(t.Context(), python, "", l) {
			if c.Name != "library" { // there may be tools to build it, or not
				fmt.Fprintf(&b, "%s %s\n", c.Name, c.Status)
			}
			if c.Status == kmd.StatusFailed && c.Fix == "" {
				t.Errorf("%+v: no fix", c)
			}
		}
		return b.String()
	}
	for name, c := range map[string]struct{ python, want string }{
		"nothing": {filepath.Join(t.TempDir(), "none"), "python failed\nversion skipped\ncompiler skipped\n"},
		"no ttnn": {interpreter(t, `reprise:{"python":"/p","pythonVersion":"3.12.1"}`, 0),
			"python ok\nttnn failed\nversion skipped\ncompiler skipped\n"},
		"no compiler": {interpreter(t, `reprise:{"python":"/p","pythonVersion":"3.12.1","dir":"/nowhere","version":"0.77.0"}`, 0),
			"python ok\nttnn ok\nversion ok\ncompiler failed\n"},
		"newer": {interpreter(t, `reprise:{"python":"/p","pythonVersion":"3.12.1","dir":"/nowhere","version":"0.99.0"}`, 0),
			"python ok\nttnn ok\nversion warning\ncompiler failed\n"},
		"too old": {interpreter(t, `reprise:{"python":"/p","pythonVersion":"3.12.1","dir":"/nowhere","version":"0.50.0"}`, 0),
			"python ok\nttnn ok\nversion failed\ncompiler failed\n"},
	} {
		expect.NoDiff(t, status(c.python), c.want, "%s", name)
	}
}

func TestKernelsAreKnownByTheirBytes(t *testing.T) {
	dir := t.TempDir()
	text := map[string][]byte{}
	write := func(path string, text []byte) {
		s := elftest.Segment{Flags: elf.PF_R | elf.PF_X, Vaddr: 0x3000, Paddr: 0x3000, Bytes: text}
		f := elftest.File{Entry: 0x3000, Segments: []elftest.Segment{s}}
		devtest.Must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755))
		devtest.Must(t, os.WriteFile(filepath.Join(dir, path), f.Build(), 0o644))
	}
	for name, path := range map[string]string{
		"firmware": "build1/firmware/brisc/brisc.elf",
		"reader":   "build1/kernels/reader/123/brisc/brisc.elf",
		"writer":   "build1/kernels/writer/456/brisc/brisc.elf",
		"compute":  "build1/kernels/compute/789/trisc1/trisc1.elf",
	} {
		text[name] = []byte(strings.Repeat("\x13\x00\x00\x00"+name+strings.Repeat("\x00", 8-len(name)%8), 20))
		text[name] = text[name][:len(text[name])&^3]
		write(path, text[name])
	}
	known, err := OpenKernels(t.Context(), dir)
	devtest.Must(t, err)
	l1 := make([]byte, 256<<10)
	copy(l1[0x3000:], text["firmware"])
	copy(l1[0xA004:], text["writer"])
	copy(l1[0x20000:], text["compute"])
	read := stack.Saved(0, l1)
	for _, c := range []struct {
		p    chip.Processor
		pc   uint32
		want string
	}{
		{chip.BRISC, 0x3010, "firmware"},
		{chip.BRISC, 0xA004, "writer"},
		{chip.BRISC, 0xA004 + uint32(len(text["writer"])) - 4, "writer"},
		{chip.BRISC, 0xA004 + uint32(len(text["writer"])), ""},
		{chip.BRISC, 0x20010, ""}, // another processor's
		{chip.TRISC1, 0x20010, "compute"},
		{chip.BRISC, 0xFFFF_FFF0, ""},
	} {
		got := ""
		if m := known.space(c.p, c.pc, read).Find(c.pc); m != nil {
			got = m.Name
		}
		expect.Equal(t, got, c.want, "%v at %#x executes", c.p, c.pc)
	}
	// The author changes a kernel: it is compiled to the same file.
	text["writer"][40] ^= 0xFF
	copy(l1[0xA004:], text["writer"])
	if m := known.space(chip.BRISC, 0xA004, read).Find(0xA004); m != nil {
		t.Errorf("changed code is called %q", m.Name)
	}
	write("build1/kernels/writer/456/brisc/brisc.elf", text["writer"])
	devtest.Must(t, known.update(t.Context(), dir))
	if m := known.space(chip.BRISC, 0xA004, read).Find(0xA004); m == nil || m.Name != "writer" {
		t.Errorf("the changed writer isn't known: %v", m)
	}
	if k, err := OpenKernels(t.Context(), filepath.Join(dir, "none")); err != nil || len(k.files) != 0 {
		t.Errorf("a cache that doesn't exist: %v", err)
	}
}

func TestClusterDescriptor(t *testing.T) {
	spec, err := (&libttsim.Settings{Machine: "p300"}).Spec()
	devtest.Must(t, err)
	want := string(expect.Value(os.ReadFile("testdata/p300.yaml"))(t))
	if diff := cmp.Diff(want, string(clusterDescriptor(&spec))); diff != "" {
		t.Error(diff)
	}
	for _, m := range chip.Machines() {
		text := string(clusterDescriptor(&m))
		expect.Equal(t, strings.Count(text, "noc_translation"), len(m.Chips), "%s: chips are described", m.Name)
		expect.Equal(t, strings.Count(text, "{chip: "), 2*len(m.Links), "%s: ends of links", m.Name)
		expect.Equal(t, strings.Contains(text, "ethernet_connections:\n  []\n"), len(m.Links) == 0, "%s: no links", m.Name)
		if strings.Contains(text, "board_type: }") {
			t.Errorf("%s: a board has no type", m.Name)
		}
	}
}
