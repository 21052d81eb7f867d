//go:build !linux

package serve

import (
	"net"
	"os"
	"syscall"
	"time"
)

const descriptorSpace = 0

func newFile(int64) (*os.File, error)          { return nil, ErrUnsupported }
func mapFile(*os.File, int) ([]byte, error)    { return nil, ErrUnsupported }
func unmap([]byte) error                       { return ErrUnsupported }
func rights(int) []byte                        { return nil }
func descriptorOf([]byte) (int, error)         { return -1, ErrUnsupported }
func peerPID(*net.UnixConn) (int, error)       { return 0, ErrUnsupported }
func futexWait(*uint32, uint32, time.Duration) {}
func futexWake(*uint32)                        {}

// Pair returns two connected sockets.
func Pair() (*net.UnixConn, *os.File, error) { return nil, nil, ErrUnsupported }

// ConnOf returns the Unix socket of a file, with a descriptor of its own.
func ConnOf(*os.File) (*net.UnixConn, error) { return nil, ErrUnsupported }
func ProcessGroup() *syscall.SysProcAttr     { return nil }

// CloseFD closes all descriptors that aren't negative.
func CloseFD(...int) {}
