package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/hwtest/vm/inside"
	"github.com/reprise-tt/reprise/kmd"
)

const (
	module   = "/tenstorrent.ko"
	commands = "/commands" // one a line; run with the driver loaded
)

func main() {
	if os.Getpid() != 1 {
		if err := other(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "guest:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(); err != nil {
		fmt.Println("FAIL", err)
	}
	fmt.Println("DONE")
	inside.PowerOff()
}

func other(args []string) error {
	if len(args) == 0 || builtin(args[0]) == nil {
		return errors.New("this is the first program of a virtual machine; run it nowhere else")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return builtin(args[0])(ctx, args[1:])
}

func run() error {
	if err := inside.Mount(); err != nil {
		return err
	}
	dirs, err := filepath.Glob("/sys/bus/pci/devices/*")
	if err != nil {
		return err
	}
	cards := 0
	for _, dir := range dirs {
		if v, err := os.ReadFile(dir + "/vendor"); err != nil || strings.TrimSpace(string(v)) != "0x1e52" {
			continue
		}
		cards++
		look(dir)
	}
	fmt.Printf("CARDS %d\n", cards)
	if cards == 0 {
		return errors.New("there is no card on the PCI bus")
	}
	return drive()
}

func drive() error {
	if err := inside.Load(module); errors.Is(err, os.ErrNotExist) {
		fmt.Println("SKIP driver: the machine was given no tenstorrent.ko")
		return nil
	} else if err != nil {
		return err
	}
	all := nodes()
	if len(all) == 0 {
		return fmt.Errorf("the driver has made no node: %w", os.ErrNotExist)
	}
	fmt.Println("PASS driver:", strings.Join(all, " "))
	c, err := os.Open(commands)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer c.Close()
	for s := bufio.NewScanner(c); s.Scan(); {
		words := strings.Fields(s.Text())
		if len(words) == 0 {
			continue
		}
		if builtin(words[0]) != nil {
			words = append([]string{self}, words...)
		}
		cmd := exec.Command(words[0], words[1:]...)
		// A pipe keeps the command from its interactive display.
		out := struct{ io.Writer }{os.Stdout}
		cmd.Stdout, cmd.Stderr = out, out
		cmd.Env = []string{"HOME=/tmp", "PATH=/"}
		passes(s.Text(), cmd.Run)
	}
	return nil
}

// builtin returns a command of this program, or nil.
func builtin(name string) func(context.Context, []string) error {
	return map[string]func(context.Context, []string) error{
		"hwtest": suite, "victim": victim, hwtest.VictimCommand: victim, "life": life, "keep": keep, "differ": differ,
	}[name]
}

const self = "/proc/self/exe"

// patience is the limit of a case, as the machine may be a slow emulation.
const patience = 10 * time.Minute

// suite runs the conformance suite: hwtest and the flags of reprise hwtest.
func suite(ctx context.Context, args []string) error {
	if code := hwtest.Main(ctx, append([]string{"-timeout", patience.String()}, args...), os.Stdout, os.Stderr); code != 0 {
		return fmt.Errorf("exit code %d", code)
	}
	return nil
}

// victim uses a card until it is killed: victim DEVICE [--once].
func victim(ctx context.Context, args []string) error {
	return suite(ctx, append([]string{hwtest.VictimCommand}, args...))
}

const driverDir = "/sys/bus/pci/drivers/tenstorrent"

func nodes() []string {
	l, err := filepath.Glob("/dev/tenstorrent/[0-9]*")
	if err != nil {
		return nil
	}
	slices.SortFunc(l, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	return l
}

// life is what happens to a card beside its use. Each case leaves the cards as it found them.
func life(ctx context.Context, _ []string) error {
	all := nodes()
	if len(all) == 0 {
		return errors.New("no card has a node")
	}
	d, err := target.Parse(all[0], nil)
	if err != nil {
		return err
	}
	l := &lives{nodes: all, node: all[0], bdf: kmd.Inspect(ctx, kmd.Path(all[0])).BDF}
	var cases rig.Table
	for _, c := range []struct {
		name string
		run  func(*rig.T)
	}{
		{"unbind and bind", l.bind},
		{"unbind under an open card", l.unbindOpen},
		{"unbind under a device at work", l.unbindBusy},
		{"unload and load the driver", l.module},
		{"process killed in the middle, then the next one", l.killed},
		{"process killed with the card open exclusively", l.killedExclusive},
		{"two processes have a card open", l.two},
		{"reset by the user's own means", l.userReset},
		{"reset under a device at work", l.resetBusy},
		{"all cards at the same time", l.together},
	} {
		cases.Add(c.name, "a card outlives what happens to it beside its use", c.run).Layer = "life"
	}
	rep, err := hwtest.Run(ctx, hwtest.Config{Settings: rig.Settings{Limit: patience}, Devices: []*target.Device{d}, Cases: cases,
		Done: func(r hwtest.Result) {
			passes("life: "+r.Name, func() error {
				switch r.Outcome {
				case hwtest.Skip:
					return fmt.Errorf("%s: %w", r.Reason, errors.ErrUnsupported)
				case hwtest.Fail:
					return errors.New(strings.Join(r.Log, "; "))
				}
				return nil
			})
		}})
	if err == nil && rep.Failed > 0 {
		err = fmt.Errorf("%d of %d cases failed", rep.Failed, len(cases))
	}
	return err
}

type lives struct {
	nodes     []string
	node, bdf string // of the first one
}

// passes reports a check's result on the console. Skipped ones pass.
func passes(what string, check func() error) bool {
	start := time.Now()
	err := check()
	took := time.Since(start).Round(time.Microsecond)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		fmt.Printf("SKIP %s: %v\n", what, err)
	case err != nil:
		fmt.Printf("FAIL %s (%v): %v\n", what, took, err)
		return false
	default:
		fmt.Printf("PASS %s (%v)\n", what, took)
	}
	return true
}

func (l *lives) open(t *rig.T, opts ...kmd.Option) (*kmd.Device, error) {
	return kmd.Open(t.Ctx, kmd.Path(l.node), opts...)
}

func (l *lives) opened(t *rig.T) *kmd.Device {
	d, err := l.open(t)
	t.OK(err)
	return d
}

func (l *lives) use(t *rig.T, node string) {
	if out, err := exec.CommandContext(t.Ctx, self, "victim", node, "--once").CombinedOutput(); err != nil {
		t.Errorf("use %s: %v: %s", node, err, out)
	}
}

func within(t *rig.T, what string, ok func() bool) {
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 10 seconds", what)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (l *lives) unbind(t *rig.T) {
	t.OK(os.WriteFile(driverDir+"/unbind", []byte(l.bdf), 0))
	within(t, l.node+" goes", func() bool { return !exists(l.node) })
}

// rebind binds the driver again, whose node has the first free number, and uses the card.
func (l *lives) rebind(t *rig.T) {
	t.OK(os.WriteFile(driverDir+"/bind", []byte(l.bdf), 0))
	within(t, l.node+" comes back", func() bool { return exists(l.node) })
	l.use(t, l.node)
}

func (l *lives) bind(t *rig.T) {
	l.unbind(t)
	t.Fails("open without a driver", rig.Error(l.open(t)), kmd.ErrNoDevice)
	l.rebind(t)
}

// unbindOpen takes the driver from under an open card.
func (l *lives) unbindOpen(t *rig.T) {
	d := l.opened(t)
	defer d.Close()
	tile, err := worker(d.Arch())
	var word [4]byte
	t.OK(err, d.Read(tile, 0x20000, word[:]))
	l.unbind(t)
	_, _, lock := d.TestLock(kmd.LockPCIeDMA)
	t.Fails("read through a mapping", d.Read(tile, 0x20000, word[:]), kmd.ErrDeviceLost)
	t.Fails("ask for a lock", lock, kmd.ErrDeviceLost)
	t.OK(d.Close())
	l.rebind(t)
}

func worker(a chip.Arch) (chip.XY, error) {
	t, err := chip.New(a, chip.Harvesting{})
	if err != nil {
		return chip.XY{}, err
	}
	return t.Virtual(chip.Core{})
}

// loses takes the card from under a device at work, which has to notice and to close in time.
func (l *lives) loses(t *rig.T, take func(*rig.T)) {
	u := t.Unclosed(kmd.Path(l.node))
	defer u.Dev.Close(t.Ctx)
	b := u.DRAMBuffer(4096, 64)
	u.Write(b, make([]byte, 4096))
	take(t)
	t.Fails("read a buffer", u.Queue.Read(t.Ctx, b, 0, make([]byte, 4096)), reprise.ErrDeviceLost)
	start := time.Now()
	_ = u.Dev.Close(t.Ctx)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("close took %v", took)
	}
}

func (l *lives) unbindBusy(t *rig.T) {
	l.loses(t, l.unbind)
	l.rebind(t)
}

func (l *lives) module(t *rig.T) {
	d := l.opened(t)
	t.Fails("unload with an open card", unix.DeleteModule("tenstorrent", unix.O_NONBLOCK), syscall.EAGAIN)
	t.OK(d.Close(), unix.DeleteModule("tenstorrent", unix.O_NONBLOCK))
	if left := nodes(); len(left) > 0 {
		t.Fatalf("the driver is unloaded, and there is %v", left)
	}
	t.OK(inside.Load(module))
	within(t, "the nodes come back", func() bool { return slices.Equal(nodes(), l.nodes) })
	for _, n := range l.nodes {
		l.use(t, n)
	}
}

// start starts a process that uses or keeps the card, and waits until it says so.
func (l *lives) start(t *rig.T, what, says string) *exec.Cmd {
	cmd := exec.CommandContext(t.Ctx, self, what, l.node)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	t.OK(err)
	t.OK(cmd.Start())
	for s := bufio.NewScanner(out); s.Scan(); {
		if s.Text() == says {
			go io.Copy(io.Discard, out)
			return cmd
		}
	}
	t.Fatalf("%s %s: it ended: %v", what, l.node, cmd.Wait())
	return nil
}

// kill kills a process, and uses the card after it.
func (l *lives) kill(t *rig.T, cmd *exec.Cmd) {
	t.OK(cmd.Process.Kill())
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process ended with %v before it was killed", err)
	}
	l.use(t, l.node)
}

