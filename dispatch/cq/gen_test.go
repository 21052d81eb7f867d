package cq

import (
	"bytes"
	"slices"

	"pgregory.net/rapid"
)

func genBytes(n int) *rapid.Generator[[]byte] {
	return rapid.SliceOfN(rapid.Byte(), n, n)
}

func u32(t *rapid.T, n string) uint32 { return rapid.Uint32().Draw(t, n) }
func yes(t *rapid.T, n string) bool   { return rapid.Bool().Draw(t, n) }
func num(t *rapid.T, n string, lo, hi int) int {
	return rapid.IntRange(lo, hi).Draw(t, n)
}

func genLayout(t *rapid.T) Layout {
	return rapid.SampledFrom([]Layout{Wormhole, Blackhole}).Draw(t, "layout")
}

func ids(t *forms) (all []uint8) {
	for id := range 256 {
		if t.by(uint8(id)) != nil {
			all = append(all, uint8(id))
		}
	}
	return all
}

func put(b []byte, slots []slot, name string, v uint64) {
	if s := find(slots, name); s != nil {
		for i := range s.size {
			b[s.at+i] = byte(v >> (8 * i))
		}
	}
}

func genFields(t *rapid.T, b []byte, slots []slot) {
	for _, s := range slots {
		v := rapid.Uint64().Draw(t, s.name)
		switch s.as {
		case asBool, asMemory:
			v &= 1
		case asPacked:
			v &^= 0xC
		case asBranch:
			v &= 7
		case asCompare:
			v %= uint64(compares)
		}
		put(b, slots, s.name, v)
	}
}

func genForm(t *rapid.T, f *form, id uint8, header bool) []byte {
	b := make([]byte, f.size())
	genFields(t, b, f.fields)
	b[0] = id
	set := func(name string, v int) { put(b, f.fields, name, uint64(v)) }
	switch f.data {
	case dataLength:
		if !header {
			set("length", num(t, "run", 0, 300))
		}
	case dataHost:
		set("length", HeaderSize+num(t, "run", 0, 300))
	case dataPages:
		set("pages", num(t, "pages", 0, 8))
		set("page_size", num(t, "page size", 0, 64))
	case dataSized:
		set("size", num(t, "run", 0, 300))
	case dataSlots:
		set("size", num(t, "size", 1, 80))
	case dataBlocks:
		set("alignment", 1<<num(t, "alignment", 0, 7))
	case dataForward:
		if b[0] == uint8(DispatchForwardSubordinate) && yes(t, "terminate") {
			return append(b, genForm(t, own().dispatch.by(uint8(DispatchTerminate)), uint8(DispatchTerminate), false)...)
		}
		return append(b, genForm(t, own().dispatch.by(uint8(DispatchSendGoSignal)), uint8(DispatchSendGoSignal), false)...)
	case dataCommands:
		n := num(t, "commands", 1, 5)
		set("count", n)
		for i := range n {
			b = append(append(b, make([]byte, SlotStride(len(b))-len(b))...), genDispatch(t, header && i == n-1, false)...)
		}
		return b
	}
	if f.list != nil {
		l, least, sum := f.list, 1, uint64(0)
		if flags := find(f.fields, "flags"); l.rects != nil && flags.get(b)&packedMulticast != 0 {
			l = l.rects
		}
		if l.empty {
			least = 0
		}
		n := num(t, "count", least, min(l.most, 35))
		set("count", n)
		for range n {
			e := make([]byte, l.size)
			genFields(t, e, l.fields)
			if s := find(l.fields, "length"); s != nil && (!header || f.relays != "") {
				put(e, l.fields, "length", uint64(num(t, "length", 0, 100)))
				sum += s.get(e)
			}
			b = append(b, e...)
		}
		set("total", int(sum))
		if f.data != noData {
			b = append(b, make([]byte, SlotStride(len(b))-len(b))...)
		}
	}
	it := item{form: f, raw: b}
	must(t, it.measure())
	if !header || f.data == dataSized || f.data == dataSlots && yes(t, "data") {
		b = append(b, genBytes(int(it.data)).Draw(t, "data")...)
	}
	return b
}

func genDispatch(t *rapid.T, header, sequences bool) []byte {
	all := ids(&own().dispatch)
	if !sequences {
		all = slices.DeleteFunc(all, func(id uint8) bool { return id == uint8(DispatchSequence) })
	}
	id := rapid.SampledFrom(all).Draw(t, "dispatcher id")
	return genForm(t, own().dispatch.by(id), id, header)
}

func genStream(t *rapid.T, l Layout) []byte {
	id := rapid.SampledFrom(ids(&own().prefetch)).Draw(t, "prefetcher id")
	f := own().prefetch.by(id)
	b := genForm(t, f, id, f.data == dataRelay)
	if f.data == dataRelay {
		var inner []byte
		to := 0
		switch PrefetchID(id) {
		case PrefetchExecBufEnd:
			inner = append([]byte{byte(DispatchExecBufEnd)}, make([]byte, HeaderSize-1)...)
		case PrefetchRelayInline:
			to = num(t, "to", 0, 1)
			inner = genDispatch(t, false, true)
		default:
			inner = genDispatch(t, true, true)
		}
		put(b, f.fields, "to", uint64(to))
		put(b, f.fields, "length", uint64(len(inner)))
		b = append(b, inner...)
	}
	stride := l.Stride(len(b))
	put(b, f.fields, "stride", uint64(stride))
	return append(b, make([]byte, stride-len(b))...)
}

func genPrefetch(t *rapid.T) PrefetchCommand {
	b := genStream(t, Wormhole)
	c, n, err := Decode(Wormhole, b)
	if again, err2 := appendCommand(nil, Wormhole, c); err != nil || n != len(b) || err2 != nil || !bytes.Equal(again, b) {
		t.Fatalf("%d of %d bytes (%v), encodes to other bytes (%v)\n% x\n% x", n, len(b), err, err2, again, b)
	}
	return c
}

func appendCommand(dst []byte, l Layout, c PrefetchCommand) ([]byte, error) {
	b := NewBuilder(l, dst)
	b.Append(c)
	return b.Finish()
}
