//go:build linux

package cards_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/firmware/relay"
	"github.com/reprise-tt/reprise/hwtest"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/driver/drivertest"
	"github.com/reprise-tt/reprise/sim/serve"
	"github.com/reprise-tt/reprise/sim/serve/cards"
)

// Requests, in the order of their numbers on the wire.
const (
	opProcess = serve.OpService + iota
	opJoin
	opFile
	opOpen
	opClose
	opIoctl
	opMmap
	opUnmap
	_
	opLast
)

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == asUser {
		os.Exit(user(os.Args[2], os.Args[3]))
	}
	goleak.VerifyTestMain(m)
}

var emulated = map[string]func(...sim.Option) *sim.Card{"wormhole": sim.Wormhole, "blackhole": sim.Blackhole}

func onCards(t *testing.T, run func(*testing.T, *served)) {
	for name, card := range emulated {
		t.Run(name, func(t *testing.T) { run(t, offer(t, card(sim.Resident()))) })
	}
}

type served struct {
	*sim.Card
	path string
}

func offer(t *testing.T, card *sim.Card) *served {
	t.Helper()
	d := value(card.Driver())(t)
	s := &served{Card: card, path: filepath.Join(t.TempDir(), "card")}
	l := value(net.ListenUnix("unix", &net.UnixAddr{Name: s.path, Net: "unix"}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- cards.Serve(ctx, l, d, 0) }()
	t.Cleanup(func() {
		cancel()
		must(t, errors.Join(<-ended, card.Close()))
	})
	return s
}

var must = expect.Must

func value[V any](v V, err error) func(expect.TB) V { return expect.Value(v, err) }

type thinking struct {
	*drivertest.Function
	asked, goOn, closed chan struct{}
}

func (f *thinking) ConfigRead(off uint32) uint32 {
	if off == 0 {
		f.asked <- struct{}{}
		<-f.goOn
	}
	return f.Function.ConfigRead(off)
}

func (f *thinking) Close() error {
	close(f.closed)
	return f.Function.Close()
}

func TestEndInARequest(t *testing.T) {
	f := &thinking{drivertest.New(chip.Blackhole), make(chan struct{}), make(chan struct{}), make(chan struct{})}
	d := value(driver.New(driver.Config{Arch: chip.Blackhole, Start: func() (driver.Function, error) { return f, nil }}))(t)
	at := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "card"), Net: "unix"}
	l := value(net.ListenUnix("unix", at))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- cards.Serve(ctx, l, d, 0) }()
	dial := func() *serve.Conn {
		u := value(net.DialUnix("unix", nil, at))(t)
		c := serve.NewConn(u)
		must(t, c.Greet(serve.ServiceCard, -1))
		return c
	}
	say := func(c *serve.Conn, h serve.Head) (val uint64) {
		t.Helper()
		r, out, err := c.Call(&h, nil)
		must(t, errors.Join(err, r.Err(out)))
		return r.Val
	}
	process, work := dial(), dial()
	defer work.Close()
	say(work, serve.Head{Op: opJoin, Val: say(process, serve.Head{Op: opProcess})})
	say(work, serve.Head{Op: opOpen, Val: 2})
	ids := serve.Head{Op: opIoctl, Object: 1, Val: kabi.IoctlGetDeviceInfo}
	must(t, work.Send(&ids, append([]byte{20, 0, 0, 0}, make([]byte, 20)...), -1))
	<-f.asked
	if err := process.Close(); err != nil { // the process ends
		t.Fatal(err)
	}
	select {
	case <-f.closed:
		t.Error("the card was closed in the middle of a request")
	case <-time.After(20 * time.Millisecond): // if it is wrong it happens at once
	}
	close(f.goOn)
	if n := d.Node(0).OpenFiles(); n > 1 {
		t.Errorf("%d files", n)
	}
	<-f.closed
	cancel()
	must(t, <-ended)
}

const asUser = "reprise-card-user"