func (l *lives) killed(t *rig.T) {
	for i := range 3 {
		cmd := l.start(t, "victim", hwtest.VictimRunning)
		time.Sleep(time.Duration(i) * 7 * time.Millisecond) // at another point each time
		l.kill(t, cmd)
	}
}

const kept = "kept"

// killedExclusive kills a process that has the card for itself.
func (l *lives) killedExclusive(t *rig.T) {
	cmd := l.start(t, "keep", kept)
	t.Fails("open beside it", rig.Error(l.open(t, kmd.WithoutWaiting())), kmd.ErrBusy)
	l.kill(t, cmd)
}

func keep(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("want a device")
	}
	d, err := kmd.Open(ctx, kmd.Path(args[0]), kmd.Exclusive(), kmd.WithoutWaiting())
	if err != nil {
		return err
	}
	fmt.Println(kept)
	<-ctx.Done()
	return d.Close()
}

func (l *lives) two(t *rig.T) {
	cmd := l.start(t, "victim", hwtest.VictimRunning)
	defer l.kill(t, cmd)
	t.Fails("open it exclusively", rig.Error(l.open(t, kmd.Exclusive(), kmd.WithoutWaiting())), kmd.ErrBusy)
	d := l.opened(t)
	defer d.Close()
	_, held, err := d.TestLock(kmd.LockPCIeDMA)
	t.OK(err, rig.Error(d.Harvesting(t.Ctx)))
	if !held {
		t.Error("the other process's lock is free")
	}
	t.OK(d.Close())
	_, err = kmd.Reset(t.Ctx, kmd.Path(l.node), kmd.ResetConfig{Mode: kmd.ResetASIC})
	if h := rig.As[*kmd.HeldError](t, err); len(h.Holders) != 1 || h.Holders[0].PID != cmd.Process.Pid {
		t.Errorf("reset it: %v, want who has it, process %d", err, cmd.Process.Pid)
	}
}

