package session

import (
	"errors"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/seam"
)

func recorded(events ...Event) *Session {
	return &Session{Events: append([]Event{{Kind: KindOpen, Value: 2}, {Kind: KindMmap, Off: 1 << 20, Size: 4096}}, events...)}
}

func stored(off, v uint64) Event { return Event{Kind: KindStore, Off: off, Size: 4, Value: v} }
func loaded(off, v uint64) Event { return Event{Kind: KindLoad, Off: off, Size: 4, Value: v} }

func wrote() Event { return Event{Kind: KindDevice, Value: 2} }

func host(t *testing.T, p *Player) (seam.File, seam.MMIO) {
	t.Helper()
	f := expect.Value(p.Node().Open(2))(t)
	m, err := f.Mmap(1<<20, 4096)
	expect.Must(t, err)
	return f, m.IO
}

func TestOrder(t *testing.T) {
	closed := Event{Kind: KindClose}
	for _, tt := range []struct {
		name  string
		rec   []Event
		do    func(seam.File, seam.MMIO)
		index int
		want  string
	}{
		{"the same", []Event{stored(0, 1), stored(8, 2), closed}, func(f seam.File, m seam.MMIO) {
			m.Store(0, 4, 1)
			m.Store(8, 4, 2)
			_ = f.Close()
		}, -1, ""},
		{"another value", []Event{stored(0, 1), stored(8, 2)}, func(_ seam.File, m seam.MMIO) {
			m.Store(0, 4, 1)
			m.Store(8, 4, 3)
		}, 3, "0x2; now: file 0: store 32 bits at 0x8 of mapping 0: 0x3"},
		{"another order", []Event{stored(0, 1), stored(8, 2)}, func(_ seam.File, m seam.MMIO) { m.Store(8, 4, 2) }, 2, "at 0x0"},
		{"another order where the device has written", []Event{stored(0, 1), wrote(), stored(8, 2), stored(16, 3)}, func(f seam.File, m seam.MMIO) {
			m.Store(0, 4, 1)
			m.Store(16, 4, 3)
			m.Store(8, 4, 2)
		}, -1, ""},
		{"another order at one register", []Event{stored(0, 1), wrote(), stored(8, 2), stored(8, 3)}, func(_ seam.File, m seam.MMIO) {
			m.Store(0, 4, 1)
			m.Store(8, 4, 3)
		}, 4, "0x2"},
		{"one left out before the end", []Event{stored(0, 1), stored(8, 2), closed}, func(f seam.File, m seam.MMIO) {
			m.Store(0, 4, 1)
			_ = f.Close()
		}, 3, "at 0x8"},
		{"one more", []Event{stored(0, 1)}, func(_ seam.File, m seam.MMIO) {
			m.Store(0, 4, 1)
			m.Store(0, 4, 1)
		}, 3, "recorded: nothing more"},
		{"a load that there is not", []Event{loaded(0, 1), stored(0, 1)}, func(_ seam.File, m seam.MMIO) { m.Load(8, 4) }, 3, "load 32 bits at 0x8"},
		{"a width that there is not", []Event{loaded(0, 1), stored(0, 1)}, func(_ seam.File, m seam.MMIO) { m.Load(0, 8) }, 3, "load 64 bits at 0x0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := recorded(tt.rec...).Player()
			defer p.quiet.Stop()
			f, m := host(t, p)
			tt.do(f, m)
			var d *DifferenceError
			switch {
			case tt.index < 0:
				if p.Err() != nil || p.Left() != 0 {
					t.Errorf("%v, %d left", p.Err(), p.Left())
				}
			case !errors.As(p.Err(), &d) || d.Index != tt.index || !strings.Contains(d.Error(), tt.want):
				t.Errorf("%v, want event %d and %q", p.Err(), tt.index, tt.want)
			}
		})
	}
}

