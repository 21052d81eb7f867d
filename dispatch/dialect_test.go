package dispatch

import (
	"bytes"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
)

var arches = []chip.Arch{chip.Wormhole, chip.Blackhole}

func TestMoveWaits(t *testing.T) {
	like := []byte{byte(cq.DispatchWait), byte(cq.WaitStream), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	for _, arch := range arches {
		stream := func(flags ...cq.WaitFlags) []byte {
			b := cq.NewBuilder(cq.Layout(arch), nil)
			for _, f := range flags {
				b.Wait(cq.Master, cq.Wait{Flags: f, Stream: 48, Addr: 0x1000, Count: 0x18181818})
				b.WriteLinear(cq.WriteLinear{NOC: 0x92, Addr: 0x20000, Data: like})
			}
			b.WaitStall(cq.Wait{Flags: flags[0], Stream: 49, Count: 8})
			b.ExecBufEnd()
			out, err := b.Finish()
			must(t, err)
			return out
		}
		got := stream(cq.WaitStream, cq.WaitBarrier|cq.WaitStream, cq.WaitStream|cq.ClearStream, cq.WaitMemory, cq.NotifyFetch)
		pinned := bytes.Clone(got)
		dialect{movedWaits: true}.translate(cq.Layout(arch), got)
		var changed []byte
		for i := range got {
			if got[i] != pinned[i] {
				changed = append(changed, pinned[i], got[i])
			}
		}
		stall := byte(cq.WaitStream | cq.NotifyFetch | cq.WaitBarrier)
		if want := []byte{8, 0x10, 9, 0x11, 0x18, 0x30, stall, stall&^8 | 0x10}; !bytes.Equal(changed, want) {
			t.Errorf("%v: bytes changed are % x, want % x", arch, changed, want)
		}
		q := &Queue{d: &machine{ch: whole(t, arch)}}
		if b := q.TraceBytes(pinned); &b[0] != &pinned[0] {
			t.Error("commands for the usual flags are copied")
		}
		q.dialect, q.translates = dialect{movedWaits: true}, true
		if b := q.TraceBytes(pinned); !bytes.Equal(b, got) || &b[0] == &pinned[0] {
			t.Errorf("%v: a trace's commands aren't those of the queue", arch)
		}
	}
}

func whole(t testing.TB, arch chip.Arch) *chip.Chip {
	ch, err := chip.New(arch, chip.Harvesting{})
	must(t, err)
	return ch
}

func TestWideFetchEntries(t *testing.T) {
	kd := opened(t, sim.Blackhole())
	w, err := kd.OpenWindow(2<<20, kmd.Uncached)
	must(t, err)
	t.Cleanup(func() { _ = w.Close() })
	xy, err := whole(t, chip.Blackhole).Virtual(chip.Core{})
	must(t, err)
	must(t, w.Configure(kmd.WindowConfig{Target: xy, Ordering: kmd.Strict}))
	f := fetchRing{win: w, entries: 3, log: 2, base: 0x20000, rdAddr: 0x21000}
	f.lastR = f.initialRead()
	if f.initialRead() != 0x2000C {
		t.Errorf("the pointer begins at %#x", f.initialRead())
	}
	for i, e := range []cq.FetchEntry{5, 7 | cq.FetchStall, 0x7FFF | cq.FetchStall, 9} {
		f.push(e)
		at := 0x20000 + 4*uint64(i%3)
		if got, want := w.Load32(at), uint32(e&0x7FFF)|uint32(e>>15)<<31; got != want {
			t.Errorf("entry %d is %#x, want %#x", i, got, want)
		}
		w.Store32(0x21000, uint32(at))
		if err := f.poll(); err != nil || f.taken != uint64(i+1) {
			t.Errorf("entry %d: %d taken, %v", i, f.taken, err)
		}
	}
	w.Store32(0x21000, 0x20002)
	if f.poll() == nil {
		t.Error("a pointer into the middle of an entry is taken")
	}
}
