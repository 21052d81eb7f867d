package dispatch

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/dispatch/postmortem"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/nap"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/driver"
)

func TestLongLooksAreNoHang(t *testing.T) {
	const limit = time.Hour // far longer than the test itself takes
	for _, took := range []time.Duration{0, limit / 16, limit / 4, limit, 100 * limit} {
		w := newWaiter(limit, Pace{}, new(nap.Sleeper))
		for w.sleep == 0 {
			must(t, w.pause(t.Context()))
		}
		end := w.deadline.Add(took)
		w.polled(took)
		expect.Equal(t, w.deadline, end, "the end of the wait after a look of %v", took)
		if next := time.Until(w.check); next > limit/2 || next < limit/checks-limit/100 {
			t.Errorf("after a look of %v the next one is due in %v", took, next)
		}
		if w.due() {
			t.Errorf("after a look of %v another one is due at once", took)
		}
		w.deadline = w.deadline.Add(-limit / 2)
		expect.Fails(t, w.pause(t.Context()), nil, "after a look of %v", took)
		w.progress()
		if w.polled(took); !w.deadline.IsZero() || !w.check.IsZero() {
			t.Errorf("a look of %v that saw something move begins a wait", took)
		}
	}
}

func TestShortestTimeoutEnds(t *testing.T) {
	w := newWaiter(time.Nanosecond, Pace{}, new(nap.Sleeper))
	for range yieldRounds + 1<<10 {
		if err := w.pause(t.Context()); err != nil {
			expect.Fails(t, err, ErrTimeout, "error")
			return
		}
	}
	t.Error("it goes on and on")
}

func TestStoppedWaitsAreNoHang(t *testing.T) {
	const limit = time.Hour
	w := newWaiter(limit, Pace{}, new(nap.Sleeper))
	for w.sleep == 0 {
		must(t, w.pause(t.Context()))
	}
	for range 3 {
		w.asleep, w.deadline = w.asleep.Add(-2*limit), w.deadline.Add(-2*limit)
		if err := w.pause(t.Context()); err != nil {
			t.Fatalf("after a stop of twice the limit: %v", err)
		}
		if left := time.Until(w.deadline); left > limit || left < limit-limit/100 {
			t.Errorf("after a stop the wait ends in %v, of %v", left, limit)
		}
	}
	w.deadline = w.deadline.Add(-limit)
	expect.Fails(t, w.pause(t.Context()), ErrTimeout, "nothing has moved for the limit")
}

func TestWaitsLearn(t *testing.T) {
	const ms, us = time.Millisecond, time.Microsecond
	always := func(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }
	sometimes := func(usually, seldom time.Duration) func(int) time.Duration {
		return func(i int) time.Duration {
			if i%13 == 12 {
				return seldom
			}
			return usually
		}
	}
	for _, c := range []struct {
		name       string
		took, late func(int) time.Duration // by wait, and by sleep
	}{
		{"4 ms", always(4 * ms), always(0)},
		{"4 ms, late sleeps", always(4 * ms), always(50 * us)},
		{"4 ms, very late sleeps", always(4 * ms), always(120 * us)},
		{"4 ms, some very late sleeps", always(4 * ms), sometimes(30*us, 300*us)},
		{"4 ms, nearly", func(i int) time.Duration { return 4*ms + time.Duration(i*7%11-5)*4*us }, always(30 * us)},
		{"4 ms, some later", sometimes(4*ms, 4200*us), always(30 * us)},
		{"4 ms, some much later", sometimes(4*ms, 4900*us), always(30 * us)},
		{"4 ms, once 5", func(i int) time.Duration { return 4*ms + ms*time.Duration(i/200%2) }, always(30 * us)},
		{"40 ms", always(40 * ms), always(50 * us)},
		{"40 ms, once 4", func(i int) time.Duration { return 4*ms + 36*ms*time.Duration(i/200%2) }, always(50 * us)},
	} {
		var f forecasts
		task := task{last: "a", n: 1}
		var late []time.Duration
		var took, polled time.Duration
		naps := 0
		for i := range 400 {
			w := newWaiter(time.Hour, Pace{}, nil)
			w.expect(f.get(task))
			w.grown = minSleep
			end, at, looked := c.took(i), time.Duration(0), time.Duration(0)
			for at < end {
				looked = at
				if d := w.nap(w.begun.Add(at), c.late(0)); d > 0 {
					at += d + c.late(naps)
					naps++
				} else {
					at += us
					polled += us
				}
			}
			f.learn(task, period{looked, at})
			late = append(late, at-end)
			took += at
		}
		slices.Sort(late)
		if p50, p90 := late[len(late)/2], late[len(late)*9/10]; p50 > 20*us || p90 > 100*us || polled > took/12 {
			t.Errorf("%s: late by %v, nine of ten by at most %v, polled for %.1f %%", c.name, p50, p90, 100*polled.Seconds()/took.Seconds())
		}
	}
}

