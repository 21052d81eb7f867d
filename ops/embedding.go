package ops

import (
	"context"
	"slices"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// Embedding returns the table's rows that indices choose: indices [..., n] and a table [rows,
// width] give [..., n, width]. Indices are integers in up to seven dimensions, in any layout and
// memory. The table is of any data type, row-major, with one row in each page: interleaved or
// height sharded; only its last two dimensions may exceed 1. An index outside of the table gives a
// row of zeros.
//
// The result has the table's data type, is row-major ([WithLayout] makes tiles), and interleaved in
// the table's memory.
func (d *Device) Embedding(ctx context.Context, indices, table *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::embedding", argList{indices, table}, func(c *call) (*Tensor, error) {
		x, t := indices.spec, table.geometry
		if x.DType.Float() {
			return nil, typeError("indices of %v: want integers", x.DType)
		}
		if t.dims[0] != 1 || t.dims[1] != 1 {
			return nil, shapeError("a table of %v: want rows and columns", t.spec.Shape)
		}
		if t.spec.Layout != RowMajor || t.wide != 1 {
			return nil, memoryError("a table in %v, %v: want a row in each page: row-major, interleaved or height sharded",
				t.spec.Layout, t.spec.Memory)
		}
		s := Spec{Shape: append(indices.Shape(), t.dims[3]), DType: t.spec.DType, Layout: RowMajor}
		s.Memory = c.memoryOr(Interleaved(t.spec.Memory.Kind))
		if c.layout != nil {
			s.Layout = *c.layout
		}
		args := argList{indices, table, s.Layout, s.Memory}
		return c.compute("embedding", "EmbeddingsDeviceOperation", args, s, func(out *Tensor) job {
			g := out.geometry
			bytes := ceil(g.pageBytes, chunkBytes) * chunkBytes
			rows := min(max(1, halfBytes/bytes), halfPages)
			switch {
			case g.spec.Layout == Tile:
				rows, bytes = tileSize, 2*chunkBytes // a row of a tile
			case g.wide > 1:
				rows, bytes = 1, bytes+chunkBytes
			}
			return job{
				program: catalog.Embedding, args: words(rows, bytes), out: out, in: []*Tensor{indices, table},
				buffers: []ring{{g.pageBytes, 1}, {indices.pageBytes, 1}, {bytes, rows}},
			}
		})
	}, opts...)
}

// WithLayout sets the layout of the result of [Device.Embedding].
func WithLayout(l Layout) OpOption {
	return func(r *result) { r.layout = &l; r.given |= catalog.WithLayout }
}

// UpdateCache writes one row to each matrix of a key-value cache, at a row position. The cache is
// [batches, heads, rows, width] in tile layout, of any data type. The tensor in has the cache's
// data type and layout, and is [batches, heads, 1, width], or [1, heads, batches, width] as in
// TT-NN.
//
// In a capture [WithParam] makes the position a parameter of the trace. A position beyond the cache
// then writes nothing.
func (d *Device) UpdateCache(ctx context.Context, cache, in *Tensor, position int, opts ...OpOption) error {
	return d.writeCache(ctx, "ttnn::update_cache", cache, in, position, opts, func(have, want [4]int) (job, error) {
		if one, each := [4]int{1, want[1], want[0], want[3]}, [4]int{want[0], want[1], 1, want[3]}; have != one && have != each {
			return job{}, shapeError("rows of %v for a cache of %v: want %v or %v", have, want, each, one)
		}
		if position < 0 || position >= want[2] {
			return job{}, shapeError("position %d: the cache %v has rows 0 to %d", position, want, want[2]-1)
		}
		return job{program: catalog.UpdateCache, pieces: want[0] * want[1] * cache.wide}, nil
	})
}

// FillCache writes the first rows of a key-value cache's matrices in one batch: as
// [Device.UpdateCache] at positions 0 to n-1. The tensor in is [1, heads, n, width], where n is at
// most the cache's rows. In a capture [WithParam] makes the batch a parameter of the trace.
func (d *Device) FillCache(ctx context.Context, cache, in *Tensor, batch int, opts ...OpOption) error {
	return d.writeCache(ctx, "ttnn::fill_cache", cache, in, batch, opts, func(have, want [4]int) (job, error) {
		if have[0] != 1 || have[1] != want[1] || have[2] > want[2] || have[3] != want[3] {
			return job{}, shapeError("rows of %v for a cache of %v: want one batch of its heads and width, and no more rows", have, want)
		}
		if batch < 0 || batch >= want[0] {
			return job{}, shapeError("batch %d: the cache %v has batches 0 to %d", batch, want, want[0]-1)
		}
		return job{program: catalog.FillCache, pieces: in.pages}, nil
	})
}

// writeCache writes rows to a cache. check returns the job for the dimensions of both.
func (d *Device) writeCache(ctx context.Context, name string, cache, in *Tensor, at int, opts []OpOption,
	check func(have, want [4]int) (job, error)) error {
	args := argList{cache, in, at}
	_, err := d.do(ctx, name, args, func(c *call) (*Tensor, error) {
		if cache.overlaps(in) {
			return nil, &OverlapError{cache, in}
		}
		if cache.spec.DType != in.spec.DType {
			return nil, typeError("rows of %v for a cache of %v", in.spec.DType, cache.spec.DType)
		}
		if err := inTiles(cache, in); err != nil {
			return nil, err
		}
		j, err := check(in.dims, cache.dims)
		if err != nil {
			return nil, err
		}
		if in.empty() {
			return cache, nil
		}
		c.into = cache
		j.out, j.in, j.params, j.buffers = cache, []*Tensor{in}, words(at), rings(1, in.pageBytes)
		return c.compute("update_cache", "UpdateKVCacheOperation", args, cache.spec, func(*Tensor) job { return j })
	}, opts...)
	return err
}

// sameKind returns an error unless tensors are floats in tile layout, of one data type.
func sameKind(ts ...*Tensor) error {
	if err := floatTiles(ts...); err != nil {
		return err
	}
	if i := slices.IndexFunc(ts, func(t *Tensor) bool { return t.spec.DType != ts[0].spec.DType }); i >= 0 {
		return typeError("%v and %v: want one for all tensors", ts[0].spec.DType, ts[i].spec.DType)
	}
	return nil
}
