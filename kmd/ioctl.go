package kmd

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
)

// ioctl repeats a request after EINTR, which the driver returns while it waits.
func ioctl[T kabi.Arg](f seam.File, req uint32, arg *T) error {
	return ioctlContext(context.Background(), f, req, arg)
}

func ioctlContext[T kabi.Arg](ctx context.Context, f seam.File, req uint32, arg *T) error {
	kabi.SetSize(arg)
	return ioctlBytes(ctx, f, req, kabi.Bytes(arg))
}

// maxInterrupted bounds repetitions if the file isn't the driver's: many seconds of a profiler's
// 100 signals a second.
const maxInterrupted = 1000

func ioctlBytes(ctx context.Context, f seam.File, req uint32, arg []byte) error {
	return uninterrupted(ctx, func() error { return f.Ioctl(req, arg) })
}

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

func driverInfo(ctx context.Context, f seam.File) (kabi.GetDriverInfoOut, error) {
	var a kabi.GetDriverInfo
	err := ioctlContext(ctx, f, kabi.IoctlGetDriverInfo, &a)
	return a.Out, err
}
