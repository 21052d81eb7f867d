package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/internal/findings"
	"github.com/reprise-tt/reprise/internal/ttnn"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/npy"
)

type ttnnRun struct {
	t               *testing.T
	python, library string
}

// tool returns the path of a command beside TT-NN's Python.
func (r *ttnnRun) tool(t *testing.T, name, packages string) string {
	t.Helper()
	path := filepath.Join(filepath.Dir(r.python), name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no %s beside REPRISE_TTNN_PYTHON: pip install %s: %v", name, packages, err)
	}
	return path
}

func newTTNN(t *testing.T) *ttnnRun {
	t.Helper()
	python := os.Getenv("REPRISE_TTNN_PYTHON")
	if python == "" {
		t.Skip("REPRISE_TTNN_PYTHON names no Python with a ttnn wheel")
	}
	library := filepath.Join(t.TempDir(), ttnn.LibraryName)
	must(t, (&ttnn.Libraries{Source: "../.."}).Build(t.Context(), library))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("TT_METAL_LOGGER_LEVEL", "Error")
	t.Setenv("TT_METAL_INSPECTOR", "0")
	return &ttnnRun{t, python, library}
}

func (r *ttnnRun) args(args ...string) []string {
	return append([]string{"ttnn", "run", "--python", r.python, "--library", r.library}, args...)
}

func (r *ttnnRun) output(args ...string) (out, errs string, code int) {
	r.t.Helper()
	return r.of(r.args(args...))
}

func (r *ttnnRun) of(args []string) (out, errs string, code int) {
	r.t.Helper()
	var b bytes.Buffer
	c := start(r.t, &b, args...)
	err := c.Wait()
	if err != nil && c.ProcessState == nil {
		r.t.Fatal(err)
	}
	return b.String(), c.err.String(), c.ProcessState.ExitCode()
}

func (r *ttnnRun) traces(args ...string) {
	r.t.Helper()
	if out, errs, code := r.output(append(args, "testdata/ttnn_trace.py")...); code != 0 || !strings.Contains(out, "sum 128.0") {
		r.t.Errorf("%q: exit code %d, printed %q: %s", args, code, out, errs)
	}
}

func TestTTNNTrace(t *testing.T) {
	r := newTTNN(t)
	for _, chip := range []string{"wormhole", "blackhole"} {
		r.traces("--chip", chip)
	}
}

// A replay of the file has TT-NN's results, also on an input of its own; what a file can't have is
// an error.
func TestTTNNRecord(t *testing.T) {
	r := newTTNN(t)
	for _, c := range []struct {
		chip, arg, want string
		code            int
	}{
		{"wormhole", "", "the results are TT-NN's", 0},
		{"blackhole", "", "the results are TT-NN's", 0},
		{"wormhole", "queues", "the results are TT-NN's", 0},
		{"blackhole", "queues", "the results are TT-NN's", 0},
		{"wormhole", "divided", "the results are TT-NN's", 0},
		{"wormhole", "sharded", "the results are TT-NN's", 0},
		{"blackhole", "sharded", "the results are TT-NN's", 0},
		{"wormhole", "lost", "keep the tensor in a variable", 1},
		{"blackhole", "divided", "the results are TT-NN's", 0},
		{"blackhole", "hidden", "the results are TT-NN's", 0},
		{"wormhole", "graph", "the results are TT-NN's", 0},
		{"wormhole", "eager", "a program that isn't part of it writes what the trace reads", 1},
		{"wormhole", "unused", "the program replayed no trace", 1},
	} {
		dir := t.TempDir()
		file, in, sum := filepath.Join(dir, "model.reprise"), filepath.Join(dir, "x.npy"), filepath.Join(dir, "y.npy")
		record := []string{"ttnn", "record", "-o", file}
		if c.arg == "hidden" {
			for _, tensor := range []string{"weight=1x1x64x64:bfloat16:tile@w0", "x=1x1x64x64:bfloat16@in0", "y=1x1x64x64:bfloat16@out0"} {
				record = append(record, "--tensor", tensor)
			}
		}
		args := append(record, r.args("--chip", c.chip, "testdata/ttnn_record.py", c.arg)[2:]...)
		out, errs, code := r.of(args)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s %s: exit code %d, printed %q: %s", c.chip, c.arg, code, out, errs)
			continue
		}
		if _, err := os.Stat(file); (err == nil) != (c.code == 0) {
			t.Errorf("%s %s: the file: %v", c.chip, c.arg, err)
		}
		if c.code != 0 {
			continue
		}
		stat, _, _ := r.of([]string{"trace", "stat", file})
		wants := []string{"buffer weight: ", "buffer x: ", "buffer y: ", "[1 1 64 64] BFLOAT16 in tiles, input\n"}
		if c.arg == "graph" { // which numbers tensors
			wants = append(wants[3:], "buffer tensor")
		}
		for _, want := range wants {
			if !strings.Contains(stat, want) {
				t.Errorf("%s: the file has no %q: %s", c.chip, want, stat)
			}
		}
		// The program's second input, whose result it prints.
		values := make([]float32, 64*64)
		for i := range values {
			values[i] = float32(i*11%31-15) / 8
		}
		x, err := ops.NewHost([]int{1, 1, 64, 64}, ops.Float32, values)
		must(t, err)
		var b bytes.Buffer
		must(t, npy.Write(&b, x))
		must(t, os.WriteFile(in, b.Bytes(), 0o644))
		short := filepath.Join(dir, "short.reprise")
		if out, errs, code := r.of([]string{"trace", "optimize", file, "-o", short, "--firmware", firmwareOf(out)}); code != 0 ||
			!strings.Contains(out, "had the same bytes after 5 replays") {
			t.Errorf("%s %s: exit code %d, printed %q: %s", c.chip, c.arg, code, out, errs)
		}
		run := []string{"trace", "run", short, "--firmware", firmwareOf(out), "--input", in, "--output", sum}
		if out, errs, code := r.of(run); code != 0 {
			t.Fatalf("%s: exit code %d, printed %q: %s", c.chip, code, out, errs)
		}
		data, err := os.ReadFile(sum)
		must(t, err)
		y, err := npy.Read(bytes.NewReader(data), ops.Float32)
		must(t, err)
		total := 0.
		for _, v := range ops.Values[float32](y) {
			total += float64(v)
		}
		if want := fmt.Sprintf("sum %v\n", total); !strings.Contains(out, want) {
			t.Errorf("%s: TT-NN printed %q, the trace's result has the %s", c.chip, out, want)
		}
	}
}

