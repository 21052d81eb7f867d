package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/kmd/session"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

// demo runs three programs eagerly and as a trace, each adding to the words of the one before.
func demo(ctx context.Context, t kmd.Target, change func([]byte)) (out [][]byte, err error) {
	dev, err := reprise.Open(ctx, t, reprise.WithQueueMemory(1<<20))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close(ctx)) }()
	var pages [4]*reprise.Buffer
	for i := range pages {
		if pages[i], err = dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 4 * 64, PageSize: 64}); err != nil {
			return nil, err
		}
	}
	var programs [3]*reprise.Executable
	for i := range programs {
		p, err := devtest.Adder(dev, "add", chip.Core{X: i & 1, Y: i >> 1}, pages[i], pages[i+1], uint32(i+1))
		if err != nil {
			return nil, err
		}
		if programs[i], err = dev.Load(ctx, p); err != nil {
			return nil, err
		}
	}
	each := func(run func(*reprise.Executable) error) error {
		return errors.Join(run(programs[0]), run(programs[1]), run(programs[2]))
	}
	queue := dev.Queue(0)
	trace, err := queue.Capture(ctx, "sums", func(_ context.Context, r *reprise.Recorder) error {
		return each(func(x *reprise.Executable) error { return r.Run(x) })
	})
	if err != nil {
		return nil, err
	}
	data := devtest.Words(pages[0].Size(), 7)
	if change != nil {
		change(data)
	}
	for _, run := range []func() error{
		func() error { return each(func(x *reprise.Executable) error { return queue.Run(ctx, x) }) },
		func() error { return trace.Replay(ctx) },
	} {
		sums := make([]byte, pages[3].Size())
		if err := queue.Write(ctx, pages[0], 0, data); err != nil {
			return nil, err
		}
		if err := run(); err != nil {
			return nil, err
		}
		if err := queue.Read(ctx, pages[3], 0, sums); err != nil {
			return nil, err
		}
		out = append(out, sums)
	}
	return out, trace.Release(ctx)
}

var cards = map[string]func(...sim.Option) *sim.Card{"wormhole": sim.Wormhole, "blackhole": sim.Blackhole}

func record(t *testing.T, card kmd.Target) ([]byte, [][]byte) {
	t.Helper()
	var file bytes.Buffer
	r := session.Record(card, &file)
	sums := value(demo(t.Context(), r, nil))(t)
	must(t, r.Close())
	want := devtest.Words(len(sums[0]), 7+1+2+3)
	if diff := cmp.Diff([][]byte{want, want}, sums); diff != "" {
		t.Fatalf("sums (-want +device):\n%s", diff)
	}
	return file.Bytes(), sums
}

func play(t *testing.T, file []byte) *session.Player {
	t.Helper()
	return value(session.Read(bytes.NewReader(file)))(t).Player()
}

type how struct {
	name  string
	card  []sim.Option
	times int
}

func ways() []how {
	return []how{
		{"synchronous", []sim.Option{sim.Synchronous(), sim.Seed(7)}, 1},
		{"beside", nil, 20},
	}
}

func TestPlayDemo(t *testing.T) {
	for name, card := range cards {
		for _, w := range ways() {
			t.Run(name+"/"+w.name, func(t *testing.T) {
				file, want := record(t, card(w.card...))
				for range w.times {
					p := play(t, file)
					got, err := demo(t.Context(), p, nil)
					must(t, errors.Join(err, p.Err()))
					noDiff(t, got, want, "sums of the player")
					expect.Equal(t, p.Left(), 0, "events were not played")
				}
				s := value(session.Read(bytes.NewReader(file)))(t)
				t.Logf("%d B, %d events", len(file), len(s.Events))

				p := play(t, file)
				_, err := demo(t.Context(), p, func(data []byte) { data[138] ^= 1 })
				var d *session.DifferenceError
				if !errors.As(p.Err(), &d) || !errors.Is(err, session.ErrRefused) {
					t.Fatalf("another byte: %v, difference %v", err, p.Err())
				}
				t.Log(d)
				if e := s.Events[d.Index]; e.Kind != session.KindStore || e.Size != 2 || len(e.Host) == 0 ||
					!strings.Contains(d.Site, "dispatch.") {
					t.Errorf("it was noticed at %v, want the doorbell; %v", &e, d)
				}
			})
		}
	}
}

