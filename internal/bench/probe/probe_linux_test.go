//go:build linux && (amd64 || arm64 || riscv64)

package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/internal/expect"
)

var inContainer = flag.Bool("in-container", false, "run as the child of TestInContainer")

func TestMain(m *testing.M) {
	flag.Parse()
	if *inContainer {
		os.Exit(container())
	}
	goleak.VerifyTestMain(m)
}

// start starts probes on this process, whose calling thread is the test's from then on.
func start(t *testing.T, c Config) *Probe {
	t.Helper()
	if err := Detect()(BPF); err != nil {
		t.Skip(err)
	}
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	p, err := Start(c)
	must(t, err)
	t.Cleanup(func() {
		expect.Fails(t, p.Close(), nil, "p.Close()")
	})
	return p
}

func during(t *testing.T, p *Probe, f func()) (Thread, *Snapshot) {
	t.Helper()
	p.Stage(1)
	f()
	p.Stage(0)
	s, err := p.Snapshot()
	must(t, err)
	th, _ := s.Thread(unix.Gettid(), 1)
	return th, s
}

func call(th Thread, name string) Call {
	for _, c := range th.Calls {
		if c.Name == name {
			return c
		}
	}
	return Call{}
}

func TestSystemCalls(t *testing.T) {
	p := start(t, Config{Kinds: []Kind{Calls}})
	null := expect.Value(unix.Open("/dev/null", unix.O_RDWR, 0))(t)
	defer unix.Close(null)
	th, s := during(t, p, func() {
		for range 1000 {
			unix.Getppid()
		}
		for range 3 {
			_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(null), 0xFA07, 0)
		}
	})
	if c := call(th, "getppid"); c.Count != 1000 || c.Errors != 0 || c.Total <= 0 || c.Max <= 0 || c.Total < c.Max || sum(c.Slots) != 1000 {
		t.Errorf("1000 getppid: %+v", c)
	}
	if c := call(th, "ioctl"); c.Count != 3 || c.Errors != 3 || c.Command != "PIN_PAGES" || c.Device != "/dev/null" {
		t.Errorf("3 ioctls: %+v", c)
	}
	if s.Lost.Any() {
		t.Errorf("lost %+v", s.Lost)
	}
}

func TestScheduler(t *testing.T) {
	if err := Detect()(BTF); err != nil {
		t.Skip(err)
	}
	// Twice as many naps as are counted on: one may be no switch, and a signal may cut one short.
	const naps, nap = 5, 2 * time.Millisecond
	whole := 0 // naps that took all of their time
	p := start(t, Config{Kinds: []Kind{Calls, Scheduler}, Slow: time.Millisecond})
	th, s := during(t, p, func() {
		for range 2 * naps {
			if unix.Nanosleep(&unix.Timespec{Nsec: int64(nap)}, nil) == nil {
				whole++
			}
		}
	})
	if th.Voluntary < naps || th.Off.Count < naps || th.Off.Total < naps*nap || th.Ready.Count < naps {
		t.Errorf("%d naps: %d switches, %+v off the processor, %+v ready", 2*naps, th.Voluntary, th.Off, th.Ready)
	}
	c := call(th, "nanosleep")
	if c.Count != 2*naps || c.Errors != uint64(2*naps-whole) || c.Off < naps*nap || c.Off > c.Total {
		t.Errorf("%d naps of %v, %d of them whole: %+v", 2*naps, nap, whole, c)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		n := 0
		for _, e := range s.Slow {
			if e.TID == th.TID && e.Stage == 1 && e.What == "call" && e.Name == "nanosleep" && e.For >= nap {
				n++
			}
		}
		if n >= whole { // one that a signal ended may count as well
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d slow naps among %+v", n, whole, s.Slow)
		}
		time.Sleep(time.Millisecond) // the ring is read by a goroutine
		var err error
		if s, err = p.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestThreadsThatEnd(t *testing.T) {
	for _, kinds := range [][]Kind{{Calls}, {Calls, Scheduler}, {Scheduler}} {
		t.Run(fmt.Sprint(kinds), func(t *testing.T) {
			p := start(t, Config{Kinds: kinds})
			for _, k := range kinds {
				if !p.Has(k) {
					t.Skipf("no way to see %s: %+v", k, p.leftOut)
				}
			}
			const n = 200
			ended := endThreads(n)
			s, err := p.Snapshot()
			must(t, err)
			if th, _ := s.Thread(ended[0], 0); len(th.Calls) == 0 && th.Voluntary == 0 {
				t.Errorf("nothing was seen of one of the threads: %+v", th)
			}
			if left := remembered(p, ended); len(left) > 0 {
				t.Errorf("of %d threads that have ended %d are remembered: %v", n, len(left), left)
			}
		})
	}
}

func endThreads(n int) []int {
	var ended []int
	for len(ended) < n {
		done := make(chan int)
		go func() {
			runtime.LockOSThread() // a goroutine that ends so takes its thread with it
			_ = unix.Nanosleep(&unix.Timespec{Nsec: 1}, nil)
			tid := unix.Gettid()
			if tid == os.Getpid() { // the first thread of a process never ends before it
				runtime.UnlockOSThread()
				tid = 0
			}
			done <- tid
		}()
		if tid := <-done; tid != 0 {
			ended = append(ended, tid)
		}
	}
	return ended
}

func sum(v [32]uint64) (n uint64) {
	for _, x := range v {
		n += x
	}
	return n
}

// TestStructs compares the structs in tables with what the compiler says of them.
func TestStructs(t *testing.T) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(compiled))
	must(t, err)
	for name, of := range map[string]any{
		"call_key": bpfCallKey{}, "call": CallTimes{}, "activity_key": bpfActivityKey{}, "activity": Activity{},
		"durations": Durations{},
	} {
		var want *btf.Struct
		must(t, spec.Types.TypeByName(name, &want))
		got := reflect.TypeOf(of)
		if got.NumField() != len(want.Members) || got.Size() != uintptr(want.Size) {
			t.Errorf("%s has %d fields of %d bytes, want %d of %d", name, got.NumField(), got.Size(), len(want.Members), want.Size)
			continue
		}
		for i, m := range want.Members {
			f := got.Field(i)
			if !strings.EqualFold(f.Name, strings.ReplaceAll(m.Name, "_", "")) || f.Offset != uintptr(m.Offset.Bytes()) {
				t.Errorf("%s has %s at %d, want %s at %d", name, f.Name, f.Offset, m.Name, m.Offset.Bytes())
			}
		}
	}
}

