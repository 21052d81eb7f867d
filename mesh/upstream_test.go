package mesh_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

func twoByFour(t *testing.T, opts ...reprise.Option) *bench {
	t.Helper()
	var cards []*sim.Card
	for range 8 {
		cards = append(cards, sim.Wormhole())
	}
	return openCards(t, mesh.Cards(cards...), mesh.Shape{2, 4}, mesh.Unlinked(), mesh.WithDevice(opts...))
}

func area(y0, x0, y1, x1 int) mesh.Range {
	return mesh.Range{Start: mesh.Coord{y0, x0}, End: mesh.Coord{y1, x1}}
}

func constant(n int, v uint32) []byte {
	return bytes.Repeat(binary.LittleEndian.AppendUint32(nil, v), n/4)
}

func (b *bench) values(buf *mesh.Buffer, want []uint32) {
	b.Helper()
	b.must(b.queue.Wait(b.ctx))
	for i, c := range b.mesh.Chips() {
		got := make([]byte, buf.On(c).Size())
		b.must(b.queue.On(c).Read(b.ctx, buf.On(c), 0, got))
		if !bytes.Equal(got, constant(len(got), want[i])) {
			b.Errorf("chip %v: buffer %q starts with %d, want %d", c.Coord, buf.Name(), binary.LittleEndian.Uint32(got), want[i])
		}
	}
}

// MeshTraceSweepTest and NonConvexGridTrace, with one program on each part instead of ten.
func TestUpstreamTraceSweep(t *testing.T) {
	if testing.Short() {
		t.Skip("several chips, too slow under the race detector; other tests take the same paths")
	}
	full, top, bottom := area(0, 0, 1, 3), area(0, 0, 0, 3), area(1, 0, 1, 3)
	column := func(x int) mesh.Range { return area(0, x, 1, x) }
	single := func(y, x int) mesh.Range { return area(y, x, y, x) }
	columns := []mesh.Range{column(0), column(1), column(2), column(3)}
	all := []mesh.Range{single(0, 0), single(0, 1), single(0, 2), single(0, 3), single(1, 0), single(1, 1), single(1, 2), single(1, 3)}
	b := twoByFour(t, reprise.WithTraceRegion(64<<20))
	buf := b.pages("words", 1)
	programs := map[string]mesh.Part{}
	for _, c := range []struct {
		name    string
		grids   [][]mesh.Range // by workload
		replays int
	}{
		{"parts", [][]mesh.Range{{full}, {column(1)}, {single(0, 2)}, {single(1, 3)}, {single(0, 0)}, {full}}, effort.Of(2, 10, 50)},
		{"columns and rows", [][]mesh.Range{{full}, columns, {top, bottom}}, effort.Of(2, 10, 50)},
		{"two, three and four columns", [][]mesh.Range{{full}, {top, bottom}, {area(0, 0, 1, 1), area(0, 2, 1, 3)}, {area(0, 0, 1, 1), column(2), column(3)}, columns}, effort.Of(2, 10, 50)},
		{"single chips", [][]mesh.Range{{full}, all, {area(0, 1, 1, 2)}, {column(2)}, {area(1, 1, 1, 2)}}, effort.Of(2, 10, 50)},
		{"non-convex grid", [][]mesh.Range{{area(0, 0, 0, 1), area(1, 2, 1, 3)}}, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := make([]uint32, b.mesh.Size())
			var xs []*mesh.Executable
			for _, grid := range c.grids {
				var parts []mesh.Part
				for _, r := range grid {
					p, ok := programs[r.String()]
					if !ok {
						p = b.adder(r.String(), buf, buf, always(1))
						p.Range = r
						programs[r.String()] = p
					}
					parts = append(parts, p)
					for i, chip := range b.mesh.Chips() {
						if r.Contains(chip.Coord) {
							want[i] += uint32(c.replays)
						}
					}
				}
				xs = append(xs, b.load("workload", parts...))
			}
			b.must(b.queue.Write(b.ctx, buf, constant(buf.Size(), 0)))
			trace := b.capture(c.name, xs...)
			for range c.replays {
				b.must(trace.Replay(b.ctx))
			}
			b.values(buf, want)
			b.must(trace.Release(b.ctx))
			for _, x := range xs {
				b.must(x.Release(b.ctx))
			}
		})
	}
}

// MeshEndToEnd2x4TraceTests.EltwiseAddTest: a region of 3072 B is rounded up to a page in each
// bank.
func TestUpstreamSmallRegionOnMesh(t *testing.T) {
	b := twoByFour(t, reprise.WithTraceRegion(3072))
	in, out := b.pages("in", 2), b.pages("out", 2)
	trace := b.capture("add", b.load("add", b.adder("add", in, out, always(3))))
	b.must(errors.Join(b.queue.Write(b.ctx, in, constant(in.Size(), 2)), trace.Replay(b.ctx)))
	b.values(out, []uint32{5, 5, 5, 5, 5, 5, 5, 5})
	b.must(trace.Release(b.ctx))
}

// MeshBufferTest2x4
func TestUpstreamMeshBuffers(t *testing.T) {
	b := twoByFour(t)
	conf := func(page int, tensor, split []int) mesh.BufferConfig {
		return mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, PageSize: page, Name: "buffer"}, Tensor: tensor,
			Unit: 2, Split: split}
	}
	for _, c := range []struct {
		name          string
		tensor, split []int
		local, rounds int
	}{
		{"ShardedBufferInitialization", []int{64, 128}, []int{0, 1}, 2 << 10, 1},
		{"InterleavedShardsReadWrite", []int{64, 128}, []int{0, 1}, 2 << 10, 100},
		{"RowMajorShardingAndReplication", []int{64, 128}, []int{0, mesh.Replicate}, 8 << 10, 1},
		{"ColMajorShardingAndReplication", []int{64, 128}, []int{mesh.Replicate, 1}, 4 << 10, 1},
		{"columns along the mesh's rows", []int{64, 128}, []int{1, 0}, 2 << 10, 1},
		{"ReplicatedBufferInitialization", []int{64, 128}, []int{mesh.Replicate, mesh.Replicate}, 16 << 10, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			buf, err := b.mesh.NewBuffer(conf(32, c.tensor, c.split))
			b.must(err)
			if got := buf.On(b.mesh.Chip(1, 3)).Size(); buf.Size() != 16<<10 || got != c.local {
				t.Errorf("%d B, of which a chip has %d", buf.Size(), got)
			}
			got := make([]byte, buf.Size())
			for i := range c.rounds {
				want := words(buf.Size(), uint32(i))
				b.must(b.queue.Write(b.ctx, buf, want))
				b.must(b.queue.Read(b.ctx, buf, got))
				if !bytes.Equal(got, want) {
					t.Fatalf("round %d: it comes back changed", i)
				}
			}
			at := buf.Addr()
			b.must(buf.Release())
			again, err := b.mesh.NewBuffer(conf(32, c.tensor, c.split))
			b.must(err)
			if again.Addr() != at {
				t.Errorf("the next buffer is at %#x, the freed one was at %#x", again.Addr(), at)
			}
			b.must(again.Release())
		})
	}
}
