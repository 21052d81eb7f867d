package cq

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Every field lies where Fields says: its bytes in the stream are its value, in
// little-endian order. Fields take their places from the At constants.
func TestFieldsLieWhereTheySay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, c := genLayout(t), genPrefetch(t)
		b, err := appendCommand(nil, l, c)
		if err != nil {
			t.Fatal(err)
		}
		check := func(c Command, at int) {
			used := map[int]string{}
			for _, f := range c.Fields(l) {
				var v uint64
				for i := range f.Size {
					v |= uint64(b[at+f.Offset+i]) << (8 * i)
					if o, ok := used[f.Offset+i]; ok {
						t.Fatalf("%s: %s and %s overlap", c.Name(), o, f.Name)
					}
					used[f.Offset+i] = f.Name
				}
				if v != f.Value || f.Text == "" {
					t.Fatalf("%s: %s at %d is %#x in the stream, %#x %q as a field", c.Name(), f.Name, f.Offset, v, f.Value, f.Text)
				}
			}
		}
		check(c, 0)
		if d, _, ok := (Entry{Command: c}).Dispatch(); ok {
			check(d, AtRelayed)
		}
	})
}

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
			at = b.Wait(Master, Wait{Flags: WaitStream, Stream: 48, Addr: v, Count: v})
			patch(at + AtWaitCount)
			patch(at + atWaitAddr)
			at = b.SetWriteOffset(SetWriteOffset{Count: 4, Offsets: [4]uint32{0, v, 7, v}})
			patch(at + AtWriteOffset(1))
			patch(at + AtWriteOffset(3))
			p := b.WritePacked(WritePacked{Size: 96, Addr: v, Rects: []Rect{{NOC: 1, Dests: 2}, {NOC: v, Dests: 9}}})
			patch(p.At + AtPackedAddr)
			patch(p.At + atPackedRect(1))
			p = b.WritePacked(WritePacked{Size: 8, Addr: 1, Cores: []uint32{1, v, 2, 3, v}})
			patch(p.At + AtPackedCore(1))
			patch(p.At + AtPackedCore(4))
			at, _ = b.WritePackedLarge(WritePackedLarge{Alignment: 16, Subs: []LargeSub{{Length: 20}, {NOC: v, Addr: v, Length: 5}}})
			patch(at + AtLargeSub(1) + atLargeSubNOC)
			patch(at + AtLargeSub(1) + AtLargeSubAddr)
			at = b.RelayPagedPacked(RelayPagedPacked{Subs: []PagedSub{{Length: 64}, {Base: v, Length: 64}}})
			patch(at + AtPagedSub(1) + AtPagedSubBase)
			at = b.RelayPaged(RelayPaged{Base: v, PageSize: 64, Pages: 2})
			patch(at + atRelayPagedBase)
			at = b.WritePaged(WritePaged{Base: v, PageSize: 16, Pages: 1})
			patch(at + atWritePagedBase)
			at = b.RelayLinear(RelayLinear{NOC: v, Length: 9, Addr: 8})
			patch(at + atRelayLinearNOC)
			at = b.RelayLinearH(RelayLinearH{NOC: 4, Length: v, Addr: 8})
			patch(at + atRelayLinearHLength)
			at = b.PagedToRingbuffer(PagedToRingbuffer{Base: v, Length: 64})
			patch(at + atToRingbufferBase)
			at = b.SetRingbufferOffset(SetRingbufferOffset{Offset: v})
			patch(at + atRingbufferOffset)
			at = b.RelayRingbuffer(RelayRingbuffer{Subs: []RingSub{{1, 2}, {v, 4}}})
			patch(at + atRingSub(1) + atRingSubStart)
			at = b.SetGoSignalNOCData(Master, SetGoSignalNOCData{Words: []uint32{1, v}})
			patch(at + atGoNOCData(1))
			at = b.ExecBuf(ExecBuf{Base: v, LogPageSize: 12, Pages: 1})
			patch(at + atExecBufBase)
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

// The narrow fields and those of 64 bits.
func TestPatchOtherSizes(t *testing.T) {
	b := NewBuilder(Blackhole, nil)
	g := b.SendGoSignal(Master, SendGoSignal{})
	h := b.WriteHost(WriteHost{Length: 32})
	o := b.SetWriteOffset(SetWriteOffset{})
	w := b.WriteLinear(WriteLinear{})
	r := b.RelayLinear(RelayLinear{})
	s := b.Bytes()
	Put8(s, g+atGoMulticast, 3)
	Put8(s, g+atGoNumUnicast, 4)
	Put8(s, g+atGoNOCStart, 5)
	Put16(s, h+atWriteHostPad1, 0x0102)
	Put32(s, h+atWriteHostPad2, 0x03040506)
	Put16(s, o+AtHostID, 77)
	le.PutUint64(s[w+atWriteLinearAddr:], 1<<60|5)
	le.PutUint64(s[r+atRelayLinearAddr:], 1<<60|6)
	le.PutUint64(s[r+atRelayLinearLength:], 1<<40|7)
	var got []Command
	for e, err := range All(Blackhole, s) {
		if err != nil {
			t.Fatal(err)
		}
		if d, _, ok := e.Dispatch(); ok {
			got = append(got, d)
		} else {
			got = append(got, e.Command)
		}
	}
	want := []Command{SendGoSignal{Multicast: 3, NumUnicast: 4, NOCStart: 5},
		WriteHost{Pad1: 0x0102, Pad2: 0x03040506, Length: 32, Data: make([]byte, 16)},
		SetWriteOffset{HostID: 77}, WriteLinear{Addr: 1<<60 | 5}, RelayLinear{Addr: 1<<60 | 6, Length: 1<<40 | 7}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
