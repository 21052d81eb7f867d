package cq

import (
	"cmp"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// form is the descriptor of a command. Only encoders have a fast path of their own.
type form struct {
	name   string
	large  bool // a header of 32 bytes, not 16
	fields []slot
	list   *list
	data   data   // after header and list
	relays string // of a relay: says how many bytes it brings for the command before it; see relayed
	sub    bool   // dispatch_s knows it too

	rules []rule                                   // for single fields
	check func(it *item, l Layout, m Limits) error // for several

	// These make the command as a Go value from its item and those inside it. One is set, in the
	// pinned revision.
	prefetch func(it *item, kids []item) PrefetchCommand
	dispatch func(it *item, kids []item) DispatchCommand
}

type slot struct {
	name string
	at   int
	size int
	as   reading
}

type list struct {
	size   int // of an entry
	most   int
	empty  bool // may be empty
	fields []slot
	rects  *list // used instead if the command's flags have packedMulticast
}

type reading uint8

const (
	asDec reading = iota
	asHex
	asTile
	asRect
	asTarget // a rectangle if the number of tiles ("mcast", "dests") isn't 0
	asBool
	asMemory // L1 or DRAM
	asPaged
	asTo
	asLess1
	asWait
	asPacked
	asLarge
	asGo
	asMulticast
	asBranch
	asCompare
)

// data says how many bytes follow the header and the list.
type data uint8

const (
	noData       data = iota
	dataLength        // "length"
	dataHost          // "length" less the header
	dataPages         // "pages" times "page_size"
	dataSlots         // WRITE_PACKED: a slot of "size" for each entry, or one for all
	dataBlocks        // the lengths in the list, each padded to "alignment"
	dataSized         // "size"; never left to a relay
	dataPadding       // none, but the list is padded
	dataRelay         // a relay's payload of "length" bytes
	dataForward       // a command of 16 bytes
	dataCommands      // up to the end of the relay
)

func (d data) long() bool { return d == dataLength || d == dataHost || d == dataPages }

func (f *form) size() int {
	if f.large {
		return LargeHeaderSize
	}
	return HeaderSize
}

func find(slots []slot, name string) *slot {
	for i := range slots {
		if slots[i].name == name {
			return &slots[i]
		}
	}
	return nil
}

func (s *slot) get(b []byte) uint64 {
	v := uint64(0)
	for i := s.size - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[s.at+i])
	}
	if s.as == asLess1 {
		v++
	}
	return v
}

// item is a command in a stream.
type item struct {
	form   *form
	at     int // offset of raw in the prefetcher's command
	raw    []byte
	list   *list
	count  int // of entries
	end    int // of header and list
	head   int // end with padding
	data   uint64
	in     *form // the command around it
	to     Dispatcher
	header bool // the last command of a NOFLUSH: the next relay brings its data
	kids   int
}

func (it *item) value(name string) uint64 {
	if s := find(it.form.fields, name); s != nil {
		return s.get(it.raw)
	}
	return 0
}

func (it *item) entry(i int) []byte {
	at := it.form.size() + i*it.list.size
	return it.raw[at : at+it.list.size]
}

// measure sets end and data as far as known if it fails.
func (it *item) measure() error {
	f := it.form
	it.end = f.size()
	if it.end > len(it.raw) {
		return bad(ErrTruncated, len(it.raw), f.name, "%d bytes, it has at least %d", len(it.raw), it.end)
	}
	if f.list != nil {
		it.list = f.list
		if f.list.rects != nil && it.value("flags")&packedMulticast != 0 {
			it.list = f.list.rects
		}
		n := it.value("count")
		it.end += int(n) * it.list.size
		if n > uint64(it.list.most) || n == 0 && !it.list.empty {
			return limit(f.name, "count", n, it.list.want(), fewer)
		}
		it.count = int(n)
		if it.end > len(it.raw) {
			return bad(ErrTruncated, len(it.raw), f.name, "%d bytes, its list of %d ends at %d", len(it.raw), n, it.end)
		}
	}
	it.head = it.end
	if f.list != nil && f.data != noData {
		it.head = SlotStride(it.end)
		if it.head > len(it.raw) {
			return bad(ErrTruncated, len(it.raw), f.name, "%d bytes, its list is padded to %d", len(it.raw), it.head)
		}
	}
	return it.dataBytes()
}

