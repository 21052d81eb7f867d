package reprise_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kernels"
)

// spin is a program that waits on the given cores until the first word of an L1 buffer is 1.
func (b *bench) spin(name string, word *reprise.Buffer, proc reprise.Processor, cores ...reprise.Range) *reprise.Executable {
	b.Helper()
	return b.load(&reprise.Program{Name: name, Buffers: []*reprise.Buffer{word}, Kernels: []reprise.Kernel{{
		Name: "wait", Image: b.image(kernels.Spin), Processor: proc, Cores: cores,
		Args: func(reprise.Core) []uint32 { return []uint32{word.Addr(), 1} },
	}}})
}

func (b *bench) word() *reprise.Buffer {
	b.Helper()
	n := (b.dev.Grid().End.X + 1) * (b.dev.Grid().End.Y + 1)
	word := b.buffer(reprise.BufferConfig{Kind: reprise.L1, Size: 64 * n, PageSize: 64, Name: "word"})
	b.must(b.queue.Write(b.ctx, word, 0, make([]byte, 64*n)))
	return word
}

// hang returns the error of a wait that must end in a *HangError.
func (b *bench) hang(err error) *reprise.HangError {
	b.Helper()
	var h *reprise.HangError
	if !errors.As(err, &h) {
		b.Fatalf("%v, want a *HangError", err)
	}
	return h
}

// A hang leaves a file that says the same as the error, down to the command that the dispatcher waits at.
func TestHangLeavesADump(t *testing.T) {
	dir := t.TempDir()
	onEmulators(t, func(b *bench) {
		word := b.word()
		x := b.spin("forever", word, reprise.TRISC1, reprise.Single(2, 1))
		b.must(b.queue.Run(b.ctx, x))
		h := b.hang(b.queue.Finish(b.ctx))
		b.Log(h.Detail())
		f, err := os.Open(h.File)
		b.must(err)
		defer f.Close()
		d, err := dispatch.ReadDump(f)
		b.must(err)
		_ = d
		st, _ := f.Stat()
		b.Log(st.Size())
	}, reprise.WithHangTimeout(300*time.Millisecond), reprise.WithDumpDir(dir))
}
