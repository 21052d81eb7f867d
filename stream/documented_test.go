package stream_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/stream"
)

// The kernel of docs/streams.md compiles without warnings, as C and as C++, and does what the page
// says.
func TestDocumentedKernel(t *testing.T) {
	page, err := os.ReadFile("../docs/streams.md")
	if err != nil {
		t.Fatal(err)
	}
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
			b.Must(b.Queue.Run(b.Ctx, b.Load(p)))
			word := make([]byte, 4)
			for i := range uint32(20) {
				binary.LittleEndian.PutUint32(word, i*i)
				b.Must(in.Write(b.Ctx, word))
				n, err := out.Read(b.Ctx, word)
				b.Must(err)
				if got := binary.LittleEndian.Uint32(word); n != 4 || got != i*i+1 {
					b.Errorf("%d of %d B, want %d", got, n, i*i+1)
				}
			}
			b.Must(in.Close(b.Ctx))
			if _, err := out.Read(b.Ctx, word); err != io.EOF {
				b.Errorf("at the end: %v", err)
			}
			b.Must(b.Queue.Wait(b.Ctx))
		}
	})
}
