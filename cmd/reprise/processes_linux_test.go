package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/demo"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/words"
	"github.com/reprise-tt/reprise/examples/words/transformer"
	"github.com/reprise-tt/reprise/examples/words/transformer/reference"
	"github.com/reprise-tt/reprise/hwtest/vm/inside"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/sim/serve"
	"golang.org/x/sys/unix"
)

func text(ctx context.Context, path string) error {
	if err := cli.Creatable("--timeline", path); err != nil {
		return err
	}
	return cli.Save(ctx, "--timeline", path, func(w io.Writer) error {
		_, err := io.WriteString(w, "line")
		return err
	})
}

func names(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	l := expect.Value(os.ReadDir(dir))(t)
	m := map[string]fs.FileMode{}
	for _, e := range l {
		m[e.Name()] = e.Type()
	}
	return m
}

func TestSaveBehindLinks(t *testing.T) {
	for name, links := range map[string]map[string]string{
		"file":           {"out": "../b/there"},
		"nothing yet":    {"out": "../b/new"},
		"link to a link": {"out": "next", "next": "../b/there"},
		"over directory": {"out": "way/there", "way": "../b"},
		"dots after one": {"out": "way/../new", "way": "../b/deep"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
			must(t, errors.Join(os.Mkdir(a, 0o777), os.MkdirAll(filepath.Join(b, "deep"), 0o777),
				os.WriteFile(filepath.Join(b, "there"), []byte("what was there before"), 0o666)))
			for from, to := range links {
				must(t, os.Symlink(to, filepath.Join(a, from)))
			}
			before := names(t, a)
			must(t, text(t.Context(), filepath.Join(a, "out")))
			expect.NoDiff(t, names(t, a), before, "beside the links")
			at := filepath.Join(b, filepath.Base(links["out"]))
			if name == "link to a link" {
				at = filepath.Join(b, "there")
			}
			got, err := os.ReadFile(at)
			if err != nil || string(got) != "line" {
				t.Errorf("%s: %q, %v", at, got, err)
			}
			if n := len(names(t, b)); n > 3 {
				t.Errorf("%d files where the link leads to", n)
			}
		})
	}
	circle := filepath.Join(t.TempDir(), "circle")
	must(t, os.Symlink("circle", circle))
	expect.Fails(t, text(t.Context(), circle), unix.ELOOP, "a circle of links")
}

// The command doesn't open and close the pipe before it writes.
func TestSaveToPipe(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	must(t, errors.Join(unix.Mkfifo(path, 0o666), os.Symlink("pipe", link)))
	before := names(t, dir)
	for _, p := range []string{path, link} {
		read := make(chan string)
		go func() {
			b, err := os.ReadFile(path)
			if err != nil {
				b = []byte(err.Error())
			}
			read <- string(b)
		}()
		must(t, text(t.Context(), p))
		if diff := cmp.Diff(before, names(t, dir)); diff != "" { // a reader of a pipe that is gone would wait for ever
			t.Fatalf("%s (-before +after):\n%s", p, diff)
		}
		expect.Equal(t, <-read, "line", "%s: read", p)
	}
}

func TestSaveToPipeWithoutReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	must(t, unix.Mkfifo(path, 0o666))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- text(ctx, path) }()
	cancel()
	expect.Fails(t, <-ended, context.Canceled, "saving to a pipe without a reader")

	r, err := os.OpenFile(path, os.O_RDWR, 0) // opens pipes that are still waited for
	must(t, err)
	defer r.Close()
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	begun := make(chan bool)
	go func() {
		ended <- cli.Save(ctx, "--timeline", path, func(w io.Writer) error {
			close(begun)
			_, err := w.Write(make([]byte, 1<<20))
			return err
		})
	}()
	<-begun
	cancel()
	expect.Fails(t, <-ended, os.ErrClosed, "saving to a full pipe")
}

