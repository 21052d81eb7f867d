package driver

import (
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// take reads the input of an ioctl from the front of its argument and returns what follows it.
func take[T kabi.Part](arg []byte, in *T) (rest []byte, ok bool) {
	b := kabi.PartBytes(in)
	if len(arg) < len(b) {
		return nil, false
	}
	copy(b, arg)
	return arg[len(b):], true
}

// put writes the output of an ioctl of fixed size.
func put[T kabi.Part](arg []byte, out *T) { copy(arg, kabi.PartBytes(out)) }

// answer writes an output of which the caller asked for n bytes: n zeroes, then as much of the
// output as fits.
func answer[T kabi.Part](arg []byte, n uint32, out *T) error {
	if uint64(n) > uint64(len(arg)) {
		return syscall.EFAULT
	}
	clear(arg[:n])
	copy(arg[:n], kabi.PartBytes(out))
	return nil
}
