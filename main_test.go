package reprise_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/metal"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func TestMain(m *testing.M) {
	if ttsimtest.Serving() {
		return
	}
	goleak.VerifyTestMain(m)
}

var emulators = []func(...sim.Option) *sim.Card{sim.Wormhole, sim.Blackhole}

func onEmulators(t *testing.T, run func(*bench), opts ...reprise.Option) {
	for _, card := range emulators {
		target := card()
		t.Run(target.String(), func(t *testing.T) { run(open(t, target, opts...)) })
	}
}

// rounds is less in short, for the race detector.
func rounds(n, short int) int {
	if testing.Short() {
		return short
	}
	return n
}

func onAll(t *testing.T, run func(*bench), opts ...reprise.Option) {
	onEmulators(t, run, opts...)
	for _, v := range []string{ttsimtest.Wormhole, ttsimtest.Blackhole} {
		t.Run(v, func(t *testing.T) { run(open(t, ttsimtest.Card(t, v), opts...)) })
	}
}

var _ kmd.Target = (*ttsim.Card)(nil)

type bench struct {
	*testing.T
	ctx   context.Context
	dev   *reprise.Device
	queue *reprise.Queue
}

var queueFirmware = map[chip.Arch]*metal.QueueFirmware{}

func init() {
	flag.Func("metal-queues", "`folder` with tt-metal's command-queue firmware, which all devices of its architecture run; once for each architecture", func(dir string) error {
		fw, err := metal.OpenQueueFirmware(context.Background(), dir)
		if err != nil {
			return err
		}
		arch := fw.Base.Layout.Arch
		if other := queueFirmware[arch]; other != nil {
			return fmt.Errorf("%s is for %v, as %s is", dir, arch, other.Dir)
		}
		queueFirmware[arch] = fw
		return nil
	})
}

// withQueueFirmware adds the firmware that the flag names, or skips a device without some.
func withQueueFirmware(t *testing.T, target kmd.Target, opts []reprise.Option) []reprise.Option {
	t.Helper()
	if len(queueFirmware) == 0 {
		return opts
	}
	d := value(kmd.Open(t.Context(), target))(t)
	arch := d.Arch()
	devtest.Must(t, d.Close())
	fw := queueFirmware[arch]
	if fw == nil {
		t.Skipf("-metal-queues names no folder for %v", arch)
	}
	t.Logf("%v runs the queues of %s: %v", target, fw.Dir, fw.Base.Layout.Revision)
	return append([]reprise.Option{reprise.WithQueueFirmware(fw.Dir)}, opts...)
}

func open(t *testing.T, target kmd.Target, opts ...reprise.Option) *bench {
	t.Helper()
	return openAs(t, target, withQueueFirmware(t, target, opts)...)
}

func openAs(t *testing.T, target kmd.Target, opts ...reprise.Option) *bench {
	t.Helper()
	b := &bench{T: t, ctx: t.Context()}
	var err error
	b.dev, err = reprise.Open(b.ctx, target, opts...)
	b.must(err)
	t.Cleanup(func() { b.must(b.dev.Close(context.Background())) })
	b.queue = b.dev.Queue(0)
	return b
}

func (b *bench) must(err error) {
	b.Helper()
	devtest.Must(b, err)
}

func (b *bench) fails(what string, err, want error) {
	b.Helper()
	if !errors.Is(err, want) {
		b.Errorf("%s: %v, want %v", what, err, want)
	}
}

// says wants one line of text that has all parts in order.
func (b *bench) says(err error, parts ...string) {
	b.Helper()
	devtest.Says(b, err, parts...)
}

func (b *bench) buffer(c reprise.BufferConfig) *reprise.Buffer {
	b.Helper()
	return value(b.dev.NewBuffer(c))(b)
}

func (b *bench) pages(name string, n int) *reprise.Buffer {
	b.Helper()
	return b.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: n * 64, PageSize: 64, Name: name})
}

