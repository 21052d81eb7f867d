package hosts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/mesh/hosts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listen starts the nodes of several hosts in one process, connected over the loopback interface.
func listen(t testing.TB, size, fan int) []*hosts.Node {
	t.Helper()
	ls := make([]net.Listener, size)
	for i := range ls {
		var err error
		if ls[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	nodes := make([]*hosts.Node, size)
	for i := range nodes {
		var err error
		nodes[i], err = hosts.Listen(t.Context(), hosts.Config{Rank: i, Size: size, Fan: fan, Listener: ls[i], Dial: dial(ls)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = nodes[i].Close() })
	}
	return nodes
}

func dial(ls []net.Listener) func(context.Context, int) (net.Conn, error) {
	return func(ctx context.Context, rank int) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", ls[rank].Addr().String())
	}
}

// all calls f for each host concurrently and returns their errors.
func all(nodes []*hosts.Node, f func(*hosts.Node) error) []error {
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { errs[i] = f(n) })
	}
	wg.Wait()
	return errs
}

// Every host gets the parts of every host, in each exchange, for any tree.
func TestExchange(t *testing.T) {
	for _, c := range []struct{ size, fan int }{{1, 1}, {2, 1}, {5, 1}, {9, 2}, {64, 8}, {64, 63}} {
		t.Run(fmt.Sprintf("%d hosts, fan %d", c.size, c.fan), func(t *testing.T) {
			nodes := listen(t, c.size, c.fan)
			err := errors.Join(all(nodes, func(n *hosts.Node) error {
				for round := range 5 {
					got, err := n.Exchange(t.Context(), "count", []byte{byte(n.Rank()), byte(round)})
					if err != nil {
						return err
					}
					for i, b := range got {
						if !bytes.Equal(b, []byte{byte(i), byte(round)}) {
							return fmt.Errorf("host %d, round %d: host %d gave %v", n.Rank(), round, i, b)
						}
					}
					if len(got) != n.Size() {
						return fmt.Errorf("%d parts of %d hosts", len(got), n.Size())
					}
				}
				return nil
			})...)
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Hosts that do different operations get an error, and can go on with equal ones.
func TestDifferentThings(t *testing.T) {
	nodes := listen(t, 3, 2)
	for i, err := range all(nodes, func(n *hosts.Node) error {
		_, err := n.Exchange(t.Context(), []string{"replay", "replay", "release"}[n.Rank()], nil)
		return err
	}) {
		if !errors.Is(err, hosts.ErrOrder) {
			t.Errorf("host %d: %v", i, err)
		}
	}
	for i, err := range all(nodes, func(n *hosts.Node) error {
		_, err := n.Exchange(t.Context(), "replay", nil)
		return err
	}) {
		if err != nil {
			t.Errorf("host %d: %v", i, err)
		}
	}
}

// A host that is gone ends the exchange of the one above it without a time-out, and the error names the missing hosts.
func TestHostGone(t *testing.T) {
	nodes := listen(t, 7, 2)
	if err := nodes[5].Close(); err != nil { // it calls host 2
		t.Fatal(err)
	}
	errs := all(slices.Delete(slices.Clone(nodes), 5, 6), func(n *hosts.Node) error {
		_, err := n.Exchange(t.Context(), "replay", nil)
		if err != nil {
			err = errors.Join(err, n.Close()) // as a process does that ends
		}
		return err
	})
	for i, err := range errs {
		if err == nil {
			t.Errorf("host %d exchanged without host 5", i)
		}
	}
	var lost *hosts.LostError
	if !errors.As(errs[2], &lost) || !slices.Contains(lost.Ranks, 5) || !errors.Is(errs[2], hosts.ErrGone) {
		t.Errorf("host 2: %v", errs[2])
	}
	if !errors.As(errs[0], &lost) || !slices.Contains(lost.Ranks, 5) {
		t.Errorf("host 0: %v", errs[0])
	}
}

// A context that has ended before an exchange starts breaks nothing. One that ends in the middle breaks the engines above and
// below.
func TestExchangeEndsWithItsContext(t *testing.T) {
	nodes := listen(t, 3, 2)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := nodes[0].Exchange(ctx, "replay", nil)
		failed <- err
	}()
	for !nodes[0].Begun() {
		time.Sleep(time.Millisecond)
	}
	cancel()
	var lost *hosts.LostError
	if err := <-failed; !errors.As(err, &lost) || !errors.Is(err, context.Canceled) || !slices.Equal(lost.Ranks, []int{1, 2}) {
		t.Fatal(err)
	}
	if _, err := nodes[0].Exchange(t.Context(), "replay", nil); !errors.Is(err, hosts.ErrBroken) {
		t.Errorf("after that: %v", err)
	}
	if _, err := nodes[1].Exchange(ctx, "replay", nil); !errors.Is(err, context.Canceled) || errors.As(err, &lost) {
		t.Errorf("with a context that has ended: %v", err)
	}
	if _, err := nodes[1].Exchange(t.Context(), "replay", nil); !errors.Is(err, hosts.ErrElsewhere) {
		t.Errorf("below: %v", err)
	}
	if _, err := nodes[1].Exchange(t.Context(), "replay", nil); !errors.Is(err, hosts.ErrBroken) {
		t.Errorf("below, after that: %v", err)
	}
}

func TestConfigsThatCannotBe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	top, err := hosts.Listen(t.Context(), hosts.Config{Size: 3, Fan: 2, Listener: l})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = top.Close() }()
	d := dial([]net.Listener{l})
	one, err := hosts.Listen(t.Context(), hosts.Config{Rank: 1, Size: 3, Fan: 2, Dial: d})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = one.Close() }()
	for _, c := range []struct {
		config hosts.Config
		says   string
	}{
		{hosts.Config{}, "rank 0 of 0"},
		{hosts.Config{Rank: 3, Size: 3}, "rank 3 of 3"},
		{hosts.Config{Rank: -1, Size: 3}, "rank -1"},
		{hosts.Config{Size: 1, Fan: -1}, "fan -1"},
		{hosts.Config{Rank: 1, Size: 2}, "no Dial"},
		{hosts.Config{Size: 2}, "no Listener"},
		{hosts.Config{Rank: 1, Size: 3, Fan: 2, Dial: d}, "host 1 has connected before"},
		{hosts.Config{Rank: 2, Size: 4, Fan: 2, Dial: d}, "4 hosts with fan 2 there"},
	} {
		n, err := hosts.Listen(t.Context(), c.config)
		if err == nil {
			_ = n.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.config, err, c.says)
		}
	}
	no := errors.New("no route")
	_, err = hosts.Listen(t.Context(), hosts.Config{Rank: 1, Size: 2, Dial: func(context.Context, int) (net.Conn, error) { return nil, no }})
	if !errors.Is(err, no) {
		t.Error(err)
	}
	_, err = hosts.Listen(t.Context(), hosts.Config{Rank: 1, Size: 2, Dial: func(context.Context, int) (net.Conn, error) { return nil, nil }})
	if !errors.Is(err, hosts.ErrConfig) {
		t.Errorf("no connection: %v", err)
	}
}

// BenchmarkExchange measures the processor time of many hosts on one machine: that of one host is ns/op times the processors
// divided by the hosts.
func BenchmarkExchange(b *testing.B) {
	for _, c := range []struct{ size, fan int }{{8, 8}, {64, 8}, {64, 63}, {512, 8}, {512, 511}} {
		b.Run(fmt.Sprintf("hosts=%d/fan=%d", c.size, c.fan), func(b *testing.B) {
			nodes := listen(b, c.size, c.fan)
			b.ResetTimer()
			if err := errors.Join(all(nodes, func(n *hosts.Node) error {
				for range b.N {
					if _, err := n.Exchange(b.Context(), "replay", nil); err != nil {
						return err
					}
				}
				return nil
			})...); err != nil {
				b.Fatal(err)
			}
		})
	}
}
