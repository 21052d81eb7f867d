package cq

import (
	"bytes"
	"testing"
)

// What a replay patches: the patched stream is the one that would have been
// built with the new values.
func TestPatch(t *testing.T) {
	for _, l := range []Layout{Wormhole, Blackhole} {
		build := func(v uint32) (Builder, func(stream []byte)) {
			b := NewBuilder(l, nil)
			var patches []func([]byte)
			patch := func(at int) {
				patches = append(patches, func(s []byte) { Put32(s, at, 0xA1B2C3D4) })
			}
			at := b.SendGoSignal(Subordinate, SendGoSignal{Go: GoWord(v), WaitCount: v, WaitStream: v})
			patch(at + AtGoWord)
			patch(at + AtGoWaitCount)
			patch(at + AtGoWaitStream)
			at = b.Wait(Master, Wait{Flags: WaitStream, Stream: 48, Count: v})
			patch(at + AtWaitCount)
			at = b.SetWriteOffset(SetWriteOffset{Count: 4, Offsets: [4]uint32{0, v, 7, v}})
			patch(at + AtWriteOffset(1))
			patch(at + AtWriteOffset(3))
			p := b.WritePacked(WritePacked{Size: 96, Addr: v, Rects: []Rect{{NOC: 1, Dests: 2}}})
			patch(p.At + AtPackedAddr)
			p = b.WritePacked(WritePacked{Size: 8, Addr: 1, Cores: []uint32{1, v, 2, 3, v}})
			patch(p.At + AtPackedCore(1))
			patch(p.At + AtPackedCore(4))
			at, _ = b.WritePackedLarge(WritePackedLarge{Alignment: 16, Subs: []LargeSub{{Length: 20}, {Addr: v, Length: 5}}})
			patch(at + AtLargeSub(1) + AtLargeSubAddr)
			at = b.RelayPagedPacked(RelayPagedPacked{Subs: []PagedSub{{Length: 64}, {Base: v, Length: 64}}})
			patch(at + AtPagedSub(1) + AtPagedSubBase)
			return b, func(s []byte) {
				for _, p := range patches {
					p(s)
				}
			}
		}
		b, patch := build(0)
		got, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		patch(got)
		w, _ := build(0xA1B2C3D4)
		if want, err := w.Finish(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: patched stream differs (%v)", l, err)
		}
	}
}