func remembered(p *Probe, ended []int) []int {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		known := map[int]bool{}
		var key uint32
		var th struct {
			CallAt, CallOff                    uint64
			CallNr, CallFd, CallCmd, CallStage uint32
			OffAt, WokenAt, OnAt, FaultAt      uint64
			InCall, Ready, Tid, Pad            uint32
		}
		for it := p.coll.Maps["threads"].Iterate(); it.Next(&key, &th); {
			known[int(th.Tid)] = true
		}
		left := slices.DeleteFunc(slices.Clone(ended), func(tid int) bool { return !known[tid] })
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
	}
}

func TestFaults(t *testing.T) {
	p := start(t, Config{Kinds: []Kind{Faults}})
	if !p.Has(Faults) {
		t.Skip("no way to see page faults")
	}
	page := os.Getpagesize()
	m := expect.Value(unix.Mmap(-1, 0, 64*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON))(t)
	defer func() { _ = unix.Munmap(m) }()
	_ = unix.Madvise(m, unix.MADV_NOHUGEPAGE) // not in every kernel
	th, s := during(t, p, func() {
		for i := 0; i < len(m); i += page {
			m[i] = 1
		}
	})
	if th.Faults.Count < 64 || s.Proc.Minor < 64 {
		t.Errorf("64 new pages: %+v, by /proc %+v", th.Faults, s.Proc)
	}
}

func TestLostEventsAreCounted(t *testing.T) {
	p := start(t, Config{Kinds: []Kind{Calls}, Slow: 1, ring: uint32(os.Getpagesize())})
	const n = 100_000
	th, s := during(t, p, func() {
		for range n {
			unix.Getppid()
		}
	})
	expect.Equal(t, call(th, "getppid").Count, n, "calls")
	if s.Lost.Ring == 0 || !s.Lost.Any() || len(s.Slow) > mostSlow {
		t.Errorf("a page for %d events lost %d, and %d of %d are kept", n, s.Lost.Ring, len(s.Slow), mostSlow)
	}
}

func TestLackingKernels(t *testing.T) {
	real := Detect()
	for _, tt := range []struct {
		name  string
		lacks []Feature
		calls bool
		left  []string
	}{
		{"no BTF, no tracefs", []Feature{BTF, Fentry, Tracefs}, true, []string{"scheduler", "page faults"}},
		{"no BPF", []Feature{BPF, RawTracepoints, Fentry}, false, []string{"system calls", "scheduler", "page faults"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := real(BPF); err != nil && tt.calls {
				t.Skip(err)
			}
			m := fakeMachine(real, tt.lacks...)
			p, err := Start(Config{Machine: m})
			must(t, err)
			defer p.Close()
			var th Thread
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			th, s := during(t, p, func() {
				for range 10 {
					unix.Getppid()
				}
				napTwice(3)
			})
			expect.Equal(t, call(th, "getppid").Count == 10, tt.calls, "calls seen")
			var left []string
			for _, l := range s.LeftOut {
				left = append(left, l.Probe)
				if !strings.Contains(l.Why, "the test says so") {
					t.Errorf("%s is left out: %s", l.Probe, l.Why)
				}
			}
			expect.NoDiff(t, left, tt.left, "left out")
			if s.Proc.Voluntary < 3 {
				t.Errorf("/proc saw %+v of 3 naps", s.Proc)
			}
		})
	}
}

