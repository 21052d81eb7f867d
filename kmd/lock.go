package kmd

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// LockIndex is the number of one of the driver's 64 advisory locks of a device.
type LockIndex uint8

// Lock indices by the convention of tt-umd (device/utils/lock_manager.cpp). 0 to 15 belong to the
// Ethernet cores.
const (
	LockETH0             LockIndex = kabi.LockIndexETH0
	LockARCMessage       LockIndex = kabi.LockIndexARCMessage
	LockRemoteARCMessage LockIndex = kabi.LockIndexRemoteARCMessage
	LockNonMMIO          LockIndex = kabi.LockIndexNonMMIO
	LockMemoryBarrier    LockIndex = kabi.LockIndexMemoryBarrier
	LockChipInUse        LockIndex = kabi.LockIndexChipInUse
	LockPCIeDMA          LockIndex = kabi.LockIndexPCIeDMA
)

// String returns the lock's meaning by convention, or its number.
func (i LockIndex) String() string {
	switch {
	case i < 16:
		return fmt.Sprintf("ETH%02d", uint8(i))
	case i == LockARCMessage:
		return "ARC_MSG"
	case i == LockRemoteARCMessage:
		return "REMOTE_ARC_MSG"
	case i == LockNonMMIO:
		return "NON_MMIO"
	case i == LockMemoryBarrier:
		return "MEM_BARRIER"
	case i == LockChipInUse:
		return "CHIP_IN_USE"
	case i == LockPCIeDMA:
		return "PCIE_DMA"
	}
	return fmt.Sprintf("lock %d", uint8(i))
}

// lockPoll is how often a lock that another process holds is tried again. A context can't end the
// driver's blocking form.
const lockPoll = time.Millisecond

// Lock is a lock that this Device holds. The driver releases it when the device is closed or the
// process dies. After a reset only closing the device releases it.
type Lock struct {
	dev   *Device
	index LockIndex
}

// Lock takes a lock, waiting until its holder releases it or ctx ends. It isn't reentrant. If the
// wait ended, the error matches ErrBusy and ctx's error, and names the processes that have the
// device open.
func (d *Device) Lock(ctx context.Context, i LockIndex) (*Lock, error) {
	if _, err := d.lock(ctx, i); err != nil {
		return nil, d.opError("lock "+i.String(), err)
	}
	return &Lock{d, i}, nil
}

// TryLock takes a lock if it is free, and otherwise returns nil without an error.
func (d *Device) TryLock(i LockIndex) (*Lock, error) {
	v, err := d.lockOp(context.Background(), kabi.LockAcquire, i)
	if err != nil {
		return nil, d.opError("try "+i.String(), err)
	}
	if v != 1 {
		return nil, nil
	}
	return &Lock{d, i}, nil
}

// TestLock reports whether this Device holds a lock, and whether any user of the device does.
func (d *Device) TestLock(i LockIndex) (mine, any bool, err error) {
	v, err := d.lockOp(context.Background(), kabi.LockTest, i)
	if err != nil {
		return false, false, d.opError("test "+i.String(), err)
	}
	return v&1 != 0, v&2 != 0, nil
}

// Unlock releases the lock. The error matches ErrClosed if it isn't held any more.
func (l *Lock) Unlock() error {
	v, err := l.dev.lockOp(context.Background(), kabi.LockRelease, l.index)
	if err == nil && v != 1 {
		err = fmt.Errorf("%w: it isn't held", ErrClosed)
	}
	if err != nil {
		return l.dev.opError("unlock "+l.index.String(), err)
	}
	return nil
}

// lockOp performs one operation and returns its outcome.
func (d *Device) lockOp(ctx context.Context, op uint32, i LockIndex) (uint8, error) {
	if err := d.usable(); err != nil {
		return 0, err
	}
	a := kabi.LockCtl{In: kabi.LockCtlIn{Flags: op, Index: uint8(i)}}
	switch err := ioctlContext(ctx, d.file, kabi.IoctlLockCtl, &a); {
	case errors.Is(err, syscall.EINVAL):
		return 0, fmt.Errorf("%w: lock %d: the driver has locks 0 to %d (%w)", ErrOutOfRange, i, kabi.LockCount-1, err)
	case err != nil:
		return 0, d.note(err)
	}
	return a.Out.Value, nil
}

// lock takes one of the driver's locks and returns a function that releases it.
func (d *Device) lock(ctx context.Context, i LockIndex) (unlock func() error, err error) {
	for {
		v, err := d.lockOp(ctx, kabi.LockAcquire, i)
		if err != nil {
			return nil, err
		}
		if v == 1 {
			break
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: another user holds %s%s: %w", ErrBusy, i, d.otherHolders(), ctx.Err())
		case <-time.After(lockPoll):
		}
	}
	return func() error {
		_, err := d.lockOp(context.Background(), kabi.LockRelease, i)
		return err
	}, nil
}
