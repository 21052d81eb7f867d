package kmd

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
)

// ioctl performs a request on its argument, which it tells its own size, and repeats a request that a signal interrupted:
// the driver lets signals through while it waits. A reset reports an interruption by its result and must not come here.
func ioctl[T kabi.Arg](f seam.File, req uint32, arg *T) error {
	kabi.SetSize(arg)
	return ioctlBytes(f, req, kabi.Bytes(arg))
}

// maxInterrupted is how often in a row a request is repeated because a signal interrupted it. A profiler sends 100 signals a
// second, so what is interrupted that often has gone on for many seconds, or what answers is no driver.
const maxInterrupted = 1000

// ioctlBytes is ioctl for an argument that is complete.
func ioctlBytes(f seam.File, req uint32, arg []byte) error {
	return uninterrupted(func() error { return f.Ioctl(req, arg) })
}

// uninterrupted repeats a call that signals interrupt.
func uninterrupted(call func() error) error {
	for range maxInterrupted {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
	return fmt.Errorf("interrupted %d times in a row: %w", maxInterrupted, syscall.EINTR)
}

// driverInfo asks the driver for its version, which it answers for every file that isn't dead.
func driverInfo(f seam.File) (kabi.GetDriverInfoOut, error) {
	var a kabi.GetDriverInfo
	err := ioctl(f, kabi.IoctlGetDriverInfo, &a)
	return a.Out, err
}
