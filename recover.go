package reprise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kmd"
)

// RecoverError names the step in which Recover failed. The device is as unusable as before, and
// Recover can be called again.
type RecoverError struct {
	Device string
	Step   string // "reopen", "reset" or "start"
	Err    error
}

// Error implements error.
func (e *RecoverError) Error() string {
	return fmt.Sprintf("reprise: recover %s: %s: %v", e.Device, e.Step, e.Err)
}

// Unwrap returns why it failed.
func (e *RecoverError) Unwrap() error { return e.Err }

// Recover makes a device usable again whose queue hangs, or that was lost: reset by another
// process, stopped, or unplugged and plugged in again. It ends every wait on the device with
// ErrRecovering, drops what is in the queues, and restarts the firmware and the queues. A lost
// device is opened again. If it doesn't answer, or its cores don't start, the chip is reset, unless
// another process has it open.
//
// Every Buffer, Executable and Trace stays valid at its address. Kernels and traces are written
// again and compared before any queue takes commands. A HostBuffer is pinned again with its
// contents. The contents of buffers are undefined, in DRAM and in L1: write them again.
// See docs/failures.md.
//
// A working device can be recovered too. The error is a *RecoverError, or matches ErrClosed.
func (d *Device) Recover(ctx context.Context) error {
	d.admin.Lock()
	defer d.admin.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return fmt.Errorf("reprise: recover: %w", ErrClosed)
	}
	d.cancel = func() { cancel(ErrClosed) }
	d.mu.Unlock()
	d.disp.Interrupt(ErrRecovering)
	d.work.Lock()
	defer d.work.Unlock()
	if err := d.recover(ctx); err != nil {
		if context.Cause(ctx) == ErrClosed {
			return fmt.Errorf("reprise: recover: %w", ErrClosed)
		}
		err.Device = d.name
		return err
	}
	return d.freeDeferred(true)
}

func (d *Device) recover(ctx context.Context) *RecoverError {
	wasReset := false
	if err := d.kd.Alive(); err != nil {
		d.disp.StopRelay()
		if wasReset, err = d.reopen(ctx); err != nil {
			return &RecoverError{Step: "reopen", Err: err}
		}
	}
	contents := d.contents()
	err := d.disp.Restart(ctx, contents)
	if err != nil && !wasReset && ctx.Err() == nil && !errors.Is(err, dispatch.ErrOtherChip) {
		// A core can keep itself, or the network, from ever answering: then only a reset helps.
		if e := d.reset(ctx, err); e != nil {
			return &RecoverError{Step: "reset", Err: errors.Join(err, e)}
		}
		err = d.disp.Restart(ctx, contents)
	}
	if err != nil {
		return &RecoverError{Step: "start", Err: err}
	}
	return nil
}

func (d *Device) reopen(ctx context.Context) (wasReset bool, err error) {
	err = d.kd.Recover(ctx)
	if err == nil || !errors.Is(err, ErrDeviceLost) {
		return false, err
	}
	return true, d.reset(ctx, err)
}

func (d *Device) reset(ctx context.Context, why error) error {
	c := kmd.ResetConfig{Mode: kmd.ResetASIC}
	_, err := kmd.Reset(ctx, d.target, c)
	var held *kmd.HeldError
	if errors.As(err, &held) && d.onlyOurs(held) {
		// The files that would lose the device are this one's.
		c.Force = true
		_, err = kmd.Reset(ctx, d.target, c)
	}
	if err != nil {
		return fmt.Errorf("the device needs a reset (%w): %w", why, err)
	}
	if err := d.kd.Alive(); err == nil {
		return nil // drivers before 2.6.0 leave the file as it is
	}
	return d.kd.Recover(ctx)
}

// onlyOurs reports whether only this Device's files prevent a reset.
func (d *Device) onlyOurs(e *kmd.HeldError) bool {
	return len(e.Holders) == 1 && e.Holders[0].PID == os.Getpid() && e.Holders[0].Files <= d.kd.Files()
}

func (d *Device) contents() []dispatch.Content {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []dispatch.Content
	seen := map[*Executable]bool{}
	add := func(x *Executable) {
		if !seen[x] {
			seen[x] = true
			out = append(out, content("the kernels of "+x.Name(), x.bin, x.image.Binary()))
		}
	}
	for x := range d.execs {
		add(x)
	}
	for t := range d.parts {
		programs, own := t.contents()
		for _, x := range programs {
			add(x)
		}
		out = append(out, own)
	}
	slices.SortFunc(out, func(a, b dispatch.Content) int { return cmp.Compare(a.At.Addr, b.At.Addr) })
	return out
}

// resident is a part of a trace.
type resident interface {
	// contents returns its programs and its commands.
	contents() ([]*Executable, dispatch.Content)
}

func content(name string, e allocator.Extent, data []byte) dispatch.Content {
	return dispatch.Content{Name: name, At: interleaved(e), Data: data}
}