func TestPollsAroundEnd(t *testing.T) {
	for _, c := range []struct {
		limit, within time.Duration
		want          error
	}{{time.Hour, 100 * time.Millisecond, context.DeadlineExceeded}, {20 * time.Millisecond, time.Hour, ErrTimeout}} {
		ctx, cancel := context.WithTimeout(t.Context(), c.within)
		defer cancel()
		w := newWaiter(c.limit, Pace{}, new(nap.Sleeper))
		w.expect(forecast{seen: 2, mean: time.Hour})
		w.begun = w.begun.Add(-time.Hour)
		var err error
		for err == nil {
			if err = w.pause(ctx); w.rounds > yieldRounds && err == nil && w.sleep != 1 {
				t.Fatalf("slept %v", w.sleep)
			}
		}
		expect.Fails(t, err, c.want, "ended with")
	}
}

func TestTasks(t *testing.T) {
	d := started(t, sim.Wormhole(), Options{})
	q := d.Queue(0)
	of := func(runs, replays int, name *string) task {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.stream.runs, q.stream.replays = q.stream.runs+uint16(runs), q.stream.replays+uint32(replays)
		q.history.last.Store(name)
		t, _ := q.taskLocked()
		return t
	}
	wait := func() {
		t.Helper()
		must(t, q.Wait(t.Context()))
	}
	a, b := "a", "b"
	one := of(0, 1, &a)
	wait()
	expect.Equal(t, of(0, 1, &a), one, "the same replay after a wait")
	for what, got := range map[string]task{"two replays": of(0, 1, &a), "nothing more": of(0, 0, &b), "a program more": of(1, 0, &a)} {
		if got == one {
			t.Errorf("%s is the task of one replay", what)
		}
	}
	wait()
	for range 3 {
		of(0, 1, &a)
		wait()
	}
	q.forecasts.mu.Lock()
	defer q.forecasts.mu.Unlock()
	if got := q.forecasts.find(one); got == nil || got.seen < 3 {
		t.Errorf("after three waits for it: %+v, want a forecast of %+v", got, one)
	}
}

func TestEventRecords(t *testing.T) {
	for _, card := range []*sim.Card{sim.Wormhole(), sim.Blackhole()} {
		t.Run(card.String(), func(t *testing.T) {
			d := started(t, card, Options{Queues: 2, FirstEvent: 0x2A})
			for id := range 2 {
				words := make([]byte, 0x20)
				must(t, d.report.Read(d.Queue(id).tiles.dispatch, d.ctl.LastEvent[0], words))
				expect.NoDiff(t, wordsOf(words), []uint32{0x2A, 0, 0, 0, 0x2A, 0, 0, 0}, "words of the dispatch core of queue %d", id)
			}
			q := d.Queue(1)
			plain, timed := d.NewEvent("plain", false), d.NewEvent("timed", true)
			for _, e := range []*Event{plain, timed} {
				must(t, q.Record(t.Context(), e, 0))
				must(t, e.Wait(t.Context(), 0))
			}
			want := []uint32{3 | 1<<8 | 1<<16, 0, 32, 0, 0x2B, 0, 0, 0}
			expect.NoDiff(t, wordsOf(q.comp.ring.mem[:32]), want, "plain record")
			got := wordsOf(q.comp.ring.mem[memmap.PageSize : memmap.PageSize+32])
			cycles, ok := timed.DeviceTime()
			if !ok || cycles == 0 {
				t.Errorf("the timed event has the time %d, %v", cycles, ok)
			}
			want[4], want[5], want[6], want[7] = 0x2C, 1, uint32(cycles), uint32(cycles>>32)
			expect.NoDiff(t, got, want, "timed record")
		})
	}
}

