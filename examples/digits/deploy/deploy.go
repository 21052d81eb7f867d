// Package deploy puts a network of package digits on a device: a DRAM buffer for the pages between
// any two layers, the packed layers, and one program for each layer.
//
//	dep, err := deploy.New(ctx, dev, network, len(images), dev.Grid())
//	err = dep.Write(ctx, queue, images)
//	trace, err := queue.Capture(ctx, "digits", dep.Record)
//	err = trace.Replay(ctx)
//	scores, err := dep.Scores(ctx, queue)
package deploy

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/kernels"
)

// ErrCount is the error for more images than the deployment's number, or none.
var ErrCount = errors.New("number of images")

// Deployment is a network on a device, for a fixed number of images. Its methods may be called from
// several goroutines, but they share one set of buffers: scores that are read while new images run
// can belong to either images.
type Deployment struct {
	images   int
	borrowed bool              // the caller owns the input buffer
	pages    []*reprise.Buffer // the input of layer i; the last one has the scores
	weights  []*reprise.Buffer // of layer i
	layers   []*reprise.Executable
}

// New allocates the buffers on a device, writes the weights through its first queue and loads the
// programs, which divide the images among cores. After an error nothing stays allocated.
func New(ctx context.Context, d *reprise.Device, n *digits.Network, images int, cores chip.Range) (*Deployment, error) {
	return NewWithInput(ctx, d, n, images, cores, nil)
}

// NewWithInput is New with an input buffer of the caller: in DRAM, with a page of digits.PageBytes
// for each image. Close keeps this buffer.
func NewWithInput(ctx context.Context, d *reprise.Device, n *digits.Network, images int, cores chip.Range,
	input *reprise.Buffer) (*Deployment, error) {
	dep := &Deployment{images: images, borrowed: input != nil}
	if dep.borrowed {
		dep.pages = append(dep.pages, input)
	}
	if err := dep.build(ctx, d, n, cores); err != nil {
		return nil, errors.Join(fmt.Errorf("deploy: %d images on %v: %w", images, cores, err), dep.Close(ctx))
	}
	return dep, nil
}

func (p *Deployment) build(ctx context.Context, d *reprise.Device, n *digits.Network, cores chip.Range) error {
	if p.images < 1 {
		return fmt.Errorf("%w: %d, want at least 1", ErrCount, p.images)
	}
	images, err := load(d.Arch())
	if err != nil {
		return err
	}
	if !p.borrowed {
		if err := p.addPages(d, "input"); err != nil {
			return err
		}
	}
	for i, l := range n.Layers() {
		name := fmt.Sprintf("layer %d", i)
		w, err := d.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: l.PackedSize(), Name: name + " weights"})
		if err != nil {
			return err
		}
		p.weights = append(p.weights, w)
		if err := d.Queue(0).Write(ctx, w, 0, l.Pack()); err != nil {
			return err
		}
		if err := p.addPages(d, name+" output"); err != nil {
			return err
		}
		x, err := d.Load(ctx, images.program(name, l, p.pages[i], w, p.pages[i+1], p.images, cores))
		if err != nil {
			return err
		}
		p.layers = append(p.layers, x)
	}
	return nil
}

func (p *Deployment) addPages(d *reprise.Device, name string) error {
	b, err := d.NewBuffer(reprise.BufferConfig{
		Kind: allocator.DRAM, Size: p.images * digits.PageBytes, PageSize: digits.PageBytes, Name: name,
	})
	if err == nil {
		p.pages = append(p.pages, b)
	}
	return err
}

// kernelImages are the loaded kernels of an architecture.
type kernelImages struct{ reader, dense, writer *kernels.Image }

func load(a chip.Arch) (kernelImages, error) {
	var k kernelImages
	files, err := digits.KernelsFor(a)
	if err != nil {
		return k, err
	}
	for _, f := range []struct {
		file []byte
		to   **kernels.Image
	}{{files.Reader, &k.reader}, {files.Dense, &k.dense}, {files.Writer, &k.writer}} {
		if *f.to, err = kernels.Load(f.file); err != nil {
			return k, err
		}
	}
	return k, nil
}

