package serve

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// Listen listens at the path of a UNIX socket. It replaces a socket that a killed server has left
// there, to which no connection succeeds. The error wraps syscall.EADDRINUSE if another server has
// it.
func Listen(path string) (*net.UnixListener, error) {
	at := &net.UnixAddr{Name: path, Net: "unix"}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		switch c, err := net.DialUnix("unix", nil, at); {
		case err == nil:
			_ = c.Close() // it was only to find out whether a server answers
		case errors.Is(err, syscall.ECONNREFUSED): // anything else may be a server that is busy, or another user's
			_ = os.Remove(path) // if that fails, listening says why
		}
	}
	l, err := net.ListenUnix("unix", at)
	if err != nil {
		return nil, fmt.Errorf("serve a card: %w: give a path that can be made and that no other server has", err)
	}
	return l, nil
}
