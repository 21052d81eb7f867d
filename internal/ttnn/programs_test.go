package ttnn_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/ttnn"
	"github.com/reprise-tt/reprise/internal/usage"
	"github.com/reprise-tt/reprise/sim/libttsim"
)

// TestPrograms runs the corpus of TT-NN programs in testdata/programs on emulated chips and
// compares with what they give on the vendor's simulator (golden.json, made by golden.py).
// REPRISE_TTNN_PYTHON is the interpreter of a virtual environment with a ttnn wheel; a Go and a C
// compiler build the simulator library. REPRISE_TTNN_PROGRAMS may have patterns of names, such as
// "trace/* binary/add_*", and REPRISE_TTNN_CHIPS some of the chips; with -short some 40
// representatives run. REPRISE_TTNN_PART=K/N runs one program in N, chosen by its name, on the
// second chip others than on the first. TT_METAL_CACHE, if set, keeps compiled kernels, which take
// most of the time.
func TestPrograms(t *testing.T) {
	installation, library := prepared(t)
	c := &corpus{installation: installation, library: library, cache: t.TempDir()}
	if testing.Short() {
		c.flags = append(c.flags, "--short")
	}
	golden := readGolden(t)
	chips := strings.Fields(cmp.Or(os.Getenv("REPRISE_TTNN_CHIPS"), "wormhole blackhole"))
	for _, chip := range chips {
		t.Run(chip, func(t *testing.T) {
			t.Parallel()
			c.test(t, chip, golden)
		})
	}
}

// A monitor sees TT-NN's process on our chip, with the DRAM that it has written.
func TestMonitored(t *testing.T) {
	installation, library := prepared(t)
	c := &corpus{installation: installation, library: library, cache: t.TempDir()}
	cmd := c.command(t.Context(), t, "wormhole", "model/minilm")
	devtest.Must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for seen := false; ; {
		select {
		case err := <-ended:
			if err != nil || !seen {
				t.Errorf("TT-NN ended: %v, seen: %v", err, seen)
			}
			return
		case <-time.After(100 * time.Millisecond):
		}
		devtest.Must(t, usage.Watch(usage.Dir))
		s := expect.Value(usage.Read(usage.Dir))(t)
		for _, e := range s.Entries {
			seen = seen || strings.HasSuffix(e.Device.Name, "for TT-NN") && e.PID == cmd.Process.Pid && e.Activity.Busy > 0 &&
				len(e.Memory) == 1 &&
				e.Memory[0].Allocated > 0
		}
	}
}

func prepared(t *testing.T) (*ttnn.Installation, string) {
	t.Helper()
	python := os.Getenv("REPRISE_TTNN_PYTHON")
	if python == "" {
		t.Skip("REPRISE_TTNN_PYTHON names no Python with a ttnn wheel")
	}
	in, err := ttnn.Find(t.Context(), python, "")
	devtest.Must(t, err)
	path := filepath.Join(t.TempDir(), ttnn.LibraryName)
	expect.Must(t, (&ttnn.Libraries{Source: ".."}).Build(t.Context(), path))
	return in, path
}

const (
	// programsPerProcess is a compromise: opening a device takes 0.4 s, and a fault ends the
	// process.
	programsPerProcess = 20
	programTimeout     = 3 * time.Minute
)

type goldenFile struct {
	TTSim  string                                        `json:"ttsim"`
	Wheels map[string]map[string]map[string]programEntry `json:"wheels"`
	First  string                                        `json:"first"`
}

type programEntry struct {
	// SHA256 is the digest on the vendor's simulator.
	SHA256 string `json:"sha256"`
	// TTSim says why the vendor's simulator gives no digest.
	TTSim string `json:"ttsim"`
	// Ours is the digest here, if the vendor's simulator gives none, and Why the reason to believe
	// it.
	Ours  string `json:"ours"`
	Why   string `json:"why"`
	Wheel string `json:"wheel"`
}

type programLine struct {
	Name    string `json:"name"`
	SHA256  string `json:"sha256"`
	Error   string `json:"error"`
	Skipped string `json:"skipped"`
}

func readGolden(t *testing.T) *goldenFile {
	t.Helper()
	b := expect.Value(os.ReadFile(filepath.Join(programsFolder, "golden.json")))(t)
	golden := new(goldenFile)
	if err := json.Unmarshal(b, golden); err != nil {
		t.Fatalf("golden.json: %v", err)
	}
	return golden
}

// A wheel that isn't the first has only what differs.
func (g *goldenFile) entries(wheel, chip string) map[string]programEntry {
	all := map[string]programEntry{}
	for _, w := range []string{g.First, wheel} {
		for name, e := range g.Wheels[w][chip] {
			all[name] = e
		}
	}
	return all
}

