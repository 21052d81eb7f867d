package stream_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/stream"
)

func room(b *devtest.Bench, n int) *reprise.Buffer {
	b.Helper()
	buf := b.Buffer(reprise.BufferConfig{Kind: allocator.L1, Size: n * b.Dev.Grid().Size(), PageSize: n, Name: "room"})
	return buf
}

func open(b *devtest.Bench, c stream.Config) *stream.Stream {
	b.Helper()
	s, err := stream.New(b.Dev, c)
	b.Must(err)
	return s
}

func echo(b *devtest.Bench, in, out *stream.Stream, p chip.Processor, at chip.Core, l1 *reprise.Buffer) *reprise.Executable {
	b.Helper()
	args := append(append(in.Args(), out.Args()...), l1.Addr(), uint32(l1.PageSize()))
	prog := &reprise.Program{Name: "echo", Buffers: []*reprise.Buffer{l1}, Kernels: []reprise.Kernel{{
		Name: "echo", Image: b.Image(kernels.StreamEcho), Processor: p, Cores: []chip.Range{at.Range()},
		Args: func(chip.Core) []uint32 { return args },
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
			b.Execute(x)
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
			b.Wait()
			b.Must(x.Release(b.Ctx))
			b.Must(errors.Join(in.Release(b.Ctx), out.Release(b.Ctx)))
		}
	})
}

func TestConfigs(t *testing.T) {
	devtest.OnEmulators(t, func(b *devtest.Bench) {
		h, err := b.Dev.NewHostBuffer(reprise.HostBufferConfig{Size: 4096, Name: "shared"})
		b.Must(err)
		other := devtest.Open(b.T, sim.Blackhole())
		before := b.Allocated()
		for _, c := range []struct {
			c    stream.Config
			says string
		}{
			{stream.Config{Direction: 2}, "Direction(2)"},
			{stream.Config{Size: 100}, "power of two"},
			{stream.Config{Size: 64}, "power of two"},
			{stream.Config{Size: -128}, "power of two"},
			{stream.Config{First: 4}, "multiple of 64"},
			{stream.Config{Offset: 64}, "without memory"},
			{stream.Config{Size: 4096, Memory: h}, "4224 B"},
			{stream.Config{Size: 128, Memory: h, Offset: 3968}, "inside"},
			{stream.Config{Size: 128, Memory: h, Offset: 32}, "multiple of 64"},
			{stream.Config{Size: 128, Memory: h, Offset: -64}, "inside"},
			{stream.Config{Queue: other.Queue}, "another device"},
		} {
			c.c.Name = "it"
			_, err := stream.New(b.Dev, c.c)
			var refused *stream.ConfigError
			if !errors.As(err, &refused) {
				t.Errorf("%+v: %v", c.c, err)
				continue
			}
			b.Says(err, `"it"`, c.says)
		}
		expect.Equal(t, fmt.Sprint(b.Allocated()), fmt.Sprint(before), "allocated")
		s := open(b, stream.Config{Name: "it", Size: 1024, Memory: h, Offset: 128})
		if s.Name() != "it" || s.Direction() != stream.ToHost || s.Size() != 1024 || s.Longest() != 960 || len(s.Args()) != 5 ||
			s.Args()[1] != s.ID() {
			t.Errorf("%s, %v, %d B, messages of %d B, %#x", s.Name(), s.Direction(), s.Size(), s.Longest(), s.Args())
		}
		expect.Fails(t, s.Write(b.Ctx, nil), stream.ErrDirection, "write")
		expect.Fails(t, expect.ErrOf(s.TryWrite(nil)), stream.ErrDirection, "try to write")
		b.Must(s.Release(b.Ctx))
		b.Must(h.Release(b.Ctx))
		expect.Equal(t, fmt.Sprint(b.Allocated()), fmt.Sprint(before), "allocated after Release")
	})
}

func TestNoAllocations(t *testing.T) {
	b := devtest.Open(t, sim.Blackhole())
	in, out := open(b, stream.Config{Direction: stream.ToDevice}), open(b, stream.Config{})
	x := echo(b, in, out, chip.BRISC, chip.Core{}, room(b, 1<<16))
	const n = 200
	p := make([]byte, 4)
	write := testing.AllocsPerRun(n, func() { b.Must(in.Write(b.Ctx, p)) })
	b.Must(in.Close(b.Ctx))
	b.Execute(x)
	b.Wait()
	read := testing.AllocsPerRun(n, func() {
		_, err := out.Read(b.Ctx, p)
		b.Must(err)
	})
	expect.Equal(t, write, 0, "write")
	expect.Equal(t, read, 0, "read")
	if _, err := out.Read(b.Ctx, p); err != io.EOF {
		t.Error(err)
	}
}

