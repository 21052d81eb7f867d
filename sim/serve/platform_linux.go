package serve

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func newFile(size int64) (*os.File, error) {
	fd, err := unix.MemfdCreate("reprise-serve", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "reprise-serve")
	if err := f.Truncate(size); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func mapFile(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func unmap(mem []byte) error { return unix.Munmap(mem) }

// Pair returns two connected sockets, one for a child process.
func Pair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "reprise-serve"), os.NewFile(uintptr(fds[1]), "reprise-serve")
	defer ours.Close() // the connection has a duplicate
	c, err := ConnOf(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return c, theirs, nil
}

// ProcessGroup gives a server its own group: an interrupt from the terminal ends it through its
// parent.
func ProcessGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// ConnOf returns the Unix socket of a file, with a descriptor of its own.
func ConnOf(f *os.File) (*net.UnixConn, error) {
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return nil, fmt.Errorf("serve: %w: %v is no Unix socket", ErrProtocol, f.Name())
	}
	return u, nil
}

// descriptorSpace is room for one descriptor; the kernel may put two into it.
var descriptorSpace = unix.CmsgSpace(4)

func rights(fd int) []byte { return unix.UnixRights(fd) }

// descriptorOf returns a single descriptor, or closes all.
func descriptorOf(oob []byte) (int, error) {
	ms, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return -1, fmt.Errorf("serve: control message: %w: %w", ErrProtocol, err)
	}
	var fds []int
	for i := range ms {
		l, err := unix.ParseUnixRights(&ms[i])
		if err != nil {
			continue // of another kind
		}
		fds = append(fds, l...)
	}
	if len(ms) != 1 || len(fds) != 1 {
		CloseFD(fds...)
		return -1, fmt.Errorf("serve: control message: %w: %d messages with %d descriptors", ErrProtocol, len(ms), len(fds))
	}
	unix.CloseOnExec(fds[0])
	return fds[0], nil
}

// CloseFD closes all descriptors that aren't negative.
func CloseFD(fds ...int) {
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.Close(fd) // nothing was written through it
		}
	}
}

// HungUp reports whether the peer has closed the socket or ended.
func (c *Conn) HungUp() bool {
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return true
	}
	p := []unix.PollFd{{Events: unix.POLLRDHUP}}
	err = raw.Control(func(fd uintptr) {
		p[0].Fd = int32(fd)
		_, _ = unix.Poll(p, 0) // without an answer it isn't over
	})
	return err != nil || p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP) != 0
}

func peerPID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var inner error
	err = raw.Control(func(fd uintptr) { cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err == nil {
		err = inner
	}
	if err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}