func fakeMachine(m Machine, lacks ...Feature) Machine {
	return func(f Feature) error {
		if slices.Contains(lacks, f) {
			return errors.Join(ErrMissing, errors.New("the test says so"))
		}
		return m(f)
	}
}

// In a container processes are recognised and threads have the numbers that they know; without BTF
// the scheduler is watched by tracefs.
func TestInContainer(t *testing.T) {
	if err := Detect()(BPF); err != nil {
		t.Skip(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root makes namespaces")
	}
	cmd := exec.Command(os.Args[0], "-in-container")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	out, err := cmd.Output()
	if err != nil {
		if errors.Is(err, syscall.EPERM) {
			t.Skip("no namespaces here: ", err)
		}
		t.Fatalf("%v: %s", err, out)
	}
	var r contained
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if r.Skip != "" {
		t.Skip(r.Skip)
	}
	if len(r.Remembered) > 0 {
		t.Errorf("by tracefs, %d threads that have ended are remembered: %v", len(r.Remembered), r.Remembered)
	}
	if r.PID != 1 || r.Calls != 1000 || r.Voluntary < 5 || !slices.Contains(r.Used, "scheduler: tracepoints") {
		t.Errorf("in a container, by tracefs: %+v", r)
	}
}

type contained struct {
	Skip             string
	PID              int
	Calls, Voluntary uint64
	Used             []string
	Remembered       []int
}

func container() int {
	runtime.LockOSThread()
	r := contained{PID: os.Getpid()}
	defer func() { _ = json.NewEncoder(os.Stdout).Encode(r) }()
	for _, m := range []struct{ kind, at string }{{"proc", "/proc"}, {"tracefs", "/sys/kernel/tracing"}} {
		err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		if err == nil {
			err = unix.Mount(m.kind, m.at, m.kind, 0, "")
		}
		if err != nil && !errors.Is(err, unix.EBUSY) { // then it is there already
			r.Skip = "can't mount " + m.kind + ": " + err.Error()
			return 0
		}
	}
	p, err := Start(Config{Kinds: []Kind{Calls, Scheduler}, Machine: fakeMachine(Detect(), BTF)})
	if err != nil {
		r.Used = append(r.Used, err.Error())
		return 0
	}
	p.Stage(1)
	for range 1000 {
		unix.Getppid()
	}
	napTwice(5)
	p.Stage(0)
	s, err := p.Snapshot()
	if err != nil {
		r.Used = append(r.Used, err.Error())
		return 0
	}
	th, _ := s.Thread(unix.Gettid(), 1)
	r.Calls, r.Voluntary, r.Used = call(th, "getppid").Count, th.Voluntary, s.Used
	for _, l := range s.LeftOut {
		r.Used = append(r.Used, l.Why)
	}
	r.Remembered = remembered(p, endThreads(200))
	return 0
}

// napTwice sleeps twice as often as it is asked to: one nap may be no switch.
func napTwice(n int) {
	for range 2 * n {
		_ = unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
	}
}

var update = flag.Bool("update", false, "write the names of system calls anew")

// The names are those of golang.org/x/sys/unix.
func TestNames(t *testing.T) {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "golang.org/x/sys/unix").Output()
	if err != nil {
		t.Skip("without Go:", err)
	}
	var want strings.Builder
	line := regexp.MustCompile(`(?m)^\s+SYS_(\w+)\s+= (\d+)$`)
	for _, arch := range []string{"amd64", "arm64", "riscv64"} {
		src := expect.Value(os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "zsysnum_linux_"+arch+".go")))(t)
		for _, m := range line.FindAllStringSubmatch(string(src), -1) {
			fmt.Fprintf(&want, "%s %s %s\n", arch, m[2], strings.ToLower(m[1]))
		}
	}
	if *update {
		must(t, os.WriteFile("names.txt", []byte(want.String()), 0o644))
	} else if diff := cmp.Diff(want.String(), callNames); diff != "" {
		t.Errorf("names.txt is stale: go generate (-want +got):\n%s", diff)
	}
}

