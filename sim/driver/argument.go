package driver

import (
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// take decodes an ioctl's input from the front of arg and returns the rest.
func take[T kabi.Part](arg []byte, in *T) (rest []byte, ok bool) {
	b := kabi.PartBytes(in)
	if len(arg) < len(b) {
		return nil, false
	}
	copy(b, arg)
	return arg[len(b):], true
}

// put encodes an ioctl's output of fixed size.
func put[T kabi.Part](arg []byte, out *T) { copy(arg, kabi.PartBytes(out)) }

// answer encodes an output of which the caller asked for n bytes: n zeroes, then as much of out as
// fits.
func answer[T kabi.Part](arg []byte, n uint32, out *T) error {
	if uint64(n) > uint64(len(arg)) {
		return syscall.EFAULT
	}
	clear(arg[:n])
	copy(arg[:n], kabi.PartBytes(out))
	return nil
}