func (b *bench) image(name string) *kernels.Image {
	b.Helper()
	return value(kernels.Prebuilt(b.dev.Arch(), name))(b)
}

func (b *bench) load(p *reprise.Program) *reprise.Executable {
	b.Helper()
	return value(b.dev.Load(b.ctx, p))(b)
}

func (b *bench) capture(name string, xs ...*reprise.Executable) *reprise.Trace {
	b.Helper()
	return value(b.queue.Capture(b.ctx, name, record(xs...)))(b)
}

func (b *bench) recorded(name string, f func(r *reprise.Recorder) error) *reprise.Trace {
	b.Helper()
	t, err := b.queue.Capture(b.ctx, name, func(_ context.Context, r *reprise.Recorder) error { return f(r) })
	b.must(err)
	return t
}

func captureQueues(ctx context.Context, name string, queues []*reprise.Queue,
	record func(rs []*reprise.Recorder) error) (*reprise.Trace, error) {
	return queues[0].Capture(ctx, name, func(_ context.Context, r *reprise.Recorder) error {
		var rs []*reprise.Recorder
		for _, q := range queues {
			rs = append(rs, r.On(q))
		}
		return record(rs)
	}, queues[1:]...)
}

func record(xs ...*reprise.Executable) func(context.Context, *reprise.Recorder) error {
	return func(_ context.Context, r *reprise.Recorder) error {
		for _, x := range xs {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	}
}

func (b *bench) adder(name string, at chip.Core, in, out *reprise.Buffer, addend uint32) *reprise.Program {
	b.Helper()
	return value(devtest.Adder(b.dev, name, at, in, out, addend))(b)
}

func (b *bench) blank(name string, cores ...chip.Range) *reprise.Program {
	b.Helper()
	return &reprise.Program{Name: name, Kernels: []reprise.Kernel{{
		Name: "nothing", Image: b.image(kernels.Blank), Processor: chip.BRISC, Cores: cores,
	}}}
}

func (b *bench) write(buf *reprise.Buffer, first uint32) {
	b.Helper()
	b.must(b.queue.Write(b.ctx, buf, 0, words(buf.Size(), first)))
}

func words(n int, first uint32) []byte { return devtest.Words(n, first) }

func (b *bench) holds(buf *reprise.Buffer, first uint32) {
	b.Helper()
	got := make([]byte, buf.Size())
	b.must(b.queue.Read(b.ctx, buf, 0, got))
	if want := words(buf.Size(), first); !bytes.Equal(got, want) {
		for i := range got {
			if got[i] != want[i] {
				b.Errorf("buffer %q differs from byte %d on: word %#x, want %#x", buf.Name(), i, binary.LittleEndian.Uint32(got[i&^3:]),
					binary.LittleEndian.Uint32(want[i&^3:]))
				return
			}
		}
	}
}

func (b *bench) run(x *reprise.Executable) {
	b.Helper()
	b.must(b.queue.Run(b.ctx, x))
}

func (b *bench) replay(t *reprise.Trace) {
	b.Helper()
	b.must(t.Replay(b.ctx))
}

func (b *bench) wait() {
	b.Helper()
	b.must(b.queue.Wait(b.ctx))
}

func (b *bench) perWorker(name string) *reprise.Buffer {
	b.Helper()
	return b.buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64 * b.dev.Grid().Size(), PageSize: 64, Name: name})
}

func (b *bench) sameMemory(before map[allocator.Kind]uint64) {
	b.Helper()
	noDiff(b, b.allocated(), before, "allocated")
}

func (b *bench) allocated() map[allocator.Kind]uint64 { return devtest.Allocated(b.dev) }

// value is must for a call with a result.
func value[V any](v V, err error) func(testing.TB) V {
	return func(t testing.TB) V {
		t.Helper()
		devtest.Must(t, err)
		return v
	}
}

func equal[V comparable](t expect.TB, got, want V, what string, args ...any) {
	t.Helper()
	expect.Equal(t, got, want, what, args...)
}

var noDiff = expect.NoDiff
