package mpi

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/mesh/hosts"
	"github.com/reprise-tt/reprise/mesh/hosts/hoststest"
)

type memory struct {
	mu      sync.Mutex
	sent    [][][]byte // by all-gather and rank
	revoked bool
	gone    []int
}

type member struct {
	m       *memory
	me, all int
	round   int
	recv    []byte
	ft      bool
}

var errRevoked = &Error{"Test", 77, "revoked"}

func (c *member) rank() int                   { return c.me }
func (c *member) size() int                   { return c.all }
func (c *member) alloc(n int) ([]byte, error) { return make([]byte, n), nil }
func (c *member) free(b []byte)               { clear(b) }
func (c *member) faultTolerant() bool         { return c.ft }
func (c *member) finalize() error             { return nil }

func (c *member) failed() []int {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	return slices.Clone(c.m.gone)
}

func (c *member) revoke() {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.revoked = true
}

func (c *member) start(send, recv []byte, _ []int) error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if c.m.revoked {
		return errRevoked
	}
	if c.round == len(c.m.sent) {
		c.m.sent = append(c.m.sent, make([][]byte, c.all))
	}
	c.m.sent[c.round][c.me], c.recv = append([]byte{}, send...), recv
	return nil
}

func (c *member) test() (bool, error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if sent := c.m.sent[c.round]; !slices.ContainsFunc(sent, func(b []byte) bool { return b == nil }) {
		copy(c.recv, bytes.Join(sent, nil))
		c.round++
		return true, nil
	}
	if c.m.revoked {
		return false, errRevoked
	}
	return false, nil
}

func inMemory(t *testing.T, n int) []*Engine {
	t.Helper()
	m, out := &memory{}, make([]*Engine, n)
	for i := range out {
		var err error
		if out[i], err = newEngine(&member{m: m, me: i, all: n, ft: true}, dispatch.Pace{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = out[i].Close(context.Background()) })
	}
	return out
}

func TestEngine(t *testing.T) { hoststest.Test(t, inMemory) }