// Run by root, --timeline /dev/null would otherwise replace the machine's /dev/null.
func TestSaveToDevice(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "null")
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		t.Skip("nodes can't be made here: ", err)
	}
	if f, err := os.OpenFile(path, os.O_WRONLY, 0); err != nil {
		t.Skip("nodes can't be opened here: ", err)
	} else if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	before := names(t, dir)
	must(t, text(t.Context(), path))
	expect.NoDiff(t, names(t, dir), before, "names")
}

func TestSaveToSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "socket")
	l, err := serve.Listen(path)
	must(t, err)
	defer l.Close()
	before := names(t, dir)
	var wrong *cli.FlagError
	if err := text(t.Context(), path); !errors.As(err, &wrong) || !errors.Is(err, unix.ENXIO) {
		t.Error(err)
	}
	expect.NoDiff(t, names(t, dir), before, "names")
}

func fewDigits(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "digits.csv")
	must(t, os.WriteFile(name, []byte(strings.Repeat(strings.Repeat("0,8,16,3,", 16)+"7\n", 2)), 0o666))
	return name
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8k"); err != nil {
		t.Skip("no file system of its own for the test: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	at := filepath.Join(dir, "out.json")
	must(t, os.WriteFile(at, []byte("of before"), 0o666))
	few, timed := fewDigits(t), filepath.Join(t.TempDir(), "timed.json")
	must(t, os.WriteFile(timed, []byte(`{"version":1,"graph":[],"programs":[{"function":1,"program":"relu","start_cycle":1000,"end_cycle":2000}]}`), 0o666))
	for _, args := range [][]string{
		{"graph", "perf", timed, "-o", dir}, // its device log fits
		{"demo", "--input", few, "--graph", at}, {"demo", "--input", few, "--record", at},
		{"demo", "--input", few, "--timeline", at}, {"demo", "--input", few, "--save-trace", at},
		{"hwtest", "--device", "emu:blackhole", "--run", "^(bringup|cq)$", "--short", "--report", at},
	} {
		c := start(t, nil, args...)
		var exit *exec.ExitError
		if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != cli.ExitFailed {
			t.Errorf("%v: %v", args, err)
		}
		got := c.err.String()
		expect.Equal(t, strings.Count(got, "\n"), 1, "%v: lines", args)
		expect.Equal(t, strings.Count(got, "no space left"), 1, "%v: causes", args)
		b, err := os.ReadFile(at)
		if err != nil || string(b) != "of before" || len(names(t, dir)) != 1 {
			t.Errorf("%v left %d bytes, %v, files %v", args, len(b), err, names(t, dir))
		}
	}
}

type started struct {
	*exec.Cmd
	err said
}

type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *said) wait(t *testing.T, text string) {
	t.Helper()
	limit := time.Now().Add(time.Minute)
	for !strings.Contains(s.String(), text) {
		if time.Now().After(limit) {
			t.Fatalf("it printed %q, want %q", s, text)
		}
		time.Sleep(time.Millisecond)
	}
}

func start(t *testing.T, out io.Writer, args ...string) *started {
	t.Helper()
	return startCommand(t, out, "reprise", args...)
}

func startCommand(t *testing.T, out io.Writer, name string, args ...string) *started {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // TT-NN may compile kernels
	t.Cleanup(cancel)
	c := &started{Cmd: exec.CommandContext(ctx, name, args...)}
	c.Stdout, c.Stderr = out, &c.err
	must(t, c.Start())
	return c
}

func (c *started) wantInterrupted(t *testing.T, name string) {
	t.Helper()
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != cli.ExitInterrupted {
		t.Errorf("%v, want exit code %d: %s", err, cli.ExitInterrupted, &c.err)
	}
	// On a busy machine the command may wait long enough to report the wait.
	if got, want := strings.TrimPrefix(c.err.String(), endingLine+"\n"), "reprise: ended: "+name+" signal received\n"; got != want {
		t.Errorf("standard error %q, want %q", got, want)
	}
}

