package bench

import (
	"embed"
	"fmt"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/images"
	"github.com/reprise-tt/reprise/kernels"
)

// pace sets how a wait polls; see [reprise.WithPace].
type pace struct {
	name          string
	spin, longest time.Duration
}

var (
	defaultPace  = pace{"default", 0, 0}
	spinningPace = pace{"spin=5ms", 5 * time.Millisecond, 0}
)

// paces are the paces of the wake family.
var paces = []pace{
	defaultPace,
	spinningPace,
	{"longest=100us", 0, 100 * time.Microsecond},
	{"longest=5ms", 0, 5 * time.Millisecond},
}

//go:embed kernels/prebuilt
var archives embed.FS

var prebuilt = images.New(archives, "kernels/prebuilt")

// ownKernel returns a kernel of this package.
func ownKernel(a chip.Arch, name string) (*kernels.Image, error) {
	file, err := prebuilt.ELF(a, name)
	if err != nil {
		return nil, err
	}
	return kernels.Load(file)
}

// shape describes a measured program. "common" and "worst" are of tt-metal's benchmark of its
// dispatch code (fd_command_construction), "smallest" of its benchmark of traced programs.
type shape struct {
	name       string
	args       int // unique runtime arguments of each core
	common     int // common runtime arguments
	semaphores int
	cbs        int // circular buffers
	groups     int // kernel groups: sets of cores with kernels of their own
	cores      int // workers of the first row; 0 means all workers
}

var (
	minimal = shape{name: "smallest", groups: 1, cores: 1}

	common = shape{name: "common", args: 8, semaphores: 1, groups: 1}
	worst  = shape{name: "worst", args: 64, common: 16, semaphores: 4, cbs: 8, groups: 8}
)

// program makes a program of the shape that computes nothing.
func (p shape) program(d *reprise.Device) (*reprise.Program, error) {
	image, err := kernels.Prebuilt(d.Arch(), kernels.Blank)
	if err != nil {
		return nil, err
	}
	out := &reprise.Program{Name: p.name}
	grid := d.Queue(0).Workers()
	if p.cores > 0 {
		grid.End = chip.Core{X: grid.Start.X + p.cores - 1, Y: grid.Start.Y}
	}
	for i, r := range split(grid, p.groups) {
		k := reprise.Kernel{
			Name: fmt.Sprintf("blank %d", i), Image: image, Processor: chip.BRISC, Cores: []chip.Range{r},
			Common: make([]uint32, p.common),
		}
		if p.args > 0 {
			k.Args = func(c chip.Core) []uint32 {
				a := make([]uint32, p.args)
				for i := range a {
					a[i] = uint32(c.X)<<16 | uint32(c.Y)<<8 | uint32(i)
				}
				return a
			}
		}
		out.Kernels = append(out.Kernels, k)
	}
	for i := range p.cbs {
		out.CircularBuffers = append(out.CircularBuffers,
			reprise.CircularBuffer{Index: i, Cores: []chip.Range{grid}, PageSize: 1024, Pages: 2})
	}
	for i := range p.semaphores {
		out.Semaphores = append(out.Semaphores, reprise.Semaphore{ID: i, Cores: []chip.Range{grid}})
	}
	return out, nil
}

// padded returns the image with its text extended to a number of bytes.
func padded(im *kernels.Image, bytes int) *kernels.Image {
	if bytes <= len(im.Text) {
		return im
	}
	longer := *im
	longer.Text = append(make([]byte, 0, bytes), im.Text...)[:bytes]
	return &longer
}

// split cuts a rectangle into n rectangles of whole rows, at most one for each row.
func split(r chip.Range, n int) []chip.Range {
	rows := r.End.Y - r.Start.Y + 1
	n = max(1, min(n, rows))
	out := make([]chip.Range, 0, n)
	y := r.Start.Y
	for i := range n {
		end := r.Start.Y + rows*(i+1)/n - 1
		out = append(out, chip.Range{Start: chip.Core{X: r.Start.X, Y: y}, End: chip.Core{X: r.End.X, Y: end}})
		y = end + 1
	}
	return out
}
