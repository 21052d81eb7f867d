//go:build linux

package share_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/share"
)

// message is a request on the wire: op, width, object, length of what follows, offset, value, and what follows.
func message(op, width uint8, object, n uint32, off, val uint64, payload ...byte) []byte {
	b := []byte{op, width, 0, 0}
	b = binary.LittleEndian.AppendUint32(b, object)
	b = binary.LittleEndian.AppendUint32(b, n)
	b = binary.LittleEndian.AppendUint64(b, off)
	b = binary.LittleEndian.AppendUint64(b, val)
	return append(b, payload...)
}

// Whatever a client sends, the server goes on: others can open the card afterwards, and nothing of the client is left.
//
// The fuzzer shows 0 executions per second while both of its workers minimize inputs, which it counts when they have
// ended, after up to a minute each: -fuzzminimizetime 10x ends that.
func FuzzServer(f *testing.F) {
	// Hello; join and open a file, ask it, map it, access the mapping, unmap, close; a name; nonsense.
	f.Add([]byte{}, message(1, 0, 0, 0, 0, 0))
	f.Add(message(4, 0, 0, 0, 0, 2), message(6, 0, 1, 16, 0, 0xFA05, make([]byte, 16)...))
	f.Add(message(4, 0, 0, 0, 0, 2), append(message(7, 0, 1, 0, 0, 4096), message(9, 4, 2, 0, 0, 0)...))
	f.Add(message(4, 0, 0, 0, 0, 2), append(message(7, 0, 1, 0, 0, 4096), message(11, 0, 2, 0, 0, 1<<40)...))
	f.Add(message(4, 0, 0, 0, 0, 2), append(message(7, 0, 1, 0, 0, 4096), message(8, 0, 2, 0, 0, 0)...))
	f.Add(message(4, 0, 0, 0, 0, 2), append(message(14, 0, 1, 0, 0, 0), message(5, 0, 1, 0, 0, 0)...))
	f.Add(message(4, 0, 0, 0, 0, 2), message(6, 0, 1, 40, 1<<60, 0xFA07, make([]byte, 40)...))
	f.Add(message(3, 0, 0, 4, 0, 0, []byte("proc")...), message(12, 0, 0, 1<<31, 0, 0))
	card := sim.Blackhole()
	d, err := card.Driver()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = card.Close() }) // its last file is closed
	f.Fuzz(func(t *testing.T, first, then []byte) {
		// Each input has a server of its own, which has ended when the input has: nothing of one input happens during the
		// next, whose coverage would be taken for new and looked into for as long as the fuzzer is allowed to. The socket
		// has no file that a killed fuzzer could leave.
		l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		at, ok := l.Addr().(*net.UnixAddr)
		if !ok {
			t.Fatalf("address %v", l.Addr())
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- share.Serve(ctx, l, d, 0) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		dial := func() *net.UnixConn {
			c, err := net.DialUnix("unix", nil, at)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			return c
		}
		process := dial()
		defer process.Close()
		// A process in good order, so that the input gets somewhere.
		reply := make([]byte, 20)
		if _, err := process.Write(message(1, 0, 0, 0, 0, 0)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(process, reply); err != nil {
			t.Fatal(err)
		}
		work, bare := dial(), dial()
		join := message(2, 0, 0, 0, 0, binary.LittleEndian.Uint64(reply[12:]))
		for _, in := range []struct {
			c *net.UnixConn
			b []byte
		}{{work, join}, {work, first}, {work, then}, {bare, then}} {
			_, _ = in.c.Write(in.b) // the server may have hung up
		}
		for _, c := range []*net.UnixConn{work, bare} {
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