func (l *lives) reset(t *rig.T, c kmd.ResetConfig) {
	t.OK(rig.Error(kmd.Reset(t.Ctx, kmd.Path(l.node), c)))
}

// userReset resets a card by configuration space, as a tool would.
func (l *lives) userReset(t *rig.T) {
	l.reset(t, kmd.ResetConfig{Mode: kmd.ResetUser})
	d := l.opened(t)
	_, _, err := d.TestLock(kmd.LockPCIeDMA)
	t.Fails("ask for a lock in the middle", err, kmd.ErrResetting)
	t.OK(d.Close())
	// What the driver does for a reset by configuration space (tt-kmd pcie.c pcie_timer_interrupt).
	f, err := os.OpenFile("/sys/bus/pci/devices/"+l.bdf+"/config", os.O_RDWR, 0)
	t.OK(err)
	t.OK(rig.Error(f.WriteAt([]byte{1, 0, 0, 0}, 0x934)), rig.Error(f.WriteAt([]byte{0x11, 0, 0, 0}, 0x930)), f.Close())
	l.reset(t, kmd.ResetConfig{Mode: kmd.ResetPost})
	l.use(t, l.node)
}

func (l *lives) resetBusy(t *rig.T) {
	l.loses(t, func(t *rig.T) { l.reset(t, kmd.ResetConfig{Mode: kmd.ResetASIC, Force: true}) })
	l.use(t, l.node)
}

func (l *lives) together(t *rig.T) {
	if len(l.nodes) == 1 {
		t.Skip("the machine has one card")
	}
	var wg sync.WaitGroup
	for _, n := range l.nodes {
		wg.Go(func() { l.use(t, n) })
	}
	wg.Wait()
}
