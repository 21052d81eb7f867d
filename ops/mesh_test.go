package ops_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/mesh/hosts"
	"github.com/reprise-tt/reprise/mesh/hosts/hoststest"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/ops/graph/visualizer"
	"github.com/reprise-tt/reprise/sim"
)

type meshBench struct {
	*bench
	*ops.Mesh
	mesh *mesh.Mesh
}

func openMesh(t *testing.T, machine *sim.Machine, shape mesh.Shape) *meshBench {
	t.Helper()
	b := &meshBench{bench: &bench{TB: t, ctx: t.Context()}}
	t.Cleanup(func() { _ = machine.Close() })
	var err error
	b.mesh, err = mesh.Open(b.ctx, mesh.Cards(machine.Cards()...), shape)
	b.must(err)
	t.Cleanup(func() { b.must(b.mesh.Close(context.Background())) })
	b.Mesh, err = ops.NewMesh(b.ctx, b.mesh, chip.Core{X: 1, Y: 1})
	b.must(err)
	t.Cleanup(func() { b.must(b.Mesh.Release(context.Background())) })
	return b
}

func (b *meshBench) spread(l ops.Layout, dt ops.DataType, shape ...int) *ops.MeshTensor {
	b.Helper()
	n := 1
	for _, d := range shape {
		n *= d
	}
	var hs []*ops.Host
	for i := range b.Size() {
		v := make([]float32, n)
		for j := range v {
			v[j] = float32(i + j%50)
		}
		h := value(ops.NewHost(shape, dt, v))(b)
		hs = append(hs, h)
	}
	m := l1
	if l == ops.RowMajor { // what is sharded goes to where links can take it first
		m = ops.Sharded(allocator.HeightSharded, 4, shape[len(shape)-1], chip.Grid(4, 2))
	}
	t := value(b.Mesh.ToDevice(b.ctx, hs, l, m))(b)
	return t
}

func (b *meshBench) all(t *ops.MeshTensor, want func(i int) float32) {
	b.Helper()
	hs := value(b.Mesh.ToHost(b.ctx, t))(b)
	for c, h := range hs {
		for i, v := range ops.Values[float32](h) {
			if v != want(i) {
				b.Fatalf("chip %d of %v: element %d is %v, want %v", c, h.Shape, i, v, want(i))
			}
		}
	}
}

// In a ring, along a line, and on a chip without a PCI interface.
func TestCollectives(t *testing.T) {
	for k, c := range []struct { // quick runs have those of two chips
		machine func(...sim.Option) *sim.Machine
		shape   mesh.Shape
	}{{sim.QuietBox, mesh.Shape{2, 2}}, {sim.P300, mesh.Shape{2}}, {sim.N300, mesh.Shape{1, 2}}, {sim.T3000, mesh.Shape{2, 2}}} {
		if c.shape.Size() > effort.Of(2, 4, 4) {
			continue
		}
		m := c.machine()
		t.Run(m.String(), func(t *testing.T) {
			b := openMesh(t, m, c.shape)
			n := b.Size()
			for i, x := range []ops.Spec{
				{DType: ops.BFloat16, Layout: ops.Tile, Shape: []int{4, 32 * n, 32 * n}},
				{DType: ops.Float32, Layout: ops.Tile, Shape: []int{4, 20, 12 * n}},
				{DType: ops.UInt16, Layout: ops.Tile, Shape: []int{4, 32 * n, 20}},
				{DType: ops.UInt8, Layout: ops.Tile, Shape: []int{4, 8}},
				{DType: ops.UInt8, Shape: []int{4, 4, 12}}, {DType: ops.UInt16, Shape: []int{4, 20}},
				{DType: ops.BFloat16, Shape: []int{4, 4, 4, 4}},
				{DType: ops.Int32, Shape: []int{12}}, {DType: ops.Int32, Layout: ops.Tile, Shape: []int{4, 4, 4, 4, 4}},
				{DType: ops.Float32, Shape: []int{4, 0, 4}},
			} {
				for dim := range x.Shape {
					if effort.Of((i+dim)%5 == k, true, true) {
						b.along(x, dim)
					}
				}
			}
			b.must(b.mesh.InStep(allocator.L1))
			b.must(b.mesh.InStep(allocator.DRAM))
			for i := range m.Spec().Chips {
				if c := m.Chip(i); c != nil && c.Fault() != nil {
					t.Errorf("chip %d: %v", i, c.Fault())
				}
			}
		})
	}
}

