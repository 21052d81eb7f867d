package optimize

import (
	"compress/gzip"
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/tracebuf"
)

// trace is a trace of one program with random arguments, kernels and parameters.
func trace(t *rapid.T, ch *chip.Chip) *tracebuf.Image {
	l := cq.Layout(ch.Arch())
	im := &tracebuf.Image{Layout: l, PageSize: 1024, Programs: []tracebuf.Program{{Binary: make([]byte, 4096)}}}
	for i := range im.Programs[0].Binary {
		im.Programs[0].Binary[i] = byte(i * 7)
	}
	b := cq.NewBuilder(l, nil)
	b.SetWriteOffset(cq.SetWriteOffset{Count: 3, Offsets: [4]uint32{0, 0x9000, 0xA000}})
	size := 4 * rapid.IntRange(1, 40).Draw(t, "words")
	w := cq.WritePacked{OffsetIndex: 1, Size: uint16(size)}
	few := rapid.SliceOfN(rapid.Uint32(), 2, 4).Draw(t, "values")
	of := map[uint32][]int{}
	for c := range (chip.Range{End: chip.Core{X: 7, Y: 7}}).Cores() {
		if rapid.IntRange(0, 4).Draw(t, "no core") == 0 && len(w.Cores) > 0 {
			continue
		}
		xy, err := ch.Virtual(c)
		expect.Must(t, err)
		w.Cores = append(w.Cores, ch.Arch().NOCXY(xy))
		slot := make([]byte, cq.SlotStride(size))
		for i := 0; i < size; i += 4 {
			v := rapid.SampledFrom(few).Draw(t, "word")
			binary.LittleEndian.PutUint32(slot[i:], v)
			of[v] = append(of[v], len(w.Data)+i)
		}
		w.Data = append(w.Data, slot...)
	}
	packed := b.WritePacked(w)
	if rapid.Bool().Draw(t, "parameter") {
		p := tracebuf.Param{Name: "n", Value: few[0]}
		for _, at := range of[few[0]] {
			p.At = append(p.At, packed.Data+at)
		}
		im.Params = []tracebuf.Param{p}
	}
	b.Wait(cq.Master, cq.Wait{})
	b.Wait(cq.Master, cq.Wait{Flags: cq.WaitBarrier})
	all := ch.Rects(chip.Range{End: chip.Core{X: 7, Y: 7}})
	large := cq.WritePackedLarge{Type: cq.LargeBinaries, OffsetIndex: 2, Alignment: uint16(l.DRAMAlign())}
	relay := cq.RelayPagedPacked{}
	for i, r := range all {
		large.Subs = append(large.Subs, cq.LargeSub{NOC: ch.Arch().NOCMulticast(r.Start, r.End), Addr: uint32(64 * i), Length: 48,
			Dests: uint8(r.Cores), Unlink: true})
		relay.Subs = append(relay.Subs, cq.PagedSub{LogPageSize: 11, Length: 64})
	}
	b.WritePackedLargeHeader(large)
	at := b.RelayPagedPacked(relay)
	for i := range relay.Subs {
		im.Relocs = append(im.Relocs, tracebuf.Reloc{At: at + cq.AtPagedSub(i), Page: i % 2})
	}
	b.SetWriteOffset(cq.SetWriteOffset{Count: 3, Offsets: [4]uint32{0, 0x9000, 0xA000}})
	b.NotifySubordinate(cq.NotifySubordinate{Wait: true, Mask: 1})
	b.SendGoSignal(cq.Subordinate, cq.SendGoSignal{WaitStream: 48})
	im.Steps = []tracebuf.Step{{Name: "one", Size: b.Len()}}
	b.ExecBufEnd()
	bytes, err := b.Finish()
	expect.Must(t, err)
	im.Bytes, im.Size = bytes, len(bytes)
	return im
}

func TestOptimize(t *testing.T) {
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		t.Run(arch.String(), func(t *testing.T) {
			ch, err := chip.New(arch, chip.Harvesting{})
			expect.Must(t, err)
			rapid.Check(t, func(t *rapid.T) {
				old := trace(t, ch)
				now := *old
				expect.Must(t, optimize(&now, ch, 8))
				if len(now.Relocs) > 0 || len(now.Changes) == 0 {
					t.Fatalf("%d relocations are left; changes: %v", len(now.Relocs), now.Changes)
				}
				set := func(im *tracebuf.Image, v uint32) {
					for _, at := range im.Params[0].At {
						binary.LittleEndian.PutUint32(im.Bytes[at:], v)
					}
				}
				if len(old.Params) == 0 || len(old.Params[0].At) == 0 {
					return
				}
				// A parameter changes the same words of the same cores.
				set(&now, 0xC0FFEE)
				if err, ok := errors.AsType[*ProofError](prove(old, &now, ch)); !ok {
					t.Fatalf("another argument: %v", err)
				}
				set(old, 0xC0FFEE)
				expect.Must(t, prove(old, &now, ch))
			})
		})
	}
}

func TestControlFlowIsRefused(t *testing.T) {
	f, err := os.Open("../testdata/control-wormhole.trace.gz")
	expect.Must(t, err)
	defer f.Close()
	files, err := tracebuf.DecodeAll(expect.Value(gzip.NewReader(f))(t))
	expect.Must(t, err)
	expect.Fails(t, expect.ErrOf(Files(files)), ErrControl, "a trace with loops")
}