func user(what, path string) int {
	var c kmd.Target = cards.Socket(path)
	what, far := strings.CutPrefix(what, "far-")
	if far {
		d, err := target.Parse("far:socket:"+path, nil)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		c = d.Open()
	}
	if err := hwtest.Victim(context.Background(), c, what == "once", os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

const files = 2*hwtest.VictimQueues + 1

func (s *served) start(t *testing.T, what string) (*exec.Cmd, *bufio.Scanner, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(os.Args[0], asUser, what, s.path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	expect.Must(t, err)
	return cmd, bufio.NewScanner(out), &stderr
}

func TestKilledProcess(t *testing.T) {
	onCards(t, func(t *testing.T, s *served) {
		d := value(s.Driver())(t)
		free := s.resources(t, true)
		for range 2 {
			victim, lines, stderr := s.start(t, "forever")
			for lines.Scan() && lines.Text() != hwtest.VictimRunning {
			}
			expect.Equal(t, d.Node(0).OpenFiles(), files, "open files, which are the victim's")
			if got := s.resources(t, false); !got.locked || got.windows >= free.windows {
				t.Errorf("the victim holds nothing: %+v, and free are %+v", got, free)
			}
			c := kmd.Inspect(t.Context(), cards.Socket(s.path))
			if len(c.Holders) != 1 || c.Holders[0].PID != victim.Process.Pid || c.Holders[0].Files != files || c.Holders[0].Name == "" {
				t.Errorf("holders %v, want process %d with %d files", c.Holders, victim.Process.Pid, files)
			}
			must(t, victim.Process.Kill())
			expect.Says(t, victim.Wait(), nil, "killed")
			if stderr.Len() > 0 {
				t.Errorf("the victim: %s", stderr)
			}
			s.quiet(t)
			expect.Equal(t, s.resources(t, true), free, "held after the victim's end")

			second, _, stderr := s.start(t, "once")
			if err := second.Wait(); err != nil {
				t.Errorf("the second process: %v: %s", err, stderr)
			}
		}
	})
}

func TestKilledProcessOfFarChip(t *testing.T) {
	effort.Raced(t)
	m := sim.N300(sim.Resident())
	t.Cleanup(func() { must(t, m.Close()) })
	s := offer(t, m.Card(0))
	d := value(s.Driver())(t)
	for range 3 {
		victim, lines, stderr := s.start(t, "far-forever")
		for lines.Scan() && lines.Text() != hwtest.VictimRunning {
		}
		if lines.Text() != hwtest.VictimRunning {
			t.Fatalf("the victim doesn't run: %s", stderr)
		}
		time.Sleep(2 * time.Millisecond) // somewhere in its work
		must(t, victim.Process.Kill())
		if err := victim.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("the victim ended with %v: %s", err, stderr)
		}
		for deadline := time.Now().Add(20 * time.Second); d.Node(0).OpenFiles() != 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d files are still open", d.Node(0).OpenFiles())
			}
		}
		near := value(kmd.Open(t.Context(), s.Card))(t)
		ch := s.Chip().Topology()
		for x := range uint8(10) {
			for y := range uint8(12) {
				if xy := (chip.XY{X: x, Y: y}); ch.Tile(xy).Kind == chip.Ethernet { // of which one carried the queues
					v, err := near.Read32(xy, relay.State)
					for deadline := time.Now().Add(20 * time.Second); err == nil && v == relay.Running && time.Now().Before(deadline); {
						time.Sleep(time.Millisecond) // it ends at its next look
						v, err = near.Read32(xy, relay.State)
					}
					if err != nil || v == relay.Running {
						t.Errorf("the program on Ethernet tile %v still runs: %v", xy, err)
					}
				}
			}
		}
		must(t, near.Close())
		second, _, stderr := s.start(t, "far-once")
		if err := second.Wait(); err != nil {
			t.Fatalf("the second process: %v: %s", err, stderr)
		}
		for i := range m.Spec().Chips {
			if err := m.Chip(i).Fault(); err != nil {
				t.Fatalf("chip %d: %v", i, err)
			}
		}
	}
}

func (s *served) quiet(t *testing.T) {
	t.Helper()
	d := value(s.Driver())(t)
	for deadline := time.Now().Add(20 * time.Second); d.Node(0).OpenFiles() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d files are still open", d.Node(0).OpenFiles())
		}
	}
	held := map[chip.XY]bool{}
	for _, c := range queueCores(s.Chip().Topology()) {
		xy := value(s.Chip().Topology().Virtual(c))(t)
		held[xy] = true
	}
	var before []uint64
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if err := s.Chip().Fault(); err != nil {
			t.Fatalf("the chip: %v", err)
		}
		var now []uint64
		for _, c := range s.Chip().Cores() {
			now = append(now, c.Retired)
			if held[c.Virtual] {
				t.Fatalf("processor %v of the queue core at %v isn't in reset", c.Core, c.Virtual)
			}
		}
		if len(now) > 0 && slices.Equal(now, before) {
			return
		}
		if before = now; time.Now().After(deadline) {
			t.Fatal("processors still run")
		}
	}
}

// queueCores are the cores of the command queues (package dispatch, queueCores).
func queueCores(c *chip.Chip) (l []chip.Core) {
	w, h := c.Grid()
	for i := range 2 * hwtest.VictimQueues {
		if c.Arch() == chip.Wormhole {
			l = append(l, chip.Core{X: i, Y: h - 1})
		} else {
			l = append(l, chip.Core{X: w - 1, Y: i})
		}
	}
	return l
}

