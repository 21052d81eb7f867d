package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/debugger"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/demo"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/postmortem"
	"github.com/reprise-tt/reprise/examples/deadlock"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/elftest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/usage"
	"github.com/reprise-tt/reprise/internal/writertest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf"
)

func hangFile(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	dev, err := reprise.Open(ctx, sim.Blackhole(), reprise.WithHangTimeout(2*time.Second), reprise.WithDumpDir(t.TempDir()))
	must(t, err)
	defer func() { must(t, dev.Close(ctx)) }()
	image, err := kernels.Prebuilt(dev.Arch(), kernels.Spin)
	must(t, err)
	word, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64})
	must(t, err)
	queue := dev.Queue(0)
	must(t, queue.Write(ctx, word, 0, make([]byte, 64)))
	x, err := dev.Load(ctx, &reprise.Program{Name: "forever", Kernels: []reprise.Kernel{{
		Name: "wait", Image: image, Cores: []chip.Range{chip.Single(2, 1)},
		Args: func(chip.Core) []uint32 { return []uint32{word.Addr(), 1} },
	}}})
	must(t, err)
	must(t, queue.Run(ctx, x))
	var h *dispatch.HangError
	if err := queue.Wait(ctx); !errors.As(err, &h) || h.File == "" {
		t.Fatalf("%v, want a *HangError with a file", err)
	}
	return h.File
}

func TestInspectDump(t *testing.T) {
	file := hangFile(t)
	code, text, _ := runs(t.Context(), "inspect", file)
	if code != cli.ExitOK || !strings.Contains(text, "core (2,1) (worker)") ||
		!strings.Contains(text, "waits for a word to have a value") || !strings.Contains(text, "dispatch ring    524288 B") {
		t.Errorf("exit code %d, text:\n%s", code, text)
	}
	code, text, _ = runs(t.Context(), "inspect", file, "--json")
	var d dispatch.Dump
	if err := json.Unmarshal([]byte(text), &d); err != nil || code != cli.ExitOK || len(d.Cores) != 140 || d.Last != "forever" {
		t.Errorf("exit code %d, %v: %d cores, last %q", code, err, len(d.Cores), d.Last)
	}
	code, text, _ = runs(t.Context(), "inspect", file, "--region", postmortem.RegionDispatchRing)
	expect.Equal(t, code, cli.ExitOK, "code")
	expect.Equal(t, len(text), 524288, "B of the dispatch ring")
	writertest.EveryWrite(t, func(w io.Writer) error { return (&debugger.InspectCmd{File: file}).Run(cli.Streams{Out: w}) })
}

func TestInspectErrors(t *testing.T) {
	dir := t.TempDir()
	other, cut := filepath.Join(dir, "other"), filepath.Join(dir, "cut")
	must(t, errors.Join(os.WriteFile(other, []byte("hello"), 0o600), os.WriteFile(cut, []byte(postmortem.DumpMagic+"\x01"), 0o600)))
	for _, tt := range [][2]string{
		{filepath.Join(dir, "none"), "no such file"},
		{other, `it is no file that reprise writes: it begins with "hello"`},
		{cut, "the dump is damaged"},
		{dir, "is a directory"},
	} {
		code, out, errs := runs(t.Context(), "inspect", tt[0])
		if code != cli.ExitFailed || out != "" || !strings.Contains(errs, tt[1]) || strings.Count(errs, "\n") != 1 {
			t.Errorf("inspect %q: exit code %d, %q, %q, want one line that says %q", tt[0], code, out, errs, tt[1])
		}
	}
}

// There is a track for the host and one for each queue, with what was done on them, in order.
func TestDemoTimeline(t *testing.T) {
	images := expect.Value(digits.Images())(t)
	const batches, batch = 3, 5
	var lines []byte
	for _, m := range images[:batches*batch] {
		lines = m.AppendCSV(lines)
	}
	dir := t.TempDir()
	input, timeline := filepath.Join(dir, "digits.csv"), filepath.Join(dir, "out.json")
	must(t, os.WriteFile(input, lines, 0o644))
	code, out, errs := runs(t.Context(), "demo", "--json", "--input", input, "--batch", fmt.Sprint(batch),
		"--timeline", timeline)
	if code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	var res demo.Result
	must(t, json.Unmarshal([]byte(out), &res))
	expect.Equal(t, res.Allocs, 0, "res.Allocs")
	expect.Equal(t, res.TimelineFile, timeline, "res.TimelineFile")
	file := expect.Value(os.ReadFile(timeline))(t)
	var trace struct {
		Events []struct {
			Name     string  `json:"name"`
			Phase    string  `json:"ph"`
			Time     float64 `json:"ts"`
			Duration float64 `json:"dur"`
			Process  int     `json:"pid"`
			Thread   int     `json:"tid"`
			Args     struct {
				Name string `json:"name"`
			} `json:"args"`
		} `json:"traceEvents"`
	}
	must(t, json.Unmarshal(file, &trace))
	type track struct{ process, thread int }
	names, count, ends := map[track]string{}, map[[2]string]int{}, map[track]float64{}
	for _, e := range trace.Events {
		at := track{e.Process, e.Thread}
		switch {
		case e.Phase == "M" && e.Name == "thread_name":
			names[at] = e.Args.Name
		case e.Phase == "X":
			name := names[at]
			count[[2]string{name, strings.TrimRight(e.Name, " 0123456789")}]++ // tensors have numbers
			if strings.HasPrefix(name, "queue") {
				if e.Time < ends[at] {
					t.Errorf("%s: %q at %g, before %g", name, e.Name, e.Time, ends[at])
				}
				ends[at] = e.Time + e.Duration - 1e-3
			}
		}
	}
	for _, tt := range []struct {
		track, name string
		want        int
	}{
		{"host", "eager", 1}, {"host", "replay", 1}, {"host", "replay digits", batches}, {"host", "pending wait tensor", 2*batches + 2},
		{"queue 0", "replay digits", batches}, {"queue 0", "run linear", batches + 2}, {"queue 0", "read tensor", 2*batches + 2},
		{"queue 1", "write input", 2*batches + 2}, // once more in each Compile
		{"queue 1", "replay digits", 0},
	} {
		if got := count[[2]string{tt.track, tt.name}]; got != tt.want {
			t.Errorf("%q is %d times on %q, want %d", tt.name, got, tt.track, tt.want)
		}
	}
}

