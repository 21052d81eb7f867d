package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest"
	"github.com/reprise-tt/reprise/hwtest/vm/inside"
	"github.com/reprise-tt/reprise/kmd"
)

const driverDir = "/sys/bus/pci/drivers/tenstorrent"

func nodes() []string {
	l, err := filepath.Glob("/dev/tenstorrent/[0-9]*")
	if err != nil {
		return nil
	}
	slices.SortFunc(l, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return l
}

// life is what happens to a card beside its use. Each case leaves the cards as it found them.
func life(ctx context.Context, _ []string) error {
	all := nodes()
	if len(all) == 0 {
		return errors.New("no card has a node")
	}
	l := &lives{nodes: all, node: all[0], bdf: kmd.Inspect(ctx, kmd.Path(all[0])).BDF}
	cases := []struct {
		name string
		run  func(context.Context) error
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
	}
	failed := 0
	for _, c := range cases {
		if !passes("life: "+c.name, func() error { return c.run(ctx) }) {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d cases failed", failed, len(cases))
	}
	return nil
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

func (l *lives) open(ctx context.Context, opts ...kmd.Option) (*kmd.Device, error) {
	return kmd.Open(ctx, kmd.Path(l.node), opts...)
}

func (l *lives) use(ctx context.Context, node string) error {
	out, err := exec.CommandContext(ctx, self, "victim", node, "--once").CombinedOutput()
	if err != nil {
		return fmt.Errorf("use %s: %w: %s", node, err, out)
	}
	return nil
}

func within(what string, ok func() bool) error {
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%s: not within 10 seconds", what)
		}
	}
	return nil
}

// wants checks what kind of error something has.
func wants(what string, err, want error) error {
	if !errors.Is(err, want) {
		return fmt.Errorf("%s: %v, want %v", what, err, want)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (l *lives) unbind() error {
	if err := os.WriteFile(driverDir+"/unbind", []byte(l.bdf), 0); err != nil {
		return err
	}
	return within(l.node+" goes", func() bool { return !exists(l.node) })
}

// rebind binds the driver again, whose node has the first free number.
func (l *lives) rebind() error {
	if err := os.WriteFile(driverDir+"/bind", []byte(l.bdf), 0); err != nil {
		return err
	}
	return within(l.node+" comes back", func() bool { return exists(l.node) })
}

func (l *lives) bind(ctx context.Context) error {
	if err := l.unbind(); err != nil {
		return err
	}
	_, err := l.open(ctx)
	return errors.Join(wants("open without a driver", err, kmd.ErrNoDevice), l.rebind(), l.use(ctx, l.node))
}

// unbindOpen takes the driver from under an open card.
func (l *lives) unbindOpen(ctx context.Context) error {
	d, err := l.open(ctx)
	if err != nil {
		return err
	}
	tile, err := worker(d.Arch())
	if err != nil {
		return errors.Join(err, d.Close())
	}
	var word [4]byte
	if err := d.Read(tile, 0x20000, word[:]); err != nil {
		return errors.Join(err, d.Close())
	}
	if err := l.unbind(); err != nil {
		return errors.Join(err, d.Close())
	}
	_, _, lock := d.TestLock(kmd.LockPCIeDMA)
	return errors.Join(
		wants("read through a mapping", d.Read(tile, 0x20000, word[:]), kmd.ErrDeviceLost),
		wants("ask for a lock", lock, kmd.ErrDeviceLost),
		d.Close(), l.rebind(), l.use(ctx, l.node))
}

func worker(a chip.Arch) (chip.XY, error) {
	t, err := chip.New(a, chip.Harvesting{})
	if err != nil {
		return chip.XY{}, err
	}
	return t.Virtual(chip.Core{})
}

func (l *lives) busy(ctx context.Context) (*reprise.Device, *reprise.Buffer, error) {
	dev, err := reprise.Open(ctx, kmd.Path(l.node))
	if err != nil {
		return nil, nil, err
	}
	b, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 4096, PageSize: 64, Name: "b"})
	if err == nil {
		err = dev.Queue(0).Write(ctx, b, 0, make([]byte, 4096))
	}
	if err != nil {
		return nil, nil, errors.Join(err, dev.Close(ctx))
	}
	return dev, b, nil
}

// loses takes the card from under a device at work, which has to notice and to close in time.
func (l *lives) loses(ctx context.Context, take func() error) error {
	dev, b, err := l.busy(ctx)
	if err != nil {
		return err
	}
	if err := take(); err != nil {
		return errors.Join(err, dev.Close(ctx))
	}
	err = wants("read a buffer", dev.Queue(0).Read(ctx, b, 0, make([]byte, 4096)), reprise.ErrDeviceLost)
	start := time.Now()
	_ = dev.Close(ctx)
	if took := time.Since(start); took > 10*time.Second {
		err = errors.Join(err, fmt.Errorf("close took %v", took))
	}
	return err
}

func (l *lives) unbindBusy(ctx context.Context) error {
	return errors.Join(l.loses(ctx, l.unbind), l.rebind(), l.use(ctx, l.node))
}

func (l *lives) module(ctx context.Context) error {
	d, err := l.open(ctx)
	if err != nil {
		return err
	}
	err = wants("unload with an open card", unix.DeleteModule("tenstorrent", unix.O_NONBLOCK), syscall.EAGAIN)
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	if err := unix.DeleteModule("tenstorrent", unix.O_NONBLOCK); err != nil {
		return fmt.Errorf("unload: %w", err)
	}
	if left := nodes(); len(left) > 0 {
		return fmt.Errorf("the driver is unloaded, and there is %v", left)
	}
	if err := inside.Load(module); err != nil {
		return err
	}
	if err := within("the nodes come back", func() bool { return slices.Equal(nodes(), l.nodes) }); err != nil {
		return err
	}
	for _, n := range l.nodes {
		if err := l.use(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (l *lives) start(ctx context.Context, node string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, self, "victim", node)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	s := bufio.NewScanner(out)
	for s.Scan() {
		if s.Text() == hwtest.VictimRunning {
			go io.Copy(io.Discard, out)
			return cmd, nil
		}
	}
	return nil, fmt.Errorf("use %s: it ended: %w", node, cmd.Wait())
}

func kill(cmd *exec.Cmd) error {
	if err := cmd.Process.Kill(); err != nil {
		return err
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		return fmt.Errorf("the process ended with %v before it was killed", err)
	}
	return nil
}

func (l *lives) killed(ctx context.Context) error {
	for i := range 3 {
		cmd, err := l.start(ctx, l.node)
		if err != nil {
			return err
		}
		time.Sleep(time.Duration(i) * 7 * time.Millisecond) // at another point each time
		if err := errors.Join(kill(cmd), l.use(ctx, l.node)); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
	}
	return nil
}

// killedExclusive kills a process that has the card for itself.
func (l *lives) killedExclusive(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, self, "keep", l.node)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return fmt.Errorf("keep %s: %w", l.node, err)
	}
	_, err = l.open(ctx, kmd.WithoutWaiting())
	return errors.Join(wants("open beside it", err, kmd.ErrBusy), kill(cmd), l.use(ctx, l.node))
}

func keep(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("want a device")
	}
	d, err := kmd.Open(ctx, kmd.Path(args[0]), kmd.Exclusive(), kmd.WithoutWaiting())
	if err != nil {
		return err
	}
	fmt.Println("kept")
	<-ctx.Done()
	return d.Close()
}