// firmwareOf returns the folder that ttnn record prints.
func firmwareOf(out string) string {
	_, out, _ = strings.Cut(out, "base firmware of ")
	_, out, _ = strings.Cut(out, ": ")
	out, _, _ = strings.Cut(out, "\n")
	return out
}

// A trace over two chips is one file, with what TT-NN's fabric needs.
func TestTTNNRecordMesh(t *testing.T) {
	r := newTTNN(t)
	for op, traces := range map[string]int{"add": 1, "all_gather broadcast": 2} {
		file := filepath.Join(t.TempDir(), "model.reprise")
		program := append(r.args("--machine", "p300", "../../internal/ttnn/testdata/mesh.py", "--trace"), strings.Fields(op)...)
		out, errs, code := r.of(append([]string{"ttnn", "record", "-o", file}, program[2:]...))
		if code != 0 || strings.Count(out, "the results are TT-NN's") != traces ||
			strings.Contains(out, "for the fabric") != (op != "add") {
			t.Errorf("%s: exit code %d, printed %q: %s", op, code, out, errs)
			continue
		}
		result := filepath.Join(t.TempDir(), "y.npy")
		out, errs, code = r.of([]string{"trace", "run", file, "--firmware", firmwareOf(out), "--replays", "5", "--output", "1:y=" + result})
		if _, err := os.Stat(result); code != 0 || err != nil || !strings.Contains(out, "the results are those of the file") {
			t.Errorf("%s: exit code %d, printed %q: %s", op, code, out, errs)
		}
	}
}

// TT-NN passes every check of the emulator, also while it compiles its firmware and its kernels.
func TestTTNNChecks(t *testing.T) {
	r := newTTNN(t)
	out, errs, code := r.output("--chip", "blackhole", "--check", "all", "testdata/ttnn_trace.py") // others run on Wormhole
	if code != 0 || !strings.Contains(out, "sum 128.0") {
		t.Errorf("exit code %d, printed %q: %s", code, out, errs)
	}
}

