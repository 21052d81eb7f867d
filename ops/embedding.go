package ops

import (
	"context"

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