func TestDifferences(t *testing.T) {
	file, _ := record(t, sim.Blackhole(sim.Synchronous(), sim.Seed(7)))
	for _, tt := range []struct {
		name   string
		change func(*session.Event) bool // makes an event differ and reports whether it was one to change
		says   string
	}{
		{"flags of open", func(e *session.Event) bool { e.Value ^= 1; return e.Kind == session.KindOpen }, "open flags"},
		{"the size of what is pinned", func(e *session.Event) bool {
			if e.Kind != session.KindIoctl || e.Request != 0xFA07 {
				return false
			}
			e.In = append([]byte(nil), e.In...)
			e.In[17]++
			return true
		}, "in byte 17 of its argument (01, 00): recorded: file 0: ioctl PIN_PAGES"},
		{"a store's width", func(e *session.Event) bool { e.Size = 8; return e.Kind == session.KindStore }, "recorded: file 0: store 64 bits"},
		{"a store's value", func(e *session.Event) bool { e.Value++; return e.Kind == session.KindStore }, "store 32 bits"},
		{"what is written", func(e *session.Event) bool {
			if e.Kind != session.KindWrite {
				return false
			}
			e.Data = append([]byte(nil), e.Data...)
			e.Data[len(e.Data)-1]++
			return true
		}, "of its data (c9, c8)"},
		{"a piece of memory that no pin has", func(e *session.Event) bool {
			e.Device = []session.Delta{{Pin: 3, Data: []byte{1}}}
			return e.Kind == session.KindStore
		}, "store"},
		{"the kind", func(e *session.Event) bool { e.Kind = session.KindClose; return true }, "close"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, at := changed(t, file, tt.change)
			p := s.Player()
			_, err := demo(t.Context(), p, nil)
			var d *session.DifferenceError
			if err == nil || !errors.As(p.Err(), &d) || d.Index != at || !strings.Contains(d.Error(), tt.says) ||
				!strings.Contains(d.Site, "reprise.Open") {
				t.Fatalf("error %v, difference %v, want one of event %d that says %q", err, p.Err(), at, tt.says)
			}
			if strings.ContainsRune(p.Err().Error(), '\n') {
				t.Errorf("more than one line: %v", p.Err())
			}
		})
	}
	t.Run("the end", func(t *testing.T) {
		s := value(session.Read(bytes.NewReader(file)))(t)
		const left = 300
		s.Events = s.Events[:left]
		p := s.Player()
		_, err := demo(t.Context(), p, nil)
		var d *session.DifferenceError
		if err == nil || !errors.As(p.Err(), &d) || d.Index != left || !strings.Contains(d.Error(), "recorded: nothing more; now:") {
			t.Errorf("error %v, difference %v", err, p.Err())
		}
	})
}

func changed(t *testing.T, file []byte, change func(*session.Event) bool) (s *session.Session, at int) {
	t.Helper()
	s = value(session.Read(bytes.NewReader(file)))(t)
	for i := range s.Events {
		if e := s.Events[i]; change(&e) {
			s.Events[i] = e
			return s, i
		}
	}
	t.Fatal("there is no such event")
	return nil, -1
}

type barNode struct{ seam.Node }

type barFile struct{ seam.File }

func (n barNode) Open(flags int) (seam.File, error) {
	f, err := n.Node.Open(flags)
	return barFile{f}, err
}

func (f barFile) Mmap(off uint64, n int) (seam.Mapping, error) {
	m, err := f.File.Mmap(off, n)
	if err != nil {
		return m, err
	}
	return seam.Mapping{Mem: make([]byte, n), Unmap: m.Unmap}, nil
}

type barTarget struct{ card *sim.Card }

func (t barTarget) Node() seam.Node { return barNode{t.card.Node()} }
func (t barTarget) String() string  { return "plain memory" }

