package kmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// LockIndex is the number of one of the driver's 64 advisory locks of a device.
type LockIndex uint8

// Lock indices of tt-umd (device/utils/lock_manager.cpp); 0 to 15 belong to the Ethernet cores.
const (
	LockETH0             LockIndex = kabi.LockIndexETH0
	LockARCMessage       LockIndex = kabi.LockIndexARCMessage
	LockRemoteARCMessage LockIndex = kabi.LockIndexRemoteARCMessage
	LockNonMMIO          LockIndex = kabi.LockIndexNonMMIO
	LockMemoryBarrier    LockIndex = kabi.LockIndexMemoryBarrier
	LockChipInUse        LockIndex = kabi.LockIndexChipInUse
	LockPCIeDMA          LockIndex = kabi.LockIndexPCIeDMA
)

var lockNames = map[LockIndex]string{
	LockARCMessage:       "ARC_MSG",
	LockRemoteARCMessage: "REMOTE_ARC_MSG",
	LockNonMMIO:          "NON_MMIO",
	LockMemoryBarrier:    "MEM_BARRIER",
	LockChipInUse:        "CHIP_IN_USE",
	LockPCIeDMA:          "PCIE_DMA",
}

// String returns the lock's meaning by convention, or its number.
func (i LockIndex) String() string {
	if i < 16 {
		return fmt.Sprintf("ETH%02d", uint8(i))
	}
	return cmp.Or(lockNames[i], fmt.Sprintf("lock %d", uint8(i)))
}

// lockPoll is how often a held lock is tried again: a context can't end the driver's blocking form.
const lockPoll = time.Millisecond

// Lock is a lock that this Device holds. The driver releases it with the device's file, not with a
// reset.
type Lock struct {
	dev   *Device
	index LockIndex
}

// Lock takes a lock, waiting until its holder releases it or ctx ends. It isn't reentrant. If the
// wait ended, the error matches ErrBusy and ctx's error.
func (d *Device) Lock(ctx context.Context, i LockIndex) (*Lock, error) {
	if err := d.lock(ctx, i); err != nil {
		return nil, d.opError(err, "lock %v", i)
	}
	return &Lock{d, i}, nil
}

// TryLock takes a lock if it is free, and otherwise returns nil without an error.
func (d *Device) TryLock(i LockIndex) (*Lock, error) {
	v, err := d.lockOp(context.Background(), kabi.LockAcquire, i)
	if err != nil || v != 1 {
		return nil, d.opError(err, "try %v", i)
	}
	return &Lock{d, i}, nil
}

// TestLock reports whether this Device holds a lock, and whether any user of the device does.
func (d *Device) TestLock(i LockIndex) (mine, any bool, err error) {
	v, err := d.lockOp(context.Background(), kabi.LockTest, i)
	return v&1 != 0, v&2 != 0, d.opError(err, "test %v", i)
}

// Unlock releases the lock. The error matches ErrClosed if it isn't held.
func (l *Lock) Unlock() error {
	v, err := l.dev.lockOp(context.Background(), kabi.LockRelease, l.index)
	if err == nil && v != 1 {
		err = fmt.Errorf("%w: it isn't held", ErrClosed)
	}
	return l.dev.opError(err, "unlock %v", l.index)
}

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

func (d *Device) lock(ctx context.Context, i LockIndex) error {
	for {
		v, err := d.lockOp(ctx, kabi.LockAcquire, i)
		if err != nil || v == 1 {
			return err
		}
		if err := sleep(ctx, lockPoll); err != nil {
			return fmt.Errorf("%w: another user holds %s%s: %w", ErrBusy, i, d.otherHolders(), err)
		}
	}
}
