package dispatch

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/memmap"
)

// StrippedKernels are command-queue kernels without their compile-time constants; each queue needs
// one of each kind.
type StrippedKernels struct {
	Prefetch, Dispatch, Subordinate []StrippedKernel
}

// StrippedKernel is a kernel of StrippedKernels.
type StrippedKernel struct {
	Image     []byte
	Has       func(v uint32) bool // its instructions make the number, or address it
	DRAMBanks int                 // 0 if unknown
}

// immediate is a constant that a kernel's code materialises.
type immediate struct {
	name  string
	value uint32
}

func prefetchMakes(q *abi.Queue) []immediate {
	return []immediate{
		{"word of the prefetch queue's pointer", q.FetchRead}, {"word of the issue queue's pointer", q.IssueRead},
		{"end of the prefetch queue", q.FetchQueue + q.FetchQueueSize},
		{"buffer of fetched commands", q.Commands}, {"its end", q.Commands + q.CommandsSize}, {"scratch buffer", q.Scratch},
		{"dispatch ring", q.DispatchRing}, {"its end", q.DispatchRing + q.DispatchPages*q.DispatchPageSize},
		{"subordinate's ring", q.SubordinateRing}, {"its end", q.SubordinateRing + q.SubordinatePages*q.SubordinatePageSize},
		{"dispatcher's core", q.DispatchCore}, {"way to host memory", uint32(q.HostMemory >> 32)},
		{"issue queue in host memory", q.Issue}, {"its end", q.Issue + q.IssueSize},
	}
}

func dispatchMakes(q *abi.Queue) []immediate {
	return []immediate{
		{"word of the dispatcher's pointer", q.CompletionWrite},
		{"dispatch ring", q.DispatchRing}, {"its end", q.DispatchRing + q.DispatchPages*q.DispatchPageSize},
		{"prefetcher's core", q.PrefetchCore}, {"grid of workers", q.Workers}, {"number of workers", q.NumWorkers},
		{"completion queue in host memory", q.Completion}, {"its end", q.End()}, {"its end in units of 16 B", q.End() / 16},
		{"word for the host", q.Base + q.CompletionWriteWords},
	}
}

// subordinateMakes: grid is the rectangle of workers on its NoC.
func subordinateMakes(q *abi.Queue, grid uint32) []immediate {
	return []immediate{
		{"its ring", q.SubordinateRing}, {"its end", q.SubordinateRing + q.SubordinatePages*q.SubordinatePageSize},
		{"prefetcher's core", q.PrefetchCore}, {"its core", q.DispatchCore},
		{"address of the go messages", q.Go}, {"grid of workers", grid}, {"number of workers", q.NumWorkers},
	}
}

func (k *StrippedKernel) missing(all []immediate) []immediate {
	var none []immediate
	for _, m := range all {
		if !k.Has(m.value) {
			none = append(none, m)
		}
	}
	return none
}

type tableReader struct {
	d  *machine
	fw *QueueFirmware

	outside []uint32
	rect    chip.VirtualRect // of all workers

	closest []Mismatch
}

// byTable returns firmware with the constants of the revision's table that agree with its code.
func (d *machine) byTable(fw *QueueFirmware) (*QueueFirmware, error) {
	r := &tableReader{d: d, fw: fw, rect: d.ch.Rects(d.grid)[0]}
	if n := min(len(fw.Stripped.Prefetch), len(fw.Stripped.Dispatch), len(fw.Stripped.Subordinate)); n < d.opts.Queues {
		return nil, tooFewQueues(fw.Name, n, d.opts.Queues)
	}
	for c := range d.queueGrid().Cores() {
		xy, err := d.ch.Virtual(c)
		if err != nil {
			return nil, err
		}
		r.outside = append(r.outside, d.ch.Arch().NOCXY(xy))
	}
	forms := fw.Base.Layout.QueueForms()
	if len(forms) == 0 {
		return nil, fmt.Errorf("dispatch: start: command-queue firmware %s has no debug information, and no constants are known for %v: build it with -g, as tt-metal does", fw.Name, fw.Base.Layout.Revision)
	}
	sizes := []uint32{1 << 30 / uint32(d.opts.Queues), 1 << 30, 1 << 29} // of tt-metal's huge page
	if d.asked != 0 {
		sizes = append([]uint32{d.asked}, sizes...)
	}
	for size := uint32(memmap.MinQueueSize); size <= 1<<28; size *= 2 {
		sizes = append(sizes, size)
	}
	for _, form := range forms {
		for _, size := range sizes {
			if queues := r.queues(form, size); queues != nil {
				return &QueueFirmware{Name: fw.Name, Base: fw.Base, Queues: queues}, nil
			}
		}
	}
	return nil, &QueueFirmwareError{Name: fw.Name, Mismatches: r.closest}
}

