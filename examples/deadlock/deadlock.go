// Package deadlock is a program with a bug, which docs/debugging.md finds: a reader fills two
// circular buffers for a compute kernel, in blocks. With blocks that are larger than a buffer, the
// reader waits for room in the first buffer while the compute kernel waits for pages of the second
// one.
package deadlock

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/kmd"
)

//go:embed kernels
var sources embed.FS

const (
	pages    = 16 // of each operand
	capacity = 4  // pages of a circular buffer
	pageSize = 2048
)

// Core is the core that runs the program, by its logical coordinate.
var Core = chip.Core{X: 1, Y: 1}

// Options say how the program runs.
type Options struct {
	// Block is how many pages of one operand the reader fetches before those of the other one: a
	// divisor of 16. It hangs with more than 4.
	Block uint32
	// Watch compiles checks into the kernels: the reader then says what is wrong with a block that
	// is too large.
	Watch bool
	// Dir is where the kernels' files and the dump of a hang go.
	Dir string
	// Prints gets what the reader prints, and how long the program took.
	Prints io.Writer
	// HangTimeout ends a wait without progress. 0: the device's.
	HangTimeout time.Duration
	// Hung is called with the error of a hang while the device is open, unless it is nil.
	Hung func(error)
}

// Run runs the program on a device. The error wraps kernels.ErrNoCompiler if there is no cross
// compiler, and is a *dispatch.HangError for a hang.
func Run(ctx context.Context, t kmd.Target, o Options) (err error) {
	opts := []reprise.Option{reprise.WithDumpDir(o.Dir)}
	if o.HangTimeout > 0 {
		opts = append(opts, reprise.WithHangTimeout(o.HangTimeout))
	}
	dev, err := reprise.Open(ctx, t, opts...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close(context.WithoutCancel(ctx))) }()
	l, err := print.Listen(dev.Debug(), print.ToWriter(o.Prints), print.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	program, err := build(ctx, dev.Arch(), o)
	if err != nil {
		return err
	}
	x, err := dev.Load(ctx, program)
	if err != nil {
		return err
	}
	q := dev.Queue(0)
	times, err := q.ProgramTimes()
	if err != nil {
		return err
	}
	if err := q.Run(ctx, x); err != nil {
		return err
	}
	if err = errors.Join(q.Wait(ctx), l.Drain()); err != nil {
		if o.Hung != nil {
			o.Hung(err)
		}
		return err
	}
	ran, _, err := times.Append(nil)
	for len(ran) == 0 && err == nil && ctx.Err() == nil { // the device knows a moment after the wait for the program
		ran, _, err = times.Append(ran)
	}
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Prints, "sum took %d cycles\n", ran[0].End-ran[0].Start)
	return err
}

// build compiles the kernels, with prints and debug information, and keeps their files.
func build(ctx context.Context, arch chip.Arch, o Options) (*reprise.Program, error) {
	p, on := &reprise.Program{Name: "sum"}, []chip.Range{{Start: Core, End: Core}}
	source := func(name string) (kernels.Source, error) {
		text, err := sources.ReadFile("kernels/" + name)
		return kernels.Source{Path: name, Text: string(text), Arch: arch, Prints: true, Debug: true, Watch: o.Watch}, err
	}
	add := func(name string, proc chip.Processor, im *kernels.Image, args ...uint32) error {
		p.Kernels = append(p.Kernels, reprise.Kernel{Name: name, Image: im, Processor: proc, Cores: on,
			Args: func(chip.Core) []uint32 { return args }})
		return os.WriteFile(filepath.Join(o.Dir, name+".elf"), im.File, 0o600)
	}
	for _, k := range []struct {
		name, file string
		on         chip.Processor
		args       []uint32
	}{{"reader", "reader.cpp", chip.BRISC, []uint32{pages, o.Block}}, {"writer", "writer.c", chip.NCRISC, []uint32{pages}}} {
		src, err := source(k.file)
		var im *kernels.Image
		if err == nil {
			im, err = kernels.Compile(ctx, src)
		}
		if err == nil {
			err = add(k.name, k.on, im, k.args...)
		}
		if err != nil {
			return nil, err
		}
	}
	src, err := source("compute.cpp")
	if err != nil {
		return nil, err
	}
	c, err := kernels.CompileCompute(ctx, kernels.ComputeSource{Source: src})
	if err != nil {
		return nil, err
	}
	for i, name := range [...]string{"unpack", "math", "pack"} {
		if err := add(name, chip.TRISC0+chip.Processor(i), c.Images()[i], pages); err != nil {
			return nil, err
		}
	}
	for _, cb := range [...]int{0, 1, 16} {
		p.CircularBuffers = append(p.CircularBuffers, reprise.CircularBuffer{Index: cb, Cores: on, PageSize: pageSize, Pages: capacity})
	}
	return p, nil
}
