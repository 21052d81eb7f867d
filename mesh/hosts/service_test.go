package hosts

import (
	"net"
	"net/rpc"
	"strings"
	"testing"
	"time"
)

// Invalid requests to a host's listener are refused, and the exchange goes on.
func TestServiceRefuses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n, err := Listen(t.Context(), Config{Size: 3, Fan: 2, Listener: l})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close() }()
	dial := func() *rpc.Client {
		t.Helper()
		c, err := rpc.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	hello := func(c *rpc.Client, rank int) error {
		return c.Call("Hosts.Hello", &Greeting{rank, 3, 2}, &Greeting{})
	}
	refused := func(c *rpc.Client, q Request, says string) {
		t.Helper()
		if err := c.Call("Hosts.Gather", &q, &Reply{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", q, err, says)
		}
	}
	mine := func(rank int) []byte { return encode([]part{{rank, []byte("go"), nil}}) }
	one, two, other := dial(), dial(), dial()
	for _, rank := range []int{-1, 0, 3, 1 << 40} {
		if err := hello(other, rank); err == nil {
			t.Errorf("host %d may call host 0", rank)
		}
	}
	refused(other, Request{0, mine(1)}, "can't send the part of host 1")
	if err := hello(one, 1); err != nil {
		t.Fatal(err)
	}
	if err := hello(two, 2); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := n.Exchange(t.Context(), "go", nil)
		done <- err
	}()
	for !n.Begun() {
		time.Sleep(time.Millisecond)
	}
	refused(one, Request{0, []byte{1, 200}}, "truncated")
	refused(one, Request{0, nil}, "sent no parts")
	refused(one, Request{0, mine(2)}, "can't send the part of host 2")
	refused(one, Request{2, mine(1)}, "the next one is 0")
	early := one.Go("Hosts.Gather", &Request{0, mine(1)}, &Reply{}, nil)
	for n.given() != 2 {
		time.Sleep(time.Millisecond)
	}
	refused(one, Request{0, mine(1)}, "twice")
	refused(one, Request{0, nil}, "sent no parts")
	if err := two.Call("Hosts.Gather", &Request{0, mine(2)}, &Reply{}); err != nil {
		t.Error(err)
	}
	if err := (<-early.Done).Error; err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