// What is known of TT-NN's kernels is counted, or reported where it is asked for.
func TestTTNNKnownFindings(t *testing.T) {
	r := newTTNN(t)
	const script = "../../internal/ttnn/testdata/programs/main.py"
	const again = "import os, sys; os.execv(sys.executable, [sys.executable] + sys.argv[1:])"
	runs := [][]string{{"blackhole", script, "trace/two"}, {"wormhole", "-c", again, script, "matmul/64"}}
	if testing.Short() {
		runs = runs[:1]
	}
	for _, args := range runs {
		out, errs, code := r.output(append([]string{"--check", "all", "--chip"}, args...)...)
		if code != 0 || strings.Count(out, `"sha256"`) != 1 || !strings.Contains(errs, " findings in kernels of TT-NN") {
			t.Errorf("%q: exit code %d, printed %q: %s", args, code, out, errs)
		}
	}
	if testing.Short() {
		return
	}
	out, errs, code := r.output("--chip", "wormhole", "--check", "races,counters", "--known", script, "matmul/64")
	if code != 1 || !strings.Contains(errs, "finding 5 of 5, races") ||
		!strings.Contains(errs, "in reader_bmm_tile_layout_in1_sender_writer_padding\n") {
		t.Errorf("--known: exit code %d, printed %q: %s", code, out, errs)
	}
}

// Each fault of ttnn_faults.py is found by the check meant for it, with both accesses and the
// script's call; put right, there is none.
func TestTTNNFindings(t *testing.T) {
	r := newTTNN(t)
	want := map[string]string{"read_barrier": "races", "source_reused": "races", "write_at_end": "races", "read_at_end": "races",
		"atomic_at_end": "races", "store_sent": "races", "page_taken": "counters", "never_written": "unwritten", "signal_lost": "races",
		"signal_overtakes": "races", "deep_stack": "stack", "in_trace": "races", "misaligned": ""}
	for _, chip := range []string{"wormhole", "blackhole"} {
		report := filepath.Join(t.TempDir(), "faults.json")
		check := []string{"--chip", chip, "--check", "all", "--report", report, "testdata/ttnn_faults.py"}
		if out, errs, code := r.output(append(check, "fixed")...); code != 0 || strings.Count(out, "ran ") != len(want) {
			t.Errorf("%s, fixed: exit code %d, printed %q: %s", chip, code, out, errs)
		}
		_, errs, code := r.output(check...)
		list, err := findings.Read(report)
		if err != nil || code != 1 {
			t.Fatalf("%s: exit code %d, %v: %s", chip, code, err, errs)
		}
		found := map[string]bool{}
		for i := range list {
			f := &list[i]
			for _, c := range f.Calls {
				if check, ok := want[c.Function]; ok && check == f.Check {
					found[c.Function] = true
				}
			}
			o := f.Operation
			if o == nil || o.Name != "ttnn.generic_op" || !strings.HasPrefix(o.Call.Text, "ttnn.generic_op(") || o.Call.Function != "run" {
				t.Errorf("%s: operation %v of %+v", chip, o, f)
			}
			if f.Check == "races" && (len(f.At.Frames) == 0 || f.Other == nil || len(f.Other.Frames) == 0) {
				t.Errorf("%s: %+v", chip, f)
			}
		}
		for name := range want {
			if !found[name] {
				t.Errorf("%s: %s isn't found: %s", chip, name, errs)
			}
		}
	}
}

// Kernels with a race fail in one of a few schedules, and again in the one that was kept.
func TestTTNNSchedules(t *testing.T) {
	r := newTTNN(t)
	table, err := os.ReadFile("testdata/ttnn_schedules.txt")
	must(t, err)
	for line := range strings.Lines(string(table)) {
		c := strings.Split(strings.TrimSpace(line), ", ")
		failing, script := filepath.Join(t.TempDir(), "failing.json"), "testdata/ttnn_schedules.py"
		check := func(code int, want string, args ...string) {
			out, errs, got := r.output(append([]string{"--chip", c[0], "--check", "datacache"}, args...)...)
			if got != code || !strings.Contains(out+errs, want) {
				t.Errorf("%v: exit code %d, want %d, %q: %s%s", c, got, code, want, out, errs)
			}
		}
		check(1, c[3]+" of at most 2 preemptions: the program exited with status 3\nreprise: a shortest schedule that fails, with "+
			c[4]+":\n  "+c[5], "--schedule", failing, "--schedules", "9", script, c[1])
		check(3, c[2], "--schedule", failing, script, c[1])
		check(0, c[6]+" of at most 2 preemptions: these are all; none fails", "--schedules", "9", script, "fixed", c[1])
		if program, err := exec.LookPath("gdb-multiarch"); err != nil {
			t.Log("not under gdb:", err)
		} else if c[1] == "overtakes" {
			r.debug(program, "--chip", c[0], "--schedule", failing, "--stop", script, c[1])
		}
	}
}