type resources struct {
	windows, regions int
	locked           bool
}

// Outbound regions are counted only if nothing runs (see hwtest.Victim).
func (s *served) resources(t *testing.T, quiet bool) (r resources) {
	t.Helper()
	d := value(kmd.Open(t.Context(), s.Card))(t)
	var err error
	for ; err == nil; r.windows++ {
		_, err = d.OpenWindow(2<<20, kmd.WriteCombined)
	}
	expect.Fails(t, err, kmd.ErrBusy, "after %d windows", r.windows)
	for err = nil; err == nil && quiet; r.regions++ {
		_, err = d.PinHostMemory(4096)
	}
	if quiet && !errors.Is(err, kmd.ErrBusy) {
		t.Errorf("after %d pins: %v", r.regions, err)
	}
	if _, r.locked, err = d.TestLock(kmd.LockPCIeDMA); err != nil {
		t.Error(err)
	}
	must(t, d.Close())
	return r
}

func message(h serve.Head, payload ...byte) []byte {
	b := make([]byte, serve.HeadSize)
	h.Put(b)
	return append(b, payload...)
}

// The fuzzer shows 0 executions per second while both of its workers minimize inputs, for up to a
// minute each: -fuzzminimizetime 10x ends that.
func FuzzServer(f *testing.F) {
	open := message(serve.Head{Op: opOpen, Val: 2})
	mmap := message(serve.Head{Op: opMmap, Object: 1, Val: 4096})
	f.Add([]byte{}, message(serve.Head{Op: opProcess}))
	f.Add(open, message(serve.Head{Op: opIoctl, Object: 1, Size: 16, Val: 0xFA05}, make([]byte, 16)...))
	f.Add(open, append(mmap, message(serve.Head{Op: serve.OpLoad, Width: 4, Object: 2})...))
	f.Add(open, append(mmap, message(serve.Head{Op: serve.OpRead, Object: 2, Val: 1 << 40})...))
	f.Add(open, append(mmap, message(serve.Head{Op: opUnmap, Object: 2})...))
	f.Add(open, append(message(serve.Head{Op: opLast, Object: 1}), message(serve.Head{Op: opClose, Object: 1})...))
	f.Add(open, message(serve.Head{Op: opIoctl, Object: 1, Size: 40, Off: 1 << 60, Val: 0xFA07}, make([]byte, 40)...))
	f.Add(message(serve.Head{Op: opFile, Size: 4}, []byte("proc")...), message(serve.Head{Op: serve.OpWrite, Size: 1 << 31}))
	card := sim.Blackhole()
	d := expect.Value(card.Driver())(f)
	f.Cleanup(func() { _ = card.Close() }) // its last file is closed
	f.Fuzz(func(t *testing.T, first, then []byte) {
		// Each input has a server of its own: nothing of one happens during the next, whose
		// coverage would be taken for new.
		l := value(net.ListenUnix("unix", &net.UnixAddr{Net: "unix"}))(t)
		at, ok := l.Addr().(*net.UnixAddr)
		if !ok {
			t.Fatalf("address %v", l.Addr())
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- cards.Serve(ctx, l, d, 0) }()
		defer func() {
			cancel()
			must(t, <-ended)
		}()
		dial := func() *net.UnixConn {
			c := value(net.DialUnix("unix", nil, at))(t)
			must(t, c.SetDeadline(time.Now().Add(10*time.Second)))
			return c
		}
		greeted := func() (*net.UnixConn, *serve.Conn) {
			u := dial()
			c := serve.NewConn(u)
			must(t, c.Greet(serve.ServiceCard, -1))
			return u, c
		}
		call := func(c *serve.Conn, h serve.Head) uint64 {
			r, out, err := c.Call(&h, nil)
			must(t, errors.Join(err, r.Err(out)))
			return r.Val
		}
		_, process := greeted()
		defer process.Close()
		token := call(process, serve.Head{Op: opProcess})
		work, c := greeted()
		call(c, serve.Head{Op: opJoin, Val: token})
		bare, _ := greeted()
		rude := dial()
		for _, in := range []struct {
			c *net.UnixConn
			b []byte
		}{{work, first}, {work, then}, {bare, then}, {rude, then}} {
			_, _ = in.c.Write(in.b) // the server may have hung up
		}
		for _, c := range []*net.UnixConn{work, bare, rude} {
			_ = c.CloseWrite()                                           // the same
			_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // an exclusive open waits for its own process
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
		_ = process.Close()
		for end := time.Now().Add(10 * time.Second); d.Node(0).OpenFiles() != 0; time.Sleep(50 * time.Microsecond) {
			if time.Now().After(end) {
				t.Fatal("the client's files stay open")
			}
		}
	})
}