func TestDeviceIsClosed(t *testing.T) {
	devtest.OnEmulators(t, func(b *devtest.Bench) {
		dev, err := reprise.Open(b.Ctx, sim.Wormhole())
		b.Must(err)
		in, err := stream.New(dev, stream.Config{Name: "in", Direction: stream.ToDevice, Size: 128})
		b.Must(err)
		out, err := stream.New(dev, stream.Config{Name: "out"})
		b.Must(err)
		ended := make(chan error, 4)
		for range 2 {
			go func() {
				_, err := out.Read(b.Ctx, nil)
				ended <- err
			}()
			go func() {
				var err error
				for err == nil {
					err = in.Write(b.Ctx, nil)
				}
				ended <- err
			}()
		}
		time.Sleep(5 * time.Millisecond)
		b.Must(dev.Close(b.Ctx))
		for range 4 {
			expect.Fails(t, <-ended, reprise.ErrClosed, "error")
		}
		if _, ok, err := out.TryRead(nil); ok || !errors.Is(err, reprise.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestDamage(t *testing.T) {
	b := devtest.Open(t, sim.Blackhole())
	h, err := b.Dev.NewHostBuffer(reprise.HostBufferConfig{Size: 4096, Name: "h"})
	b.Must(err)
	out := open(b, stream.Config{Name: "out", Size: 128, Memory: h})
	h.Bytes()[0], h.Bytes()[128+12] = 64, 1 // a position, and a message of another one
	_, err = out.Read(b.Ctx, nil)
	var damaged *stream.DamagedError
	if !errors.As(err, &damaged) {
		t.Errorf("error %v", err)
	}
	b.Must(out.Reset(b.Ctx))
	if _, ok, err := out.TryRead(nil); ok || err != nil {
		t.Errorf("after Reset: %v, %v", ok, err)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The kernel of docs/streams.md compiles without warnings, as C and as C++, and does what the page
// says.
func TestDocumentedKernel(t *testing.T) {
	page := expect.Value(os.ReadFile("../docs/streams.md"))(t)
	_, text, ok := strings.Cut(string(page), "```c\n")
	text, _, end := strings.Cut(text, "```")
	if !ok || !end {
		t.Fatal("the page has no kernel")
	}
	devtest.OnEmulators(t, func(b *devtest.Bench) {
		for _, path := range []string{"kernel.c", "kernel.cpp"} {
			var warnings bytes.Buffer
			image, err := kernels.Compile(b.Ctx, kernels.Source{Path: path, Text: text, Arch: b.Dev.Arch(),
				Processors: []chip.Processor{chip.BRISC, chip.NCRISC}, Warnings: &warnings})
			if errors.Is(err, kernels.ErrNoCompiler) {
				b.Skip(err)
			}
			b.Must(err)
			if warnings.Len() > 0 {
				b.Error(warnings.String())
			}
			in, out := open(b, stream.Config{Name: "in", Direction: stream.ToDevice}), open(b, stream.Config{Name: "out"})
			args := append(in.Args(), out.Args()...)
			p := &reprise.Program{Name: "documented", Kernels: []reprise.Kernel{{
				Name: "documented", Image: image, Processor: chip.NCRISC, Cores: []chip.Range{chip.Single(3, 2)},
				Args: func(chip.Core) []uint32 { return args },
			}}}
			in.AddTo(p)
			out.AddTo(p)
			b.Execute(b.Load(p))
			word := make([]byte, 4)
			for i := range uint32(20) {
				binary.LittleEndian.PutUint32(word, i*i)
				b.Must(in.Write(b.Ctx, word))
				n, err := out.Read(b.Ctx, word)
				b.Must(err)
				got := binary.LittleEndian.Uint32(word)
				expect.Equal(b, n, 4, "n")
				expect.Equal(b, got, i*i+1, "got")
			}
			b.Must(in.Close(b.Ctx))
			if _, err := out.Read(b.Ctx, word); err != io.EOF {
				b.Errorf("at the end: %v", err)
			}
			b.Wait()
		}
	})
}
