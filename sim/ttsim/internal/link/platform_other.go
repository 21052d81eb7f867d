//go:build !linux || !(amd64 || arm64 || riscv64)

package link

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// Both processes begin by asking for the shared memory. Where it can't be had, nothing else of this file is reached.

func errPlatform() error {
	return fmt.Errorf("ttsim: %w; this is %s/%s", ErrUnsupported, runtime.GOOS, runtime.GOARCH)
}

// NewFile fails with ErrUnsupported.
func NewFile() (*os.File, error) { return nil, errPlatform() }

// Map fails with ErrUnsupported.
func Map(*os.File) ([]byte, error) { return nil, errPlatform() }

// Unmap fails with ErrUnsupported.
func Unmap([]byte) error { return errPlatform() }

// ServerAttributes has nothing to say without a server.
func ServerAttributes() *syscall.SysProcAttr { return nil }

func futexWait(*uint32, uint32, time.Duration) {}
func futexWake(*uint32)                        {}