// A second all-gather follows only for what the frames don't have.
func TestGathers(t *testing.T) {
	long := func(s string) []byte { return []byte(strings.Repeat(s, 1000)) }
	for _, tc := range []struct {
		name string
		op   func(rank int) string
		data func(rank int) []byte
		want [][]int // bytes that each of three hosts sends in each all-gather
	}{
		{"nothing", nil, func(int) []byte { return nil }, [][]int{{64, 64, 64}}},
		{"short", nil, func(rank int) []byte { return make([]byte, 5*rank) }, [][]int{{64, 64, 64}}},
		{"as long as fits", nil, func(rank int) []byte { return []byte(strings.Repeat(string(rune('a'+rank)), inlineSize)) }, [][]int{{64, 64, 64}}},
		{"equal", nil, func(int) []byte { return long("x") }, [][]int{{64, 64, 64}}},
		{"one is too long for a frame", nil, func(rank int) []byte { return make([]byte, 15+rank) }, [][]int{{64, 64, 64}, {15, 16, 17}}},
		{"long", nil, func(rank int) []byte { return long(string(rune('a' + rank))) }, [][]int{{64, 64, 64}, {1000, 1000, 1000}}},
		{"too large", nil, func(rank int) []byte { return make([]byte, MaxData+rank) }, [][]int{{64, 64, 64}}},
		{"operations", func(rank int) string { return strings.Repeat("o", 1+rank) }, func(int) []byte { return long("x") }, [][]int{{64, 64, 64}, {1, 2, 3}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			engines := inMemory(t, 3)
			hoststest.Each(engines, func(e *Engine) error {
				op := "step"
				if tc.op != nil {
					op = tc.op(e.Rank())
				}
				_, err := e.Exchange(t.Context(), op, tc.data(e.Rank()))
				return err
			})
			var got [][]int
			for _, sent := range engines[0].c.(*member).m.sent {
				var sizes []int
				for _, b := range sent {
					sizes = append(sizes, len(b))
				}
				got = append(got, sizes)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTooLarge(t *testing.T) {
	engines := inMemory(t, 3)
	for i, err := range hoststest.Each(engines, func(e *Engine) error {
		_, err := e.Exchange(t.Context(), "data", make([]byte, MaxData+e.Rank()-1))
		return err
	}) {
		if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "[2]") {
			t.Errorf("host %d: %v", i, err)
		}
	}
	if errs := hoststest.Each(engines, func(e *Engine) error { return hoststest.Data(t.Context(), e) }); errors.Join(errs...) != nil {
		t.Error(errs)
	}
}

func TestLongNames(t *testing.T) {
	engines := inMemory(t, 2)
	for i, err := range hoststest.Each(engines, func(e *Engine) error {
		_, err := e.Exchange(t.Context(), strings.Repeat("x", maxOp)+string(rune('a'+e.Rank())), nil)
		return err
	}) {
		expect.Fails(t, err, hosts.ErrOrder, "host %d", i)
	}
}

func TestLeave(t *testing.T) {
	engines := inMemory(t, 3)
	engines[0].c.(*member).m.gone = []int{1}
	for i, err := range hoststest.Each(engines, func(e *Engine) error {
		if e.Rank() == 1 {
			e.Leave()
			return nil
		}
		_, err := e.Exchange(t.Context(), "step", nil)
		return err
	}) {
		var lost *hosts.LostError
		if i != 1 && (!errors.As(err, &lost) || !errors.Is(err, hosts.ErrGone) || !slices.Equal(lost.Ranks, []int{1})) {
			t.Errorf("host %d: %v", i, err)
		}
	}
	if _, err := engines[1].Exchange(t.Context(), "step", nil); !errors.Is(err, hosts.ErrClosed) {
		t.Error(err)
	}
}

func TestWatch(t *testing.T) {
	engines := inMemory(t, 2)
	ctx, stop := engines[0].Watch(t.Context())
	if err := errors.Join(hoststest.Each(engines,
		func(e *Engine) error { _, err := e.Exchange(ctx, "step", nil); return err })...); err != nil {
		t.Fatal(err)
	}
	m := engines[0].c.(*member).m
	m.mu.Lock()
	m.gone = []int{1}
	m.mu.Unlock()
	<-ctx.Done()
	_, err := engines[0].Exchange(t.Context(), "step", nil)
	for _, err := range []error{context.Cause(ctx), err} {
		var lost *hosts.LostError
		if !errors.As(err, &lost) || !errors.Is(err, hosts.ErrGone) || !slices.Equal(lost.Ranks, []int{1}) {
			t.Error(err)
		}
	}
	expect.Fails(t, err, hosts.ErrBroken, "error")
	stop()

	alone := inMemory(t, 1)[0]
	alone.c.(*member).ft = false
	ctx, stop = alone.Watch(t.Context())
	expect.Fails(t, ctx.Err(), nil, "error")
	stop()
}

func TestFrame(t *testing.T) {
	for _, data := range []string{"", "a", strings.Repeat("x", inlineSize), strings.Repeat("x", inlineSize+1), strings.Repeat("x", MaxData),
		strings.Repeat("x", MaxData+1)} {
		want, b := newFrame("op", []byte(data)), make([]byte, frameSize)
		want.put(b)
		got, err := getFrame(b)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%d B: %v %s", len(data), err, diff)
		}
		for _, at := range []int{0, 3, 10, 12} {
			bad := slices.Clone(b)
			bad[at] ^= 0x7F
			expect.Fails(t, expect.ErrOf(getFrame(bad)), ErrFrame, "%d B, byte %d changed", len(data), at)
		}
	}
	if _, err := getFrame(nil); !errors.Is(err, ErrFrame) {
		t.Error(err)
	}
}

func FuzzFrame(f *testing.F) {
	for _, data := range []string{"", "a", strings.Repeat("x", 100)} {
		b := make([]byte, frameSize)
		fr := newFrame("op", []byte(data))
		fr.put(b)
		f.Add(b)
	}
	own := newFrame("op", []byte("own"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fr, err := getFrame(b)
		if err != nil {
			expect.Fails(t, err, ErrFrame, "error")
			return
		}
		again := make([]byte, frameSize)
		fr.put(again)
		if !bytes.Equal(again, b) {
			t.Errorf("%x comes back as %x", b, again)
		}
		p := newPlan([]frame{own, fr})
		for i, n := range p.sizes([]frame{own, fr}) {
			if n < 0 || n > MaxData {
				t.Errorf("host %d sends %d B", i, n)
			}
		}
	})
}
