package kmd

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
)

// ioctl performs a request and repeats it after EINTR, which the driver returns while it waits. A
// reset must not be repeated.
func ioctl[T kabi.Arg](f seam.File, req uint32, arg *T) error {
	return ioctlContext(context.Background(), f, req, arg)
}

// ioctlContext is ioctl that doesn't repeat an interrupted request once ctx has ended.
func ioctlContext[T kabi.Arg](ctx context.Context, f seam.File, req uint32, arg *T) error {
	kabi.SetSize(arg)
	return ioctlBytes(ctx, f, req, kabi.Bytes(arg))
}

// maxInterrupted bounds repetitions, if the file isn't the driver's. A profiler sends 100 signals a
// second, so this is many seconds.
const maxInterrupted = 1000

func ioctlBytes(ctx context.Context, f seam.File, req uint32, arg []byte) error {
	return uninterrupted(ctx, func() error { return f.Ioctl(req, arg) })
}

// uninterrupted repeats a call that signals interrupt, until ctx ends.
func uninterrupted(ctx context.Context, call func() error) error {
	for range maxInterrupted {
		err := call()
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
		if cause := ctx.Err(); cause != nil {
			return fmt.Errorf("%w: %w", cause, err)
		}
	}
	return fmt.Errorf("interrupted %d times in a row: %w", maxInterrupted, syscall.EINTR)
}

// driverInfo queries the driver's version, as every file that isn't dead can.
func driverInfo(ctx context.Context, f seam.File) (kabi.GetDriverInfoOut, error) {
	var a kabi.GetDriverInfo
	err := ioctlContext(ctx, f, kabi.IoctlGetDriverInfo, &a)
	return a.Out, err
}
