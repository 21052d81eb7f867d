package reprise_test

import (
	"context"
	"flag"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
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
	for i, card := range emulators {
		target, name := card(), t.Name()
		t.Run(target.String(), func(t *testing.T) {
			effort.OneOf(t, name, i, len(emulators))
			run(open(t, target, opts...))
		})
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

type bench struct{ *devtest.Bench }

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
	return &bench{devtest.Open(t, target, opts...)}
}

func (b *bench) fails(what string, err, want error) {
	b.Helper()
	expect.Fails(b, err, want, "%s", what)
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

func (b *bench) blank(name string, cores ...chip.Range) *reprise.Program {
	b.Helper()
	return &reprise.Program{Name: name, Kernels: []reprise.Kernel{{
		Name: "nothing", Image: b.Image(kernels.Blank), Processor: chip.BRISC, Cores: cores,
	}}}
}

func words(n int, first uint32) []byte { return devtest.Words(n, first) }

func (b *bench) perWorker(name string) *reprise.Buffer {
	b.Helper()
	return b.Buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64 * b.Dev.Grid().Size(), PageSize: 64, Name: name})
}

func (b *bench) zero(buf *reprise.Buffer) {
	b.Helper()
	b.Must(b.Queue.Write(b.Ctx, buf, 0, make([]byte, buf.Size())))
}

func (b *bench) sameMemory(before map[allocator.Kind]uint64) {
	b.Helper()
	noDiff(b, b.Allocated(), before, "allocated")
}

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
