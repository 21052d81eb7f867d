package stream_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/stream"
)

// room is L1 for a message at the same address of every worker.
func room(b *devtest.Bench, n int) *reprise.Buffer {
	b.Helper()
	buf, err := b.Dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: n * b.Dev.Grid().Size(), PageSize: n, Name: "room"})
	b.Must(err)
	return buf
}

// open makes a stream and releases it when the test ends.
func open(b *devtest.Bench, c stream.Config) *stream.Stream {
	b.Helper()
	s, err := stream.New(b.Dev, c)
	b.Must(err)
	return s
}

// echo loads a program that hands messages of one stream on to another.
func echo(b *devtest.Bench, in, out *stream.Stream, p chip.Processor, at chip.Core, l1 *reprise.Buffer) *reprise.Executable {
	b.Helper()
	args := append(append(in.Args(), out.Args()...), l1.Addr(), uint32(l1.PageSize()))
	prog := &reprise.Program{Name: "echo", Buffers: []*reprise.Buffer{l1}, Kernels: []reprise.Kernel{{
		Name: "echo", Image: b.Image(kernels.StreamEcho), Processor: p, Cores: []chip.Range{at.Range()}, Args: func(chip.Core) []uint32 { return args },
	}}}
	in.AddTo(prog)
	out.AddTo(prog)
	return b.Load(prog)
}

func message(i, n int) []byte {
	p := make([]byte, n)
	for j := range p {
		p[j] = byte(i*31 + j*7 + j>>8)
	}
	return p
}

func lengths() []int {
	return []int{0, 1, 3, 4, 47, 48, 49, 63, 64, 65, 100, 128, 1000, 1216, 4032}
}

func TestEcho(t *testing.T) {
	devtest.OnEmulators(t, func(b *devtest.Bench) {
		for _, p := range []chip.Processor{chip.BRISC, chip.NCRISC} {
			in := open(b, stream.Config{Name: "in", Direction: stream.ToDevice, Size: 4096, First: ^uint32(0) - 255})
			out := open(b, stream.Config{Name: "out", Direction: stream.ToHost, Size: 4096, First: ^uint32(0) - 8191})
			x := echo(b, in, out, p, chip.Core{X: 1, Y: 2}, room(b, 4096))
			b.Must(b.Queue.Run(b.Ctx, x))
			failed := make(chan error, 1)
			const rounds = 5
			go func() {
				for i := range rounds {
					for j, n := range lengths() {
						if err := in.Write(b.Ctx, message(i+j, n)); err != nil {
							failed <- fmt.Errorf("message %d: %w", j, err)
							return
						}
					}
				}
				failed <- in.Close(b.Ctx)
			}()
			got := make([]byte, out.Longest())
			for i := range rounds {
				for j, n := range lengths() {
					k, err := out.Read(b.Ctx, got)
					b.Must(err)
					if !bytes.Equal(got[:k], message(i+j, n)) {
						t.Errorf("round %d: message %d of %d B isn't what was written: %d B", i, j, n, k)
					}
				}
			}
			if _, err := out.Read(b.Ctx, got); err != io.EOF {
				t.Errorf("at the end: %v", err)
			}
			b.Must(<-failed)
			b.Must(b.Queue.Wait(b.Ctx))
			b.Must(x.Release(b.Ctx))
			b.Must(errors.Join(in.Release(b.Ctx), out.Release(b.Ctx)))
		}
	})
}
