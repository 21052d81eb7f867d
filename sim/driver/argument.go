package driver

import (
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// A too short argument is EFAULT, like a bad pointer.
func handle[T kabi.Part](do func(in T, rest []byte) error, arg []byte) error {
	var in T
	b := kabi.PartBytes(&in)
	if len(arg) < len(b) {
		return syscall.EFAULT
	}
	return do(in, arg[copy(b, arg):])
}

// update is handle for a request whose input becomes its output.
func update[T kabi.Part](do func(in T) (T, error), arg []byte) error {
	return handle(func(in T, _ []byte) error {
		out, err := do(in)
		if err == nil {
			put(arg, &out)
		}
		return err
	}, arg)
}

func put[T kabi.Part](arg []byte, out *T) { copy(arg, kabi.PartBytes(out)) }

// answer encodes an output for a caller who asked for n bytes, the rest zero.
func answer[T kabi.Part](arg []byte, n uint32, out *T) error {
	if uint64(n) > uint64(len(arg)) {
		return syscall.EFAULT
	}
	clear(arg[:n])
	copy(arg[:n], kabi.PartBytes(out))
	return nil
}
