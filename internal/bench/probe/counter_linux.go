//go:build linux && (amd64 || arm64 || riscv64)

package probe

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Counter counts the instructions that the calling thread executes in user mode.
type Counter struct{ f *os.File }

// OpenCounter starts a counter for the calling thread. The caller has called runtime.LockOSThread.
func OpenCounter() (*Counter, error) {
	c, err := openCounter()
	if err != nil {
		return nil, fmt.Errorf("probe: count instructions: %w", err)
	}
	return c, nil
}

func openCounter() (*Counter, error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_INSTRUCTIONS, Size: unix.PERF_ATTR_SIZE_VER0,
		Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &Counter{os.NewFile(uintptr(fd), "perf event")}, nil
}

// Read returns the count so far. It is a system call.
func (c *Counter) Read() (uint64, error) {
	var b [8]byte
	if _, err := c.f.Read(b[:]); err != nil {
		return 0, fmt.Errorf("probe: count instructions: %w", err)
	}
	return binary.NativeEndian.Uint64(b[:]), nil
}

// Close releases the counter.
func (c *Counter) Close() error { return c.f.Close() }