func (l *lives) two(ctx context.Context) error {
	cmd, err := l.start(ctx, l.node)
	if err != nil {
		return err
	}
	err = func() error {
		_, err := l.open(ctx, kmd.Exclusive(), kmd.WithoutWaiting())
		if err := wants("open it exclusively", err, kmd.ErrBusy); err != nil {
			return err
		}
		d, err := l.open(ctx)
		if err != nil {
			return err
		}
		_, held, err := d.TestLock(kmd.LockPCIeDMA)
		if err == nil && !held {
			err = errors.New("the other process's lock is free")
		}
		if err == nil {
			_, err = d.Harvesting(ctx)
		}
		return errors.Join(err, d.Close())
	}()
	_, e := kmd.Reset(ctx, kmd.Path(l.node), kmd.ResetConfig{Mode: kmd.ResetASIC})
	var held *kmd.HeldError
	if !errors.As(e, &held) || len(held.Holders) != 1 || held.Holders[0].PID != cmd.Process.Pid {
		err = errors.Join(err, fmt.Errorf("reset it: %v, want who has it, process %d", e, cmd.Process.Pid))
	}
	return errors.Join(err, kill(cmd), l.use(ctx, l.node))
}

// userReset resets a card by configuration space, as a tool would.
func (l *lives) userReset(ctx context.Context) error {
	t := kmd.Path(l.node)
	if _, err := kmd.Reset(ctx, t, kmd.ResetConfig{Mode: kmd.ResetUser}); err != nil {
		return err
	}
	d, err := kmd.Open(ctx, t)
	if err != nil {
		return err
	}
	_, _, err = d.TestLock(kmd.LockPCIeDMA)
	if err = errors.Join(wants("ask for a lock in the middle", err, kmd.ErrResetting), d.Close()); err != nil {
		return err
	}
	// What the driver does for a reset by configuration space (tt-kmd pcie.c pcie_timer_interrupt).
	f, err := os.OpenFile("/sys/bus/pci/devices/"+l.bdf+"/config", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err1 := f.WriteAt([]byte{1, 0, 0, 0}, 0x934)
	_, err2 := f.WriteAt([]byte{0x11, 0, 0, 0}, 0x930)
	if err := errors.Join(err1, err2, f.Close()); err != nil {
		return err
	}
	if _, err := kmd.Reset(ctx, t, kmd.ResetConfig{Mode: kmd.ResetPost}); err != nil {
		return err
	}
	return l.use(ctx, l.node)
}

func (l *lives) resetBusy(ctx context.Context) error {
	return errors.Join(l.loses(ctx, func() error {
		_, err := kmd.Reset(ctx, kmd.Path(l.node), kmd.ResetConfig{Mode: kmd.ResetASIC, Force: true})
		return err
	}), l.use(ctx, l.node))
}

func (l *lives) together(ctx context.Context) error {
	if len(l.nodes) == 1 {
		return fmt.Errorf("the machine has one card: %w", errors.ErrUnsupported)
	}
	errs := make([]error, len(l.nodes))
	var wg sync.WaitGroup
	for i, n := range l.nodes {
		wg.Go(func() { errs[i] = l.use(ctx, n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