func TestVersionOfBuild(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	for name, c := range map[string]struct {
		info        *debug.BuildInfo
		first, rest string
	}{
		"clone": {&debug.BuildInfo{Main: debug.Module{Version: "v0.3.1-0.20260301120000-0123456789ab+dirty"}, Settings: []debug.BuildSetting{
			setting("vcs", "git"), setting("vcs.revision", "0123456789abcdef"), setting("vcs.time", "2026-03-01T12:00:00Z"),
			setting("vcs.modified", "true")}},
			"reprise v0.3.1-0.20260301120000-0123456789ab+dirty", "revision 0123456789abcdef of 2026-03-01T12:00:00Z, with changes"},
		"clean": {&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{
			setting("vcs.revision", "0123456789abcdef"), setting("vcs.modified", "false")}},
			"reprise (devel)", "revision 0123456789abcdef\n"},
		"release": {&debug.BuildInfo{Main: debug.Module{Version: "v0.3.0"}}, "reprise v0.3.0", "go go"},
		"nothing": {nil, "reprise unknown", "go go"},
	} {
		v, err := version()
		must(t, err)
		v.Revision, v.Time, v.Modified = "", "", nil
		v.built(c.info)
		var out strings.Builder
		must(t, cli.Print(&out, v.print))
		first, rest, _ := strings.Cut(regexp.MustCompile(" +").ReplaceAllString(out.String(), " "), "\n")
		if first != c.first || !strings.HasPrefix(rest, c.rest) {
			t.Errorf("%s: %q, then %q; want %q, then %q", name, first, rest, c.first, c.rest)
		}
	}
}

func TestChangelogNamesCommands(t *testing.T) {
	b := expect.Value(os.ReadFile("../../CHANGELOG.md"))(t)
	_, item, ok := strings.Cut(string(b), "\n- **Command** (`reprise`):")
	if !ok {
		t.Fatal("CHANGELOG.md has no item about the command")
	}
	item, _, _ = strings.Cut(item, "\n- ")
	count := 0
	for f := range reflect.TypeFor[commands]().Fields() {
		_, isCommand := f.Tag.Lookup("cmd")
		if _, hidden := f.Tag.Lookup("hidden"); !isCommand || hidden {
			continue
		}
		count++
		name := f.Tag.Get("name")
		if name == "" {
			name = strings.ToLower(f.Name)
		}
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(item) {
			t.Errorf("CHANGELOG.md doesn't name reprise %s among the commands", name)
		}
	}
	if count == 0 {
		t.Error("no commands found")
	}
}

var updatePage = flag.Bool("update", false, "write the list of commands in docs/cli.md anew")