func TestLooks(t *testing.T) {
	p := recorded(loaded(0, 1), loaded(0, 2), loaded(0, 3), stored(8, 1), loaded(0, 4), loaded(0, 5), stored(8, 2), stored(8, 3)).Player()
	_, m := host(t, p)
	var got []uint64
	load := func(n int) {
		for range n {
			got = append(got, m.Load(0, 4))
		}
	}
	load(2)
	m.Store(8, 4, 1)
	load(4)
	m.Store(8, 4, 2)
	load(2)
	want := []uint64{1, 2, 4, 5, 5, 5, 5, 5}
	if len(got) != len(want) || p.Err() != nil {
		t.Fatalf("%v, %v", got, p.Err())
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}

func TestStandingStillIsNoWait(t *testing.T) {
	p := recorded(loaded(0, 1), stored(0, 1)).Player()
	_, m := host(t, p)
	m.Load(0, 4)
	p.follow.seen = p.follow.seen.Add(-time.Hour)
	m.Load(8, 4)
	var d *DifferenceError
	if !errors.As(p.Err(), &d) || d.Index != 3 {
		t.Errorf("%v, want event 3 before a look at something else", p.Err())
	}
	p = recorded(loaded(0, 1), stored(0, 1)).Player()
	_, m = host(t, p)
	for p.follow.waited <= idleAfter {
		p.follow.seen = p.follow.seen.Add(-time.Hour)
		m.Load(0, 4)
	}
	if m.Load(8, 4); p.Err() != nil {
		t.Errorf("a look at something else after a long wait: %v", p.Err())
	}
	for n := 0; p.Err() == nil && n < 1000; n++ {
		p.follow.seen = p.follow.seen.Add(-time.Hour)
		m.Load(0, 4)
	}
	if !errors.As(p.Err(), &d) || !strings.Contains(d.Got, "the host waits") {
		t.Errorf("a host that waits forever: %v", p.Err())
	}
}

func TestArrivals(t *testing.T) {
	events := []Event{stored(0, 1), {Kind: KindFault, Value: 9, Text: "stopped"}, stored(0, 2)}
	p := recorded(events...).Player()
	p.quietAfter = time.Hour
	f, m := host(t, p)
	for range 20 {
		if err := f.Fault(); err != nil {
			t.Fatalf("too early: %v", err)
		}
	}
	m.Store(0, 4, 1)
	for i := 1; ; i++ {
		if err := f.Fault(); err != nil {
			if i != maxPolls || err.Error() != "stopped" {
				t.Errorf("look %d: %v, want it with look %d", i, err, maxPolls)
			}
			break
		}
	}
	p = recorded(events...).Player()
	_, m = host(t, p)
	m.Store(0, 4, 1)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(playedQuiet) {
		p.mu.Lock()
		fault := p.fault
		p.mu.Unlock()
		if fault != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a host that does nothing hears of nothing")
		}
	}
	p = recorded(events...).Player()
	p.quietAfter = time.Hour
	_, m = host(t, p)
	m.Store(0, 4, 1)
	m.Store(0, 4, 2) // without a look
	if p.fault == nil || p.Err() != nil {
		t.Errorf("fault %v, difference %v", p.fault, p.Err())
	}
}

func TestPlaces(t *testing.T) {
	alloc := func(id byte) Event {
		in := make([]byte, 16)
		in[2] = 0x20 // 2 MiB
		out := make([]byte, 32)
		out[0], out[9], out[17] = id, 0x10+id, 0x20+id
		return Event{Kind: KindIoctl, Request: 0xFA0B, In: in, Data: append(in, out...)}
	}
	configure := func(id, x byte) Event {
		in := make([]byte, 40)
		in[0], in[16] = id, x
		return Event{Kind: KindIoctl, Request: 0xFA0D, In: in, Data: in}
	}
	key := func(id, x byte, off uint64) string {
		p := newPlaces()
		for _, e := range []Event{alloc(0), alloc(1), configure(1-id, 77), configure(id, x),
			{Kind: KindMmap, Off: uint64(0x10+id) << 8, Map: 4}} {
			p.note(&e)
		}
		return p.key(&Event{Kind: KindStore, Map: 4, Off: off, Size: 4})
	}
	if a, b := key(0, 5, 8), key(1, 5, 8); a != b {
		t.Errorf("two windows that lead to one place: %q and %q", a, b)
	}
	if a, b := key(0, 5, 8), key(0, 6, 8); a == b {
		t.Errorf("one window that leads to two places: %q", a)
	}
}

type waitingDevice struct{ wait func() }

func (d *waitingDevice) Node() seam.Node             { return d }
func (d *waitingDevice) String() string              { return "a device" }
func (d *waitingDevice) Open(int) (seam.File, error) { return d, nil }
func (d *waitingDevice) Ioctl(uint32, []byte) error  { return syscall.EINVAL }
func (d *waitingDevice) Close() error                { return nil }
func (d *waitingDevice) Fault() error                { return nil }

func (d *waitingDevice) Mmap(uint64, int) (seam.Mapping, error) {
	d.wait()
	return seam.Mapping{}, syscall.EINVAL
}

func TestGoroutinesAreNoticed(t *testing.T) {
	d := &waitingDevice{}
	r := Record(d, io.Discard)
	d.wait = sync.OnceFunc(func() { // the second one finds nothing to wait for
		for r.busy.Load() == 1 {
			time.Sleep(time.Millisecond)
		}
	})
	f := expect.Value(r.Node().Open(2))(t)
	var g errgroup.Group
	for range 2 {
		g.Go(func() error { _, err := f.Mmap(0, 4096); return err })
	}
	expect.Fails(t, g.Wait(), syscall.EINVAL, "g.Wait()")
	if err := errors.Join(f.Close(), r.Close()); !errors.Is(err, ErrConcurrent) {
		t.Error(err)
	}
}
