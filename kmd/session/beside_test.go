package session_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/kmd/session"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func storing(dev *reprise.Device, on chip.Range, b *reprise.Buffer, v uint32) (*reprise.Program, error) {
	im, err := kernels.Prebuilt(dev.Arch(), kernels.Store)
	if err != nil {
		return nil, err
	}
	return &reprise.Program{Name: "store", Buffers: []*reprise.Buffer{b}, Kernels: []reprise.Kernel{{
		Image: im, Cores: []chip.Range{on}, Args: func(chip.Core) []uint32 { return []uint32{b.Addr(), 1, v} },
	}}}, nil
}

func atOnce(ctx context.Context, t kmd.Target, rounds int, spoil byte) (err error) {
	dev, err := reprise.Open(ctx, t, reprise.WithQueueMemory(1<<20), reprise.WithQueues(2),
		reprise.WithQueueWorkers(0, chip.Grid(2, 2)),
		reprise.WithQueueWorkers(1, chip.Range{Start: chip.Core{X: 2}, End: chip.Core{X: 3, Y: 1}}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close(ctx)) }()
	var work [2]func() error
	for id := range work {
		q := dev.Queue(id)
		b, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64 * dev.Grid().Size(), PageSize: 64})
		if err != nil {
			return err
		}
		data, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 1 << 13, PageSize: 4096})
		if err != nil {
			return err
		}
		h, err := dev.NewHostBuffer(reprise.HostBufferConfig{Size: 1 << 13})
		if err != nil {
			return err
		}
		p, err := storing(dev, q.Workers(), b, uint32(0xA0+id))
		if err != nil {
			return err
		}
		x, err := dev.Load(ctx, p)
		if err != nil {
			return err
		}
		trace, err := q.Capture(ctx, "store", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
		if err != nil {
			return err
		}
		work[id] = func() error {
			for i := range rounds {
				out, in := bytes.Repeat([]byte{byte(7*i + id)}, 1<<13), make([]byte, 1<<13)
				if i == 2 && id == 1 {
					out[5000] ^= spoil
				}
				copy(h.Bytes(), out)
				if err := errors.Join(q.Run(ctx, x), trace.Replay(ctx), q.WriteFrom(ctx, data, 0, h, 0, 1<<12),
					q.Write(ctx, data, 1<<12, out[1<<12:]),
					q.Read(ctx, data, 0, in), q.ReadTo(ctx, data, 0, h, 0, 1<<13)); err != nil {
					return err
				}
				if !bytes.Equal(in, out) || !bytes.Equal(h.Bytes(), out) {
					return fmt.Errorf("queue %d, round %d: read right: %v, direct read right: %v", id, i, bytes.Equal(in, out),
						bytes.Equal(h.Bytes(), out))
				}
				word := make([]byte, 64)
				if err := q.Read(ctx, b, 64*(2*id), word); err != nil {
					return err
				}
				if got := binary.LittleEndian.Uint32(word); got != uint32(0xA0+id) {
					return fmt.Errorf("queue %d, round %d: read right: %v, direct read right: %v", id, i, bytes.Equal(in, out),
						bytes.Equal(h.Bytes(), out))
				}
			}
			return nil
		}
	}
	if r, ok := t.(*session.Recorder); ok {
		defer r.Concurrent()()
	}
	var g errgroup.Group
	for _, w := range work {
		g.Go(w)
	}
	return g.Wait()
}

func TestPlayGoroutines(t *testing.T) {
	effort.Long(t)
	for name, card := range cards {
		t.Run(name, func(t *testing.T) {
			var file bytes.Buffer
			r := session.Record(card(), &file)
			const rounds = 5
			must(t, errors.Join(atOnce(t.Context(), r, rounds, 0), r.Close()))
			for i := range 8 {
				p := play(t, file.Bytes())
				if err := errors.Join(atOnce(t.Context(), p, rounds, 0), p.Err()); err != nil || p.Left() != 0 {
					t.Fatalf("time %d: %v, %d left", i, err, p.Left())
				}
			}
			for _, other := range []struct {
				rounds int
				spoil  byte
			}{{rounds - 1, 0}, {rounds + 1, 0}, {rounds, 1}} {
				p := play(t, file.Bytes(), session.Patience(time.Second))
				err := atOnce(t.Context(), p, other.rounds, other.spoil)
				var d *session.DifferenceError
				if err == nil || !errors.As(p.Err(), &d) {
					t.Errorf("%+v: %v, difference %v", other, err, p.Err())
				}
				if other.spoil != 0 && d != nil && !strings.Contains(d.Where, "host memory") {
					t.Errorf("another byte is noticed as %v", d)
				}
			}
		})
	}
}