// The list of commands in docs/cli.md is that of `reprise --help`, and each has a section.
func TestCommandsPage(t *testing.T) {
	const path, begin, end = "../../docs/cli.md", "<!-- go test ./cmd/reprise -run TestCommandsPage -update -->\n", "<!-- end -->\n"
	b := expect.Value(os.ReadFile(path))(t)
	before, rest, ok1 := strings.Cut(string(b), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the commands, between %q and %q", path, begin, end)
	}
	code, help, errs := runs(t.Context(), "--help")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	_, list, _ := strings.Cut(help, "Commands:\n")
	var want strings.Builder
	want.WriteString("| command | does |\n|---|---|\n")
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+(?: [a-z]+)*).*\n((?:    .*\n)+)`).FindAllStringSubmatch(list, -1) {
		section := m[1]
		if !strings.Contains(after, "\n## reprise "+section+"\n") {
			section, _, _ = strings.Cut(section, " ")
		}
		if !strings.Contains(after, "\n## reprise "+section+"\n") {
			t.Errorf("no section about reprise %s", m[1])
		}
		does := strings.Join(strings.Fields(m[2]), " ")
		fmt.Fprintf(&want, "| [`reprise %s`](#reprise-%s) | %s |\n", m[1], strings.ReplaceAll(section, " ", "-"), does)
	}
	if *updatePage {
		must(t, os.WriteFile(path, []byte(before+begin+want.String()+end+after), 0o644))
		return
	}
	expect.NoDiff(t, got, want.String(), "%s is stale: -update", path)
}

func TestInterruptedSuite(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	path := filepath.Join(t.TempDir(), "r.json")
	code, out, errs := runs(ctx, "hwtest", "--device", "emu:blackhole", "--run", "kmd/identity", "--report", path, "--json")
	if want := "reprise: ended: interrupt signal received\n"; code != cli.ExitInterrupted || errs != want {
		t.Errorf("exit code %d, standard error %q, want %d, %q", code, errs, cli.ExitInterrupted, want)
	}
	b := expect.Value(os.ReadFile(path))(t)
	const want = "ended after 0 of 1 cases of emu:blackhole: interrupt signal received"
	for name, s := range map[string]string{"standard output": out, "report": string(b)} {
		if !strings.Contains(s, want) {
			t.Errorf("%s lacks %q:\n%s", name, want, s)
		}
	}
}

// Each of several processes puts its number before what it prints at its end. A mismatch fails,
// whatever was printed before.
func TestConclude(t *testing.T) {
	interrupted, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	const closed = "reprise: wait for queue: the device is closed"
	for _, tc := range []struct {
		name       string
		ctx        context.Context
		rank, size int
		err        error
		code       int
		want       string
	}{
		{"nothing wrong", t.Context(), 0, 1, nil, cli.ExitOK, ""},
		{"one", t.Context(), 0, 1, errors.New("no card"), cli.ExitFailed, "reprise: no card\n"},
		{"package reprise", t.Context(), 0, 1, errors.New(closed), cli.ExitFailed, closed + "\n"},
		{"interrupted", interrupted, 0, 1, errors.New("whatever broke"), cli.ExitInterrupted, "reprise: ended: interrupt signal received\n"},
		{"one of several", t.Context(), 2, 4, errors.New("no card\nand no driver"), cli.ExitFailed,
			"reprise: process 2 of 4: no card\nprocess 2 of 4: and no driver\n"},
		{"a dump", t.Context(), 1, 4, &dispatch.HangError{File: "hang.json"}, cli.ExitFailed, "…"},
		{"details", t.Context(), 3, 4, fmt.Errorf("run: %w", &dispatch.HangError{}), cli.ExitFailed, "…"},
	} {
		var errs bytes.Buffer
		s := cli.Streams{Err: &errs, Who: new(cli.Process)}
		s.Who.Set(tc.rank, tc.size)
		if code := conclude(tc.ctx, s, tc.err); code != tc.code || tc.want != "…" && errs.String() != tc.want {
			t.Errorf("%s: exit code %d, %q, want %d, %q", tc.name, code, &errs, tc.code, tc.want)
		}
		if tc.want == "…" && strings.Count(errs.String(), "\n") < 2 {
			t.Errorf("%s: no lines of a hang: %q", tc.name, &errs)
		}
		for line := range strings.Lines(errs.String()) {
			if tc.size > 1 && !strings.HasPrefix(strings.TrimPrefix(line, "reprise: "),
				fmt.Sprintf("process %d of %d: ", tc.rank, tc.size)) {
				t.Errorf("%s: line %q has no number", tc.name, line)
			}
		}
	}
}

func TestJSONWithoutRoom(t *testing.T) {
	var errs bytes.Buffer
	code := run(t.Context(), []string{"monitor", "--json", "--dir", t.TempDir()}, cli.Streams{Out: writertest.Full{}, Err: &errs})
	if want := "reprise: " + writertest.ErrFull.Error() + "\n"; code != cli.ExitFailed || errs.String() != want {
		t.Errorf("exit code %d, %q, want %q", code, strings.TrimSpace(errs.String()), want)
	}
}

func use(t *testing.T, dir string) {
	t.Helper()
	l := expect.Value(usage.Create(dir, usage.Device{Name: "/dev/tenstorrent/0", PCI: "0000:01:00.0", Arch: "wormhole", NUMANode: -1}))(t)
	t.Cleanup(func() {
		expect.Fails(t, l.Close(), nil, "l.Close()")
	})
	l.Set(allocator.DRAM, allocator.Usage{Capacity: 12 << 30, Allocated: 9 << 30, Peak: 9 << 30, Extents: 1})
}

func TestMonitorServes(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := t.TempDir()
	use(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"monitor", "--listen", "127.0.0.1:0", "--dir", dir}, cli.Streams{Out: io.Discard, Err: w})
	}()
	buf := make([]byte, 200)
	n, err := r.Read(buf)
	must(t, err)
	go func() { _, _ = io.Copy(io.Discard, r) }()
	url := strings.TrimPrefix(strings.TrimSpace(string(buf[:n])), "serving ")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	must(t, err)
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || !strings.Contains(string(body), `reprise_memory_allocated_bytes{device="0000:01:00.0",kind="DRAM"`) {
		t.Errorf("%s says %q (%v)", url, body, err)
	}
	cancel()
	expect.Equal(t, <-code, cli.ExitInterrupted, "exit code")
	_ = w.Close()
}

func TestMonitorFollows(t *testing.T) {
	dir := t.TempDir()
	use(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &stopAfter{text: "DEVICE", times: 3, stop: cancel}
	expect.Equal(t, run(ctx, []string{"monitor", "--interval", "50ms", "--dir", dir},
		cli.Streams{Out: out, Err: io.Discard}), cli.ExitInterrupted, "exit code")
	if n := strings.Count(out.String(), "75.0 %"); n < 3 {
		t.Errorf("%d tables, want 3:\n%s", n, out.String())
	}
}

type stopAfter struct {
	bytes.Buffer
	text  string
	times int
	stop  func()
}

func (s *stopAfter) Write(p []byte) (int, error) {
	n, err := s.Buffer.Write(p)
	if strings.Count(s.String(), s.text) >= s.times {
		s.stop()
	}
	return n, err
}

// walk is the commands of the walk of docs/debugging.md and what they print now.
type walk struct {
	t      *testing.T
	dir    string // stands for the current one
	socket string // of the card
	said   map[string]string
	// without says why a command didn't run: gdb is not installed.
	without map[string]error
}

func (w *walk) command(line string) {
	w.t.Helper()
	code, out, errs := runs(w.t.Context(), w.args(line)...)
	if code != cli.ExitOK {
		w.t.Errorf("%s: exit code %d: %s", line, code, errs)
	}
	w.said[line] = out
}

func (w *walk) args(line string) []string {
	words := strings.Fields(line)[1:]
	for i, s := range words {
		switch {
		case s == "socket:/tmp/card":
			words[i] = "socket:" + w.socket
		case s == "/tmp/gdb":
			words[i] = filepath.Join(w.dir, "g")
		case strings.HasSuffix(s, ".elf"):
			words[i] = filepath.Join(w.dir, s)
		case s == "reprise-hang-*.dump":
			found, err := filepath.Glob(filepath.Join(w.dir, s))
			if err != nil || len(found) != 1 {
				w.t.Fatalf("%d dumps, %v", len(found), err)
			}
			words[i] = found[0]
		}
	}
	return words
}

func (w *walk) debug(server, client string, commands []string) {
	w.t.Helper()
	program, err := exec.LookPath("gdb-multiarch")
	if err != nil {
		w.without[server], w.without[client] = err, err
		return
	}
	r, out := io.Pipe()
	var errs bytes.Buffer
	done := make(chan int, 1)
	go func() {
		code := run(w.t.Context(), w.args(server), cli.Streams{Out: out, Err: &errs})
		out.Close()
		done <- code
	}()
	var heading strings.Builder
	for b := make([]byte, 256); !strings.Contains(heading.String(), "waiting for gdb"); {
		n, err := r.Read(b)
		heading.Write(b[:n])
		if err != nil {
			w.t.Errorf("%s: %v: %s%s", server, err, &heading, &errs)
			return
		}
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	w.said[server] = heading.String()
	args := append([]string{"-nx", "-batch", "-ex", "set architecture riscv:rv32", "-ex", "set pagination off"}, w.args(client)...)
	for _, c := range commands {
		args = append(args, "-ex", "echo (gdb) "+strings.ReplaceAll(c, " ", "\\ ")+"\\n", "-ex",
			strings.ReplaceAll(c, "/tmp/gdb", filepath.Join(w.dir, "g")))
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+w.dir)
	said, err := cmd.CombinedOutput()
	if code := <-done; err != nil || code != cli.ExitOK {
		w.t.Errorf("gdb: %v; server: exit code %d, %s\n%s", err, code, &errs, said)
	}
	w.said[client] = string(said)
}

var varies = regexp.MustCompile(`0x[0-9a-f]+|#\d+|reprise-hang-\S+\.dump|\d+ of \d+ cores|^ +\d+ \(|no progress for \S+|\d+ cycles`)

// alike drops from a line what differs between runs.
func (w *walk) alike(line string) string {
	line = strings.ReplaceAll(line, filepath.Join(w.dir, "g"), "/tmp/gdb")
	line = strings.ReplaceAll(line, w.dir+string(filepath.Separator), "")
	return strings.TrimSpace(varies.ReplaceAllString(line, "_"))
}

// check compares a block of the page, whose first line is the command: its lines are in what the
// command printed, in that order; "..." stands for any others.
func (w *walk) check(block string) {
	first, rest, _ := strings.Cut(strings.TrimPrefix(block, "$ "), "\n")
	first = strings.TrimSuffix(first, " &")
	said, ok := w.said[first]
	if err := w.without[first]; err != nil {
		w.t.Run(first, func(t *testing.T) { t.Skip(err) })
		return
	} else if !ok {
		w.t.Errorf("the page has a command that the test doesn't run: %s", first)
		return
	}
	have := strings.Split(said, "\n")
	for line := range strings.Lines(rest) {
		want := w.alike(line)
		if want == "..." || want == "" {
			continue
		}
		i := 0
		for i < len(have) && w.alike(have[i]) != want {
			i++
		}
		if i == len(have) {
			w.t.Errorf("%s: the page has this line, or has it in another order:\n%s\nit prints:\n%s", first, line, said)
			return
		}
		have = have[i+1:]
	}
}

func TestWalkThroughADeadlock(t *testing.T) {
	effort.Long(t)
	w := &walk{t: t, dir: t.TempDir(), said: map[string]string{}, without: map[string]error{}}
	w.socket = filepath.Join(w.dir, "c")
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan int, 1)
	r, out := io.Pipe()
	go func() {
		served <- run(ctx, []string{"sim", "serve", "--socket", w.socket}, cli.Streams{Out: out, Err: out})
	}()
	defer func() {
		stop()
		go func() { _, _ = io.Copy(io.Discard, r) }()
		<-served
	}()
	if _, err := r.Read(make([]byte, 256)); err != nil { // "serving"
		t.Fatal(err)
	}
	card, err := cli.ParseTarget("socket:" + w.socket)
	must(t, err)
	var prints bytes.Buffer
	hung := false
	err = deadlock.Run(ctx, card, deadlock.Options{
		Block: 8, Dir: w.dir, Prints: &prints, HangTimeout: 2 * time.Second,
		Hung: func(error) {
			hung = true
			w.command("reprise stacks --device socket:/tmp/card --core 1-1 --processor brisc,trisc0 --elf reader.elf --elf unpack.elf")
			w.debug(
				"reprise gdb --device socket:/tmp/card --core 1-1 --processor brisc --elf reader.elf --listen /tmp/gdb",
				"gdb-multiarch reader.elf",
				[]string{"target remote /tmp/gdb", "backtrace", "frame apply all -q -s print page", "monitor record on",
					"stepi 12", "reverse-continue", "detach"},
			)
		},
	})
	var h *dispatch.HangError
	switch {
	case errors.Is(err, kernels.ErrNoCompiler):
		t.Skip(err)
	case !errors.As(err, &h) || !hung:
		t.Fatal(err)
	}
	w.said["go run ./examples/deadlock/run --device socket:/tmp/card"] = prints.String() + err.Error()
	w.command("reprise inspect reprise-hang-*.dump")
	prints.Reset()
	if err = deadlock.Run(ctx, card, deadlock.Options{Block: 8, Watch: true, Dir: w.dir, Prints: &prints}); err == nil {
		t.Error("a block that is too large passes the assertion")
	} else {
		w.said["go run ./examples/deadlock/run --device socket:/tmp/card --watch"] = prints.String() + err.Error()
	}
	prints.Reset()
	if err := deadlock.Run(ctx, card, deadlock.Options{Block: 4, Dir: t.TempDir(), Prints: &prints}); err != nil ||
		strings.Count(prints.String(), "\n") != 33 {
		t.Errorf("blocks of 4 pages: %v\n%s", err, &prints)
	}
	w.said["go run ./examples/deadlock/run --device socket:/tmp/card --block 4"] = prints.String()
	page := expect.Value(os.ReadFile(filepath.Join("..", "..", "docs", "debugging.md")))(t)
	_, section, ok := strings.Cut(string(page), "\n## A walk through a deadlock\n")
	if !ok {
		t.Fatal("docs/debugging.md has no such section")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```\n(\\$ .*?)```").FindAllStringSubmatch(section, -1)
	if len(blocks) < 7 {
		t.Errorf("%d blocks", len(blocks))
	}
	for _, b := range blocks {
		w.check(b[1])
	}
	if t.Failed() {
		for command, said := range w.said {
			t.Logf("$ %s\n%s", command, said)
		}
	}
}

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"reprise": main})
}

