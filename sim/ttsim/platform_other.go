//go:build !linux || !(amd64 || arm64 || riscv64)

package ttsim

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// Start and Serve begin by asking for the shared memory, so nothing else of this file is reached where it can't be had.

func errPlatform() error {
	return fmt.Errorf("ttsim: %w; this is %s/%s", ErrUnsupported, runtime.GOOS, runtime.GOARCH)
}

func newSharedFile() (*os.File, error)               { return nil, errPlatform() }
func mapShared(*os.File) ([]byte, error)             { return nil, errPlatform() }
func unmapShared([]byte) error                       { return errPlatform() }
func serverAttributes() *syscall.SysProcAttr         { return nil }
func loadLibrary(string, callbacks) (library, error) { return nil, errPlatform() }

func futexWait(*uint32, uint32, time.Duration) {}
func futexWake(*uint32)                        {}