// along compares collectives along a dimension with loops over the elements before it, in it and
// after it.
func (b *meshBench) along(s ops.Spec, dim int) {
	line := []int{0, 1, 3, 2}[:b.Size()] // a mesh of 2 by 2 is gone through in a loop
	n, before, in, after, modulo := len(line), 1, s.Shape[dim], 1, 1<<30
	for i, d := range s.Shape {
		switch {
		case i < dim:
			before *= d
		case i > dim:
			after *= d
		}
	}
	scale := 1
	if s.DType == ops.UInt8 {
		scale, modulo = 4, 1<<8
	}
	hosts, parts, sum := make([]*ops.Host, n), make([][]float32, n), make([]float32, before*in*after)
	for place, chip := range line {
		parts[place] = []float32{}
		for j := range sum {
			v := (j*7 + place*13) % 60 * scale
			parts[place] = append(parts[place], float32(v))
			sum[j] = float32((int(sum[j]) + v) % modulo)
		}
		hosts[chip] = value(ops.NewHost(s.Shape, s.DType, parts[place]))(b)
	}
	x := value(b.Mesh.ToDevice(b.ctx, hosts, s.Layout, l1))(b)
	made := []*ops.MeshTensor{x, value(b.AllReduce(b.ctx, x))(b)}
	var opts []ops.OpOption // the first dimension is the default
	if dim > 0 {
		opts = append(opts, ops.WithDim(dim-len(s.Shape)))
	}
	made = append(made, value(b.AllGather(b.ctx, x, opts...))(b), value(b.ReduceScatter(b.ctx, x, opts...))(b))
	for place, chip := range line {
		all, slice := []float32{}, []float32{}
		for i := range before {
			for _, p := range parts {
				all = append(all, p[i*in*after:][:in*after]...)
			}
			slice = append(slice, sum[(i*in+place*in/n)*after:][:in/n*after]...)
		}
		for k, want := range [][]float32{sum, all, slice} {
			got := value(b.Mesh.ToHost(b.ctx, made[1+k]))(b)[chip]
			equal(b, want, ops.Values[float32](got), "%v along %d, chip %d: result %d", s, dim, chip, k)
		}
	}
	for _, x := range made {
		b.must(b.Mesh.Deallocate(b.ctx, x))
	}
	fails(b, failure(b.AllReduce(b.ctx, x)), ops.ErrReleased, "of a tensor that was deallocated")
}

// Sums over two chips have the bits of Add.
func TestCollectiveSums(t *testing.T) {
	b := openMesh(t, sim.P300(), mesh.Shape{1, 2})
	for dt := ops.UInt8; dt <= ops.Float32; dt++ {
		var hs [2]*ops.Host
		for i := range hs {
			hs[i] = &ops.Host{Shape: []int{3, 300}, DType: dt}
			for k := range 900 * dt.Size() {
				hs[i].Data = append(hs[i].Data, byte((k+7*i)*k>>3))
			}
			hs[i].Data[0], hs[i].Data[3] = 1, 0 // the first float is subnormal
		}
		for _, l := range []ops.Layout{ops.RowMajor, ops.Tile} {
			sum := value(b.AllReduce(b.ctx, value(b.Mesh.ToDevice(b.ctx, hs[:], l, dram))(b)))(b)
			x, y := value(b.Chip(0).ToDevice(b.ctx, hs[0], l, dram))(b), value(b.Chip(0).ToDevice(b.ctx, hs[1], l, dram))(b)
			want := value(b.Chip(0).ToHost(b.ctx, value(b.Chip(0).Add(b.ctx, y, x))(b)))(b)
			for _, got := range value(b.Mesh.ToHost(b.ctx, sum))(b) {
				equal(t, want.Data, got.Data, "%v %v", dt, l)
			}
		}
	}
}