// libraries are the variables that name the vendor's simulator.
var libraries = []string{"REPRISE_TTSIM_WH", "REPRISE_TTSIM_BH"}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			for _, v := range libraries {
				e.Setenv(v, os.Getenv(v))
			}
			for name, dir := range map[string]string{"GOLDEN": "dispatch/cq/testdata/golden", "CAPTURES": "ops/graph/testdata/tt-metal"} {
				path, err := filepath.Abs(filepath.Join("..", "..", filepath.FromSlash(dir)))
				if err != nil {
					return err
				}
				e.Setenv(name, path)
			}
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "long":
				return effort.Of(false, true, true), nil
			case "root":
				return os.Geteuid() == 0, nil
			case "loader": // of the vendor's simulator
				return runtime.GOOS == "linux" &&
					(runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" || runtime.GOARCH == "riscv64"), nil
			}
			if v, ok := strings.CutPrefix(cond, "set:"); ok {
				return os.Getenv(v) != "", nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   command(2, 99, "CODE PROGRAM [ARGUMENT...]", cmdExits),
			"json":    command(3, 3, "KEY =|>|>= VALUE", cmdJSON),
			"banks":   command(2, 2, "N SIZE", cmdBanks),
			"oneline": command(0, 0, "", cmdOneLine),
			"digits":  command(2, 2, "N FILE", cmdDigits),
			"field":   command(3, 4, "FILE LINE COLUMN [VALUE]", cmdField),
			"gzip":    command(2, 2, "FILE FILE.gz", cmdGzip),
			"cut":     command(2, 2, "FILE BYTES", cmdCut),
			"tamper":  command(4, 4, "FILE SECTION OFFSET BITS", cmdTamper),
			"record":  command(3, 3, "KIND ARCH FILE", cmdRecord),
			"devices": command(2, 99, "FILE TRACE|-...", cmdDevices),
			"uselog":  command(3, 3, "DIR PCI-ADDRESS BYTES", cmdUseLog),
			"waitfor": command(1, 1, "SOCKET", cmdWaitFor),
			"metal":   command(1, 1, "DIR", cmdMetal),
			"nodes":   command(2, 2, "REPORT FILE", cmdNodes),
		},
	})
}

