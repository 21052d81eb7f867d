package share

import (
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// link is a connection with its buffers. One goroutine at a time uses it.
type link struct {
	conn *net.UnixConn
	head [requestBytes]byte
	out  []byte // head and what follows it, of messages that are short
	oob  []byte
}

// shortPayload is what is sent together with its head.
const shortPayload = 4096

func newLink(c *net.UnixConn) *link {
	return &link{conn: c, out: make([]byte, 0, requestBytes+shortPayload), oob: make([]byte, unix.CmsgSpace(4))}
}

// send writes a head and what follows, with a descriptor if fd isn't negative.
func (l *link) send(head, payload []byte, fd int) error {
	b := append(l.out[:0], head...)
	if len(payload) <= shortPayload {
		b, payload = append(b, payload...), nil
	}
	if fd < 0 {
		if _, err := l.conn.Write(b); err != nil {
			return err
		}
	} else if _, _, err := l.conn.WriteMsgUnix(b, unix.UnixRights(fd), nil); err != nil {
		return err
	}
	if len(payload) == 0 {
		return nil
	}
	_, err := l.conn.Write(payload)
	return err
}

// receive reads a head of n bytes.
func (l *link) receive(n int) ([]byte, error) {
	_, err := io.ReadFull(l.conn, l.head[:n])
	return l.head[:n], err
}

// receiveWith reads a head of n bytes and the descriptor that comes along, or -1.
func (l *link) receiveWith(n int) (head []byte, fd int, err error) {
	fd = -1
	at, oobn, _, _, err := l.conn.ReadMsgUnix(l.head[:n], l.oob)
	if err != nil {
		return nil, -1, err
	}
	if oobn > 0 {
		if fd, err = descriptorOf(l.oob[:oobn]); err != nil {
			return nil, -1, err
		}
	}
	if at == 0 {
		err = io.EOF
	} else {
		_, err = io.ReadFull(l.conn, l.head[at:n])
	}
	if err != nil && fd >= 0 {
		_ = unix.Close(fd) // came with half a message
		fd = -1
	}
	return l.head[:n], fd, err
}

// descriptorOf returns the one descriptor of control messages.
func descriptorOf(oob []byte) (int, error) {
	ms, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(ms) != 1 {
		return -1, fmt.Errorf("%w: %d control messages (%v)", ErrProtocol, len(ms), err)
	}
	fds, err := unix.ParseUnixRights(&ms[0])
	if err != nil || len(fds) != 1 {
		return -1, fmt.Errorf("%w: %d descriptors (%v)", ErrProtocol, len(fds), err)
	}
	unix.CloseOnExec(fds[0])
	return fds[0], nil
}

// peer returns the number of the process at the other end.
func peer(c *net.UnixConn) (pid int, err error) {
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