// A trace of a mesh has operations of its chips and collectives: the snippet "Multi-Chip Traces" of
// TT-NN's documents. Numbers are integers so small that each sum is exact.
func TestMeshCapture(t *testing.T) {
	b := openMesh(t, sim.P300(), mesh.Shape{1, 2})
	filled := func(rows int, f func(i int) float32) *ops.MeshTensor {
		v := make([]float32, rows*64)
		for i := range v {
			v[i] = f(i)
		}
		h := value(ops.NewHost([]int{rows, 64}, ops.BFloat16, v))(b)
		out := value(b.Mesh.ToDevice(b.ctx, []*ops.Host{h}, ops.Tile, dram))(b)
		return out
	}
	zero := func(int) float32 { return 0 }
	x, partial, sum, slice, whole := filled(64, zero), filled(64, zero), filled(64, zero), filled(32, zero), filled(64, zero)
	twice := filled(64, func(i int) float32 { return []float32{0, 2}[max(0, 1-i%65)] })
	model := func(ctx context.Context) error {
		for i := range b.Size() {
			if _, err := b.Chip(i).Matmul(ctx, x.On(i), twice.On(i), ops.Into(partial.On(i))); err != nil {
				return err
			}
		}
		_, err1 := b.AllReduce(ctx, partial, ops.IntoMesh(sum))
		_, err2 := b.ReduceScatter(ctx, partial, ops.IntoMesh(slice))
		_, err3 := b.AllGather(ctx, slice, ops.IntoMesh(whole))
		return errors.Join(err1, err2, err3)
	}
	fails(t, failure(b.Mesh.Capture(b.ctx, "cold", model)), reprise.ErrInCapture, "without a run before it")
	b.must(model(b.ctx))
	trace := value(b.Mesh.Capture(b.ctx, "model", model))(b)
	for batch := range 3 {
		for c := range b.Size() {
			v := make([]float32, 64*64)
			for i := range v {
				v[i] = float32(i%9 + batch + c)
			}
			h := value(ops.NewHost([]int{64, 64}, ops.BFloat16, v))(b)
			b.must(b.Chip(c).CopyHostToDevice(b.ctx, h, x.On(c)))
		}
		b.must(trace.Replay(b.ctx))
		want := func(i int) float32 { return float32(4*(i%9+batch) + 2) }
		b.all(sum, want)
		b.all(whole, want)
	}
	b.must(trace.Release(b.ctx))
	for what, c := range map[string]struct {
		into *ops.MeshTensor
		want error
	}{"the operand": {partial, ops.ErrMemory}, "another shape": {slice, ops.ErrShape}} {
		fails(t, failure(b.AllReduce(b.ctx, partial, ops.IntoMesh(c.into))), c.want, "into %s", what)
	}
	for _, t := range []*ops.MeshTensor{x, partial, sum, slice, whole, twice} {
		b.must(b.Mesh.Deallocate(b.ctx, t))
	}
}

func TestCollectivesThatCannotBe(t *testing.T) {
	b := openMesh(t, sim.P300(), mesh.Shape{1, 2})
	blocks := b.spread(ops.Tile, ops.BFloat8B, 32, 32)
	half, other := b.spread(ops.Tile, ops.Float32, 16, 32), openMesh(t, sim.P300(), mesh.Shape{1, 2})
	of := func(_ *ops.MeshTensor, err error) error { return err }
	for name, c := range map[string]refusal{
		"a sum of blocks":           {of(b.AllReduce(b.ctx, blocks)), ops.ErrDataType},
		"nil":                       {of(b.AllReduce(b.ctx, nil)), ops.ErrShape},
		"a scattered sum of blocks": {of(b.ReduceScatter(b.ctx, blocks)), ops.ErrDataType},
		"gathered blocks":           {of(b.AllGather(b.ctx, blocks)), ops.ErrDataType},
		"three rows for two chips":  {of(b.ReduceScatter(b.ctx, b.spread(ops.RowMajor, ops.Int32, 3, 4))), ops.ErrShape},
		"a third dimension":         {of(b.AllGather(b.ctx, half, ops.WithDim(2))), ops.ErrShape},
		"a dimension before all":    {of(b.ReduceScatter(b.ctx, half, ops.WithDim(-3))), ops.ErrShape},
		"pages too large":           {of(b.AllReduce(b.ctx, b.spread(ops.RowMajor, ops.Float32, 1, 1025))), mesh.ErrTensor},
		"slices of pages too large": {of(b.ReduceScatter(b.ctx, b.spread(ops.RowMajor, ops.Float32, 2, 1025))), mesh.ErrTensor},
		"a tensor of another mesh":  {of(other.AllReduce(b.ctx, half)), ops.ErrWrongDevice},
	} {
		expect.Fails(t, c.err, c.want, "%s", name)
	}
	c := b.Mesh.BeginCapture(graph.Config{})
	if _, err := b.Mesh.Empty(b.ctx, ops.Spec{Shape: []int{1 << 15, 1 << 15}, DType: ops.Float32,
		Memory: l1}); !errors.Is(err, reprise.ErrOutOfMemory) {
		t.Errorf("more than there is: %v", err)
	}
	r := b.report(c)
	if errs := only(r.Graph, graph.ErrorNode); len(errs) != 1 || errs[0].Params["error_operation"] != "ttnn::empty" {
		t.Errorf("errors in the graph: %+v", errs)
	}
	for what, c := range map[string]struct {
		t    *ops.MeshTensor
		want error
	}{"nil": {nil, ops.ErrShape}, "of another mesh": {half, ops.ErrWrongDevice}} {
		fails(t, failure(other.Mesh.ToHost(b.ctx, c.t)), c.want, "%s to the host", what)
		fails(t, other.Mesh.Deallocate(b.ctx, c.t), c.want, "%s deallocated", what)
	}
	expect.Fails(t, expect.ErrOf(b.Mesh.ToHost(b.ctx, half)), nil, "what others tried to deallocate")
	if err := b.mesh.InStep(allocator.DRAM); err != nil {
		t.Error(err)
	}
}