const fewer = "use several commands: the firmware keeps no more"

func (l *list) want() string {
	least := 1
	if l.empty {
		least = 0
	}
	return fmt.Sprintf("%d to %d", least, l.most)
}

func countLimit(f *form, n int) error { return limit(f.name, "count", n, f.list.want(), fewer) }

func (it *item) dataBytes() error {
	f := it.form
	switch f.data {
	case dataLength, dataRelay:
		it.data = it.value("length")
	case dataHost:
		n := it.value("length")
		if n < HeaderSize {
			return limit(f.name, "length", n, "at least 16 bytes", "count the header: 16 plus the data")
		}
		it.data = n - HeaderSize
	case dataPages:
		it.data = it.value("pages") * it.value("page_size")
		if it.data > 1<<32-1 {
			return limit(f.name, "pages*page size", it.data, "less than 4 GiB", "use several commands")
		}
	case dataSized:
		it.data = it.value("size")
	case dataForward:
		it.data = HeaderSize
	case dataSlots:
		size := it.value("size")
		if size == 0 {
			return limit(f.name, "size", size, "at least 1 byte", "leave the command out")
		}
		slots := uint64(it.count)
		if it.value("flags")&packedNoStride != 0 {
			slots = 1
		}
		it.data = slots * uint64(SlotStride(int(size)))
	case dataBlocks:
		align := it.value("alignment")
		if bits.OnesCount64(align) != 1 {
			return limit(f.name, "alignment", align, "a power of two", "the firmware rounds with a mask")
		}
		s := find(it.list.fields, "length")
		for i := range it.count {
			it.data += (s.get(it.entry(i)) + align - 1) &^ (align - 1)
		}
	}
	return nil
}

func (it *item) inline() int {
	if it.kids > 0 || it.form.data == dataRelay {
		return 0
	}
	return len(it.raw) - it.head
}

// relayed is the number of bytes that a relay brings for the command before it.
func (it *item) relayed() (n uint64, ok bool) {
	switch it.form.relays {
	case "":
		return 0, false
	case "sum":
		return it.sum(), true
	case "pages":
		n, less := it.value("pages")*it.value("page_size"), it.value("flags")&maxLengthAdjust
		return n - min(less, n), true
	}
	return it.value(it.form.relays), true
}

func (it *item) sum() (n uint64) {
	s := find(it.list.fields, "length")
	for i := range it.count {
		n += s.get(it.entry(i))
	}
	return n
}

// canonical refuses bits that no encoder sets.
func (it *item) canonical() error {
	f := it.form
	if err := canonical(f.name, f.fields, it.raw[:f.size()], 0, true); err != nil {
		return err
	}
	if it.list != nil && it.list.loose() {
		for i := range it.count {
			if err := canonical(f.name, it.list.fields, it.entry(i), f.size()+i*it.list.size, false); err != nil {
				return err
			}
		}
	}
	return zeros(it.raw[:it.head], it.end, f.name)
}

func (l *list) loose() bool {
	n := 0
	for _, s := range l.fields {
		n += s.size
		if s.as == asBool {
			return true
		}
	}
	return n != l.size
}

func canonical(name string, slots []slot, b []byte, at int, header bool) error {
	var rest [LargeHeaderSize]byte
	copy(rest[:], b)
	if header {
		rest[0] = 0
	}
	for i := range slots {
		s := &slots[i]
		if v := uint64(rest[s.at]); s.as >= asBool && !s.as.valid(v) {
			return bad(ErrPadding, at+s.at, name, "%s is 0x%02x, which no encoder writes", s.name, v)
		}
		clear(rest[s.at : s.at+s.size])
	}
	if rest == [LargeHeaderSize]byte{} {
		return nil
	}
	return zerosAt(rest[:], 0, at, name)
}