// program is one layer from input to output.
func (k kernelImages) program(name string, l *digits.Layer, input, weights, output *reprise.Buffer, images int,
	cores chip.Range) *reprise.Program {
	share := map[chip.Core]digits.Share{}
	shares := digits.Shares(images, cores.Size())
	for c := range cores.Cores() {
		share[c] = shares[len(share)]
	}
	on := []chip.Range{cores}
	kernel := func(role string, im *kernels.Image, p chip.Processor, args func(digits.Share) []uint32) reprise.Kernel {
		return reprise.Kernel{
			Name: name + " " + role, Image: im, Processor: p, Cores: on,
			Args: func(c chip.Core) []uint32 { return args(share[c]) },
		}
	}
	prog := &reprise.Program{
		Name: name,
		Kernels: []reprise.Kernel{
			kernel("reader", k.reader, chip.BRISC, func(s digits.Share) []uint32 {
				return l.ReaderArgs(input.Addr(), weights.Addr(), s)
			}),
			kernel("writer", k.writer, chip.NCRISC, func(s digits.Share) []uint32 {
				return l.WriterArgs(output.Addr(), s)
			}),
			kernel("dense 0", k.dense, chip.TRISC0, l.DenseArgs),
			kernel("dense 1", k.dense, chip.TRISC1, l.DenseArgs),
			kernel("dense 2", k.dense, chip.TRISC2, l.DenseArgs),
		},
		Buffers: []*reprise.Buffer{input, weights, output},
	}
	for _, b := range l.CircularBuffers() {
		prog.CircularBuffers = append(prog.CircularBuffers, reprise.CircularBuffer{
			Index: b.Index, Cores: on, PageSize: b.PageSize, Pages: b.Pages,
		})
	}
	return prog
}

// Images returns the number of images that the deployment was made for.
func (p *Deployment) Images() int { return p.images }

// Layers returns the loaded programs, in order.
func (p *Deployment) Layers() []*reprise.Executable {
	return append([]*reprise.Executable(nil), p.layers...)
}

// Pages returns the input buffer of layer i, or for the number of layers the buffer of scores.
func (p *Deployment) Pages(i int) *reprise.Buffer { return p.pages[i] }

// Write writes images to the start of the input buffer; the rest of the buffer stays unchanged.
func (p *Deployment) Write(ctx context.Context, q *reprise.Queue, images []digits.Image) error {
	if len(images) < 1 || len(images) > p.images {
		return fmt.Errorf("deploy: write: %w: %d, want 1 to %d", ErrCount, len(images), p.images)
	}
	return q.Write(ctx, p.pages[0], 0, Bytes(images, len(images)))
}

// Bytes returns the input buffer's content for up to n images, with zeros in the rest of n pages.
func Bytes(images []digits.Image, n int) []byte {
	b := make([]byte, 0, n*digits.PageBytes)
	for _, m := range images {
		page := m.Page()
		b = append(b, page[:]...)
	}
	return b[:n*digits.PageBytes]
}

// Scores decodes the buffer of scores.
func Scores(b []byte) [][digits.Classes]int32 {
	scores := make([][digits.Classes]int32, len(b)/digits.PageBytes)
	for i := range scores {
		scores[i] = digits.Scores(digits.Page(b[i*digits.PageBytes : (i+1)*digits.PageBytes]))
	}
	return scores
}

// Run submits all layers to a queue.
func (p *Deployment) Run(ctx context.Context, q *reprise.Queue) error {
	for _, x := range p.layers {
		if err := q.Run(ctx, x); err != nil {
			return err
		}
	}
	return nil
}

// Record records all layers, as a function for reprise.Queue.Capture.
func (p *Deployment) Record(_ context.Context, r *reprise.Recorder) error {
	for _, x := range p.layers {
		if err := r.Run(x); err != nil {
			return err
		}
	}
	return nil
}

// ReadPages waits for the queue and reads the input pages of layer i, or for the number of layers
// the scores.
func (p *Deployment) ReadPages(ctx context.Context, q *reprise.Queue, i int) ([]digits.Page, error) {
	b := make([]byte, p.images*digits.PageBytes)
	if err := q.Read(ctx, p.pages[i], 0, b); err != nil {
		return nil, err
	}
	pages := make([]digits.Page, p.images)
	for i := range pages {
		copy(pages[i][:], b[i*digits.PageBytes:])
	}
	return pages, nil
}

// Scores waits for the queue and reads the scores of all images.
func (p *Deployment) Scores(ctx context.Context, q *reprise.Queue) ([][digits.Classes]int32, error) {
	b := make([]byte, p.images*digits.PageBytes)
	if err := q.Read(ctx, p.pages[len(p.layers)], 0, b); err != nil {
		return nil, err
	}
	return Scores(b), nil
}

// Close releases programs and buffers. A trace holds its memory until it is released. A second
// Close has no effect.
func (p *Deployment) Close(ctx context.Context) error {
	var errs []error
	for _, x := range p.layers {
		errs = append(errs, x.Release(ctx))
	}
	pages := p.pages
	if p.borrowed && len(pages) > 0 {
		pages = pages[1:]
	}
	for _, b := range append(p.weights, pages...) {
		errs = append(errs, b.Release())
	}
	p.layers, p.weights, p.pages = nil, nil, nil
	return errors.Join(errs...)
}
