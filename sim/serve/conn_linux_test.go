package serve

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/internal/expect"
)

func connected(t testing.TB) (client, server *net.UnixConn) {
	t.Helper()
	client, f, err := Pair()
	expect.Must(t, err)
	defer f.Close()
	if server, err = ConnOf(f); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(client.Close(), server.Close()) }) // a test may have closed them
	return client, server
}

func TestGreeting(t *testing.T) {
	client, server := connected(t)
	m, f, err := NewMemory()
	expect.Must(t, err)
	defer f.Close()
	*m.Progress = 42
	greeted := make(chan error)
	go func() { greeted <- NewConn(client).Greet(ServiceFunction, int(f.Fd())) }()
	fd, err := NewConn(server).Welcome(ServiceFunction)
	if err := errors.Join(err, <-greeted); err != nil || fd < 0 {
		t.Fatalf("descriptor %d, %v", fd, err)
	}
	shm := os.NewFile(uintptr(fd), "shm")
	defer shm.Close()
	mapped := expect.Value(MapMemory(shm))(t)
	expect.Equal(t, *mapped.Progress, 42, "the word that the server sees")
	if err := errors.Join(m.Unmap(), mapped.Unmap()); err != nil {
		t.Error(err)
	}
}

func TestGreetingRefused(t *testing.T) {
	old := hello(ServiceCard)
	old.Object = Version + 1
	for name, first := range map[string]*Head{
		"another version": old, "another service": hello(ServiceFunction), "no greeting": {Op: OpLoad, Off: 1},
	} {
		client, server := connected(t)
		answered := make(chan Head, 1)
		go func() {
			c, h := NewConn(client), Head{}
			_ = c.Send(first, nil, -1) // the server says what is wrong with it
			_ = c.Receive(&h)          // no answer is one too
			answered <- h
		}()
		expect.Fails(t, expect.ErrOf(NewConn(server).Welcome(ServiceCard)), ErrProtocol, "%s: the server says", name)
		_ = server.Close()
		h := <-answered
		expect.Equal(t, h == *hello(ServiceCard), name != "no greeting", "%s: the client gets %+v", name, h)

		client, server = connected(t)
		go func() {
			c, h := NewConn(server), Head{}
			_ = c.Receive(&h)
			_ = c.Send(first, nil, -1)
		}()
		expect.Fails(t, NewConn(client).Greet(ServiceCard, -1), ErrProtocol, "%s: the client says", name)
	}
}

func TestConn(t *testing.T) {
	a, b := connected(t)
	client, server := NewConn(a), NewConn(b)
	null := expect.Value(os.Open(os.DevNull))(t)
	defer null.Close()
	for _, n := range []int{0, 1, shortPayload, shortPayload + 1, MaxPayload} {
		for _, give := range []int{-1, int(null.Fd())} {
			want := bytes.Repeat([]byte{byte(n + 1)}, n)
			sent := make(chan error)
			go func() { sent <- client.Send(&Head{Op: OpWrite, Off: 7}, want, give) }()
			var h Head
			fd, err := server.ReceiveFD(&h)
			if err != nil || h != (Head{Op: OpWrite, Off: 7, Size: uint32(n)}) || (fd >= 0) != (give >= 0) {
				t.Fatalf("%d bytes: %+v with descriptor %d, %v", n, h, fd, err)
			}
			CloseFD(fd)
			got := make([]byte, n)
			if err := errors.Join(server.Payload(got), <-sent); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes arrive as others, %v", n, err)
			}
		}
	}
}

func TestTooManyDescriptors(t *testing.T) {
	r, w, err := os.Pipe()
	expect.Must(t, err)
	defer r.Close()
	a, b := connected(t)
	var head [HeadSize]byte
	if _, _, err := a.WriteMsgUnix(head[:], unix.UnixRights(int(w.Fd()), int(w.Fd())), nil); err != nil {
		t.Fatal(err)
	}
	expect.Must(t, w.Close())
	var h Head
	if fd, err := NewConn(b).ReceiveFD(&h); !errors.Is(err, ErrProtocol) || fd >= 0 {
		t.Errorf("descriptor %d, %v", fd, err)
	}
	if n, err := r.Read(head[:]); n != 0 || err != io.EOF {
		t.Errorf("the pipe's other end is still open: %d bytes, %v", n, err)
	}
}

func FuzzConn(f *testing.F) {
	b := make([]byte, HeadSize)
	hello(ServiceCard).Put(b)
	f.Add(b, true)
	f.Add(append(b, b...), false)
	f.Add(b[:7], true)
	(&Head{Op: OpWrite, Size: MaxPayload + 1}).Put(b)
	f.Add(b, false)
	f.Fuzz(func(t *testing.T, in []byte, greeted bool) {
		a, b := connected(t)
		go func() {
			_, _ = a.Write(in) // the other end may be closed
			_ = a.CloseWrite()
			_, _ = io.Copy(io.Discard, a)
		}()
		c := NewConn(b)
		if greeted {
			if _, err := c.Welcome(ServiceCard); err != nil {
				return
			}
		}
		for {
			var h Head
			fd, err := c.ReceiveFD(&h)
			if err != nil {
				return
			}
			CloseFD(fd)
			if c.Payload(make([]byte, h.Size)) != nil {
				return
			}
		}
	})
}
