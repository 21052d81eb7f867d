// Package deploy puts a network of package digits on a device: a DRAM buffer for the pages between
// any two layers, the packed layers, and one program for each layer.
//
//	dep, err := deploy.New(ctx, dev, network, len(images), dev.Grid(), nil)
//	err = queue.Write(ctx, dep.Pages(0), 0, deploy.Bytes(images, len(images)))
//	trace, err := queue.Capture(ctx, "digits", dep.Record)
//	err = trace.Replay(ctx)
//	err = queue.Read(ctx, dep.Pages(len(dep.Layers())), 0, b)
//	scores := deploy.Scores(b)
package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/kernels"
)

// ErrCount is the error for more images than the deployment's number, or none.
var ErrCount = errors.New("number of images")

// Deployment is a network on a device, for a fixed number of images. Concurrent calls share one set
// of buffers.
type Deployment struct {
	images   int
	borrowed bool              // the caller owns the input buffer
	pages    []*reprise.Buffer // the input of layer i; the last one has the scores
	weights  []*reprise.Buffer
	layers   []*reprise.Executable
}

// New allocates the buffers on a device, writes the weights through its first queue and loads the
// programs, which divide the images among cores. After an error nothing stays allocated. Close
// keeps an input buffer of the caller's, in DRAM with a page of digits.PageBytes for each image;
// nil makes one.
func New(ctx context.Context, d *reprise.Device, n *digits.Network, images int, cores chip.Range,
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
	if !p.borrowed {
		if err := p.addPages(d, "input"); err != nil {
			return err
		}
	}
	for i, l := range n.Layers() {
		name := fmt.Sprintf("layer %d", i)
		w, err := d.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: len(l.Pack()), Name: name + " weights"})
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
		prog, err := program(d.Arch(), name, l, p.pages[i], w, p.pages[i+1], p.images, cores)
		if err != nil {
			return err
		}
		x, err := d.Load(ctx, prog)
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

func program(arch chip.Arch, name string, l *digits.Layer, input, weights, output *reprise.Buffer, images int,
	cores chip.Range) (*reprise.Program, error) {
	files, err := digits.KernelsFor(arch)
	if err != nil {
		return nil, err
	}
	var loaded [3]*kernels.Image
	for i, f := range [][]byte{files.Reader, files.Dense, files.Writer} {
		if loaded[i], err = kernels.Load(f); err != nil {
			return nil, err
		}
	}
	share := map[chip.Core]digits.Share{}
	shares := digits.Shares(images, cores.Size())
	for c := range cores.Cores() {
		share[c] = shares[len(share)]
	}
	on := []chip.Range{cores}
	prog := &reprise.Program{Name: name, Buffers: []*reprise.Buffer{input, weights, output}}
	dense := func(s digits.Share) []uint32 { return []uint32{s.Pages} }
	for _, k := range []struct {
		role  string
		image *kernels.Image
		on    chip.Processor
		args  func(digits.Share) []uint32
	}{
		{"reader", loaded[0], chip.BRISC, func(s digits.Share) []uint32 { return l.ReaderArgs(input.Addr(), weights.Addr(), s) }},
		{"writer", loaded[2], chip.NCRISC, func(s digits.Share) []uint32 { return l.WriterArgs(output.Addr(), s) }},
		{"dense 0", loaded[1], chip.TRISC0, dense},
		{"dense 1", loaded[1], chip.TRISC1, dense},
		{"dense 2", loaded[1], chip.TRISC2, dense},
	} {
		prog.Kernels = append(prog.Kernels, reprise.Kernel{
			Name: name + " " + k.role, Image: k.image, Processor: k.on, Cores: on,
			Args: func(c chip.Core) []uint32 { return k.args(share[c]) },
		})
	}
	for _, b := range l.CircularBuffers() {
		prog.CircularBuffers = append(prog.CircularBuffers, reprise.CircularBuffer{
			Index: b.Index, Cores: on, PageSize: b.PageSize, Pages: b.Pages,
		})
	}
	return prog, nil
}

// Layers returns the loaded programs, in order.
func (p *Deployment) Layers() []*reprise.Executable {
	return slices.Clone(p.layers)
}

// Pages returns the input buffer of layer i, or for the number of layers the buffer of scores.
func (p *Deployment) Pages(i int) *reprise.Buffer { return p.pages[i] }

// Bytes returns the input buffer's content for up to n images, with zeros in the rest.
func Bytes(images []digits.Image, n int) []byte {
	b := make([]byte, 0, n*digits.PageBytes)
	for _, m := range images {
		b = append(b, m.Pixels[:]...)
	}
	return b[:n*digits.PageBytes]
}

// Scores decodes the buffer of scores.
func Scores(b []byte) (scores [][digits.Classes]int32) {
	for page := range slices.Chunk(b, digits.PageBytes) {
		scores = append(scores, digits.Scores(digits.Page(page)))
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

// Close releases programs and buffers. A second Close has no effect.
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