func command(least, most int, usage string, f func(*testscript.TestScript, []string)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) < least || len(args) > most {
			ts.Fatalf("arguments: %s", usage)
		}
		f(ts, args)
	}
}

func cmdExits(ts *testscript.TestScript, args []string) {
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

func cmdNodes(ts *testscript.TestScript, args []string) {
	var report struct{ Graph json.RawMessage }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &report))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), report.Graph, 0o666))
}

// cmdMetal writes a kernel cache as tt-metal lays it out, of two revisions.
func cmdMetal(ts *testscript.TestScript, args []string) {
	root := ts.MkAbs(args[0])
	for _, b := range []struct {
		l               *abi.Layout
		build, firmware string
	}{
		{abi.Of("0.65.1", chip.Blackhole), "a4347c0dda/1111", "firmware/2222"},
		{abi.Of("0.72.0", chip.Wormhole), "3333", "firmware"},
	} {
		at := filepath.Join(root, b.build)
		for p := range chip.Processor(chip.NumProcessors) {
			m := elftest.NewMetal(p, b.l.L1.Firmware[p], 8, 64)
			m.IRAM = p == chip.NCRISC && b.l.Arch == chip.Wormhole
			m.KernelData = []byte("12345678")
			ts.Check(m.WriteFile(filepath.Join(at, b.firmware), m.Base()))
			name := "compute/5"
			if p == chip.BRISC || p == chip.NCRISC {
				name = "reader/4"
			}
			ts.Check(m.WriteFile(filepath.Join(at, "kernels", name), m.Kernel()))
		}
	}
}

