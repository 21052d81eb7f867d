package ttsim_test

import (
	"testing"
	"time"

	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func benchBoards(b *testing.B, bench func(b *testing.B, c board, f *ttsim.Function)) {
	for name, c := range boards {
		b.Run(name, func(b *testing.B) {
			s := ttsimtest.Start(b, c.variable)
			f := s.Functions()[0]
			b.ReportAllocs()
			bench(b, c, f)
			must(b, s.Sync())
		})
	}
}

func BenchmarkStore(b *testing.B) {
	benchBoards(b, func(b *testing.B, c board, f *ttsim.Function) {
		off := c.at(f, c.x, c.y, 0x20000)
		for b.Loop() {
			f.BARStore(0, off, 4, 1)
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	benchBoards(b, func(b *testing.B, c board, f *ttsim.Function) {
		off := c.at(f, c.x, c.y, 0x20000)
		for b.Loop() {
			f.BARLoad(0, off, 4)
		}
	})
}

func BenchmarkBulkWrite(b *testing.B) {
	benchBoards(b, func(b *testing.B, c board, f *ttsim.Function) {
		off := c.at(f, c.x, c.y, 0)
		p := make([]byte, 1<<20)
		b.SetBytes(int64(len(p)))
		for b.Loop() {
			f.BARWrite(0, off, p)
		}
	})
}

func BenchmarkBulkRead(b *testing.B) {
	benchBoards(b, func(b *testing.B, c board, f *ttsim.Function) {
		off := c.at(f, c.x, c.y, 0)
		p := make([]byte, 1<<20)
		b.SetBytes(int64(len(p)))
		for b.Loop() {
			f.BARRead(0, off, p)
		}
	})
}

func BenchmarkHostRead(b *testing.B) {
	benchBoards(b, func(b *testing.B, c board, f *ttsim.Function) {
		f.AttachDMA(&sysmem{mem: make([]byte, 1<<20)})
		off := c.at(f, c.pcieX, c.pcieY, c.noc)
		p := make([]byte, 16<<10)
		b.SetBytes(int64(len(p)))
		for b.Loop() {
			f.BARRead(0, off, p)
		}
	})
}

func BenchmarkClock(b *testing.B) {
	benchBoards(b, func(b *testing.B, c board, f *ttsim.Function) {
		load(c, f, program)
		release(c, f)
		start, begin := f.Sim().Clocks(), time.Now()
		for b.Loop() {
			time.Sleep(time.Millisecond)
		}
		b.ReportMetric(float64(f.Sim().Clocks()-start)/time.Since(begin).Seconds(), "clocks/s")
	})
}