// debug repeats a run that fails while gdb steps its second core, back and forth.
func (r *ttnnRun) debug(gdb string, args ...string) {
	t, dir := r.t, r.t.TempDir()
	card, socket := filepath.Join(dir, "c"), filepath.Join(dir, "g")
	var out, served said
	program := start(t, &out, r.args(append([]string{"--serve", card}, args...)...)...)
	program.err.wait(t, "stands still until a debugger has come")
	server := start(t, &served, "gdb", "--device", "socket:"+card, "--core", "1-0", "--processor", "brisc", "--listen", socket)
	served.wait(t, "waiting for gdb")
	words := []string{"-nx", "-batch", "-ex", "set architecture riscv:rv32", "-ex", "target remote " + socket}
	for _, c := range []string{"stepi 3", "monitor record on", "set $a = $pc", "stepi 20", "set $b = $pc", "reverse-continue",
		"print $pc == $a && $a != $b", "stepi 20", "print $pc == $b", "detach"} {
		words = append(words, "-ex", c)
	}
	said, err := exec.CommandContext(t.Context(), gdb, words...).CombinedOutput()
	if err != nil || !strings.Contains(string(said), "$1 = 1\n") || !strings.Contains(string(said), "$2 = 1\n") {
		t.Errorf("gdb: %v: %s", err, said)
	}
	_, _ = server.Wait(), program.Wait()
	if code := program.ProcessState.ExitCode(); code != 3 || !strings.Contains(out.String(), "got 0\n") ||
		strings.Contains(program.err.String(), "isn't the one") {
		t.Errorf("%v: exit code %d, %s%s", args, code, &out, &program.err)
	}
}

func TestTTNNExitCodes(t *testing.T) {
	r := newTTNN(t)
	for _, c := range []struct {
		args []string
		out  string
		code int
	}{
		{[]string{"-c", "import sys; print(sys.argv[1:]); sys.exit(7)", "--chip", "x"}, "['--chip', 'x']\n", 7},
		{[]string{"-m", "json.tool", "--no-such-flag"}, "", 2},
		{[]string{"-c", "import os; os.kill(os.getpid(), 15)"}, "", 143},
		{[]string{"-c", "import os; os.kill(os.getpid(), 9)"}, "", 137},
		{[]string{"-c", "print('done')"}, "done\n", 0},
	} {
		if out, errs, code := r.output(c.args...); out != c.out || code != c.code {
			t.Errorf("%q: exit code %d, printed %q, want %d, %q: %s", c.args, code, out, c.code, c.out, errs)
		}
	}
}

func TestTTNNHang(t *testing.T) {
	r := newTTNN(t)
	hang := func(name, script string, end func(c *started, b *said), args []string, wants ...string) {
		var b said
		c := start(t, &b, r.args(append(append(args, "testdata/ttnn_hang.py"), strings.Fields(script)...)...)...)
		b.wait(t, "opened")
		end(c, &b)
		_ = c.Wait()
		errs := c.err.String()
		wants = append(wants, "BRISC parked on L1 at", " in cq_prefetch\n", " in cq_dispatch\n", "in firmware\n",
			"Fatal Python error: Aborted")
		for _, want := range wants {
			if !strings.Contains(errs, want) {
				t.Errorf("%s: no %q in %s", name, want, errs)
			}
		}
		if code := c.ProcessState.ExitCode(); code != 134 {
			t.Errorf("%s: exit code %d, want 134", name, code)
		}
	}
	chip := []string{"--chip", "wormhole"}
	quit := func(c *started, _ *said) { must(t, c.Process.Signal(syscall.SIGQUIT)) }
	hang("SIGQUIT", "sleep", quit, chip, "ttnn_hang.py\", line 11")
	// Kernels are compiled before it is "opened".
	hang("timeout", "sleep", func(*started, *said) {}, append(chip, "--timeout", "15s"), "ttnn_hang.py\", line 11")
	// Python doesn't hear of SIGINT while TT-NN waits.
	hang("SIGINT", "", func(c *started, b *said) {
		b.wait(t, "waits")
		must(t, c.Process.Signal(syscall.SIGINT))
		c.err.wait(t, "the program goes on after SIGINT")
		quit(c, b)
	}, chip, "NCRISC parked on L1 at", "(semaphore 0, which is 0)", " in Kernel_Source_Code\n", "ttnn_hang.py\", line 42")
	whenWaiting := func(c *started, b *said) {
		b.wait(t, "waits")
		time.Sleep(2 * time.Second) // until the kernels wait; without the circle the test fails
		quit(c, b)
	}
	hang("cores", "cores", whenWaiting, chip,
		"core (0,0): waits in a circle, NCRISC for BRISC of core (1,0), BRISC of core (1,0) for NCRISC\n",
		"    BRISC of core (1,0) last changed semaphore 0\n")
	hang("circle", "circle", whenWaiting, []string{"--chip", "blackhole"},
		"core (0,0): waits in a circle, BRISC for NCRISC, NCRISC for BRISC\n",
		"waits for pages in circular buffer 1: of its 2 pages 0 are full; NCRISC last put some\n",
		"waits for room in circular buffer 0: of its 2 pages 2 are full; BRISC last took pages\n")
}