func TestRecordPlainMemory(t *testing.T) {
	var file bytes.Buffer
	r := session.Record(barTarget{sim.Blackhole()}, &file)
	use := func(target kmd.Target) []any {
		d := value(kmd.Open(t.Context(), target))(t)
		w := value(d.OpenWindow(2<<20, kmd.Uncached))(t)
		w.Store64(0, 0x1122334455667788)
		w.Store32(8, 0xA1A2A3A4)
		w.Store16(12, 0xB1B2)
		w.Store8(14, 0xC1)
		w.Write(16, []byte{1, 2, 3, 4, 5, 6, 7, 8})
		p := make([]byte, 24)
		w.Read(0, p)
		got := []any{w.Load8(14), w.Load16(12), w.Load32(8), w.Load64(0), p}
		must(t, errors.Join(w.Err(), w.Close(), d.Close()))
		return got
	}
	want := []any{uint8(0xC1), uint16(0xB1B2), uint32(0xA1A2A3A4), uint64(0x1122334455667788),
		[]byte{0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0xA4, 0xA3, 0xA2, 0xA1, 0xB2, 0xB1, 0xC1, 0, 1, 2, 3, 4, 5, 6, 7, 8}}
	noDiff(t, use(r), want, "recorded")
	must(t, r.Close())
	p := play(t, file.Bytes())
	if diff := cmp.Diff(want, use(p)); diff != "" || p.Err() != nil || p.Left() != 0 {
		t.Errorf("%v, %d left, played (-want +got):\n%s", p.Err(), p.Left(), diff)
	}
	s := value(session.Read(&file))(t)
	var text strings.Builder
	must(t, s.Print(&text))
	rest := text.String()
	for _, part := range []string{"plain memory: ", "open flags", "GET_DEVICE_INFO", "store 64 bits at 0x0", ": 0x1122334455667788",
		"store 32 bits at 0x8",
		"store 16 bits at 0xc", "store 8 bits at 0xe", "write 8 B at 0x10", "0102030405060708", "read 24 B at 0x0", "load 8 bits",
		"load 64 bits", "munmap", "FREE_TLB", "close"} {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			t.Fatalf("the text doesn't say %q in its place:\n%s", part, &text)
		}
		rest = after
	}
}

func TestRecordHostMemory(t *testing.T) {
	use := func(target kmd.Target, own byte) ([]byte, error) {
		d, err := kmd.Open(t.Context(), target)
		if err != nil {
			return nil, err
		}
		c, err := chip.New(d.Arch(), chip.Harvesting{})
		if err != nil {
			return nil, err
		}
		pinned, err := d.PinHostMemory(8192)
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		more, err := d.PinHostMemory(4096)
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		more.Bytes()[7] = own
		pcie := c.PCIe(chip.NOC0)
		err = errors.Join(
			d.Write32(pcie, pinned.NOCAddr()+4100, 0x11223344), d.Write(pcie, more.NOCAddr()+64, []byte("from the device!")),
			d.Alive(), // reads after the writes
		)
		got := append(bytes.Clone(pinned.Bytes()[4096:4108]), more.Bytes()[:96]...)
		return got, errors.Join(err, more.Close(), pinned.Close(), d.Close())
	}
	var file bytes.Buffer
	r := session.Record(sim.Wormhole(sim.Synchronous()), &file)
	want, err := use(r, 5)
	must(t, errors.Join(err, r.Close()))
	if !bytes.Contains(want, []byte{0x44, 0x33, 0x22, 0x11}) || !bytes.Contains(want, []byte("from the device!")) {
		t.Fatalf("the device wrote %q", want)
	}
	p := play(t, file.Bytes())
	got, err := use(p, 5)
	if err != nil || p.Err() != nil || p.Left() != 0 || !bytes.Equal(got, want) {
		t.Errorf("%v, %v, %d left, %q, want %q", err, p.Err(), p.Left(), got, want)
	}
	p = play(t, file.Bytes())
	_, err = use(p, 6)
	var diff *session.DifferenceError
	if err == nil || !errors.As(p.Err(), &diff) || !strings.Contains(diff.Error(), "host memory at 0x0 of pin 1") &&
		!strings.Contains(diff.Error(), "host memory at 0x7 of pin 1") {
		t.Errorf("another byte of the host's: %v, %v", err, p.Err())
	}
}