// cmdWaitFor waits until a process listens at a socket. It doesn't connect, which would make it a
// client.
func cmdWaitFor(ts *testscript.TestScript, args []string) {
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		table, err := os.ReadFile("/proc/net/unix")
		ts.Check(err)
		for line := range strings.Lines(string(table)) { // the fourth field says that it listens, the last one is its path
			if f := strings.Fields(line); len(f) == 8 && f[3] == "00010000" && f[7] == args[0] {
				return
			}
		}
		if time.Now().After(end) {
			ts.Fatalf("no process listens at %s", args[0])
		}
	}
}

func object(ts *testscript.TestScript) map[string]any {
	var o map[string]any
	d := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	d.UseNumber()
	ts.Check(d.Decode(&o))
	if d.More() {
		ts.Fatalf("more than one JSON value on standard output")
	}
	return o
}

func cmdJSON(ts *testscript.TestScript, args []string) {
	key, op, want := args[0], args[1], args[2]
	v, ok := object(ts)[key]
	if !ok {
		ts.Fatalf("the JSON has no key %q", key)
	}
	got := fmt.Sprint(v)
	if op == "=" {
		if got != want {
			ts.Fatalf("%s is %s, want %s", key, got, want)
		}
		return
	}
	g, err := strconv.ParseFloat(got, 64)
	ts.Check(err)
	w, err := strconv.ParseFloat(want, 64)
	ts.Check(err)
	if op == ">" && !(g > w) || op == ">=" && !(g >= w) {
		ts.Fatalf("%s is %s, want it %s %s", key, got, op, want)
	}
}