// The command doesn't wait for a million replays.
func TestSignalThatTakesTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "digits.trace")
	c := start(t, nil, "demo", "--input", fewDigits(t), "--save-trace", path)
	must(t, c.Wait())
	c = start(t, nil, "trace", "run", "--replays", "1000000", path)
	time.Sleep(2 * time.Second) // the trace may have started by then
	must(t, c.Process.Signal(syscall.SIGTERM))
	kill := time.AfterFunc(20*time.Second, func() { _ = c.Process.Kill() }) // all replays take minutes
	defer kill.Stop()
	c.wantInterrupted(t, "terminated")
}

// Words are printed as the device produces them; the signal ends the command between two words.
func TestSignalWhileGenerating(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	c := start(t, w, "generate", "--tokens", "1000000", "--temperature", "4") // words of a few letters
	must(t, w.Close())
	word := make([]byte, 100)
	n, err := r.Read(word)
	if err != nil || n == 0 || bytes.ContainsFunc(word[:n], func(c rune) bool { return c < 'a' || c > 'z' }) {
		t.Errorf("the first that comes is %q, %v, no word: %s", word[:n], err, &c.err)
	}
	must(t, c.Process.Signal(syscall.SIGTERM))
	c.wantInterrupted(t, "terminated")
}

func pipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	must(t, unix.Mkfifo(path, 0o666))
	return path
}

func TestSignalWhileReading(t *testing.T) {
	path := pipe(t)
	for i, line := range []string{
		"graph show PIPE", "graph table PIPE", "graph peak PIPE", "graph dot PIPE", "graph svg PIPE", "graph perf PIPE -o out",
		"graph import PIPE -o out", "inspect PIPE",
		"demo --input PIPE", "demo --device emu:quietbox --input PIPE", "trace run PIPE", "trace verify PIPE", "trace stat PIPE", "bench replay --compare PIPE",
	} {
		t.Run(line, func(t *testing.T) {
			args := strings.Fields(line)
			for k := range args {
				switch args[k] {
				case "PIPE":
					args[k] = path
				case "out":
					args[k] = t.TempDir()
				}
			}
			sig := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}[i%3]
			if signal.Ignored(sig) {
				t.Skipf("%v is ignored here, as under nohup, and so it is by the command", sig)
			}
			c := start(t, nil, args...)
			w, err := os.OpenFile(path, os.O_WRONLY, 0) // returns when the command has opened the pipe too
			must(t, err)
			defer w.Close()
			must(t, c.Process.Signal(sig))
			c.wantInterrupted(t, sig.String())
		})
	}
}

func TestSignalWhilePrinting(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report.json")
	var b strings.Builder
	for i := range 10000 { // more than a pipe holds
		fmt.Fprintf(&b, `,{"counter":%d,"node_type":"function_start","params":{"name":"relu"}}`, i)
	}
	must(t, os.WriteFile(report, []byte(`{"version":1,"graph":[`+b.String()[1:]+`]}`), 0o666))
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	c := start(t, w, "graph", "table", report)
	must(t, w.Close())
	_, err = r.Read(make([]byte, 1))
	must(t, err)
	must(t, c.Process.Signal(syscall.SIGTERM))
	c.wantInterrupted(t, "terminated")
}

// Checking the flags already reads the recording.
func TestSecondSignal(t *testing.T) {
	path := pipe(t)
	c := start(t, nil, "demo", "--device", "session:"+path)
	w, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	defer w.Close()
	must(t, c.Process.Signal(syscall.SIGTERM))
	c.err.wait(t, endingLine+"\n")
	must(t, c.Process.Signal(syscall.SIGTERM))
	_ = c.Wait()
	if s := c.ProcessState.Sys().(syscall.WaitStatus); !s.Signaled() || s.Signal() != syscall.SIGTERM {
		t.Errorf("%v, want it ended by the signal", c.ProcessState)
	}
}

