package driver

import (
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// update is kabi.Handle for a request whose input becomes its output.
func update[T kabi.Part](do func(in T) (T, error), arg []byte) error {
	return kabi.Handle(func(in T, _ []byte) error {
		out, err := do(in)
		if err == nil {
			kabi.Put(arg, &out)
		}
		return err
	}, arg)
}

// answer encodes an output for a caller who asked for n bytes, the rest zero.
func answer[T kabi.Part](arg []byte, n uint32, out *T) error {
	if uint64(n) > uint64(len(arg)) {
		return syscall.EFAULT
	}
	clear(arg[:n])
	kabi.Put(arg[:n], out)
	return nil
}
