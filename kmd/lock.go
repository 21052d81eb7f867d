package kmd

import (
	"context"
	"fmt"
	"time"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// lockPoll is how often a lock that another process holds is tried again. The driver's blocking form can't be ended by
// a context.
const lockPoll = time.Millisecond

// lock takes one of the driver's locks between processes and returns what gives it back. The driver releases it with
// the file if this process dies.
func (d *Device) lock(ctx context.Context, index uint8) (unlock func() error, err error) {
	a := kabi.LockCtl{In: kabi.LockCtlIn{
		OutputSizeBytes: uint32(kabi.Size[kabi.LockCtlOut]()), Flags: kabi.LockAcquire, Index: index,
	}}
	for {
		if err := ioctl(d.file, kabi.IoctlLockCtl, kabi.Bytes(&a)); err != nil {
			return nil, d.note(err)
		}
		if a.Out.Value == 1 {
			break
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: another user holds lock %d: %w", ErrBusy, index, ctx.Err())
		case <-time.After(lockPoll):
		}
	}
	return func() error {
		a.In.Flags = kabi.LockRelease
		if err := ioctl(d.file, kabi.IoctlLockCtl, kabi.Bytes(&a)); err != nil {
			return d.note(err)
		}
		return nil
	}, nil
}