// A terminal that closes ends commands that run until they are told to end, and servers' sockets.
func TestHangup(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("SIGHUP is ignored here, as under nohup, and so it is by the command")
	}
	for name, c := range map[string]struct {
		args  string
		ready string // what it prints when it runs
		code  int
	}{
		"a card for processes":        {"sim serve --device emu:wormhole --socket SOCKET", "serving ", cli.ExitOK},
		"a card for virtual machines": {"sim serve --machine n150 --vfio-user SOCKET", "serving ", cli.ExitOK},
		"metrics":                     {"monitor --dir DIR --listen localhost:0", "serving http://", cli.ExitInterrupted},
		"tables into a pipe":          {"monitor --dir DIR --interval 1h", "\n", cli.ExitInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			socket := filepath.Join(dir, "card")
			args := strings.Fields(c.args)
			for i := range args {
				args[i] = strings.NewReplacer("SOCKET", socket, "DIR", dir).Replace(args[i])
			}
			var out said
			run := start(t, &out, args...)
			from := &out
			if strings.Contains(c.args, "--listen") {
				from = &run.err
			}
			from.wait(t, c.ready)
			must(t, run.Process.Signal(syscall.SIGHUP))
			_ = run.Wait()
			if got := run.ProcessState.ExitCode(); got != c.code {
				t.Errorf("%v, want exit code %d: %s", run.ProcessState, c.code, &run.err)
			}
			expect.Fails(t, expect.ErrOf(os.Lstat(socket)), fs.ErrNotExist, "its socket is still there")
		})
	}
}

// As started by nohup or a shell.
func TestIgnoredHangup(t *testing.T) {
	var out said
	c := startCommand(t, &out, "sh", "-c", `trap "" HUP; exec reprise monitor --interval 1h --dir "$1"`, "sh", t.TempDir())
	out.wait(t, "\n")
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		must(t, c.Process.Signal(s))
	}
	c.wantInterrupted(t, "terminated")
}

const jobVariable = "REPRISE_TEST_JOB"

type mpirunJob struct {
	*exec.Cmd
	out  bytes.Buffer
	mark string
}

func startMPIRun(t *testing.T, n int, args ...string) *mpirunJob {
	t.Helper()
	return startJobOf(t, []string{"mpirun", "--oversubscribe", "-n", strconv.Itoa(n)}, args...)
}

