package kmd

import (
	"errors"
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

// ioctlBytes is ioctl for an argument that is complete.
func ioctlBytes(f seam.File, req uint32, arg []byte) error {
	for {
		if err := f.Ioctl(req, arg); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// driverInfo asks the driver for its version, which it answers for every file that isn't dead.
func driverInfo(f seam.File) (kabi.GetDriverInfoOut, error) {
	var a kabi.GetDriverInfo
	err := ioctl(f, kabi.IoctlGetDriverInfo, &a)
	return a.Out, err
}
