package vfiouser_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"path/filepath"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/emu"
	"github.com/reprise-tt/reprise/sim/serve/vfiouser"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

var functions = []struct {
	name string
	arch chip.Arch
	make func(*testing.T) driver.Function
}{
	{"emulated wormhole", chip.Wormhole, func(t *testing.T) driver.Function { return emulated(t, chip.Wormhole) }},
	{"emulated blackhole", chip.Blackhole, func(t *testing.T) driver.Function { return emulated(t, chip.Blackhole) }},
	{"ttsim wormhole", chip.Wormhole, func(t *testing.T) driver.Function { return simulated(t, ttsimtest.Wormhole) }},
	{"ttsim blackhole", chip.Blackhole, func(t *testing.T) driver.Function { return simulated(t, ttsimtest.Blackhole) }},
}

func emulated(t *testing.T, a chip.Arch) driver.Function {
	c := value(emu.New(emu.Config{Arch: a}))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

func simulated(t *testing.T, variable string) driver.Function {
	return ttsimtest.Start(t, variable).Functions()[0]
}

func plug(t *testing.T, fn driver.Function, a chip.Arch) *vfiouser.Client {
	t.Helper()
	card := value(vfiouser.New(fn, vfiouser.Config{Arch: a, Report: func(err error) { t.Error(err) }}))(t)
	path := filepath.Join(t.TempDir(), "card")
	l := value(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- card.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
	})
	c := value(vfiouser.Dial(ctx, path))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

type target struct{ n *driver.Node }

func (t target) Node() seam.Node { return t.n }
func (t target) String() string  { return t.n.String() }

func TestStack(t *testing.T) {
	for _, f := range functions {
		t.Run(f.name, func(t *testing.T) {
			if testing.Short() && f.name[0] == 't' {
				t.Skip("the simulator takes a while")
			}
			d := value(driver.New(driver.Config{Arch: f.arch, Functions: []driver.Function{plug(t, f.make(t), f.arch)}}))(t)
			defer d.Close()
			dev := value(reprise.Open(t.Context(), target{d.Node(0)}))(t)
			defer func() { must(t, dev.Close(t.Context())) }()
			addSeven(t, dev)
		})
	}
}

func addSeven(t *testing.T, dev *reprise.Device) {
	t.Helper()
	ctx := t.Context()
	const cores, pages = 4, 4
	in := value(dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: cores * pages * 64, PageSize: 64, Name: "in"}))(t)
	out := value(dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: cores * pages * 64, PageSize: 64, Name: "out"}))(t)
	on := []chip.Range{chip.Grid(cores, 1)}
	kernel := func(name string, p chip.Processor, args func(chip.Core) []uint32) reprise.Kernel {
		image := value(kernels.Prebuilt(dev.Arch(), name))(t)
		return reprise.Kernel{Name: name, Image: image, Processor: p, Cores: on, Args: args}
	}
	layer := value(dev.Load(ctx, &reprise.Program{
		Name: "add 7",
		Kernels: []reprise.Kernel{
			kernel(kernels.CopyReader, chip.BRISC, func(c chip.Core) []uint32 { return []uint32{in.Addr(), uint32(c.X) * pages, pages, 64, 0} }),
			kernel(kernels.Add, chip.TRISC0, func(chip.Core) []uint32 { return []uint32{0, 1, pages, 7} }),
			kernel(kernels.CopyWriter, chip.NCRISC, func(c chip.Core) []uint32 { return []uint32{out.Addr(), uint32(c.X) * pages, pages, 64, 1} }),
		},
		CircularBuffers: []reprise.CircularBuffer{
			{Index: 0, Cores: on, PageSize: 64, Pages: 2},
			{Index: 1, Cores: on, PageSize: 64, Pages: 2},
		},
		Buffers: []*reprise.Buffer{in, out},
	}))(t)
	queue := dev.Queue(0)
	trace := value(queue.Capture(ctx, "layer", func(_ context.Context, r *reprise.Recorder) error { return r.Run(layer) }))(t)
	for i, run := range []func() error{func() error { return queue.Run(ctx, layer) }, func() error { return trace.Replay(ctx) }} {
		var data, want []byte
		for w := range cores * pages * 16 {
			data = binary.LittleEndian.AppendUint32(data, uint32(1000*i+w))
			want = binary.LittleEndian.AppendUint32(want, uint32(1000*i+w+7))
		}
		got := make([]byte, len(data))
		must(t, queue.Write(ctx, in, 0, data))
		must(t, run())
		must(t, queue.Read(ctx, out, 0, got))
		if !bytes.Equal(got, want) {
			t.Errorf("run %d gave something else", i)
		}
	}
}

var must = expect.Must

func value[V any](v V, err error) func(expect.TB) V { return expect.Value(v, err) }