func startJobOf(t *testing.T, mpirun []string, args ...string) *mpirunJob {
	t.Helper()
	if _, err := exec.LookPath("mpirun"); err != nil {
		t.Skip("no mpirun: install Open MPI (Debian: openmpi-bin)")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // TT-NN may compile kernels
	t.Cleanup(cancel)
	j := &mpirunJob{Cmd: exec.CommandContext(ctx, mpirun[0], slices.Concat(mpirun[1:], []string{"reprise"}, args)...)}
	j.mark = jobVariable + "=" + t.TempDir()
	j.Env = append(os.Environ(), j.mark, "TMPDIR=/tmp", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	j.Stdout, j.Stderr = &j.out, &j.out
	must(t, j.Start())
	return j
}

func (j *mpirunJob) processes(t *testing.T) (pids []int) {
	t.Helper()
	all := expect.Value(filepath.Glob("/proc/[0-9]*"))(t)
	for _, dir := range all { // any of them may end meanwhile
		exe, _ := os.Readlink(filepath.Join(dir, "exe"))
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if filepath.Base(exe) == "reprise" && bytes.Contains(env, []byte(j.mark+"\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			pids = append(pids, pid)
		}
	}
	return pids
}

func (j *mpirunJob) waitFor(t *testing.T, n int) {
	t.Helper()
	end := time.Now().Add(30 * time.Second)
	for len(j.processes(t)) != n {
		if time.Now().After(end) {
			t.Fatalf("processes %v, want %d of them\n%s", j.processes(t), n, &j.out)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Ctrl-C in mpirun's terminal ends every process of the job.
func TestInterruptEndsAllProcesses(t *testing.T) {
	images := expect.Value(digits.Images())(t)
	var b []byte
	for _, m := range images {
		b = m.AppendCSV(b)
	}
	input := filepath.Join(t.TempDir(), "digits.csv")
	must(t, os.WriteFile(input, bytes.Repeat(b, 50), 0o666)) // for far longer than the signal takes
	j := startMPIRun(t, 4, "demo", "--device", "emu:quietbox", "--input", input, "--hosts", "mpi")
	j.waitFor(t, 4)
	time.Sleep(time.Second) // the trace may have started by then
	must(t, j.Process.Signal(syscall.SIGINT))
	var exit *exec.ExitError
	if err := j.Wait(); !errors.As(err, &exit) || strings.Contains(j.out.String(), "accuracy") {
		t.Errorf("%v, want the job interrupted\n%s", err, &j.out)
	}
	j.waitFor(t, 0)
}

func TestGenerateInProcesses(t *testing.T) {
	effort.Raced(t)
	startMPIRun(t, 4, generateArgs...).wantWords(t, 4)
}

var generateArgs = []string{"generate", "--tokens", "10", "--seed", "7", "--hosts", "mpi", "--json"}

func (j *mpirunJob) wantWords(t *testing.T, processes int) {
	t.Helper()
	if err := j.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &j.out)
	}
	var got struct{ Processes []demo.Generated }
	out := j.out.Bytes()
	if err := json.Unmarshal(out[max(bytes.IndexByte(out, '{'), 0):], &got); err != nil || len(got.Processes) != processes {
		t.Fatalf("%v\n%s", err, out)
	}
	const tokens, first = 10, 7
	net := expect.Value(transformer.Trained())(t)
	for rank := range got.Processes {
		p := &got.Processes[rank]
		m, err := reference.New(chip.Blackhole, net, transformer.Sampling{Seed: first + uint64(rank), Tokens: tokens, Temperature: 1})
		must(t, err)
		var want []uint8
		for m.Step() {
			want = append(want, uint8(m.State().Token))
		}
		if diff := cmp.Diff(words.Decode(want), p.Words); diff != "" || len(p.Words) == 0 || p.Mismatches != 0 || p.Tokens != tokens {
			t.Errorf("process %d: %d tokens, %d mismatches: %s", rank, p.Tokens, p.Mismatches, diff)
		}
	}
}

// A killed server's socket is replaced; a busy server's stays.
func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "card")
	at := &unix.SockaddrUnix{Name: path}
	open := func() int {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		return fd
	}
	server := open()
	must(t, errors.Join(unix.Bind(server, at), unix.Listen(server, 0)))
	var err error
	for range 10 { // no reader takes them
		fd := open()
		defer unix.Close(fd)
		if err = unix.Connect(fd, at); err != nil {
			break
		}
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatalf("a server without room: %v", err)
	}
	if l, err := serve.Listen(path); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("beside a busy server: %v", err)
		if err == nil {
			l.SetUnlinkOnClose(false)
			_ = l.Close()
		}
	}
	expect.Value(os.Lstat(path))(t)
	if err := unix.Close(server); err != nil { // the file stays
		t.Fatal(err)
	}
	l, err := serve.Listen(path)
	must(t, err)
	c := expect.Value(net.Dial("unix", path))(t)
	must(t, errors.Join(c.Close(), l.Close()))
}

func fakeKernel(t *testing.T, release string) string {
	t.Helper()
	b := make([]byte, 0x400)
	copy(b[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(b[0x20E:], 0x100)
	copy(b[0x300:], release+" (somebody@somewhere) #1")
	return write(t, "vmlinuz", b, 0o644)
}

func write(t *testing.T, name string, b []byte, mode os.FileMode) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(name, b, mode))
	return name
}

func fakeModule(t *testing.T) string {
	t.Helper()
	return write(t, "tenstorrent.ko.xz", []byte("\xFD7zXZ\x00"), 0o644)
}

// fakeQEMU writes a program that answers as a QEMU of a version does, and otherwise runs a script
// in which $results is the file behind the third serial port.
func fakeQEMU(t *testing.T, version, devices, script string) string {
	t.Helper()
	return write(t, "qemu", []byte(`#!/bin/sh
case "$1 $2" in
--version*) echo "QEMU emulator version `+version+` (Debian)"; exit;;
"-device help") echo '`+devices+`'; exit;;
esac
for a; do case $a in file:*) results=${a#file:};; esac; done
`+script), 0o755)
}

const vfioUserDevice = `name "vfio-user-pci", bus PCI`

func runVM(ctx context.Context, qemu, kernel, module string, args ...string) (code int, stdout, stderr string) {
	command := []string{"vm", "--machine", "n150", "--qemu", qemu, "--kernel", kernel}
	if module != "" {
		command = append(command, "--module", module)
	}
	return runs(ctx, append(command, args...)...)
}

func runFake(ctx context.Context, t *testing.T, script string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return runVM(ctx, fakeQEMU(t, "11.1.3", vfioUserDevice, script), fakeKernel(t, "6.12.0-test"), fakeModule(t), args...)
}

func TestVMMissing(t *testing.T) {
	kernel, module := fakeKernel(t, "6.12.0-test"), fakeModule(t)
	good := fakeQEMU(t, "11.1.3", vfioUserDevice, "exit 1")
	prog := []string{"--", "reprise"}
	tree := t.TempDir() // of another Debian
	must(t, errors.Join(os.MkdirAll(tree+"/usr/bin", 0o777), os.Mkdir(tree+"/usr/lib64", 0o777), os.Rename(
		fakeQEMU(t, "11.1.3", vfioUserDevice, ""), tree+"/usr/bin/qemu-system-x86_64"), os.WriteFile(tree+"/usr/lib64/ld-linux-x86-64.so.2",
		[]byte("#!/bin/sh\nqemu=$3; shift 7; exec \"$qemu\" \"$@\"\n"), 0o755)))
	for _, c := range []struct {
		name, qemu, kernel, module string
		args, want                 []string
	}{
		{"everything", "no-such-qemu", "no/kernel", "no/module", []string{"--", "no-such-program"}, []string{
			"reprise: QEMU is missing (no-such-qemu): install Debian 13's package of its backports (apt-get install -t trixie-backports qemu-system-x86), on Debian 12 into a folder, as root (mmdebstrap --variant=extract ",
			"reprise: the kernel no/kernel is missing: name one with --kernel (Debian: package linux-image-amd64 has /boot/vmlinuz-…)",
			"reprise: the driver no/module is missing: build the module of https://github.com/tenstorrent/tt-kmd for that kernel as its README says, and name it with --module (Debian: packages linux-headers-amd64, make, gcc)",
			"reprise: the program no-such-program is missing: executable file not found in $PATH"}},
		{"vfio-user", fakeQEMU(t, "10.0.2", "", ""), kernel, module, prog, []string{
			"has no vfio-user, which QEMU has since 10.1: install Debian 13's package of its backports"}},
		{"a kernel", good, module, module, prog, []string{"not a kernel image of x86 (vmlinuz, bzImage): name one with --kernel"}},
		{"the kernel's driver", good, kernel, "", prog, []string{
			"reprise: the driver is missing: build the module of https://github.com/tenstorrent/tt-kmd for that kernel as its README says, and name it with --module (Debian: packages linux-headers-6.12.0-test, make, gcc)"}},
		{"a module", good, kernel, kernel, prog, []string{"not a kernel module: build the module"}},
		{"a folder without QEMU", t.TempDir(), kernel, module, prog, []string{"reprise: QEMU is missing (/"}},
		{"a folder with QEMU", tree, kernel, kernel, prog, []string{"not a kernel module: build the module"}},
		{"a terminal", good, kernel, module, nil, []string{"a shell needs a terminal: give a program after --"}},
		{"a folder", good, kernel, module, []string{"--share", "/no/such/folder", "--", "reprise"}, []string{"/no/such/folder: no such file or directory"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := expect.Value(os.Open(os.DevNull))(t)
			defer in.Close()
			old := os.Stdin
			os.Stdin = in
			defer func() { os.Stdin = old }()
			code, stdout, stderr := runVM(t.Context(), c.qemu, c.kernel, c.module, c.args...)
			if lines := strings.Split(strings.TrimSpace(stderr), "\n"); code != cli.ExitFailed || stdout != "" ||
				len(lines) != len(c.want) {
				t.Errorf("exit code %d, standard output %q, standard error in %d lines, want %d:\n%s", code, stdout, len(lines),
					len(c.want), stderr)
			}
			for _, w := range c.want {
				if !strings.Contains(stderr, w) {
					t.Errorf("standard error lacks %q:\n%s", w, stderr)
				}
			}
		})
	}
}

func TestVMProgram(t *testing.T) {
	share := t.TempDir()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range [][2]string{{inside.ResultShare + "out/report.json", "{}"}, {inside.ResultStatus, "7"}} {
		must(t, w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1]))}))
		_, err := w.Write([]byte(f[1]))
		must(t, err)
	}
	must(t, w.Close())
	results := write(t, "results", b.Bytes(), 0o644)
	code, stdout, stderr := runFake(t.Context(), t, `echo of the kernel >&3; echo of the program >&4; cat `+results+` > "$results"`,
		"--share", share, "--", "reprise", "ls", "--json")
	if code != 7 || stdout != "of the program\n" || !strings.Contains(stderr, "of the kernel\n") || strings.Contains(stderr, "reprise: ") {
		t.Errorf("exit code %d, standard output %q, standard error %q", code, stdout, stderr)
	}
	expect.Equal(t, string(expect.Value(os.ReadFile(filepath.Join(share, "out", "report.json")))(t)), "{}", "the returned file has")
}