func TestPlaySpinning(t *testing.T) {
	use := func(target kmd.Target) error {
		dev, err := reprise.Open(t.Context(), target, reprise.WithQueueMemory(1<<20), reprise.WithPace(time.Minute, 0),
			reprise.WithHangTimeout(2*time.Minute))
		if err != nil {
			return err
		}
		return errors.Join(dev.Queue(0).Wait(t.Context()), dev.Close(t.Context()))
	}
	var s *session.Session
	// A device that is faster than the host may be done before the host begins to wait.
	const tries = 10
	quiet := false
	for try := 0; !quiet && try < tries; try++ {
		var file bytes.Buffer
		r := session.Record(sim.Wormhole(), &file)
		err := errors.Join(use(r), r.Close())
		if err == nil {
			s, err = session.Read(bytes.NewReader(file.Bytes()))
		}
		if err != nil {
			t.Fatal(err)
		}
		quiet = slices.ContainsFunc(s.Events, func(e session.Event) bool { return e.Kind == session.KindDevice && e.Value == 0 })
	}
	if !quiet {
		t.Error("the host asked the driver for something")
	}
	p := s.Player()
	if err := errors.Join(use(p), p.Err()); err != nil || p.Left() != 0 {
		t.Errorf("%v, %d left", err, p.Left())
	}
}

func hang(ctx context.Context, t kmd.Target) error {
	dev, err := reprise.Open(ctx, t, reprise.WithQueueMemory(1<<20), reprise.WithHangTimeout(time.Second))
	if err != nil {
		return err
	}
	b, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 16 * dev.Grid().Size(), PageSize: 16})
	if err != nil {
		return err
	}
	im, err := kernels.Prebuilt(dev.Arch(), kernels.Spin)
	if err != nil {
		return err
	}
	q := dev.Queue(0)
	if err := q.Write(ctx, b, 0, make([]byte, b.Size())); err != nil {
		return err
	}
	x, err := dev.Load(ctx, &reprise.Program{Name: "spin", Buffers: []*reprise.Buffer{b}, Kernels: []reprise.Kernel{{
		Image: im, Cores: []chip.Range{chip.Single(1, 1)}, Args: func(chip.Core) []uint32 { return []uint32{b.Addr(), 1} },
	}}})
	if err != nil {
		return err
	}
	if err := q.Run(ctx, x); err != nil {
		return err
	}
	err = q.Wait(ctx)
	if broken := dev.Recover(ctx); broken != nil {
		return broken
	}
	p, broken := storing(dev, chip.Grid(2, 2), b, 5)
	if broken == nil {
		x, broken = dev.Load(ctx, p)
	}
	if broken = errors.Join(broken, q.Run(ctx, x), q.Wait(ctx), dev.Close(ctx)); broken != nil {
		return broken
	}
	return err
}

func TestPlayHang(t *testing.T) {
	var file bytes.Buffer
	r := session.Record(sim.Blackhole(), &file)
	var want, got *dispatch.HangError
	if err := hang(t.Context(), r); !errors.As(err, &want) {
		t.Fatalf("recorded: %v", err)
	}
	must(t, r.Close())
	p := play(t, file.Bytes())
	if err := hang(t.Context(), p); !errors.As(err, &got) || p.Err() != nil {
		t.Fatalf("played: %v, difference %v", err, p.Err())
	}
	for _, part := range []string{"SEMW", "spin"} {
		if !strings.Contains(want.Detail(), part) || !strings.Contains(got.Detail(), part) {
			t.Errorf("a report lacks %s; recorded:\n%s\nplayed:\n%s", part, want.Detail(), got.Detail())
		}
	}
}

func TestPlayWaitsForEver(t *testing.T) {
	file, _ := record(t, sim.Wormhole())
	s := value(session.Read(bytes.NewReader(file)))(t)
	n := 0
	for _, e := range s.Events {
		if e.Kind != session.KindDevice {
			s.Events[n] = e
			n++
		}
	}
	s.Events = s.Events[:n]
	p := s.Player(session.Patience(200 * time.Millisecond))
	start := time.Now()
	_, err := demo(t.Context(), p, nil)
	var d *session.DifferenceError
	if !errors.Is(err, session.ErrRefused) || !errors.As(p.Err(), &d) || d.Want == "" ||
		!strings.Contains(d.Got, "the host waits: it has polled") {
		t.Errorf("after %v: %v, difference %v", time.Since(start), err, p.Err())
	}
	t.Log(d)
}

func TestPlaySimulator(t *testing.T) {
	file, want := record(t, ttsimtest.Card(t, ttsimtest.Wormhole))
	p := play(t, file)
	got, err := demo(t.Context(), p, nil)
	if err != nil || p.Err() != nil || p.Left() != 0 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, difference %v, %d left, scores %v, want %v", err, p.Err(), p.Left(), got, want)
	}
}
