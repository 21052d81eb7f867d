package ops_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func TestMain(m *testing.M) {
	if ttsimtest.Serving() {
		return
	}
	goleak.VerifyTestMain(m)
}

var cards = map[string]func() kmd.Target{
	"wormhole":         func() kmd.Target { return sim.Wormhole() },
	"blackhole":        func() kmd.Target { return sim.Blackhole() },
	"strict wormhole":  func() kmd.Target { return sim.Wormhole(sim.Strict(11)) },
	"strict blackhole": func() kmd.Target { return sim.Blackhole(sim.Strict(12)) },
}

func value[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		devtest.Must(t, err)
		return v
	}
}

// equal fails a test unless two values are equal; what is a format and its arguments.
func equal(t testing.TB, want, got any, what ...any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Error(described(d, what))
	}
}

func described(s string, what []any) string {
	if len(what) > 0 {
		s = fmt.Sprintf(fmt.Sprint(what[0]), what[1:]...) + ": " + s
	}
	return s
}

var dram, l1 = ops.Interleaved(allocator.DRAM), ops.Interleaved(allocator.L1)

type bench struct {
	testing.TB
	ctx context.Context
	dev *reprise.Device
	*ops.Device
}

func open(t testing.TB, target kmd.Target, opts ...ops.Option) *bench {
	t.Helper()
	return openWith(t, target, nil, opts...)
}

func openWith(t testing.TB, target kmd.Target, device []reprise.Option, opts ...ops.Option) *bench {
	t.Helper()
	b := &bench{TB: t, ctx: t.Context()}
	dev := value(reprise.Open(b.ctx, target, device...))(b)
	b.dev, b.Device = dev, ops.New(dev, opts...)
	t.Cleanup(func() {
		b.must(b.Device.Release(context.Background()))
		b.must(dev.Close(context.WithoutCancel(t.Context())))
	})
	return b
}

// Log is that of the test, not the function of tensors.
func (b *bench) Log(args ...any) { b.Helper(); b.TB.Log(args...) }

func (b *bench) must(err error) {
	b.Helper()
	devtest.Must(b, err)
}

func (b *bench) toHost(t *ops.Tensor) *ops.Host {
	b.Helper()
	return value(b.ToHost(b.ctx, t))(b)
}

func (b *bench) capture(name string, f func(context.Context) error) *reprise.Trace {
	b.Helper()
	return value(b.Capture(b.ctx, name, f))(b)
}

type refusal struct{ err, want error }

func failure[T any](_ T, err error) error { return err }

// fails fails a test unless an error is another; what is a format and its arguments.
func fails(t testing.TB, err, want error, what ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Error(described(fmt.Sprintf("%v, want %v", err, want), what))
	}
}

func (b *bench) refused(before uint64, cases map[string]refusal) {
	b.Helper()
	for name, c := range cases {
		fails(b, c.err, c.want, name)
	}
	if b.dev.MemoryFingerprint(allocator.DRAM) != before {
		b.Error("what was refused changed what is allocated")
	}
}
