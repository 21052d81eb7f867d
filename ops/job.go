package ops

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
)

// job is one run of a kernel.
type job struct {
	kernel string
	args   []uint32 // common arguments before those of the tensors
	out    *Tensor
	in     []*Tensor

	pageSizes []int     // of circular buffers, in bytes
	pages     int       // of each circular buffer; 2 if 0
	allCores  bool      // the program is on all workers, not only on those with a page of the result
	sharded   []*Tensor // place the circular buffers in these tensors instead: every core has a shard of each
}

// run submits a job to the queue or records it in the trace. It takes the program from the program cache, or loads it.
func (c *call) run(j job) error {
	d := c.d
	on, shares := split(d.q.Workers(), j.out.geo.pages)
	switch {
	case j.sharded != nil:
		on = j.out.geo.sharding.Cores
	case j.allCores:
		on = []chip.Range{d.q.Workers()}
	}
	if d.captures.noDispatch() {
		d.captures.program(d.id, j.circular(on), j.sharded != nil)
		return nil
	}
	common := slices.Clone(j.args)
	buffers := []*reprise.Buffer{}
	for _, t := range append([]*Tensor{j.out}, j.in...) {
		buffers = append(buffers, t.buf)
		if j.sharded != nil {
			continue // the kernel accesses tensors only as circular buffers
		}
		var err error
		if common, err = describe(common, t); err != nil {
			return err
		}
	}
	x, err := c.program(&j, on, shares, common)
	if err != nil {
		return err
	}
	d.captures.run(d.id, x)
	if d.rec == nil {
		return d.q.Run(c.ctx, x)
	}
	if err := d.rec.Run(x); err != nil {
		return err
	}
	return d.rec.Keep(buffers...)
}

// program returns the program of a job from the cache, with this job's arguments, or loads it.
func (c *call) program(j *job, on []chip.Range, shares map[chip.Core]share, common []uint32) (*reprise.Executable, error) {
	d, key := c.d, j.key()
	if x := d.cache[key]; x != nil {
		return x, j.set(x, common)
	}
	if err := d.refuseLocked(&CacheMissError{Op: j.kernel, Key: key, Err: reprise.ErrInCapture}); err != nil {
		return nil, err
	}
	im, err := d.image(j.kernel)
	if err != nil {
		return nil, err
	}
	x, err := d.dev.Load(c.ctx, &reprise.Program{
		Name: j.kernel,
		Kernels: []reprise.Kernel{{
			Name: j.kernel, Image: im, Processor: chip.BRISC, Cores: on, Common: common,
			Args: func(at chip.Core) []uint32 { s := shares[at]; return []uint32{s.first, s.pages} },
		}},
		CircularBuffers: j.circular(on),
	})
	if err != nil {
		return nil, err
	}
	d.cache[key] = x
	return x, nil
}

// set points a loaded program to this job's tensors.
func (j *job) set(x *reprise.Executable, common []uint32) error {
	for i, t := range j.sharded {
		if err := x.SetCircularAddr(i, t.buf.Addr()); err != nil {
			return err
		}
	}
	return x.SetCommonArgs(j.kernel, common)
}

// key identifies the program in the cache. Addresses are not part of it: each run sets its own.
func (j *job) key() string {
	parts := []string{j.kernel, fmt.Sprint(j.args)}
	for _, t := range append([]*Tensor{j.out}, j.in...) {
		parts = append(parts, t.geo.spec.String())
	}
	return strings.Join(parts, ";")
}

// circular returns the circular buffers: in the shards of tensors, or of their own.
func (j *job) circular(on []chip.Range) []reprise.CircularBuffer {
	if j.sharded != nil {
		out := make([]reprise.CircularBuffer, len(j.sharded))
		for i, t := range j.sharded {
			shard := t.geo.sharding.Shard
			out[i] = reprise.CircularBuffer{Index: i, Cores: on, PageSize: t.geo.pageBytes, Pages: shard[0] * shard[1], Addr: t.Address()}
		}
		return out
	}
	out := make([]reprise.CircularBuffer, len(j.pageSizes))
	pages := j.pages
	if pages == 0 {
		pages = 2
	}
	for i, n := range j.pageSizes {
		out[i] = reprise.CircularBuffer{Index: i, Cores: on, PageSize: ceil(n, 64) * 64, Pages: pages}
	}
	return out
}

// share is the pages of a result that one core computes.
type share struct{ first, pages uint32 }

// split divides the pages of a result among cores, column by column. It returns the cores that have pages, and their shares.
func split(workers chip.Range, pages int) ([]chip.Range, map[chip.Core]share) {
	width, height := workers.End.X-workers.Start.X+1, workers.End.Y-workers.Start.Y+1
	n := min(pages, width*height)
	shares := make(map[chip.Core]share, n)
	for i := range n {
		first, next := pages*i/n, pages*(i+1)/n
		shares[chip.Core{X: workers.Start.X + i/height, Y: workers.Start.Y + i%height}] = share{uint32(first), uint32(next - first)}
	}
	at := workers.Start
	var on []chip.Range
	if full := n / height; full > 0 {
		on = append(on, chip.Range{Start: at, End: chip.Core{X: at.X + full - 1, Y: at.Y + height - 1}})
		at.X += full
	}
	if rest := n % height; rest > 0 {
		on = append(on, chip.Range{Start: at, End: chip.Core{X: at.X, Y: at.Y + rest - 1}})
	}
	return on, shares
}