func (r *tableReader) queues(form abi.QueueForm, size uint32) []QueueKernels {
	var out []QueueKernels
	var differ []Mismatch
	for id := range r.d.opts.Queues {
		q, closest := r.queue(form, size, id)
		out, differ = append(out, q), append(differ, closest...)
	}
	if len(differ) == 0 {
		return out
	}
	if r.closest == nil || len(differ) < len(r.closest) {
		r.closest = differ
	}
	return nil
}

func (r *tableReader) queue(form abi.QueueForm, size uint32, id int) (kernels QueueKernels, differ []Mismatch) {
	d := r.d
	at := abi.QueuePlace{
		HostTile: d.ch.PCIe(chip.NOC0).Packed(), Workers: d.ch.Arch().NOCMulticast(r.rect.Start, r.rect.End), NumWorkers: uint32(d.grid.Size()),
		Base: uint32(id) * size, Size: size,
	}
	own := ownCores(d.ch, id)
	for i, c := range own {
		if xy, err := d.ch.Virtual(c); err == nil {
			*[]*uint32{&at.PrefetchCore, &at.DispatchCore}[i] = d.ch.Arch().NOCXY(xy)
		}
	}
	if kernels, differ = r.kernelsAt(form, at, id); len(differ) == 0 {
		return kernels, nil
	}
	for _, at.PrefetchCore = range r.outside {
		for _, at.DispatchCore = range r.outside {
			if at.PrefetchCore == at.DispatchCore {
				continue
			}
			if k, lacks := r.kernelsAt(form, at, id); len(lacks) < len(differ) {
				kernels, differ = k, lacks
			}
		}
	}
	return kernels, differ
}

func (r *tableReader) kernelsAt(form abi.QueueForm, at abi.QueuePlace, id int) (kernels QueueKernels, differ []Mismatch) {
	c := r.fw.Base.Layout.MetalQueue(form, at)
	grid := r.d.ch.Arch().NOCMulticast(r.rect.End, r.rect.Start)
	kinds := []struct {
		name  string
		files []StrippedKernel
		make  []immediate
	}{
		{"prefetcher", r.fw.Stripped.Prefetch, prefetchMakes(&c)},
		{"dispatcher", r.fw.Stripped.Dispatch, dispatchMakes(&c)},
		{"subordinate", r.fw.Stripped.Subordinate, subordinateMakes(&c, grid)},
	}
	var chosen [3]*StrippedKernel
	for i, kind := range kinds {
		var fewest []immediate
		for k := range kind.files {
			f := &kind.files[k]
			if none := f.missing(kind.make); chosen[i] == nil || len(none) < len(fewest) {
				chosen[i], fewest = f, none
			}
		}
		for _, m := range fewest {
			differ = append(differ, Mismatch{
				Queue: id, Name: kind.name + ": " + m.name, File: "no instruction that makes it",
				Device: fmt.Sprintf("%#x", m.value), Do: "use files with debug information, of a build for this kind of card and number of queues",
			})
		}
	}
	return QueueKernels{Prefetch: chosen[0].Image, Dispatch: chosen[1].Image, Subordinate: chosen[2].Image, Constants: c,
		DRAMBanks: chosen[0].DRAMBanks}, differ
}
