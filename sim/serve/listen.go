package serve

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// Listen listens at the path of a Unix socket, in place of a dead server's. The error wraps
// syscall.EADDRINUSE if another server has it.
func Listen(path string) (*net.UnixListener, error) {
	at := &net.UnixAddr{Name: path, Net: "unix"}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		switch c, err := net.DialUnix("unix", nil, at); {
		case err == nil:
			_ = c.Close() // a server answers
		case errors.Is(err, syscall.ECONNREFUSED): // other errors: a busy server, or another user's
			_ = os.Remove(path) // ListenUnix reports a failure
		}
	}
	l, err := net.ListenUnix("unix", at)
	if err != nil {
		return nil, fmt.Errorf("serve a card: %w: give a path that can be made and that no other server has", err)
	}
	return l, nil
}