func TestCollectiveIsCaptured(t *testing.T) {
	b := openMesh(t, sim.P300(), mesh.Shape{1, 2})
	x := b.spread(ops.RowMajor, ops.Int32, 4, 16)
	for name, mode := range modes {
		c := b.Mesh.BeginCapture(graph.Config{Mode: mode, StackTraces: true})
		sum := value(b.AllReduce(b.ctx, x))(b)
		b.must(b.Mesh.Deallocate(b.ctx, sum))
		slice := value(b.ReduceScatter(b.ctx, x))(b)
		b.must(b.Mesh.Deallocate(b.ctx, slice))
		b.must(b.mesh.Queue(0).Wait(b.ctx))
		r := b.report(c)
		ran := map[int64][]string{}
		for _, p := range r.Programs {
			function := "?"
			if p.Function >= 0 {
				function = r.Graph.Nodes[p.Function].Name()
			}
			ran[p.Device] = append(ran[p.Device], function+" "+p.Name)
		}
		var each []string
		if mode == graph.Normal {
			each = []string{"CopyDeviceOperation pages", "AllReduceAsyncDeviceOperation all_reduce", "CopyDeviceOperation pages",
				"ReduceScatterDeviceOperation reduce_scatter", "SliceDeviceOperation pages"}
		}
		for chip := range int64(2) {
			equal(t, each, ran[chip], "%s: programs of chip %d", name, chip)
		}
		const made = "tt::tt_metal::create_device_tensor"
		want := []string{
			"ttnn::all_reduce", made, "ttnn::to_memory_config", "ttnn::prim::copy", "CopyDeviceOperation", "AllReduceAsyncDeviceOperation",
			"ttnn::reduce_scatter", made, made, "ttnn::to_memory_config", "ttnn::prim::copy", "CopyDeviceOperation", "ReduceScatterDeviceOperation",
			"ttnn::slice", "ttnn::prim::slice", "SliceDeviceOperation",
			"reprise::queue_wait",
		}
		equal(t, want, graph.CallTrace(r.Graph), name)
		expect.Equal(t, len(r.Devices), 2, "%s: devices", name)
		memory := map[graph.NodeType]map[string]int{graph.BufferAllocate: {}, graph.BufferDeallocate: {}, graph.CircularAllocate: {}}
		for _, n := range r.Graph.Nodes {
			if of := memory[n.Type]; of != nil {
				of[n.Params["device_id"]]++
			}
			// The wait is on a goroutine of the mesh, which nothing outside of this module called.
			if n.Type == graph.FunctionStart && n.Name() == "reprise::queue_wait" &&
				(len(n.StackTrace) == 0 || !strings.Contains(n.StackTrace[0], "github.com/reprise-tt/reprise")) {
				t.Errorf("%s: %s is called from %q", name, n.Name(), n.StackTrace)
			}
		}
		for kind, of := range memory {
			if kind != graph.CircularAllocate && of["0"] == 0 || of["0"] != of["1"] {
				t.Errorf("%s: %s by chip: %v", name, kind, of)
			}
		}
		if !strings.Contains(r.ClusterDescriptor, "arch:\n  0: blackhole\n  1: blackhole\nchips:\n  0: [0, 0, 0, 0]\n  1: [1, 0, 0, 0]\n") ||
			!strings.Contains(r.ClusterDescriptor, "\n  - [{chip: 0, chan: ") || r.MeshMapping != "chips:\n  0: [0, 0, 0, 0]\n  1: [1, 0, 0, 0]\n" {
			t.Errorf("%s: %s\n%s", name, r.ClusterDescriptor, r.MeshMapping)
		}
		var text bytes.Buffer
		b.must(r.Encode(&text))
		dir := t.TempDir()
		b.must(os.WriteFile(filepath.Join(dir, "report.json"), text.Bytes(), 0o666))
		db := filepath.Join(dir, "db.sqlite")
		expect.Value(visualizer.Import(b.ctx, db, []string{filepath.Join(dir, "report.json")}, visualizer.Options{}))(t)
		q := value(sql.Open("sqlite3", db))(b)
		var op string
		var parts int
		b.must(q.QueryRow("SELECT name FROM operations WHERE operation_id = 1").Scan(&op))
		b.must(q.QueryRow("SELECT count(DISTINCT device_id) FROM device_tensors").Scan(&parts))
		var buffers int
		b.must(q.QueryRow("SELECT count(DISTINCT device_id) FROM buffers").Scan(&buffers))
		expect.Equal(t, op, "ttnn::all_reduce", "%s", name)
		expect.Equal(t, parts, 2, "%s", name)
		expect.Equal(t, buffers, 2, "%s", name)
		b.must(q.Close())
	}
}

