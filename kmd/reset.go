package kmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
)

// ResetMode says what to reset, and how (tt-kmd ioctl.h, TENSTORRENT_RESET_DEVICE_*).
type ResetMode uint8

const (
	ResetRestoreState ResetMode = kabi.ResetRestoreState // restores configuration space and initialises the card, without a reset
	ResetLink         ResetMode = kabi.ResetPCIeLink     // resets the PCIe link through the bridge above the card
	ResetConfigWrite  ResetMode = kabi.ResetConfigWrite  // by a write to configuration space
	ResetUser         ResetMode = kabi.ResetUser         // announces a reset by the caller; then only ResetPost makes the card usable
	ResetASIC         ResetMode = kabi.ResetASIC         // resets the chip: the mode to use
	ResetBoard        ResetMode = kabi.ResetASICDMC      // resets the chip and the board's management controller
	ResetPost         ResetMode = kabi.ResetPost         // ends a reset that ResetUser began
)

var resetNames = []string{"restore", "link", "config-write", "user", "asic", "board", "post"}

func (m ResetMode) String() string {
	if int(m) < len(resetNames) {
		return resetNames[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// ParseResetMode is the inverse of ResetMode.String.
func ParseResetMode(s string) (ResetMode, error) {
	if i := slices.Index(resetNames, s); i >= 0 {
		return ResetMode(i), nil
	}
	return 0, fmt.Errorf("kmd: reset mode %q: want %s: %w", s, strings.Join(resetNames, ", "), ErrOutOfRange)
}

// needsPost: the driver refuses all work until ResetPost.
func (m ResetMode) needsPost() bool { return m == ResetUser || m == ResetASIC || m == ResetBoard }

// ResetConfig says how to reset a card.
type ResetConfig struct {
	Mode ResetMode
	// Force resets a card that processes have open: they lose it, and their mappings fault.
	Force bool
	// System is the card's machine, where SystemOf can't know it.
	System   *System
	Progress func(step string)
}

// ResetReport is the result of a reset.
type ResetReport struct {
	BDF        string
	Arch       chip.Arch
	Mode       ResetMode
	Node       string   // of the card afterwards; it may have changed
	Losers     []Holder // the processes that lost the card
	Duration   time.Duration
	Harvesting *chip.Harvesting // read from the card afterwards; nil after ResetUser
}

// HeldError: other processes have the card open, and the reset isn't forced. It matches ErrBusy.
type HeldError struct{ Holders []Holder }

func (e *HeldError) Error() string {
	var names []string
	for _, h := range e.Holders {
		names = append(names, h.String())
	}
	return fmt.Sprintf("%v: processes have it open: %s: end them, or force the reset, which takes the card from them",
		ErrBusy, strings.Join(names, ", "))
}

func (e *HeldError) Unwrap() error { return ErrBusy }

const (
	resetPoll    = 20 * time.Millisecond
	settleWait   = 500 * time.Millisecond // tt-kmd tools/reset.c: Wormhole needs more than 20 ms before it answers
	markerWait   = 10 * time.Second
	reappearWait = 10 * time.Second
)

// Reset resets a card, opens it again, and reads a register and its harvesting. Without Force the
// card must not be open in this process. The error matches ErrBusy with a *HeldError if other
// processes have it open, ErrReset if the card doesn't come back, ErrDriverTooOld if the driver
// lacks the mode, or is one of Open.
func Reset(ctx context.Context, t Target, c ResetConfig) (*ResetReport, error) {
	r := &resetter{target: t, sys: SystemOf(t), cfg: c}
	if c.System != nil {
		r.sys = *c.System
	}
	if c.Mode > ResetPost {
		return nil, r.opError(fmt.Errorf("%w: mode %d", ErrOutOfRange, c.Mode))
	}
	rep, err := r.run(ctx)
	return rep, r.opError(err)
}

func (r *resetter) opError(err error) error {
	return (&Device{path: r.target.String()}).opError(err, "reset (%s)", r.cfg.Mode)
}

type resetter struct {
	target Target
	sys    System
	cfg    ResetConfig
	rep    ResetReport
}

func (r *resetter) say(step string) {
	if r.cfg.Progress != nil {
		r.cfg.Progress(step)
	}
}

func (r *resetter) run(ctx context.Context) (*ResetReport, error) {
	start := time.Now()
	d := &Device{path: r.target.String(), target: r.target, sys: r.sys, file: &liveFile{}}
	f, err := openNode(ctx, r.target, syscall.O_APPEND, true)
	if err != nil {
		return nil, err
	}
	d.file.swap(f)
	if err := d.identify(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r.rep = ResetReport{BDF: d.info.BDF(), Arch: d.arch, Mode: r.cfg.Mode, Node: r.target.String()}
	if err := r.trigger(d, f); err != nil {
		return &r.rep, errors.Join(err, f.Close())
	}
	switch {
	case r.cfg.Mode == ResetUser:
		r.rep.Duration = time.Since(start)
		return &r.rep, f.Close()
	case r.cfg.Mode == ResetPost, r.cfg.Mode == ResetRestoreState:
		err = f.Close()
	default:
		// Drivers before 2.10 make this file stale too, and hotplug changes the node.
		if err = f.Close(); err == nil {
			err = r.finish(ctx)
		}
	}
	if err == nil {
		err = r.verify(ctx)
	}
	r.rep.Duration = time.Since(start)
	return &r.rep, err
}

func (r *resetter) trigger(d *Device, f seam.File) error {
	var others []Holder
	for _, h := range r.sys.holdersOf(r.rep.BDF) {
		if h.PID == os.Getpid() {
			h.Files-- // this one
		}
		if h.Files > 0 {
			others = append(others, h)
		}
	}
	destroys := r.cfg.Mode != ResetPost && r.cfg.Mode != ResetRestoreState
	if destroys && len(others) > 0 {
		if !r.cfg.Force {
			return &HeldError{others}
		}
		r.rep.Losers = others
	}
	r.say("resetting " + r.rep.BDF)
	return resetIoctl(f, r.cfg.Mode, d)
}

// An interrupted reset reports that in its result, and isn't repeated.
func resetIoctl(f seam.File, m ResetMode, d *Device) error {
	a := kabi.ResetDevice{In: kabi.ResetDeviceIn{Flags: uint32(m)}}
	kabi.SetSize(&a)
	switch err := f.Ioctl(kabi.IoctlResetDevice, kabi.Bytes(&a)); {
	case errors.Is(err, syscall.EBUSY):
		return fmt.Errorf("%w: a window of the card is exported as a dma-buf: end the process that exported it%s (%w)",
			ErrBusy, d.otherHolders(), err)
	case errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("%w: it doesn't know reset mode %s, which needs tt-kmd 2.4.0 (%w)", ErrDriverTooOld, m, err)
	case err != nil:
		return classify(err)
	case a.Out.Result != 0 && m == ResetPost:
		return fmt.Errorf("%w: the chip did not come back, or can't be initialised: try mode board, then a cold boot", ErrReset)
	case a.Out.Result != 0 && m == ResetConfigWrite:
		return fmt.Errorf("%w: the driver couldn't do it (see dmesg): after a reset through sysfs, reload its module; "+
			"otherwise try mode asic", ErrReset)
	case a.Out.Result != 0:
		return fmt.Errorf("%w: the driver couldn't do it (see dmesg): try mode board, then a cold boot", ErrReset)
	}
	return nil
}

func (r *resetter) finish(ctx context.Context) error {
	if r.rep.Arch == chip.Wormhole {
		if err := sleep(ctx, settleWait); err != nil {
			return err
		}
	}
	r.say("waiting for " + r.rep.BDF + " to come back")
	end := ResetRestoreState
	if r.cfg.Mode.needsPost() {
		end = ResetPost
		if err := r.wait(ctx, markerWait, "its configuration space still shows the reset marker", r.markerClear); err != nil {
			return err
		}
	}
	var f seam.File
	err := r.wait(ctx, reappearWait, "its node doesn't appear", func() (bool, error) {
		var err error
		f, err = r.reopen(ctx)
		return err == nil, err
	})
	if err != nil {
		return err
	}
	d := &Device{path: r.rep.Node, sys: r.sys, file: &liveFile{}}
	d.file.swap(f)
	return errors.Join(resetIoctl(f, end, d), f.Close())
}

func (r *resetter) wait(ctx context.Context, limit time.Duration, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		ok, err := done()
		if ok {
			return nil
		}
		if e := sleep(ctx, resetPoll); e != nil {
			return errors.Join(fmt.Errorf("%w: %s: %w", ErrReset, what, e), err)
		}
	}
}

// markerClear reports whether the PCI command register has lost the bit that the driver set before
// the reset (tt-kmd pcie.c); true if it can't be read.
func (r *resetter) markerClear() (bool, error) {
	if r.sys.Root == nil {
		return true, nil
	}
	b, err := fs.ReadFile(r.sys.Root, pciDir+"/"+r.rep.BDF+"/config")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // off the bus during the reset
	}
	if err != nil || len(b) < 6 {
		return true, nil
	}
	const command, parity = 4, 1 << 6
	return b[command]&parity == 0 && b[command] != 0xFF, nil
}

func (r *resetter) reopen(ctx context.Context) (seam.File, error) {
	t := r.target
	if n, ok := r.sys.find(r.rep.BDF); ok {
		t = r.sys.Open(n.path())
	} else if r.sys.Root != nil {
		return nil, fmt.Errorf("%w: no node leads to %s", ErrNoDevice, r.rep.BDF)
	}
	var f seam.File
	err := uninterrupted(ctx, func() (err error) {
		f, err = t.Node().Open(syscall.O_RDWR | syscall.O_APPEND | syscall.O_NONBLOCK)
		return err
	})
	if err != nil {
		return nil, classifyOpen(err)
	}
	r.rep.Node = t.String()
	return f, nil
}

func (r *resetter) verify(ctx context.Context) error {
	r.say("reading the chip")
	d, err := Open(ctx, r.sys.target(r.rep.BDF, r.target), WithoutPower(), WithoutWaiting(), InSystem(r.sys))
	if err != nil {
		return fmt.Errorf("%w: it can't be opened: %w", ErrReset, err)
	}
	err = d.Alive()
	if err == nil {
		var h chip.Harvesting
		if h, err = d.Harvesting(ctx); err == nil {
			r.rep.Harvesting = &h
		}
	}
	if err = errors.Join(err, d.Close()); err != nil {
		return fmt.Errorf("%w: it doesn't answer: %w", ErrReset, err)
	}
	return nil
}

// Recover opens a lost device's card once more, under its new number. Windows, locks and pins
// are gone; HostMemory needs HostMemory.Repin. No access may be in progress. It
// can be called again after a failure, and does nothing if the device isn't lost. The error is one
// of Open, or matches ErrDeviceLost if the card still doesn't answer.
func (d *Device) Recover(ctx context.Context) error {
	if d.closed.Load() {
		return d.opError(ErrClosed, "recover")
	}
	if d.Lost() == nil {
		return nil
	}
	return d.opError(d.recover(ctx), "recover")
}

func (d *Device) recover(ctx context.Context) error {
	d.abandon()
	t := d.sys.target(d.info.BDF(), d.target)
	f, err := openNode(ctx, t, d.flags, false)
	if err != nil {
		return err
	}
	was, first := d.info, d.lost.Load()
	d.target = t
	d.file.swap(f)
	err = d.identify(ctx)
	if err == nil && d.info.BDF() != was.BDF() {
		err = fmt.Errorf("%w: the node leads to the card at %s now, and the one at %s has none", ErrNoDevice, d.info.BDF(),
			was.BDF())
	}
	if err == nil {
		d.lost.Store(nil)
		if err = d.alive(); err == nil {
			for i := range d.features { // the driver may have changed
				d.features[i].Store(0)
			}
			return nil
		}
	}
	d.info = was
	d.lost.Store(first)
	return errors.Join(err, d.file.Close())
}

// The old file closes before another takes its place, so no old window number is used on the new
// one.
func (d *Device) abandon() {
	d.mu.Lock()
	windows, memory := d.windows, d.memory
	d.windows, d.memory = map[*Window]struct{}{}, map[*HostMemory]struct{}{}
	for m := range memory {
		m.pins = nil
		d.stale[m] = struct{}{}
	}
	d.mu.Unlock()
	d.cache.drop()
	for _, w := range inOrder(windows, (*Window).ID) {
		w.closed.Store(true)
		_ = w.mapping.Unmap() // the device is lost: an error changes nothing
	}
	_ = d.closeCleanupFiles()
	_ = d.file.Close()
}

func (k *windowCache) drop() {
	k.mu.Lock()
	k.control, k.bulk = nil, nil
	k.mu.Unlock()
}