func TestPlayInterrupted(t *testing.T) {
	var file bytes.Buffer
	r := session.Record(sim.Wormhole(), &file)
	dev := value(kmd.Open(t.Context(), r))(t)
	must(t, errors.Join(dev.Close(), r.Close()))
	s, _ := changed(t, file.Bytes(), func(e *session.Event) bool {
		e.Errno, e.Data = uint64(syscall.EINTR), e.In
		return e.Request == kabi.IoctlGetDriverInfo
	})
	fails(t, second(kmd.Open(t.Context(), s.Player())), syscall.EINTR, "without an end")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := kmd.Open(ctx, endingTarget{s.Player(), cancel})
	expect.Fails(t, err, context.Canceled, "error")
	expect.Fails(t, err, syscall.EINTR, "error")
}

type endingTarget struct {
	kmd.Target
	end func()
}

func (t endingTarget) Node() seam.Node { return endingNode{t.Target.Node(), t.end} }

type endingNode struct {
	seam.Node
	end func()
}

func (n endingNode) Open(flags int) (seam.File, error) {
	f, err := n.Node.Open(flags)
	return endingFile{f, n.end}, err
}

type endingFile struct {
	seam.File
	end func()
}

func (f endingFile) Ioctl(req uint32, arg []byte) error {
	f.end()
	return f.File.Ioctl(req, arg)
}

func TestRecordAFault(t *testing.T) {
	var file bytes.Buffer
	r := session.Record(sim.Wormhole(), &file)
	dev := value(reprise.Open(t.Context(), r, reprise.WithQueueMemory(1<<20)))(t)
	image := value(kernels.Prebuilt(dev.Arch(), kernels.Store))(t)
	x, err := dev.Load(t.Context(), &reprise.Program{Name: "wild", Kernels: []reprise.Kernel{{
		Image: image, Cores: []chip.Range{chip.Single(0, 0)}, Args: func(chip.Core) []uint32 { return []uint32{0x7FFF0000, 1, 1} },
	}}})
	expect.Must(t, err)
	q := dev.Queue(0)
	if err := errors.Join(q.Run(t.Context(), x), q.Wait(t.Context())); err == nil {
		t.Fatal("a wild store ended well")
	}
	must(t, errors.Join(dev.Close(t.Context()), r.Close()))
	s := value(session.Read(&file))(t)
	for _, e := range s.Events {
		if e.Kind == session.KindFault && strings.Contains(e.Text, "0x7fff0000") {
			return
		}
	}
	t.Error("the fault isn't in the recording")
}

var (
	fails  = expect.Fails
	must   = expect.Must
	noDiff = expect.NoDiff
)

func value[V any](v V, err error) func(expect.TB) V { return expect.Value(v, err) }

func second[V any](_ V, err error) error { return err }

func TestMain(m *testing.M) {
	if ttsimtest.Serving() {
		return
	}
	goleak.VerifyTestMain(m)
}

func storing(dev *reprise.Device, on chip.Range, b *reprise.Buffer, v uint32) (*reprise.Program, error) {
	im, err := kernels.Prebuilt(dev.Arch(), kernels.Store)
	if err != nil {
		return nil, err
	}
	return &reprise.Program{Name: "store", Buffers: []*reprise.Buffer{b}, Kernels: []reprise.Kernel{{
		Image: im, Cores: []chip.Range{on}, Args: func(chip.Core) []uint32 { return []uint32{b.Addr(), 1, v} },
	}}}, nil
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
		expect.Must(t, err)
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
	p := s.Player()
	p.SetPatience(200 * time.Millisecond)
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
		t.Errorf("%v, difference %v, %d left, sums %v, want %v", err, p.Err(), p.Left(), got, want)
	}
}