func wordsOf(b []byte) []uint32 {
	var out []uint32
	for ; len(b) > 0; b = b[4:] {
		out = append(out, binary.LittleEndian.Uint32(b))
	}
	return out
}

// The dispatcher compares ids by their signed 32-bit difference.
func TestWaitForALongGoneRecording(t *testing.T) {
	d := started(t, sim.Blackhole(), Options{Queues: 2})
	old := d.NewEvent("old", false)
	must(t, d.Queue(0).Record(t.Context(), old, 0))
	for range 3 { // as if there had been 2^30 recordings in between, three times
		must(t, d.Queue(0).Wait(t.Context()))
		d.Queue(0).stream.event += 1 << 30
	}
	must(t, d.Queue(0).Wait(t.Context()))
	must(t, d.Queue(1).WaitEvent(t.Context(), old, 0))
	must(t, d.Queue(1).Wait(t.Context()))
}

func TestRecordingTakesReportsOut(t *testing.T) {
	d := started(t, sim.Blackhole(), Options{QueueMemory: 1 << 20})
	q, e := d.Queue(0), d.NewEvent("e", false)
	for range 200 {
		must(t, q.Record(t.Context(), e, 0))
		for int(q.comp.ring.available()) < q.comp.count()*memmap.PageSize { // until the device has reported all
			if t.Context().Err() != nil || q.comp.count() > tidyFrom+8 {
				break
			}
		}
	}
	if n := q.comp.count(); n > tidyFrom {
		t.Errorf("%d reports are outstanding, want at most %d", n, tidyFrom)
	}
}

func TestEventsWrap(t *testing.T) {
	for _, card := range []*sim.Card{sim.Wormhole(), sim.Blackhole()} {
		t.Run(card.String(), func(t *testing.T) {
			d := started(t, card, Options{})
			q := d.Queue(0)
			const start = 0xFFFFFFF8
			q.stream.event = start
			iv := Interleaved{DRAM: true, Addr: 1 << 20, PageSize: 64, HostPage: 64, Pages: 16, Banks: len(d.ch.DRAMBanks())}
			for i := range 16 {
				want, got := bytes.Repeat([]byte{byte(i + 1)}, iv.Bytes()), make([]byte, iv.Bytes())
				must(t, q.Write(t.Context(), &iv, 0, want))
				if err := q.Wait(t.Context()); err != nil {
					t.Fatalf("event %d: %v", q.stream.event, err)
				}
				if err := q.Read(t.Context(), &iv, 0, got); err != nil || !bytes.Equal(want, got) {
					t.Fatalf("after event %d: %v", q.stream.event, err)
				}
				at := make([]byte, 4)
				must(t, d.report.Read(q.tiles.dispatch, d.ctl.LastEvent[0], at))
				if want := cq.Seq(start) + cq.Seq(i) + 1; cq.Seq(at[0])|cq.Seq(at[1])<<8|cq.Seq(at[2])<<16|cq.Seq(at[3])<<24 != want {
					t.Errorf("the dispatch core has seen event % x, want %#x", at, want)
				}
			}
			expect.Equal(t, q.stream.event, 8, "the last event")
		})
	}
}

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
			if _, _, err := other.record(t.Context(), "something", false, func() (lanes, error) { return 1, nil }); err != nil {
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
			expect.Equal(t, drv.Node(0).OpenFiles(), 0, "files are open")
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
		expect.Fails(t, d.Restart(cancelled, contents), context.Canceled, "%s: cancelled restart", tt.name)
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
	expect.Value(d.WriteTo(&b))(tb)
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
