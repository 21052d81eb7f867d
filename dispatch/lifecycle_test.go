package dispatch

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/dispatch/postmortem"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/driver"
)

func TestCloseWithFullRings(t *testing.T) {
	kd := opened(t, sim.Blackhole())
	d, err := Start(t.Context(), kd, Options{QueueMemory: 1 << 20, HangTimeout: 200 * time.Millisecond})
	must(t, err)
	q := d.Queue(0)
	garbage := make([]byte, 64)
	garbage[0] = 0xEE
	must(t, q.Send(t.Context(), garbage, false))
	for d.report.Core(q.tiles.prefetch).Processors[chip.BRISC].Waypoint != "BADC" { // or it would take some of what comes next
		time.Sleep(time.Millisecond)
	}
	fillRing(t, q, memmap.MaxCommandSize)
	fillRing(t, q, 64)
	err = d.Close(t.Context())
	var hang *HangError
	if !errors.As(err, &hang) || hang.Waiting != "space in the issue queue" || errors.Is(err, errClosed) {
		t.Errorf("closed with %v, want a *HangError", err)
	}
	for what, err := range map[string]error{"finish": d.Queue(0).Wait(t.Context()), "send": q.Send(context.Background(), garbage, false)} {
		if !errors.As(err, &hang) && !errors.Is(err, errClosed) {
			t.Errorf("%s of a closed queue: %v", what, err)
		}
	}
}

func opened(t *testing.T, target kmd.Target) *kmd.Device {
	t.Helper()
	kd, err := kmd.Open(t.Context(), target)
	must(t, err)
	t.Cleanup(func() {
		must(t, kd.Close())
	})
	return kd
}

func started(t *testing.T, target kmd.Target, o Options) *Device {
	t.Helper()
	d, err := Start(t.Context(), opened(t, target), o)
	must(t, err)
	t.Cleanup(func() {
		must(t, d.Close(context.WithoutCancel(t.Context())))
	})
	return d
}

func unpluggable(t *testing.T, queues int) (*Device, *driver.Driver) {
	t.Helper()
	card := sim.Blackhole()
	drv, err := card.Driver()
	must(t, err)
	kd, err := kmd.Open(t.Context(), card)
	must(t, err)
	t.Cleanup(func() { _ = kd.Close() })
	d, err := Start(t.Context(), kd, Options{QueueMemory: 1 << 20, Queues: queues})
	must(t, err)
	t.Cleanup(func() { _ = d.Close(context.Background()) }) // what can't be released belongs to a lost card
	return d, drv
}

func TestWaitsBesideQueuesOfALostCard(t *testing.T) {
	for name, look := range map[string]func(q *Queue){
		"what has come":  func(q *Queue) { q.drainOthers() },
		"what has moved": func(q *Queue) { q.progressLifeLocked() },
		"a dump":         func(q *Queue) { collected(q) },
	} {
		t.Run(name, func(t *testing.T) {
			d, drv := unpluggable(t, 2)
			q, other := d.Queue(0), d.Queue(1)
			if _, _, err := other.record(t.Context(), "something", false, nil); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(time.Minute); other.comp.ring.available() == 0; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("nothing is reported")
				}
			}
			must(t, drv.Unplug(0))
			err := d.kd.Guard(func() error { look(q); return nil })
			if err != nil && !errors.Is(err, kmd.ErrDeviceLost) {
				t.Error(err)
			}
			for _, q := range []*Queue{q, other} {
				if !q.life.mu.TryLock() {
					t.Fatalf("after a look that ended with %v somebody has the life of queue %d", err, q.id)
				}
				q.life.mu.Unlock()
			}
			_ = d.Close(t.Context()) // what can't be released belongs to a lost card
			_ = d.kd.Close()
			if n := drv.Node(0).OpenFiles(); n != 0 {
				t.Errorf("%d files are open", n)
			}
		})
	}
}