func TestMayLoad(t *testing.T) {
	for _, tt := range []struct{ caps, lacks string }{
		{"000001ffffffffff", ""},
		{"0000000000200000", ""}, // CAP_SYS_ADMIN
		{"000000c000000000", ""},
		{"0000008000000000", "no CAP_PERFMON:"},
		{"0000004000000000", "no CAP_BPF:"},
		{"0000000000000000", "no CAP_BPF and no CAP_PERFMON:"},
		{"nonsense", "can't be read"},
	} {
		err := mayLoad("Name:\tx\nCapEff:\t" + tt.caps + "\n")
		if tt.lacks == "" && err != nil || tt.lacks != "" && (err == nil || !strings.Contains(err.Error(), tt.lacks)) {
			t.Errorf("%s: %v, want %q", tt.caps, err, tt.lacks)
		}
	}
}

func TestStartRefuses(t *testing.T) {
	for _, c := range []Config{{PID: 1 << 29}, {ring: 5000, Kinds: []Kind{Calls}}} {
		if p, err := Start(c); err == nil {
			t.Errorf("%+v: no error", c)
			_ = p.Close()
		}
	}
}

func TestProcessThatEnds(t *testing.T) {
	cmd := exec.Command("sh", "-c", "read x; i=0; while [ $i -lt 10000 ]; do i=$((i+1)); done; echo done; read x")
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	p, err := Start(Config{PID: cmd.Process.Pid, Machine: lackingMachine(BPF, RawTracepoints, Fentry)})
	must(t, err)
	defer p.Close()
	line := make([]byte, 5)
	_, err = io.WriteString(in, "\n")
	_, err2 := io.ReadFull(out, line)
	must(t, errors.Join(err, err2))
	last, err := p.Snapshot()
	must(t, err)
	if last.Ended || last.Proc == (Proc{}) || !p.Running() {
		t.Errorf("while it runs: ended %t, %+v", last.Ended, last.Proc)
	}
	in.Close()
	for end := time.Now().Add(time.Minute); p.Running(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it runs on")
		}
	}
	for _, when := range []string{"before", "after"} {
		s, err := p.Snapshot()
		must(t, err)
		if !s.Ended || s.Elapsed < last.Elapsed || s.Proc.On < last.Proc.On || s.Proc.Voluntary < last.Proc.Voluntary ||
			s.Proc.Minor < last.Proc.Minor {
			t.Errorf("%s somebody asks: ended %t after %v, %+v, before that %+v", when, s.Ended, s.Elapsed, s.Proc, last.Proc)
		}
		var text strings.Builder
		if err := s.WriteTable(&text); err != nil || !strings.Contains(text.String(), ", until it ended: ") {
			t.Errorf("%s somebody asks: %q, %v", when, text.String(), err)
		}
		_ = cmd.Wait() // its input ended, which is an error to sh
	}
	if q, err := Start(Config{PID: cmd.Process.Pid}); err == nil {
		t.Error("it can be watched again")
		_ = q.Close()
	}
}

func TestCalibrate(t *testing.T) {
	m := Detect()
	costs, err := Calibrate(m, Calls, Scheduler, Faults)
	must(t, err)
	want := 0
	for _, k := range []Kind{Calls, Scheduler, Faults} {
		if ways, _ := choose(m, k); len(ways) > 0 {
			want++
		}
	}
	if len(costs) != want {
		t.Fatalf("%d probes work, %d have a cost: %+v", want, len(costs), costs)
	}
	t.Log(costs)
}

func TestCalibrateWithoutAdmin(t *testing.T) {
	m := Detect()
	if err := m(BTF); err != nil || m(RawTracepoints) != nil {
		t.Skip("no eBPF, or no BTF: ", err)
	}
	runtime.LockOSThread() // capabilities are each thread's own
	defer runtime.UnlockOSThread()
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var had [2]unix.CapUserData
	must(t, unix.Capget(&head, &had[0]))
	few := had
	few[0].Effective &^= 1 << capSysAdmin
	if few == had || few[1].Effective>>(capPerfmon-32)&3 != 3 {
		t.Skip("it takes CAP_SYS_ADMIN to go without, and CAP_BPF and CAP_PERFMON to do")
	}
	must(t, unix.Capset(&head, &few[0]))
	costs, err := Calibrate(m, Calls, Scheduler, Faults)
	must(t, errors.Join(err, unix.Capset(&head, &had[0])))
	var got []string
	for _, c := range costs {
		got = append(got, c.Probe)
	}
	expect.NoDiff(t, got, []string{string(Calls), string(Faults)}, "costs")
}
