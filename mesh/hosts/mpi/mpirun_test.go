//go:build linux && (amd64 || arm64 || riscv64)

package mpi

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ebitengine/purego"
	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/mesh/hosts"
	"github.com/reprise-tt/reprise/mesh/hosts/hoststest"
	"github.com/reprise-tt/reprise/sim"
)

const (
	roleVariable  = "REPRISE_MPI_ROLE"  // what a process does instead of the tests
	dirVariable   = "REPRISE_MPI_DIR"   // a folder of the test
	stageVariable = "REPRISE_MPI_STAGE" // the stage of roleSteps in which host 2 is killed
	saveVariable  = "REPRISE_MPI_SAVE"  // where roleSteps saves what every 100th step has left
)

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		goleak.VerifyTestMain(m)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if role == "start" {
		must(roleStart(ctx))
		return
	}
	e, err := Open(ctx, Options{})
	must(err)
	must(roles[role](ctx, e))
}

func must(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

var roles = map[string]func(context.Context, *Engine) error{
	"exchange": roleExchange, "twice": roleTwice, "signals": roleSignals, "killed": roleKilled, "watch": roleWatch, "late": roleLate,
	"time": roleTime, "steps": roleSteps, "mesh": roleMesh,
}

var networks = map[string][]string{
	"default": nil,
	"tcp":     {"--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"},
}

const patience = time.Minute

func run(t testing.TB, role string, args ...string) (string, error) {
	t.Helper()
	return runIn(t, t.TempDir(), 4, role, args...)
}

func runIn(t testing.TB, dir string, n int, role string, args ...string) (string, error) {
	t.Helper()
	mpirun, err := exec.LookPath("mpirun")
	if err != nil {
		t.Skip("no mpirun: install Open MPI (Debian: openmpi-bin)")
	}
	if _, err := load(defaultLibrary); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, mpirun, append(append([]string{"--oversubscribe", "-n", strconv.Itoa(n)}, args...), os.Args[0])...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, dirVariable+"="+dir, "OMPI_ALLOW_RUN_AS_ROOT=1",
		"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// ulfm returns the arguments for fault tolerance, which Open MPI 5 has.
func ulfm(t testing.TB) []string {
	t.Helper()
	l, err := load(defaultLibrary)
	if err != nil {
		t.Skip(err)
	}
	if l["MPIX_Comm_revoke"] == 0 {
		return nil
	}
	return []string{"--with-ft", "ulfm"}
}

func needULFM(t testing.TB) []string {
	t.Helper()
	args := ulfm(t)
	if args == nil {
		t.Skip("this Open MPI has no fault tolerance: version 5 has")
	}
	return args
}

func TestExchange(t *testing.T) {
	for name, args := range networks {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, "exchange", args...)
			if err != nil || strings.Count(out, "exchanged with 4 hosts") != 4 {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func roleExchange(ctx context.Context, e *Engine) error {
	must(errors.Join(hoststest.Data(ctx, e), hoststest.Order(ctx, e), e.Close(ctx)))
	if _, err := e.Exchange(ctx, "step", nil); !errors.Is(err, hosts.ErrClosed) {
		return fmt.Errorf("after Close: %w", err)
	}
	fmt.Println("exchanged with", e.Size(), "hosts")
	return nil
}

func TestOpenTwice(t *testing.T) {
	if out, err := run(t, "twice"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func roleTwice(ctx context.Context, e *Engine) error {
	if _, err := Open(ctx, Options{}); !errors.Is(err, ErrStarted) {
		return fmt.Errorf("a second Open: %v", err)
	}
	return e.Close(ctx)
}

// A library that isn't Open MPI's (as MPICH's isn't) is refused before anything of it is called.
func TestOtherLibraries(t *testing.T) {
	for name, want := range map[string]string{
		"libnobody.so.7": "libnobody.so.7",
		"libc.so.6":      "it is no Open MPI 4 or 5",
	} {
		_, err := Open(t.Context(), Options{Library: name})
		expect.Says(t, err, ErrNoLibrary, want, "install Open MPI")
	}
	if started.Load() {
		t.Error("MPI counts as started")
	}
}

// MPI's signal handlers are removed.
func TestSignals(t *testing.T) {
	if out, err := run(t, "signals"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func roleSignals(ctx context.Context, e *Engine) error {
	var null *[4]int
	func() {
		defer func() {
			if recover() == nil {
				must(errors.New("a nil pointer could be read"))
			}
		}()
		null[e.Rank()]++
	}()
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR1)
	must(syscall.Kill(os.Getpid(), syscall.SIGUSR1))
	select {
	case <-c:
		return e.Close(ctx)
	case <-ctx.Done():
		return errors.New("a signal did not arrive")
	}
}

func TestKilled(t *testing.T) {
	t.Run("job ends", func(t *testing.T) {
		out, err := run(t, "killed") // survivors may also miss a process that mpirun ended first
		if err == nil || strings.Contains(out, "failed:") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("error", func(t *testing.T) {
		out, err := run(t, "killed", needULFM(t)...)
		if strings.Count(out, "gone: [2]") != 3 { // mpirun's own status is that of the killed one
			t.Errorf("%v\n%s", err, out)
		}
	})
}

func TestWatchKilled(t *testing.T) {
	out, err := run(t, "watch", needULFM(t)...)
	if strings.Count(out, "host 2 is gone") != 3 {
		t.Errorf("%v\n%s", err, out)
	}
}

// A process that ends before it has started MPI is not waited for: the job ends, with fault
// tolerance by an error of the others.
func TestKilledBeforeStart(t *testing.T) {
	args := ulfm(t)
	ft := args != nil
	dir := t.TempDir()
	out, err := runIn(t, dir, 4, "start", args...)
	if err == nil && !ft || strings.Contains(out, "failed:") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, rank := range []int{0, 1, 3} {
		if said, _ := os.ReadFile(endFile(dir, rank)); ft && string(said) != "[2]" {
			t.Errorf("process %d ended as %q\n%s", rank, said, out)
		}
	}
}

func roleStart(ctx context.Context) error {
	rank, err := strconv.Atoi(os.Getenv("PMIX_RANK"))
	must(err)
	dir := os.Getenv(dirVariable)
	begun := func(rank int) string { return filepath.Join(dir, fmt.Sprint("begun", rank)) }
	if rank == 2 {
		for _, other := range []int{0, 1, 3} {
			must(waitFor(ctx, begun(other)))
		}
		must(sleep(ctx, 10*watchEvery))
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	must(os.WriteFile(begun(rank), nil, 0o600))
	_, err = Open(ctx, Options{})
	var lost *hosts.LostError
	if !errors.As(err, &lost) {
		return fmt.Errorf("start without a process: %w", err)
	}
	return noteLost(ctx, rank, 4, lost)
}

func roleWatch(ctx context.Context, e *Engine) error {
	watched, stop := e.Watch(ctx)
	defer stop()
	_, err := e.Exchange(watched, "step", nil)
	must(err)
	if e.Rank() == 2 {
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	<-watched.Done()
	lost := (*hosts.LostError)(nil)
	if err := context.Cause(watched); !errors.As(err, &lost) || !slices.Equal(lost.Ranks, []int{2}) {
		return fmt.Errorf("watch of a killed process: %v", err)
	}
	fmt.Println("host 2 is gone")
	return noteLost(ctx, e.Rank(), e.Size(), lost)
}

func roleKilled(ctx context.Context, e *Engine) (err error) {
	for i := range 1000 {
		if i == 500 && e.Rank() == 2 {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		if _, err = e.Exchange(ctx, "step", nil); err != nil {
			break
		}
	}
	var lost *hosts.LostError
	if !errors.As(err, &lost) || !slices.Contains(lost.Ranks, 2) {
		return fmt.Errorf("exchange with a killed process: %v", err)
	}
	if _, err := e.Exchange(ctx, "step", nil); !errors.Is(err, hosts.ErrBroken) {
		return fmt.Errorf("afterwards: %v", err)
	}
	fmt.Println("gone:", lost.Ranks)
	return e.Close(ctx)
}

func TestLate(t *testing.T) {
	if out, err := run(t, "late", needULFM(t)...); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func roleLate(ctx context.Context, e *Engine) error {
	left := filepath.Join(os.Getenv(dirVariable), "left") // exists when host 0 has left
	if !e.FaultTolerant() {
		return errors.New("mpirun --with-ft ulfm is not fault tolerant")
	}
	mine := ctx
	switch e.Rank() {
	case 0: // it waits for a host that doesn't come
		var stop context.CancelFunc
		mine, stop = context.WithTimeout(ctx, 100*time.Millisecond)
		defer stop()
	case 2:
		must(waitFor(ctx, left))
	}
	_, err := e.Exchange(mine, "step", nil)
	if e.Rank() == 0 {
		must(os.WriteFile(left, nil, 0o600))
	}
	if err == nil && e.Rank() == 2 { // it had what the others had sent before they left
		_, err = e.Exchange(mine, "step", nil)
	}
	var lost *hosts.LostError
	if !errors.As(err, &lost) || errors.Is(err, context.DeadlineExceeded) != (e.Rank() == 0) {
		return fmt.Errorf("host %d: %v", e.Rank(), err)
	}
	return e.Close(ctx)
}

type starts []*os.File

func startsFile(rank int) string {
	return filepath.Join(os.Getenv(dirVariable), fmt.Sprint("starts", rank))
}

func openStarts(n int) (starts, error) {
	s, errs := make(starts, n), make([]error, n)
	for rank := range s {
		s[rank], errs[rank] = os.OpenFile(startsFile(rank), os.O_WRONLY|os.O_APPEND, 0)
	}
	return s, errors.Join(errs...)
}

func (s starts) reached(n int64) error {
	for rank, f := range s {
		st, err := f.Stat()
		if err != nil {
			return err
		}
		if st.Size() < n {
			return fmt.Errorf("a replay began before process %d had come: it has asked for %d of %d", rank, st.Size(), n)
		}
	}
	return nil
}

func TestSteps(t *testing.T) {
	out, err := run(t, "steps")
	if err != nil || strings.Count(out, "1000 steps") != 4 {
		t.Errorf("%v\n%s", err, out)
	}
}

// In whatever stage a process is killed, the job fails: with an error that names it on every other
// process, or by mpirun.
func TestKilledInEachStage(t *testing.T) {
	args, ft := ulfm(t), ulfm(t) != nil
	for _, stage := range effort.Of([]string{"replay"}, []string{"join", "replay"}, []string{"open", "join", "capture", "replay",
		"wait", "compare memory", "close"}) {
		t.Run(stage, func(t *testing.T) {
			dir, done, want := t.TempDir(), 0, "[2]"
			out, err := runIn(t, dir, 4, "steps", append(args, "-x", stageVariable+"="+stage)...)
			if stage == "close" { // all have done everything
				done, want = 4, "closed"
			}
			if n := strings.Count(out, "1000 steps"); err == nil && (!ft || stage != "close") || n != done {
				t.Errorf("%d processes made all steps, want %d: %v\n%s", n, done, err, out)
			}
			for _, rank := range []int{0, 1, 3} {
				if said, _ := os.ReadFile(endFile(dir, rank)); ft && string(said) != want {
					t.Errorf("process %d ended as %q, want %q\n%s", rank, said, want, out)
				}
			}
		})
	}
}

func endFile(dir string, rank int) string { return filepath.Join(dir, fmt.Sprint("end", rank)) }

// When the first process ends with an error mpirun ends all, so noteLost waits.
func noteLost(ctx context.Context, own, size int, lost *hosts.LostError) error {
	dir := os.Getenv(dirVariable)
	if err := os.WriteFile(endFile(dir, own), []byte(fmt.Sprint(lost.Ranks)), 0o600); err != nil {
		return err
	}
	for rank := range size {
		if slices.Contains(lost.Ranks, rank) {
			continue
		}
		if err := waitFor(ctx, endFile(dir, rank)); err != nil {
			return fmt.Errorf("process %d has not noticed: %w", rank, err)
		}
	}
	return nil
}

func waitFor(ctx context.Context, path string) error {
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		if err := sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A job goes on from the last step that all processes have saved.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(saveVariable, dir)
	if out, err := run(t, "steps", "-x", stageVariable+"=replay", "-x", saveVariable); err == nil {
		t.Errorf("a process was to be killed\n%s", out)
	}
	out, err := run(t, "steps", "-x", saveVariable)
	if err != nil || strings.Count(out, "1000 steps") != 4 || strings.Count(out, "from step 400") != 4 {
		t.Errorf("%v\n%s", err, out)
	}
}

type saved map[uint64]uint32

func savedFile(rank int) string {
	return filepath.Join(os.Getenv(saveVariable), fmt.Sprint("host", rank))
}

func loadSaved(rank int) (s saved, last uint64, err error) {
	b, err := os.ReadFile(savedFile(rank))
	if errors.Is(err, fs.ErrNotExist) {
		return saved{0: 0}, 0, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	for step := range s {
		last = max(last, step)
	}
	return s, last, err
}

func (s saved) save(rank int, step uint64, value uint32) error {
	for old := range s {
		if old+savedEvery < step {
			delete(s, old)
		}
	}
	s[step] = value
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	tmp := savedFile(rank) + ".new"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, savedFile(rank))
}

const savedEvery = 100

type replayer func() error

func (r replayer) Replay(context.Context) error { return r() }

func roleSteps(ctx context.Context, e *Engine) (err error) {
	finish := func() error { // MPI_Finalize may wait for ever
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return e.Close(short)
	}
	defer func() {
		if err != nil {
			e.Leave()
			if lost := (*hosts.LostError)(nil); errors.As(err, &lost) {
				err = errors.Join(err, noteLost(ctx, e.Rank(), e.Size(), lost))
			}
			_ = finish()
		}
	}()
	stage := func(name string) {
		if e.Rank() == 2 && os.Getenv(stageVariable) == name {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	stage("open")
	card := sim.Blackhole()
	m, err := mesh.Open(ctx, mesh.Cards(card), mesh.Shape{1}, mesh.Unlinked())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close(context.WithoutCancel(ctx))) }()
	if err := os.WriteFile(startsFile(e.Rank()), nil, 0o600); err != nil {
		return err
	}
	stage("join")
	g, err := hosts.Join(ctx, e, m)
	if err != nil {
		return err
	}
	stage("capture")
	c, err := hoststest.NewCounter(ctx, m, 1)
	if err != nil {
		return err
	}
	var kept saved
	first := uint64(0)
	if os.Getenv(saveVariable) != "" {
		var last uint64
		if kept, last, err = loadSaved(e.Rank()); err != nil {
			return err
		}
		if first, err = g.Resume(ctx, last); err != nil {
			return err
		}
		value, ok := kept[first]
		if !ok {
			return fmt.Errorf("step %d is not among the saved ones: %v", first, kept)
		}
		if err := c.Set(ctx, value); err != nil {
			return err
		}
		fmt.Println("from step", first)
	}
	counts, err := openStarts(e.Size())
	if err != nil {
		return err
	}
	const steps = 1000
	random := rand.New(rand.NewPCG(uint64(e.Rank()), 23))
	for i := first; i < steps; i++ {
		if i == steps/2 {
			stage("replay")
		}
		if kept != nil && i > first && i%savedEvery == 0 {
			v, err := c.Value(ctx)
			if err != nil {
				return err
			}
			if err := kept.save(e.Rank(), i, v); err != nil {
				return err
			}
		}
		time.Sleep(time.Duration(random.IntN(200)) * time.Microsecond)
		if _, err := counts[e.Rank()].Write([]byte{'r'}); err != nil {
			return err
		}
		begins := replayer(func() error { return errors.Join(counts.reached(int64(i-first+1)), c.Trace.Replay(ctx)) })
		if err := g.Replay(ctx, begins); err != nil {
			return err
		}
	}
	stage("wait")
	if err := g.Wait(ctx, c.Queue); err != nil {
		return err
	}
	stage("compare memory")
	if err := g.InStep(ctx); err != nil {
		return err
	}
	if n, err := c.Value(ctx); err != nil || n != steps {
		return fmt.Errorf("the trace ran %d times, want %d: %w", n, steps, err)
	}
	if err := c.Release(ctx); err != nil {
		return err
	}
	fmt.Println(steps, "steps")
	stage("close")
	err = finish()
	return errors.Join(err, os.WriteFile(endFile(os.Getenv(dirVariable), e.Rank()), []byte("closed"), 0o600))
}

func TestGalaxyOverProcesses(t *testing.T) {
	effort.Raced(t)
	for _, n := range effort.Of([]int{4}, []int{4}, []int{2, 4, 8}) {
		out, err := runIn(t, t.TempDir(), n, "mesh")
		if err != nil || strings.Count(out, "32 chips") != n {
			t.Errorf("%d processes: %v\n%s", n, err, out)
		}
	}
}

func roleMesh(ctx context.Context, e *Engine) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	addresses, err := e.Exchange(ctx, "addresses", []byte(l.Addr().String()))
	must(err)
	var all []string
	for _, a := range addresses {
		all = append(all, string(a))
	}
	conns, err := sim.Meet(ctx, l, e.Rank(), all, []byte("test"))
	must(err)
	machine := sim.GalaxyBlackhole(sim.OfPart(sim.Part{Index: e.Rank(), Count: e.Size(), Conns: conns}))
	defer machine.Close()
	m, err := mesh.Open(ctx, mesh.Cards(machine.Cards()...), mesh.Shape{8, 4}, mesh.Across(e))
	must(err)
	g, err := hosts.Join(ctx, e, m)
	must(err)
	const size, page = 1024, 256
	b, err := m.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, Size: size, PageSize: page,
		Name: "b"}})
	must(err)
	links, err := m.NewLinks(ctx, chip.Core{X: 1, Y: 1})
	must(err)
	sum, err := links.AllReduce(ctx, b, mesh.SumInt32)
	must(err)
	q := m.Queue(0)
	trace, err := q.Capture(ctx, "sum", func(_ context.Context, r *mesh.Recorder) error {
		return errors.Join(r.Run(sum), r.Run(links.Barrier()))
	})
	must(err)
	total := uint32(0)
	for i, c := range m.Chips() {
		total += uint32(i + 1)
		if c.Device == nil {
			continue
		}
		data := make([]byte, 0, size)
		for k := range uint32(size / 4) {
			data = binary.LittleEndian.AppendUint32(data, uint32(i+1)*(k+1))
		}
		must(q.On(c).Write(ctx, b.On(c), 0, data))
	}
	must(errors.Join(q.Run(ctx, sum), g.Replay(ctx, trace), g.Replay(ctx, trace), g.Wait(ctx, q)))
	for _, c := range m.Here() {
		got := make([]byte, size)
		must(q.On(c).Read(ctx, b.On(c), 0, got))
		for k := range uint32(size / 4) {
			if v, want := binary.LittleEndian.Uint32(got[4*k:]), total*(k+1)*32*32; v != want {
				return fmt.Errorf("chip %v: number %d is %d, want %d", c.Coord, k, v, want)
			}
		}
	}
	_, err = e.Exchange(ctx, "end", nil) // no chip ends while another one needs its links
	must(err)
	fmt.Println(m.Size(), "chips")
	return errors.Join(m.Close(ctx), e.Close(ctx))
}

// BenchmarkExchange is an exchange of 4 hosts with each engine, and the all-gathers of 64 B of MPI
// in the same processes: non-blocking and polled, as the engine's, and MPI's blocking one.
func BenchmarkExchange(b *testing.B) {
	all := maps.Clone(networks)
	if ft := ulfm(b); ft != nil {
		for name, args := range networks {
			all[name+", ulfm"] = append(slices.Clone(ft), args...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b.Run(name, func(b *testing.B) {
			out, err := run(b, "time", all[name]...)
			var exchange, gather, blocking float64
			for line := range strings.Lines(out) {
				_, _ = fmt.Sscanf(line, "exchange %f gather %f blocking %f", &exchange, &gather, &blocking)
			}
			if err != nil || blocking == 0 {
				b.Fatalf("%v\n%s", err, out)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(exchange, "ns/exchange")
			b.ReportMetric(gather, "ns/gather")
			b.ReportMetric(blocking, "ns/MPI_Allgather")
		})
	}
	b.Run("in process", func(b *testing.B) {
		engines, err := hosts.InProcess(4)
		if err != nil {
			b.Fatal(err)
		}
		for _, err := range hoststest.Each(engines, func(e *hosts.Local) error {
			for range b.N {
				if _, err := e.Exchange(b.Context(), "step", nil); err != nil {
					return err
				}
			}
			return nil
		}) {
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

func allGather(w *world, send, recv []byte) (func() error, error) {
	h, err := purego.Dlopen(defaultLibrary, purego.RTLD_NOW)
	if err != nil {
		return nil, err
	}
	w.l["MPI_Allgather"], err = purego.Dlsym(h, "MPI_Allgather")
	return func() error {
		return w.l.call("MPI_Allgather", address(send), uintptr(len(send)), w.l["ompi_mpi_byte"], address(recv), uintptr(len(send)),
			w.l["ompi_mpi_byte"], w.comm)
	}, err
}

func roleTime(ctx context.Context, e *Engine) error {
	send, recv := e.frames[:frameSize], e.frames[frameSize:]
	blocking, err := allGather(e.c.(*world), send, recv)
	must(err)
	const rounds = 2000
	ways := []struct {
		name string
		run  func() error
	}{
		{"exchange", func() error { _, err := e.Exchange(ctx, "step", nil); return err }},
		{"gather", func() error { return e.gather(ctx, "step", send, recv, nil) }},
		{"blocking", blocking},
	}
	times := map[string]time.Duration{}
	for range 2 { // the first one warms up
		for _, way := range ways {
			start := time.Now()
			for range rounds {
				must(way.run())
			}
			times[way.name] = time.Since(start) / rounds
		}
	}
	if e.Rank() == 0 {
		fmt.Printf("exchange %d gather %d blocking %d\n", times["exchange"], times["gather"], times["blocking"])
	}
	return e.Close(ctx)
}