func TestRestartAfterABadCommand(t *testing.T) {
	garbage := make([]byte, 64)
	garbage[0] = 0xEE
	inRelay := make([]byte, 64)
	b := cq.NewBuilder(cq.Blackhole, nil)
	b.Wait(cq.Master, cq.Wait{})
	relay, err := b.Finish()
	must(t, err)
	copy(inRelay, relay)
	inRelay[cq.AtRelayed] = 0xEE
	kd, err := kmd.Open(t.Context(), sim.Blackhole())
	must(t, err)
	defer func() {
		must(t, kd.Close())
	}()
	d, err := Start(t.Context(), kd, Options{HangTimeout: time.Second, QueueMemory: 1 << 20})
	must(t, err)
	defer func() {
		must(t, d.Close(t.Context()))
	}()
	q := d.Queue(0)
	buffer := Interleaved{DRAM: true, Addr: 1 << 20, PageSize: 64, HostPage: 64, Pages: 3, Banks: 8}
	for _, tt := range []struct {
		name     string
		commands []byte
		says     []string
	}{
		{"prefetcher", garbage, []string{"(prefetch)", "BRISC   BADC", "has stopped for good at a command it doesn't know, which begins with the word 0x000000ee"}},
		{"dispatcher", inRelay, []string{"(dispatch)", "BRISC   BADC", "has stopped for good at a command it doesn't know, which begins with the word 0x000000ee", "dispatch ring", "page   2  ? 0x000000ee  <- stopped here"}},
	} {
		must(t, q.Send(t.Context(), tt.commands, false))
		err := q.Wait(t.Context())
		var h *HangError
		if !errors.As(err, &h) {
			t.Fatalf("%s: %v, want a *HangError", tt.name, err)
		}
		rest := h.Detail()
		for _, part := range tt.says {
			_, after, ok := strings.Cut(rest, part)
			if !ok {
				t.Errorf("%s: the report doesn't say %q:\n%s", tt.name, part, h.Detail())
			}
			rest = after
		}
		ended := errors.New("restarted")
		d.Interrupt(ended)
		if err := q.Wait(t.Context()); !errors.As(err, &h) {
			t.Errorf("%s: after an interruption: %v, want the first cause", tt.name, err)
		}
		content := []byte(strings.Repeat("0123456789abcdef", 3*64/16))
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		contents := []Content{{Name: "digits", At: buffer, Data: content}}
		if err := d.Restart(cancelled, contents); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: cancelled restart: %v", tt.name, err)
		}
		short := []Content{{Name: "few", At: buffer, Data: content[1:]}}
		if err := d.Restart(t.Context(), short); err == nil || !strings.Contains(err.Error(), "write few: 191 B for a buffer of 192 B") {
			t.Errorf("%s: contents of another size: %v", tt.name, err)
		}
		if err := d.Restart(t.Context(), contents); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		got := make([]byte, len(content))
		if err := q.Read(t.Context(), &buffer, 0, got); err != nil || string(got) != string(content) {
			t.Errorf("%s: after the restart: %v, read %q", tt.name, err, got)
		}
	}
}

const mostImage = 32 << 20 // bytes of a trace that a dump keeps

func collected(q *Queue) *Dump {
	w := wait{q: q, what: "nothing"}
	q.life.mu.RLock()
	defer q.life.mu.RUnlock()
	return q.d.report.Collect(w.describeLifeLocked(ErrTimeout))
}

func encode(tb testing.TB, d *Dump) []byte {
	tb.Helper()
	var b bytes.Buffer
	if _, err := d.WriteTo(&b); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func TestDumpBesideALargeTrace(t *testing.T) {
	d := started(t, sim.Wormhole(), Options{QueueMemory: 1 << 20})
	q := d.Queue(0)
	for _, size := range []int{mostImage, mostImage + 1} {
		q.history.replayed.Store(&Prepared{Name: "trace", Image: make([]byte, size)})
		got, err := postmortem.ReadDump(bytes.NewReader(encode(t, collected(q))))
		if err != nil {
			t.Errorf("a trace of %d B: %v", size, err)
			continue
		}
		if r, ok := got.Region(postmortem.RegionTrace, q.tiles.prefetch); ok != (size <= mostImage) || ok && len(r.Data) != size {
			t.Errorf("a trace of %d B: it is there %v, with %d B", size, ok, len(r.Data))
		}
	}
}

func TestDumpOfForgottenTrace(t *testing.T) {
	d := started(t, sim.Wormhole(), Options{})
	q := d.Queue(0)
	p := &Prepared{Name: "trace", Image: []byte("the trace's commands")}
	q.history.replayed.Store(p)
	dump := collected(q)
	q.Forget(&Prepared{})
	if r, ok := collected(q).Region(postmortem.RegionTrace, q.tiles.prefetch); !ok {
		t.Errorf("after another trace was forgotten, the dump has %v", r)
	}
	q.Forget(p)
	clear(p.Image)
	if r, ok := dump.Region(postmortem.RegionTrace, q.tiles.prefetch); !ok || string(r.Data) != "the trace's commands" {
		t.Errorf("the dump has %q of the trace", r.Data)
	}
	if r, ok := collected(q).Region(postmortem.RegionTrace, q.tiles.prefetch); ok {
		t.Errorf("the dump has %q of a trace that was forgotten", r.Data)
	}
}
