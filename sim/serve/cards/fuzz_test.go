//go:build linux

package cards_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/serve"
	"github.com/reprise-tt/reprise/sim/serve/cards"
)

func message(h serve.Head, payload ...byte) []byte {
	b := make([]byte, serve.HeadSize)
	h.Put(b)
	return append(b, payload...)
}

// The fuzzer shows 0 executions per second while both of its workers minimize inputs, for up to a
// minute each: -fuzzminimizetime 10x ends that.
func FuzzServer(f *testing.F) {
	open := message(serve.Head{Op: opOpen, Val: 2})
	mmap := message(serve.Head{Op: opMmap, Object: 1, Val: 4096})
	f.Add([]byte{}, message(serve.Head{Op: opProcess}))
	f.Add(open, message(serve.Head{Op: opIoctl, Object: 1, Size: 16, Val: 0xFA05}, make([]byte, 16)...))
	f.Add(open, append(mmap, message(serve.Head{Op: serve.OpLoad, Width: 4, Object: 2})...))
	f.Add(open, append(mmap, message(serve.Head{Op: serve.OpRead, Object: 2, Val: 1 << 40})...))
	f.Add(open, append(mmap, message(serve.Head{Op: opUnmap, Object: 2})...))
	f.Add(open, append(message(serve.Head{Op: opLast, Object: 1}), message(serve.Head{Op: opClose, Object: 1})...))
	f.Add(open, message(serve.Head{Op: opIoctl, Object: 1, Size: 40, Off: 1 << 60, Val: 0xFA07}, make([]byte, 40)...))
	f.Add(message(serve.Head{Op: opFile, Size: 4}, []byte("proc")...), message(serve.Head{Op: serve.OpWrite, Size: 1 << 31}))
	card := sim.Blackhole()
	d, err := card.Driver()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = card.Close() }) // its last file is closed
	f.Fuzz(func(t *testing.T, first, then []byte) {
		// Each input has a server of its own: nothing of one happens during the next, whose
		// coverage would be taken for new.
		l := value(net.ListenUnix("unix", &net.UnixAddr{Net: "unix"}))(t)
		at, ok := l.Addr().(*net.UnixAddr)
		if !ok {
			t.Fatalf("address %v", l.Addr())
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- cards.Serve(ctx, l, d, 0) }()
		defer func() {
			cancel()
			must(t, <-ended)
		}()
		dial := func() *net.UnixConn {
			c := value(net.DialUnix("unix", nil, at))(t)
			must(t, c.SetDeadline(time.Now().Add(10*time.Second)))
			return c
		}
		greeted := func() (*net.UnixConn, *serve.Conn) {
			u := dial()
			c := serve.NewConn(u)
			must(t, c.Greet(serve.ServiceCard, -1))
			return u, c
		}
		call := func(c *serve.Conn, h serve.Head) uint64 {
			r, out, err := c.Call(&h, nil)
			must(t, errors.Join(err, r.Err(out)))
			return r.Val
		}
		_, process := greeted()
		defer process.Close()
		token := call(process, serve.Head{Op: opProcess})
		work, c := greeted()
		call(c, serve.Head{Op: opJoin, Val: token})
		bare, _ := greeted()
		rude := dial()
		for _, in := range []struct {
			c *net.UnixConn
			b []byte
		}{{work, first}, {work, then}, {bare, then}, {rude, then}} {
			_, _ = in.c.Write(in.b) // the server may have hung up
		}
		for _, c := range []*net.UnixConn{work, bare, rude} {
			_ = c.CloseWrite()                                           // the same
			_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // an exclusive open waits for its own process
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
		_ = process.Close()
		for end := time.Now().Add(10 * time.Second); d.Node(0).OpenFiles() != 0; time.Sleep(50 * time.Microsecond) {
			if time.Now().After(end) {
				t.Fatal("the client's files stay open")
			}
		}
	})
}