// When the command is killed, the program is too; others go on.
func TestTTNNKilled(t *testing.T) {
	r := newTTNN(t)
	socket := filepath.Join(t.TempDir(), "card")
	var b, other said
	c := start(t, &b, r.args("--serve", socket, "testdata/ttnn_hang.py")...)
	o := start(t, &other, r.args("testdata/ttnn_hang.py")...)
	b.wait(t, "opened")
	other.wait(t, "opened")
	must(t, c.Process.Kill())
	_ = c.Wait()
	time.Sleep(100 * time.Millisecond) // a failure that spreads to the other process does so at once
	if err := o.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other program: %v", err)
	}
	// A killed process leaves its socket; the next one takes it over.
	r.traces("--serve", socket)
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the socket is left after an orderly end")
	}
	must(t, o.Process.Signal(syscall.SIGTERM))
	_ = o.Wait()
	if code := o.ProcessState.ExitCode(); code != 143 {
		t.Errorf("SIGTERM: exit code %d, want 143", code)
	}
}

func TestTTNNServed(t *testing.T) {
	r := newTTNN(t)
	socket := filepath.Join(t.TempDir(), "card")
	var b said
	c := start(t, &b, r.args("--chip", "wormhole", "--serve", socket, "testdata/ttnn_hang.py")...)
	b.wait(t, "opened")
	for _, args := range [][]string{{"ls"}, {"info"}, {"doctor"}} {
		var out bytes.Buffer
		o := start(t, &out, append(args, "--device", "socket:"+socket)...)
		if err := o.Wait(); err != nil || !strings.Contains(out.String(), "wormhole") && args[0] != "doctor" {
			t.Errorf("%v: %v: %s%s", args, err, out.String(), o.err.String())
		}
	}
	must(t, c.Process.Signal(syscall.SIGTERM))
	_ = c.Wait()
}

// tt-exalens attaches to the chip between two replays of the program's trace, and disturbs neither.
func TestTTNNExalens(t *testing.T) {
	r := newTTNN(t)
	exalens := r.tool(t, "tt-exalens", "tt-exalens==0.4.2 tt-umd==0.9.14")
	for _, chip := range []string{"wormhole", "blackhole"} {
		tmp := t.TempDir()
		t.Setenv("TMPDIR", tmp)
		stop, folder := filepath.Join(tmp, "stop"), filepath.Join(tmp, "tt-umd-sim-server-0")
		var b said
		c := start(t, &b, r.args("--serve-umd", "--chip", chip, "testdata/ttnn_alive.py", stop)...)
		b.wait(t, "replayed")
		commands := func(text string, wants ...string) string {
			t.Helper()
			var out bytes.Buffer
			o := startCommand(t, &out, exalens, "-s", folder, "--commands="+text+";exit")
			_ = o.Wait() // not 0 if a command fails, which the output says
			rest := out.String()
			for _, want := range wants { // in this order
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Fatalf("%s: %s: no %q in %s%s: the program: %s", chip, text, want, rest, &o.err, &c.err)
				}
				rest = after
			}
			return out.String()
		}
		if chip == "blackhole" {
			commands("d noc0 noc0_id", "08-02", "08-03", "00-11") // security, L2CPU, DRAM
		}
		commands("d;brxy 0,0 0xff000;wxy 0,0 0xff000 0xdeadbeef;brxy 0,0 0xff000", "Device 0", "RRRRR", "00000000", "deadbeef", "deadbeef")
		_, pc, _ := strings.Cut(commands("go -l 0,0;riscv halt -r trisc0;riscv status -r trisc0;riscv step -r trisc0;gpr pc;riscv cont -r trisc0",
			"HALTED PC=0x", "Halted", "True", "Continuing"), " PC=") // in a loop
		commands("go -l 0,0;riscv bkpt set "+pc[:10]+" -pt 0 -r trisc0;riscv status -r trisc0;riscv bkpt del -pt 0 -r trisc0;riscv cont -r trisc0;"+
			"riscv status -r trisc0", "HALTED PC=0x", "RUNNING")
		commands("go -l 0,0;gpr pc,sp;noc status -s;reg ALU_FORMAT_SPEC_REG2_Dstacc", "- sp", "- pc", "read reqs sent", "Float16_b")
		commands("go -l 0,0;tensix all;tensix rwc -a 0xff000;tensix adc -a 0xff000", "ADCS0_UNPACKER0", "rwc0_dst", "CHANNEL1", "w_counter")
		commands("go -l 0,0;debug-bus trisc0_pc;perf-counters start;perf-counters read;dump-regfile dstacc", "trisc0_pc: 0x", "math_instrn[0]", "TILE ID: 0")
		commands("go -l 0,0;reg dbg(0x2c) --write 1", "Remote simulation host failed the write")
		c.err.wait(t, "reprise: chip 0: a tool's access was refused: ")
		must(t, os.WriteFile(stop, nil, 0o644))
		if err := c.Wait(); err != nil || !strings.Contains(b.String(), "sum 128.0") {
			t.Errorf("%s: %v: printed %s: %s", chip, err, b.String(), &c.err)
		}
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("%s: the folder is left", chip)
		}

		must(t, os.Remove(stop))
		var again said
		c = start(t, &again, r.args("--serve-umd", "--chip", chip, "testdata/ttnn_alive.py", stop)...)
		again.wait(t, "replayed")
		commands("go -l 0,0;riscv reset 1 -r brisc;wxy 0,0 0 0;riscv reset 0 -r brisc")
		c.err.wait(t, "BRISC pc=0x0: tensix: Tensix instruction 0x00000000: opcode 0: it runs through memory that holds no code")
		_ = c.Wait()
	}
}