// cmdBanks checks that the trace lies at the top of so many banks and nowhere twice.
func cmdBanks(ts *testscript.TestScript, args []string) {
	var got struct {
		Bytes uint64 `json:"trace_bytes"`
		Banks []struct {
			Bank       int
			Start, End uint64
		} `json:"trace_banks"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &got))
	size, err := strconv.ParseUint(args[1], 0, 64)
	ts.Check(err)
	if n := strconv.Itoa(len(got.Banks)); n != args[0] {
		ts.Fatalf("the trace is in %s banks, want %s", n, args[0])
	}
	sum, top := uint64(0), uint64(0)
	for i, b := range got.Banks {
		if b.Bank != i || b.Start != got.Banks[0].Start || b.End <= b.Start || b.End > size {
			ts.Fatalf("entry %d is %+v, the first starts at %#x, banks end at %#x", i, b, got.Banks[0].Start, size)
		}
		sum, top = sum+b.End-b.Start, max(top, b.End)
	}
	if sum != got.Bytes || top != size {
		ts.Fatalf("the trace of %d B ends at %#x and its banks hold %d B, want it at the top, %#x", got.Bytes, top, sum, size)
	}
}

func cmdOneLine(ts *testscript.TestScript, _ []string) {
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("standard output has %d bytes, want none", len(out))
	}
	out := ts.ReadFile("stderr")
	if !strings.HasSuffix(out, "\n") || strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, "reprise: ") {
		ts.Fatalf("standard error is not one line that starts with the program's name")
	}
}

func cmdDigits(ts *testscript.TestScript, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	images, err := digits.Images()
	ts.Check(err)
	var b []byte
	for _, m := range images[:n] {
		b = m.AppendCSV(b)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b, 0o666))
}

func cmdField(ts *testscript.TestScript, args []string) {
	line, err1 := strconv.Atoi(args[1])
	column, err2 := strconv.Atoi(args[2])
	ts.Check(errors.Join(err1, err2))
	lines := strings.Split(ts.ReadFile(args[0]), "\n")
	fields := strings.Split(lines[line-1], ",")
	lines[line-1] = strings.Join(append(fields[:column-1:column-1], append(args[3:], fields[column:]...)...), ",")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Join(lines, "\n")), 0o666))
}

func cmdGzip(ts *testscript.TestScript, args []string) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(ts.ReadFile(args[0])))
	ts.Check(errors.Join(err, w.Close()))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b.Bytes(), 0o666))
}

func cmdCut(ts *testscript.TestScript, args []string) {
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
}

func cmdUseLog(ts *testscript.TestScript, args []string) {
	n, err := strconv.ParseUint(args[2], 10, 64)
	ts.Check(err)
	l, err := usage.Create(ts.MkAbs(args[0]), usage.Device{Name: "/dev/tenstorrent/0", PCI: args[1], Arch: "wormhole", NUMANode: -1})
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	l.Set(allocator.DRAM, allocator.Usage{Capacity: 12 << 30, Allocated: n, Peak: n, Extents: 1})
}

// cmdTamper changes a byte of a trace file and corrects its checksum.
func cmdTamper(ts *testscript.TestScript, args []string) {
	b := []byte(ts.ReadFile(args[0]))
	off, err1 := strconv.Atoi(args[2])
	bits, err2 := strconv.ParseUint(args[3], 0, 8)
	ts.Check(errors.Join(err1, err2))
	at := bytes.Index(b, []byte(args[1]))
	if at < 0 {
		ts.Fatalf("the file has no section %s", args[1])
	}
	b[at+16+off] ^= byte(bits)
	sum := sha256.Sum256(b[:len(b)-sha256.Size])
	copy(b[len(b)-sha256.Size:], sum[:])
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o666))
}

var must = expect.Must

func runs(ctx context.Context, args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(ctx, args, cli.Streams{Out: &o, Err: &e})
	return code, o.String(), e.String()
}

// cmdRecord makes the file of a trace on an emulated chip. Kind is span (over two queues), sharded
// (buffers of other layouts), apart (of a queue with workers of its own) or hidden (one program
// goes wrong in a replay).
func cmdRecord(ts *testscript.TestScript, args []string) {
	card := sim.Blackhole()
	if args[1] == "wormhole" {
		card = sim.Wormhole()
	}
	file, err := recordTrace(context.Background(), card, args[0])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), file, 0o666))
}

// cmdDevices puts the traces of several devices into one file; - is a device without one.
func cmdDevices(ts *testscript.TestScript, args []string) {
	files := make([]*tracebuf.File, len(args)-1)
	for i, name := range args[1:] {
		if name != "-" {
			f, err := tracebuf.Decode(strings.NewReader(ts.ReadFile(name)))
			ts.Check(err)
			f.Name, files[i] = "several", f
		}
	}
	var b bytes.Buffer
	ts.Check(errors.Join(tracebuf.EncodeAll(&b, files), os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o666)))
}

type recorded struct {
	ctx context.Context
	dev *reprise.Device
	err error
}

func recordTrace(ctx context.Context, card *sim.Card, kind string) (file []byte, err error) {
	left, right := chip.Grid(3, 4), chip.Range{Start: chip.Core{X: 3}, End: chip.Core{X: 5, Y: 3}}
	options := []reprise.Option{reprise.WithQueues(2), reprise.WithQueueWorkers(0, left), reprise.WithQueueWorkers(1, right)}
	if kind == "sharded" || kind == "hidden" {
		options = nil
	}
	dev, err := reprise.Open(ctx, card, options...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close(ctx)) }()
	r := &recorded{ctx: ctx, dev: dev}
	var out bytes.Buffer
	record := map[string]func(*bytes.Buffer){"span": r.span, "sharded": r.sharded, "apart": r.apart, "hidden": r.hidden}[kind]
	if record == nil {
		return nil, fmt.Errorf("there is no trace %q", kind)
	}
	record(&out)
	return out.Bytes(), r.err
}

func (r *recorded) do(errs ...error) { r.err = errors.Join(append([]error{r.err}, errs...)...) }

func (r *recorded) buffer(c reprise.BufferConfig) *reprise.Buffer {
	b, err := r.dev.NewBuffer(c)
	r.do(err)
	return b
}

func (r *recorded) pages(name string, addr uint32) *reprise.Buffer {
	return r.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 128, PageSize: 64, Name: name, Addr: addr})
}

func (r *recorded) load(p *reprise.Program) *reprise.Executable {
	x, err := r.dev.Load(r.ctx, p)
	r.do(err)
	return x
}

func (r *recorded) image(name string) *kernels.Image {
	im, err := kernels.Prebuilt(r.dev.Arch(), name)
	r.do(err)
	return im
}

func (r *recorded) add(name string, at chip.Core, from, to *reprise.Buffer, n uint32, uses ...*reprise.Buffer) *reprise.Executable {
	p, err := devtest.Adder(r.dev, name, at, from, to, n)
	r.do(err)
	p.Buffers = uses
	return r.load(p)
}

func (r *recorded) fill(b *reprise.Buffer, v uint32) {
	var data []byte
	for range b.Size() / 4 {
		data = binary.LittleEndian.AppendUint32(data, v)
	}
	r.do(r.dev.Queue(0).Write(r.ctx, b, 0, data), r.dev.Queue(0).Wait(r.ctx))
}

func (r *recorded) span(out *bytes.Buffer) {
	x, y, z := r.pages("x", 0), r.pages("y", 0), r.pages("z", 0)
	there, back := r.add("there", chip.Core{X: 1}, x, y, 1, x, y), r.add("back", chip.Core{X: 3, Y: 1}, y, z, 2, y, z)
	e, second := r.dev.NewEvent("there"), r.dev.Queue(1)
	t, err := r.dev.Queue(0).Capture(r.ctx, "to and fro", func(_ context.Context, rec *reprise.Recorder) error {
		other := rec.On(second)
		return errors.Join(rec.Run(there), rec.Param("addend", reprise.Arg{Kernel: "add", Index: 3}), rec.Record(e), other.WaitEvent(e),
			other.Run(back))
	}, second)
	r.do(err)
	r.fill(x, 10)
	r.do(t.Replay(r.ctx), r.dev.Queue(1).Wait(r.ctx), t.Save(r.ctx, out, reprise.WithData(x), reprise.WithResults(y, z)))
}

func (r *recorded) apart(out *bytes.Buffer) {
	x, y := r.pages("x", 0), r.pages("y", 0)
	add, q := r.add("add", chip.Core{X: 4}, x, y, 3, x, y), r.dev.Queue(1)
	t, err := q.Capture(r.ctx, "apart", func(_ context.Context, rec *reprise.Recorder) error { return rec.Run(add) })
	r.do(err)
	r.fill(x, 10)
	r.do(t.Replay(r.ctx), t.Save(r.ctx, out, reprise.WithData(x), reprise.WithResults(y)))
}

func (r *recorded) sharded(out *bytes.Buffer) {
	b := r.buffer(reprise.BufferConfig{Kind: allocator.L1, PageSize: 16, Name: "shards", Sharding: &allocator.ShardSpec{
		Layout: allocator.HeightSharded, Tensor: []int{6, 1}, Shard: []int{2, 1}, Cores: []chip.Range{chip.Grid(1, 3)},
		Orientation: allocator.ColMajor,
	}})
	part, err := b.Sub(0, 32)
	r.do(err)
	x := r.load(&reprise.Program{Name: "store", Buffers: []*reprise.Buffer{b}, Kernels: []reprise.Kernel{{
		Name: "store", Image: r.image(kernels.Store), Processor: chip.BRISC, Cores: []chip.Range{chip.Grid(1, 3)}, Common: []uint32{0},
		Args: func(c chip.Core) []uint32 { return []uint32{b.Addr(), 8, uint32(c.Y), 7, 6, 5, 4, 3, 2, 1} },
	}}})
	t, err := r.dev.Queue(0).Capture(r.ctx, "shards", func(_ context.Context, rec *reprise.Recorder) error {
		return errors.Join(rec.Run(x), rec.ParamBuffer("to", part, reprise.Arg{Kernel: "store"}))
	})
	r.do(err)
	r.fill(b, 1)
	r.do(t.Replay(r.ctx), t.Save(r.ctx, out, reprise.WithResults(b)))
}

// hidden has the second program count in a buffer that none declares, and the third show it.
func (r *recorded) hidden(out *bytes.Buffer) {
	x, h := r.pages("seen", 0), r.pages("hidden", 1<<24)
	fine, count, show := r.add("fine", chip.Core{}, x, x, 1, x), r.add("count", chip.Core{X: 1}, h, h, 1),
		r.add("show", chip.Core{}, h, x, 0, x)
	t, err := r.dev.Queue(0).Capture(r.ctx, "hidden", func(_ context.Context, rec *reprise.Recorder) error {
		return errors.Join(rec.Run(fine), rec.Run(count), rec.Run(show), rec.Run(fine))
	})
	r.do(err)
	r.fill(x, 10)
	r.do(t.Save(r.ctx, out, reprise.WithData()))
}
