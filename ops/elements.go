package ops

// tileElements is the number of elements of a tile.
const tileElements = 32 * 32

// floats reports whether tensors are of floats, which the engines compute with.
func floats(ts ...*Tensor) bool {
	for _, t := range ts {
		if !t.geo.spec.DType.Float() {
			return false
		}
	}
	return true
}

// inRows reports whether a tensor is of floats and not in tiles: its shards are no whole tiles, so they aren't computed in place.
func inRows(t *Tensor) bool { return floats(t) && t.geo.spec.Layout != Tile }

// tilesOfPage returns how many tiles hold the elements of a page.
func (g *geometry) tilesOfPage() int {
	if g.spec.Layout == Tile {
		return 1
	}
	return ceil(g.pageWidth, tileElements)
}

// doubled returns the number of pages of a circular buffer for so many pages at a time: room for twice as many, unless that is much
// of a core's memory.
func doubled(pages, bytes int) int {
	const limit = 64 << 10
	if pages*bytes > limit {
		return pages
	}
	return 2 * pages
}

// engineElements returns the job that computes an operation on the elements of tensors in any layout. The kernel is one for tiles:
// it gets the elements in the order in which pages of the result have them.
func engineElements(k *engineKernel, out *Tensor, in ...*Tensor) job {
	tiles, bytes := out.geo.tilesOfPage(), tileElements*out.geo.spec.DType.Size()
	tilesAt := ring{bytes, doubled(tiles, bytes)}
	j := job{
		kernel: kernelElementReader, args: []uint32{uint32(len(in))}, out: out, in: in, engine: k, writer: kernelPageWriter,
		pieces: out.geo.pages * tiles, together: tiles,
		buffers: []ring{tilesAt, tilesAt, {}, {in[0].geo.pageBytes, 1}, {}},
	}
	if len(in) == 2 {
		j.buffers[2], j.buffers[4] = tilesAt, ring{in[1].geo.pageBytes, 1}
	}
	return j
}

// engineMatmulRows returns the job that multiplies matrices in any layout: tiles are made of rows, and rows of tiles.
func engineMatmulRows(out *Tensor, a, b operand) job {
	tile := func(t *Tensor) int { return tileElements * t.geo.spec.DType.Size() }
	d := out.geo.dims
	wide, high, inner := ceil(d[3], 32), ceil(d[2], 32), a.inner()
	j := job{
		title: "matmul", kernel: kernelMatmulRowsReader, out: out, in: []*Tensor{a.Tensor, b.Tensor},
		engine: &engineKernel{name: "matmul", args: []uint32{uint32(wide), uint32(inner), 0}},
		pieces: d[0] * d[1] * high * wide,
		buffers: []ring{
			{tile(out), 2}, {tile(a.Tensor), 2}, {tile(b.Tensor), 2 * matmulBlock}, {}, {a.geo.pageBytes, 1}, {b.geo.pageBytes, 1}, {},
		},
	}
	if out.geo.spec.Layout != Tile {
		j.writer, j.together = kernelRowsWriter, wide
		j.buffers[0].pages, j.buffers[6] = doubled(wide, tile(out)), ring{out.geo.pageBytes, 1}
	}
	if j.transposedKernel(a, b); a.transposed {
		j.buffers = turnRings(j.buffers)
	}
	return j
}