func TestVMNoStatus(t *testing.T) {
	for script, want := range map[string]string{
		"exit 0":                        "the machine did not get to its end",
		"echo cannot start >&2; exit 1": "cannot start",
	} {
		code, _, stderr := runFake(t.Context(), t, script, "--", "reprise")
		if code != cli.ExitFailed || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, standard error %q, want %q in it", script, code, stderr, want)
		}
	}
}

func TestVMInterrupted(t *testing.T) {
	dir := t.TempDir()
	started, ended := filepath.Join(dir, "started"), filepath.Join(dir, "ended")
	must(t, unix.Mkfifo(started, 0o600))
	script := "trap 'echo >" + ended + "; exit 0' TERM; echo $$ >" + started + "; while :; do read line <" + started + "; done"
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go func() {
		b := make([]byte, 16)
		if f, err := os.Open(started); err == nil { // until QEMU has opened it
			n, _ := f.Read(b)
			_ = f.Close()
			if _, err := strconv.Atoi(strings.TrimSpace(string(b[:n]))); err == nil {
				cancel()
			}
		}
	}()
	code, _, stderr := runFake(ctx, t, script, "--", "reprise")
	if code != cli.ExitInterrupted || !strings.HasSuffix(stderr, "\nreprise: ended: context canceled\n") {
		t.Errorf("exit code %d, standard error %q", code, stderr)
	}
	expect.Fails(t, expect.ErrOf(os.Stat(ended)), nil, "QEMU didn't end in order")
}

func TestVMBoot(t *testing.T) {
	qemu, kernel, module := os.Getenv("REPRISE_QEMU"), os.Getenv("REPRISE_VM_KERNEL"), os.Getenv("REPRISE_VM_MODULE")
	if qemu == "" || kernel == "" || module == "" {
		t.Skip("REPRISE_QEMU, REPRISE_VM_KERNEL and REPRISE_VM_MODULE don't name a QEMU, a kernel and the vendor's driver")
	}
	share := t.TempDir()
	script := filepath.Join(share, "program")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\necho \"$1\" > out\necho of the program\nexit 7\n"), 0o755))
	code, stdout, stderr := runVM(t.Context(), qemu, kernel, module, "--share", share, "--", script, "in")
	if code != 7 || stdout != "of the program\n" {
		t.Errorf("exit code %d, standard output %q, standard error:\n%s", code, stdout, stderr)
	}
	expect.Equal(t, string(expect.Value(os.ReadFile(filepath.Join(share, "out")))(t)), "in\n", "the returned file has")
}