// tt-exalens shows all frames of a kernel that waits, also inlined ones, and those of the firmware.
func TestTTNNExalensCallstack(t *testing.T) {
	r := newTTNN(t)
	r.tool(t, "tt-exalens", "tt-exalens==0.4.2 tt-umd==0.9.14")
	t.Setenv("TMPDIR", t.TempDir())
	want := regexp.MustCompile(`(?s)#\d [^#]*noc_semaphore_wait \(.*#\d waits \([^#]*callstack.cpp 4:\d.*#\d [^#]*kernel_main \([^#]*callstack.cpp 8:\d.*` +
		`#\d [^#]*_start \(.*#\d [^#]*main \([^#]*/brisc.cc .*ended`)
	for _, chip := range []string{"wormhole", "blackhole"} {
		if out, errs, code := r.output("--serve-umd", "--chip", chip, "testdata/ttnn_callstack.py"); code != 0 || !want.MatchString(out) {
			t.Errorf("%s: exit code %d, printed %s: %s", chip, code, out, errs)
		}
	}
}

// A child that a program forks doesn't reach the chip; the program goes on.
func TestTTNNFork(t *testing.T) {
	r := newTTNN(t)
	for arg, want := range map[string]string{"leave": "child 7\nparent 1.0\n", "use": "child 1\nparent 1.0\n"} {
		out, errs, code := r.output("testdata/ttnn_fork.py", arg)
		if code != 0 || !strings.Contains(out, want) || strings.Contains(errs, "in a forked process") != (arg == "use") {
			t.Errorf("%s: exit code %d, printed %q, want %q: %s", arg, code, out, want, errs)
		}
	}
}

// The command says what to do and leaves nothing; TT-NN has its own message.
func TestTTNNFullDisk(t *testing.T) {
	r := newTTNN(t)
	disk := t.TempDir()
	if err := unix.Mount("none", disk, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("mounting a small disk:", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, 0) })
	if err := os.WriteFile(filepath.Join(disk, "full"), make([]byte, 1<<20), 0o644); !errors.Is(err, unix.ENOSPC) {
		t.Fatal("the disk isn't full:", err)
	}
	files := func() int {
		list, err := os.ReadDir(disk)
		must(t, err)
		return len(list)
	}
	t.Run("cache of TT-NN", func(t *testing.T) {
		t.Setenv("TT_METAL_CACHE", filepath.Join(disk, "kernels"))
		if out, errs, code := r.output("testdata/ttnn_trace.py"); code == 0 || strings.Contains(errs, "longer than") {
			t.Errorf("exit code %d, printed %q: %s", code, out, errs)
		}
		must(t, os.RemoveAll(filepath.Join(disk, "kernels")))
	})
	t.Run("cache of the command", func(t *testing.T) {
		t.Setenv("XDG_CACHE_HOME", disk)
		before := files()
		out, errs, code := r.output("testdata/ttnn_trace.py")
		if code != 1 || !strings.Contains(errs, "free space") {
			t.Errorf("exit code %d, printed %q: %s", code, out, errs)
		}
		if after := files(); after > before+1 { // its folder, which the next run uses
			t.Errorf("%d files, before %d", after, before)
		}
	})
}

