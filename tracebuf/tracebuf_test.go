package tracebuf_test

import (
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

var (
	fails  = expect.Fails
	must   = expect.Must
	noDiff = expect.NoDiff
)

func second[V any](_ V, err error) error { return err }

func TestReplayEqualsReference(t *testing.T) {
	want, err := os.ReadFile(filepath.Join("..", "dispatch", "cq", "testdata", "golden", "exec_trace.bin"))
	must(t, err)
	r, err := tracebuf.NewReplay(tracebuf.ReplayConfig{
		ResetConfig: flow.ResetConfig{Layout: cq.Blackhole, DispatchX: 1, DispatchY: 3, Workers: 64, Stream: 48},
		Addr:        0x00100000, PageSize: 4096, Pages: 16,
	})
	must(t, err)
	cq.Put32(r.Bytes, r.GoCount, 0x140)
	cq.Put32(r.Bytes, r.WaitCount, 0x140+64)
	noDiff(t, r.Bytes, want, "replay commands differ from the reference")
}

func record(n int) *tracebuf.Recording {
	r := tracebuf.NewRecording(cq.Blackhole)
	for i := range n {
		r.Add("p", 0, func(dst []byte) ([]byte, uint8) {
			b := cq.NewBuilder(cq.Blackhole, dst)
			b.Wait(cq.Master, cq.Wait{Flags: cq.WaitStream, Stream: 48, Count: uint32(i)})
			return b.Bytes(), 0
		})
	}
	return r
}

func TestExtentsHoldAllPages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		banks := rapid.IntRange(1, 12).Draw(t, "banks")
		im, err := record(rapid.IntRange(1, 3000).Draw(t, "commands")).Finish(banks)
		must(t, err)
		total := uint64(0)
		for i, e := range im.Extents(0x1000, banks) {
			if e.Bank != i || e.Start != 0x1000 {
				t.Fatalf("extent %d is %+v", i, e)
			}
			total += e.End - e.Start
		}
		if total != uint64(len(im.Bytes)) || im.Pages()*im.PageSize != len(im.Bytes) {
			t.Fatalf("extents hold %d B of %d", total, len(im.Bytes))
		}
		if waste := len(im.Bytes) - im.Size; waste < 0 || waste >= im.PageSize {
			t.Fatalf("%d B of padding with pages of %d B", waste, im.PageSize)
		}
	})
}

func TestTraceEndsItself(t *testing.T) {
	im, err := record(3).Finish(8)
	must(t, err)
	end := im.Bytes[im.Size-cq.Blackhole.PCIeAlign() : im.Size]
	if cq.PrefetchID(end[0]) != cq.PrefetchExecBufEnd || cq.DispatchID(end[16]) != cq.DispatchExecBufEnd {
		t.Errorf("the last command starts % x", end[:17])
	}
}

func TestEmptyRecordingIsRefused(t *testing.T) {
	if _, err := tracebuf.NewRecording(cq.Blackhole).Finish(8); err == nil {
		t.Error("an empty recording became a trace")
	}
}