const programsFolder = "testdata/programs"

type corpus struct {
	installation *ttnn.Installation
	library      string // path of the simulator library
	cache        string
	flags        []string
}

func (c *corpus) command(ctx context.Context, t *testing.T, chipName string, args ...string) *exec.Cmd {
	t.Helper()
	arch, err := chip.ParseArch(chipName)
	devtest.Must(t, err)
	script := expect.Value(filepath.Abs(filepath.Join(programsFolder, "main.py")))(t)
	return pythonOn(ctx, t, c.installation, c.library, c.cache, ttnn.MachineOf(arch), append([]string{script}, args...)...)
}

func pythonOn(ctx context.Context, t *testing.T, in *ttnn.Installation, library, cache, machine string, args ...string) *exec.Cmd {
	t.Helper()
	r := &ttnn.Run{Installation: in, Library: library, Cache: cache, Settings: libttsim.Settings{Machine: machine,
		KernelCache: ttnn.KernelCache(os.Getenv)}}
	env, err := r.Prepare(os.Environ())
	devtest.Must(t, err)
	cmd := exec.CommandContext(ctx, in.Python, args...)
	cmd.Env = env
	cmd.Dir = t.TempDir() // TT-NN leaves a folder where it runs
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func (c *corpus) output(t *testing.T, chip string, args ...string) []string {
	t.Helper()
	cmd := c.command(t.Context(), t, chip, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("main.py %s: %v\n%s", strings.Join(args, " "), err, lastLines(stderr.String(), 20))
	}
	return strings.Fields(string(out))
}

func (c *corpus) test(t *testing.T, chip string, golden *goldenFile) {
	list := append(append([]string{"--list"}, c.flags...), strings.Fields(os.Getenv("REPRISE_TTNN_PROGRAMS"))...)
	names := part(t, chip, c.output(t, chip, list...))
	wheel := strings.Join(c.output(t, chip, "--wheel"), "")
	entries := golden.entries(wheel, chip)
	if _, ok := golden.Wheels[wheel]; !ok {
		t.Logf("golden.json doesn't have wheel %s: compared with %s, whose kernels may differ", wheel, golden.First)
	}
	for len(names) != 0 {
		part := names[:min(programsPerProcess, len(names))]
		done := c.runPart(t, chip, part, entries)
		names = names[done:]
	}
}

func part(t *testing.T, chip string, names []string) []string {
	t.Helper()
	text := os.Getenv("REPRISE_TTNN_PART")
	if text == "" {
		return names
	}
	var k, n uint32
	if _, err := fmt.Sscanf(text, "%d/%d", &k, &n); err != nil || n == 0 || k >= n {
		t.Fatalf("REPRISE_TTNN_PART=%s: want K/N with K below N", text)
	}
	if chip == "blackhole" {
		k = (k + 1) % n
	}
	return slices.DeleteFunc(names, func(name string) bool {
		h := fnv.New32a()
		h.Write([]byte(name)) // a hash takes everything
		return h.Sum32()%n != k
	})
}

func (c *corpus) runPart(t *testing.T, chip string, names []string, entries map[string]programEntry) int {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := c.command(ctx, t, chip, names...)
	stderr := new(strings.Builder)
	cmd.Stderr = stderr
	stdout, err := cmd.StdoutPipe()
	devtest.Must(t, err)
	devtest.Must(t, cmd.Start())
	lines := bufio.NewReader(stdout)
	for i, name := range names {
		line, err := nextLine(lines, cancel)
		if err != nil {
			waitErr := cmd.Wait()
			t.Run(name, func(t *testing.T) {
				checkProgram(t, entries[name], programLine{},
					fmt.Errorf("%w; the process: %v\n%s", err, waitErr, lastLines(stderr.String(), 12)))
			})
			return i + 1
		}
		t.Run(name, func(t *testing.T) {
			if line.Name != name {
				t.Fatalf("main.py printed the result of %s", line.Name)
			}
			checkProgram(t, entries[name], line, nil)
		})
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after %s: %v\n%s", names[len(names)-1], err, lastLines(stderr.String(), 12))
	}
	return len(names)
}

var errProgramTimeout = errors.New("no result in " + programTimeout.String())

func nextLine(r *bufio.Reader, cancel context.CancelFunc) (line programLine, err error) {
	late := time.AfterFunc(programTimeout, cancel)
	b, err := r.ReadBytes('\n')
	if !late.Stop() {
		return line, errProgramTimeout
	}
	if errors.Is(err, io.EOF) {
		return line, errors.New("the process ended")
	}
	if err != nil {
		return line, err
	}
	if err := json.Unmarshal(b, &line); err != nil {
		return line, fmt.Errorf("main.py printed %q: %w", b, err)
	}
	return line, nil
}

func checkProgram(t *testing.T, want programEntry, got programLine, died error) {
	t.Helper()
	refused := want.TTSim != "" && want.Ours == ""
	switch {
	case got.Skipped != "":
		t.Skip(got.Skipped)
	case refused && died != nil:
		t.Skipf("both simulators: the vendor's %s; ours: %v", want.TTSim, died)
	case died != nil:
		t.Fatalf("want %s, but %v", want, died)
	case want == programEntry{}:
		t.Errorf("golden.json doesn't have it; got %s", got)
	case refused:
		t.Skipf("nothing to compare with: the vendor's simulator %s; got %s", want.TTSim, got)
	case want.Wheel != "":
		if got.Error == "" {
			t.Errorf("got %s, want %s", got, want)
		}
	case got.SHA256 != want.digest():
		t.Errorf("got %s, want %s", got, want)
	}
}

func (e programEntry) digest() string {
	if e.SHA256 != "" {
		return e.SHA256
	}
	return e.Ours
}

func (e programEntry) String() string {
	switch {
	case e.Wheel != "":
		return "TT-NN's error " + e.Wheel
	case e.Ours != "":
		return e.Ours + " (ours; " + e.Why + ")"
	}
	return e.SHA256
}

func (l programLine) String() string {
	if l.Error != "" {
		return "error " + l.Error
	}
	return l.SHA256
}

func lastLines(text string, n int) string {
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(s string) bool { return strings.TrimSpace(s) == "" })
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func TestProgramsGolden(t *testing.T) {
	golden := readGolden(t)
	if len(golden.Wheels[golden.First]) != 2 {
		t.Fatalf("golden.json's first wheel %q has %d chips, want 2", golden.First, len(golden.Wheels[golden.First]))
	}
	for wheel, chips := range golden.Wheels {
		for chip, entries := range chips {
			for name, e := range entries {
				kinds := 0
				for _, text := range []string{e.SHA256, e.TTSim, e.Wheel} {
					if text != "" {
						kinds++
					}
				}
				expect.Equal(t, kinds, 1, "%s %s %s: kinds", wheel, chip, name)
				if (e.Ours == "") != (e.Why == "") || e.Ours != "" && e.TTSim == "" {
					t.Errorf("%s %s %s: ours and why belong together, beside ttsim", wheel, chip, name)
				}
			}
		}
	}
}

type machineCase struct {
	machine string
	slow    bool         // slow dispatch: without command queues
	first   ttnn.Version // first wheel that can do it
	program string       // with its arguments
}

func TestMachines(t *testing.T) {
	runMachines(t, []machineCase{
		{machine: "p100", first: ttnn.Version{Minor: 76}, program: "trace.py"},
		{machine: "p300", first: ttnn.Version{Minor: 76}, program: "mesh.py --trace all_gather reduce_scatter all_reduce broadcast product"},
		{machine: "n300", slow: true, first: ttnn.Version{Minor: 80}, program: "mesh.py add all_gather reduce_scatter all_reduce broadcast"},
	})
}

func TestVersion(t *testing.T) {
	runMachines(t, []machineCase{
		{machine: "n150", first: ttnn.Version{Minor: 70, Patch: 1}, program: "trace.py"},
		{machine: "p150", first: ttnn.Version{Minor: 70, Patch: 1}, program: "trace.py"},
		{machine: "n150", slow: true, program: "trace.py"},
		{machine: "p150", slow: true, program: "trace.py"},
	})
}

const machineTimeout = 10 * time.Minute

func runMachines(t *testing.T, cases []machineCase) {
	in, library := prepared(t)
	cache := t.TempDir()
	t.Setenv("TT_METAL_INSPECTOR", "0") // it listens on a port
	t.Setenv("TT_METAL_INSPECTOR_RPC", "0")
	for _, c := range cases {
		mode := "fast"
		if c.slow {
			mode = "slow"
		}
		t.Run(c.machine+"/"+mode, func(t *testing.T) {
			if in.Version.Less(c.first) {
				t.Skipf("ttnn %s: %v is the first that can", in.Text, c.first)
			}
			if c.slow {
				t.Setenv("TT_METAL_SLOW_DISPATCH_MODE", "1")
			}
			args := strings.Fields(c.program)
			script := expect.Value(filepath.Abs(filepath.Join("testdata", args[0])))(t)
			ctx, cancel := context.WithTimeout(t.Context(), machineTimeout)
			defer cancel()
			out, err := pythonOn(ctx, t, in, library, cache, c.machine, append([]string{script}, args[1:]...)...).CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v\n%s", c.program, err, lastLines(string(out), 20))
			}
		})
	}
}
