package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/sim/serve"
)

// A socket that a killed server has left is replaced. One whose server is only too busy to take another connection stays.
func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "card")
	at := &unix.SockaddrUnix{Name: path}
	open := func() int {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	server := open()
	if err := errors.Join(unix.Bind(server, at), unix.Listen(server, 0)); err != nil {
		t.Fatal(err)
	}
	var err error
	for range 10 { // no reader takes them
		fd := open()
		defer unix.Close(fd)
		if err = unix.Connect(fd, at); err != nil {
			break
		}
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatalf("a server without room: %v", err)
	}
	if l, err := serve.Listen(path); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("beside a busy server: %v", err)
		if err == nil {
			l.SetUnlinkOnClose(false)
			_ = l.Close()
		}
	}
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	if err := unix.Close(server); err != nil { // as if it was killed: the file stays
		t.Fatal(err)
	}
	l, err := serve.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("unix", path); err != nil {
		t.Error(err)
	} else {
		_ = c.Close()
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