// Instructions are the same in each run.
func TestTTNNHostCosts(t *testing.T) {
	r := newTTNN(t)
	var instructions [2]map[string]float64
	for i := range instructions {
		out, errs, code := r.of(append([]string{"bench", "ttnn", "--host", "--json"}, r.args("--chip", "wormhole")[2:]...))
		var costs map[string]map[string]float64
		if err := json.Unmarshal([]byte(out), &costs); err != nil || code != 0 {
			t.Fatalf("exit code %d, printed %q: %s", code, out, errs)
		}
		t.Log(out)
		if len(costs["ttnn"]) != 9 {
			t.Errorf("figures: %v", costs)
		}
		instructions[i] = map[string]float64{}
		for what, of := range costs["ttnn"] {
			reprise := costs["reprise"][what]
			if reprise <= 0 || of <= 0 {
				t.Errorf("%s: %v in TT-NN, %v in Reprise", what, of, reprise)
			}
			if strings.Contains(what, "instructions") {
				instructions[i]["TT-NN, "+what], instructions[i]["Reprise, "+what] = of, reprise
			}
		}
	}
	if d := cmp.Diff(instructions[0], instructions[1]); d != "" || len(instructions[0]) != 6 {
		t.Errorf("%d counts of instructions, in a second run: %s", len(instructions[0]), d)
	}
}

// The command leaves no process and no file when it is interrupted.
func TestBenchTTNN(t *testing.T) {
	r := newTTNN(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	args := []string{"bench", "ttnn", "--python", r.python, "--library", r.library, "--chip", "blackhole", "--json"}
	var out bytes.Buffer
	c := start(t, &out, append(args, "--rounds", "1", "binary/add_bf16")...)
	if err := c.Wait(); err != nil {
		t.Fatal(err, c.err.String())
	}
	var report report.Report
	must(t, json.Unmarshal(out.Bytes(), &report))
	for _, id := range []string{"ttnn/open/chip=blackhole", "ttnn/binary/add_bf16/chip=blackhole"} {
		if f, ok := report.Figure(id); !ok || f.Min <= 0 {
			t.Errorf("%s: %+v", id, f)
		}
	}

	var none bytes.Buffer
	c = start(t, &none, append(args, "--rounds", "1000", "binary/add_bf16")...)
	for len(processesOf(t, temp, "--time")) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	must(t, c.Process.Signal(syscall.SIGINT))
	c.wantInterrupted(t, "interrupt")
	if left := processesOf(t, temp, ""); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if files, _ := filepath.Glob(filepath.Join(temp, "reprise-bench-ttnn*")); len(files) > 0 {
		t.Errorf("left behind: %q", files)
	}
}

func processesOf(t *testing.T, a, b string) (lines []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, file := range all {
		line, _ := os.ReadFile(file) // it may have ended
		if text := strings.ReplaceAll(string(line), "\x00", " "); strings.Contains(text, a) && strings.Contains(text, b) {
			lines = append(lines, text)
		}
	}
	return lines
}

// The report has the operations, cores, replays and sub-devices that the program prints, and the
// same times in each run: a clock for each instruction.
func TestTTNNPerf(t *testing.T) {
	r := newTTNN(t)
	for chip, mhz := range map[string]float64{"wormhole": 1000, "blackhole": 1350} {
		var times []string
		for range 2 {
			dir := t.TempDir()
			out, errs, code := r.output("--chip", chip, "--perf", dir, "testdata/ttnn_perf.py")
			if code != 0 {
				t.Fatalf("%s: exit code %d: %s", chip, code, errs)
			}
			rows := perfRows(t, dir)
			var have, device, workers strings.Builder
			ns := map[string]float64{}
			for _, row := range rows {
				fmt.Fprintf(&have, "program,%s,%s,%s,%s\n", row["OP CODE"], row["CORE COUNT"], row["METAL TRACE REPLAY SESSION ID"],
					row["SUB DEVICE ID"])
				for name, v := range row {
					n, err := strconv.ParseFloat(v, 64)
					if ns[name] = n - ns[name]; strings.HasPrefix(name, "DEVICE ") && strings.HasSuffix(name, "DURATION [ns]") && v != "" {
						fmt.Fprintln(&device, name, v)
						if err != nil || n <= 0 || n > 1e6 {
							t.Errorf("%s: %s of %s is %q", chip, name, row["OP CODE"], v)
						}
					}
				}
				if row["OP CODE"] != "GenericOpDeviceOperation" {
					ns = map[string]float64{}
				} else if row["DEVICE BRISC KERNEL DURATION [ns]"] != "" {
					t.Errorf("%s: a time of BRISC, which has no kernel", chip)
				} else if more := ns["DEVICE NCRISC KERNEL DURATION [ns]"] * mhz / 1000; row["CORE COUNT"] == "2" &&
					math.Abs(more-10000) > 5 {
					t.Errorf("%s: 10,000 further instructions took %v clocks", chip, more)
				}
				if row["SUB DEVICE ID"] == "" {
					fmt.Fprintf(&workers, "workers,%s\n", row["AVAILABLE WORKER CORE COUNT"])
				} else if want := map[string]string{"0": "16", "1": "8"}[row["SUB DEVICE ID"]]; row["AVAILABLE WORKER CORE COUNT"] != want {
					t.Errorf("%s: sub-device of %s workers, want %s", chip, row["AVAILABLE WORKER CORE COUNT"], want)
				}
			}
			all, _, _ := strings.Cut(workers.String(), "\n")
			if got := all + "\n" + have.String(); got != out {
				t.Errorf("%s: the report has %s, the program had %s", chip, got, out)
			}
			lines := strings.Split(device.String(), "\n")
			slices.Sort(lines)
			times = append(times, strings.Join(lines, "\n"))
		}
		if d := cmp.Diff(times[0], times[1]); d != "" {
			t.Errorf("%s: other times in a second run: %s", chip, d)
		}
	}
}

func perfRows(t *testing.T, dir string) (rows []map[string]string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "ops_perf_results.csv"))
	must(t, err)
	table, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
	must(t, err)
	for _, record := range table[1:] {
		row := map[string]string{}
		for i, v := range record {
			row[table[0][i]] = v
		}
		rows = append(rows, row)
	}
	return rows
}