func TestMeshAcrossIsRefused(t *testing.T) {
	engines, err := hosts.InProcess(2)
	expect.Must(t, err)
	listeners, addresses := make([]net.Listener, 2), make([]string, 2)
	for i := range listeners {
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		addresses[i] = listeners[i].Addr().String()
	}
	core := chip.Core{X: 1, Y: 1}
	for i, err := range hoststest.Each(engines, func(e *hosts.Local) (err error) {
		ctx := t.Context()
		defer e.Close()
		conns, err := sim.Meet(ctx, listeners[e.Rank()], e.Rank(), addresses, []byte("test"))
		if err != nil {
			return err
		}
		machine := sim.P300(sim.OfPart(sim.Part{Index: e.Rank(), Count: 2, Conns: conns}))
		defer machine.Close()
		m, err := mesh.Open(ctx, mesh.Cards(machine.Cards()...), mesh.Shape{1, 2}, mesh.Across(e))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.Close(context.WithoutCancel(ctx))) }()
		if _, err := ops.NewMesh(ctx, m, core); !errors.Is(err, ops.ErrOtherHost) {
			return fmt.Errorf("a mesh of both hosts: %v", err)
		}
		first, err := m.Submesh(mesh.At(0, 0))
		if err != nil {
			return err
		}
		own, err := ops.NewMesh(ctx, first, core)
		switch mine := e.Rank() == first.Chips()[0].Host; {
		case errors.Is(err, ops.ErrOtherHost) == mine:
			return fmt.Errorf("a chip of host %d: %v", first.Chips()[0].Host, err)
		case mine:
			return errors.Join(err, own.Release(ctx))
		}
		return nil
	}) {
		expect.Fails(t, err, nil, "host %d", i)
	}
}

func TestMeshZones(t *testing.T) {
	b := openMesh(t, sim.P300(), mesh.Shape{1, 2})
	im, err := kernels.Compile(b.ctx, kernels.Source{Path: "zones.c", Arch: chip.Blackhole, Zones: true, Text: `
#include "reprise/zone.h"
void kernel_main(void) {
    reprise_zone("BRISC-KERNEL");
}
`})
	if errors.Is(err, kernels.ErrNoCompiler) {
		t.Skip(err)
	}
	b.must(err)
	c := b.Mesh.BeginCapture(graph.Config{})
	at := chip.Core{X: 3, Y: 1}
	var want []string
	var listeners []*print.Listener
	for i, one := range b.mesh.Chips() {
		dev := one.Device
		l := value(print.Listen(dev.Debug(), c.Record(i), print.Options{}))(b)
		listeners = append(listeners, l)
		x, err := dev.Load(b.ctx, &reprise.Program{Name: "zoned",
			Kernels: []reprise.Kernel{{Name: "k", Image: im, Cores: []chip.Range{at.Range()}}}})
		b.must(err)
		for range i + 1 {
			b.must(dev.Queue(0).Run(b.ctx, x))
		}
		b.must(dev.Queue(0).Wait(b.ctx))
		xy := value(dev.Virtual(at))(b)
		for range i + 1 {
			for _, kind := range []string{"ZONE_START", "ZONE_END"} {
				want = append(want, fmt.Sprintf("%d (%d,%d) BRISC BRISC-KERNEL %s zones.c:4", i, xy.X, xy.Y, kind))
			}
		}
		b.must(x.Release(b.ctx))
	}
	if c.Record(-1) != nil || c.Record(2) != nil {
		t.Error("there is a handler for a chip that the mesh doesn't have")
	}
	for _, l := range listeners {
		b.must(l.Close())
	}
	r := b.report(c)
	var log strings.Builder
	b.must(r.WriteDeviceLog(&log))
	head, rest, _ := strings.Cut(log.String(), "\n")
	rows := value(csv.NewReader(strings.NewReader(rest)).ReadAll())(b)
	var got []string
	for _, f := range rows[1:] {
		got = append(got, fmt.Sprintf("%s (%s,%s) %s %s %s %s:%s", f[0], f[1], f[2], f[3], f[10], f[11], f[13], f[12]))
	}
	equal(t, want, got, head)
}