func (r reading) valid(v uint64) bool {
	switch r {
	case asBool, asMemory:
		return v <= 1
	case asPacked:
		return v>>2&3 == 0
	case asBranch:
		return v>>len(branchFlags) == 0
	}
	return true
}

func zeros(b []byte, from int, name string) error { return zerosAt(b, from, 0, name) }

func zerosAt(b []byte, from, at int, name string) error {
	for i, v := range b[from:] {
		if v != 0 {
			return bad(ErrPadding, at+from+i, name, "padding byte is 0x%02x, want 0", v)
		}
	}
	return nil
}

// Field is one field of a command as it lies in the stream.
type Field struct {
	Name   string `json:"name"`
	Offset int    `json:"-"`
	Size   int    `json:"-"`
	Value  uint64 `json:"value"` // little-endian
	Text   string `json:"text"`
}

func (v *Revision) fields(l Layout, its []item) []Field {
	it := &its[0]
	out := v.appendFields(nil, l, it, it.form.fields, it.raw, 0, -1)
	for i := range it.count {
		out = v.appendFields(out, l, it, it.list.fields, it.entry(i), it.form.size()+i*it.list.size, i)
	}
	if it.form.data == dataRelay {
		return out
	}
	for i := 1; i <= it.kids; i++ {
		kid := its[i : i+1]
		at := kid[0].at - it.at
		out = append(out, Field{"id", at, 1, uint64(kid[0].raw[0]), kid[0].form.name})
		bare := kid[0]
		bare.kids = 0
		for _, f := range v.fields(l, []item{bare}) {
			f.Offset += at
			out = append(out, f)
		}
	}
	return out
}

func (v *Revision) appendFields(out []Field, l Layout, it *item, slots []slot, b []byte, at, i int) []Field {
	for k := range slots {
		s := &slots[k]
		as := s.as
		if as == asTarget {
			as = asTile
			if tiles := cmp.Or(find(slots, "mcast"), find(slots, "dests")); tiles != nil && tiles.get(b) != 0 {
				as = asRect
			}
		}
		f := Field{Name: s.name, Offset: at + s.at, Size: s.size, Value: s.get(b)}
		f.Text = v.text(l, as, f.Value)
		if as == asLess1 {
			f.Value--
		}
		if i >= 0 {
			f.Name = fmt.Sprintf("%s[%d]", s.name, i)
		}
		out = append(out, f)
	}
	return out
}

func (v *Revision) text(l Layout, as reading, x uint64) string {
	switch as {
	case asTile:
		if x, y, ok := l.SplitXY(uint32(x)); ok {
			return fmt.Sprintf("(%d,%d)", x, y)
		}
		return fmt.Sprintf("0x%x", x)
	case asRect:
		if x0, y0, x1, y1, ok := l.SplitRect(uint32(x)); ok {
			return fmt.Sprintf("(%d,%d)-(%d,%d)", x0, y0, x1, y1)
		}
		return fmt.Sprintf("0x%x", x)
	case asHex:
		return fmt.Sprintf("0x%x", x)
	case asBool:
		return strconv.FormatBool(x != 0)
	case asMemory:
		return memory(x != 0)
	case asPaged:
		return fmt.Sprintf("%s less %d", memory(x>>15 != 0), x&maxLengthAdjust)
	case asTo:
		return Dispatcher(x).String()
	case asWait:
		return flagString(uint(x), v.waitNames...)
	case asPacked:
		s := []string{PackedType(x >> 4).String()}
		if x&packedMulticast != 0 {
			s = append(s, "multicast")
		}
		if x&packedNoStride != 0 {
			s = append(s, "no stride")
		}
		return strings.Join(s, "|")
	case asLarge:
		return LargeType(x).String()
	case asGo:
		return fmt.Sprintf("0x%08x (%v)", x, GoWord(x))
	case asMulticast:
		if x == NoMulticast {
			return "none"
		}
	case asBranch:
		return flagString(uint(x), branchFlags[:]...)
	case asCompare:
		return Compare(x).String()
	}
	return strconv.FormatUint(x, 10)
}

func memory(dram bool) string {
	if dram {
		return "dram"
	}
	return "l1"
}