func TestTTNNPerfReport(t *testing.T) {
	r := newTTNN(t)
	tool := r.tool(t, "tt-perf-report", "tt-perf-report==1.4.1")
	for _, chip := range []string{"wormhole", "blackhole"} {
		dir := t.TempDir()
		if _, errs, code := r.output("--chip", chip, "--perf", dir, "testdata/ttnn_perf.py"); code != 0 {
			t.Fatalf("%s: exit code %d: %s", chip, code, errs)
		}
		var out bytes.Buffer
		c := startCommand(t, &out, tool, "--no-color", "--no-summary", filepath.Join(dir, "ops_perf_results.csv"))
		err := c.Wait()
		for _, want := range []string{"Architecture: " + chip, "MatmulDeviceOperation 64 x 64 x 64", "LoFi BF16 x BF16 => BF16",
			"12 device ops, 0 host ops", "Sub Device"} {
			if err != nil || !strings.Contains(out.String(), want) {
				t.Fatalf("%s: %v: no %q in %s%s", chip, err, want, &out, &c.err)
			}
		}
	}
}

// ttnn-visualizer answers the same of a capture of TT-NN that TT-NN imports as of one that we do.
func TestTTNNVisualizer(t *testing.T) {
	python := filepath.Join(os.Getenv("REPRISE_TOOLS"), "visualizer/bin/python")
	if _, err := os.Stat(python); err != nil {
		t.Skipf("REPRISE_TOOLS names no folder with a Python that has ttnn-visualizer==0.108.0: %v", err)
	}
	r := newTTNN(t)
	for _, args := range [][]string{{"wormhole"}, {"blackhole"}, {"wormhole", "slow"}} {
		dir := t.TempDir()
		vendors, own := filepath.Join(dir, "vendors"), filepath.Join(dir, "own")
		out, errs, code := r.output(append([]string{"--chip", args[0], "testdata/ttnn_report.py", dir}, args[1:]...)...)
		if code != 0 || !strings.Contains(out, "captured") {
			t.Fatalf("%v: exit code %d, printed %q: %s", args, code, out, errs)
		}
		if out, errs, code := r.of([]string{"graph", "import", filepath.Join(dir, "report.json"), "-o", own}); code != 0 || errs != "" {
			t.Fatalf("%v: exit code %d, printed %q: %s", args, code, out, errs)
		}
		var b bytes.Buffer
		c := startCommand(t, &b, python, "testdata/visualizer.py", vendors, own)
		err := c.Wait()
		if t.Logf("%v: %s", args, &b); err != nil {
			t.Errorf("%v: %v: %s", args, err, &c.err)
		}
	}
}
