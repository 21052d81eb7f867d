package cq

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Reading is one command of a stream as a revision reads it. A relay with a dispatcher's command is one reading, of
// that command.
type Reading struct {
	Offset  int    // of the prefetcher's command in the stream, in bytes; of all in a Sequence but the first, At
	Size    int    // bytes to the next one
	Relay   string // name of the command that this one is in: "RELAY_INLINE", "RELAY_INLINE_NOFLUSH" or "FORWARD_SUBORDINATE"
	Who     string // executes it: "prefetch", "dispatch" or "dispatch_s"
	Name    string
	At      int     // of the command that is read, in the stream
	Fields  []Field // offsets count from At
	Data    int     // bytes of data in it
	Relayed uint64  // bytes that it brings for the command before it
}

// String is the command as a line, in the form of Line.
func (r *Reading) String() string {
	note := ""
	if r.Relay == "RELAY_INLINE_NOFLUSH" {
		note = " data=relayed"
	}
	return line(r.Who, r.Name, r.Fields, r.Data, note)
}

// Value returns a field by name.
func (r *Reading) Value(name string) (v uint64, ok bool) {
	for i := range r.Fields {
		if r.Fields[i].Name == name {
			return r.Fields[i].Value, true
		}
	}
	return 0, false
}

// Read reads a stream: to its end, or to an EXEC_BUF_END, after which there may be zeros. It is strict: bytes that no
// field owns are zero, lengths and strides agree, relays bring the data of the command before them, and what a
// command does not use is zero. So a stream of another revision is refused rather than misread.
func (v *Revision) Read(l Layout, stream []byte) ([]Reading, error) {
	if !l.Valid() {
		return nil, limit("decoder", "layout", uint8(l), "Wormhole or Blackhole", "pass the device's")
	}
	if len(stream) == 0 {
		return nil, bad(ErrTruncated, 0, "", "there are no bytes")
	}
	var out []Reading
	var missing uint64 // data that the next command must bring, if header is set
	header := ""
	for at := 0; at < len(stream); {
		d := revisionReader{v: v, l: l, b: stream[at:]}
		if err := d.prefetch(); err != nil {
			return out, shift(err, at)
		}
		r := d.r
		switch {
		case header != "" && d.form.relays == "":
			return out, bad(ErrOrder, at, r.Name, "the data of the %s before it are missing", header)
		case header == "" && d.form.relays != "":
			return out, bad(ErrOrder, at, r.Name, "there is no command before it that needs its data")
		case header != "" && (r.Relayed < missing || r.Relayed-missing >= 4096):
			return out, bad(ErrOrder, at, r.Name, "it brings %d bytes for a %s of %d", r.Relayed, header, missing)
		}
		header = ""
		for _, one := range d.all() {
			r = one
			r.Offset, r.At = at+r.Offset, at+r.At
			out = append(out, r)
		}
		if r.Relay == "RELAY_INLINE_NOFLUSH" {
			header, missing = r.Name, d.missing
		}
		at += d.r.Size
		if r.Name == "EXEC_BUF_END" {
			if err := zeros(stream, at, r.Name); err != nil {
				return out, err
			}
			break
		}
	}
	if header != "" {
		return out, bad(ErrOrder, len(stream), header, "its data never come")
	}
	return out, nil
}

// revisionReader reads one command.
type revisionReader struct {
	v *Revision
	l Layout
	b []byte // from the command on

	form    *form
	r       Reading
	several []Reading // instead of r, if it is a sequence
	missing uint64    // data that a header without them needs
}

func (d *revisionReader) prefetch() error {
	if len(d.b) < HeaderSize {
		return bad(ErrTruncated, len(d.b), "", "%d bytes are left, a command has at least 16", len(d.b))
	}
	id := d.b[0]
	var f *form
	switch {
	case int(id) < len(d.v.prefetch) && d.v.prefetch[id].name != "":
		f = &d.v.prefetch[id]
	case d.v.Name == Pinned: // our own are beside it
		f = controlForm(PrefetchID(id))
	}
	if f == nil {
		return bad(ErrIllegal, 0, "", "the prefetcher has no command %d in revision %s", id, d.v.Name)
	}
	d.form = f
	d.r = Reading{Who: "prefetch", Name: f.name}
	if n := d.l.Stride(f.head); n > len(d.b) && f.stride == "" || f.head > len(d.b) {
		return bad(ErrTruncated, len(d.b), f.name, "it takes %d bytes, %d are left", n, len(d.b))
	}
	end, err := d.fields(f, d.b)
	if err != nil {
		return err
	}
	d.r.Size = d.l.Stride(end)
	if f.inline {
		n, _ := d.r.Value("length")
		end += int(n)
	}
	if f.data == dataSized {
		n, _ := d.r.Value("size")
		end += int(n)
		d.r.Data = int(n)
	}
	if f.stride != "" {
		stride, _ := d.r.Value(f.stride)
		if stride != uint64(d.l.Stride(end)) {
			return bad(ErrFormat, 0, f.name, "stride is %d for %d bytes, want %d", stride, end, d.l.Stride(end))
		}
		if stride > uint64(len(d.b)) {
			return bad(ErrTruncated, len(d.b), f.name, "its stride is %d bytes, %d are left", stride, len(d.b))
		}
		d.r.Size = int(stride)
	}
	if err := zeros(d.b[:d.r.Size], end, f.name); err != nil {
		return err
	}
	if err := d.relayed(f); err != nil {
		return err
	}
	if f.inline {
		return d.inline(d.b[HeaderSize:end])
	}
	return nil
}

// relayed computes what a relay brings.
func (d *revisionReader) relayed(f *form) error {
	sum := uint64(0)
	if f.sum != "" {
		n, _ := d.r.Value("count")
		for i := range int(n) {
			v, _ := d.r.Value(index(f.sum, i))
			sum += v
		}
	}
	switch f.relays {
	case "":
		return nil
	case "sum":
		d.r.Relayed = sum
	case "pages":
		pages, _ := d.r.Value("pages")
		size, _ := d.r.Value("page_size")
		flags, _ := d.r.Value("flags")
		if less := flags & maxLengthAdjust; less < pages*size {
			d.r.Relayed = pages*size - less
		}
	default:
		d.r.Relayed, _ = d.r.Value(f.relays)
		if f.sum != "" && d.r.Relayed != sum {
			return bad(ErrFormat, 0, f.name, "total length is %d, the list adds up to %d", d.r.Relayed, sum)
		}
	}
	if d.r.Relayed == 0 {
		return bad(ErrFormat, 0, f.name, "it relays nothing")
	}
	return nil
}

// inline reads the dispatcher's command that a relay carries.
func (d *revisionReader) inline(p []byte) error {
	relay, to, whole := d.r.Name, d.r.Fields[0].Value, d.r
	noFlush := relay == "RELAY_INLINE_NOFLUSH"
	if to > 1 || to == 1 && relay != "RELAY_INLINE" {
		return bad(ErrFormat, 1, relay, "dispatcher is %d", to)
	}
	d.r = Reading{Size: d.r.Size, Relay: relay, Who: Dispatcher(to).String(), At: HeaderSize}
	if len(p) < HeaderSize {
		return bad(ErrTruncated, HeaderSize, relay, "%d bytes in it, a dispatcher's command has at least 16", len(p))
	}
	id := p[0]
	if d.v.Name == Pinned && to == 0 { // whose commands our own are beside
		switch DispatchID(id) {
		case DispatchSequence:
			d.r = whole
			return d.sequence(p, noFlush)
		case DispatchForwardSubordinate, DispatchForwardWithArgs:
			d.r = whole
			return d.forwardSubordinate(p)
		case DispatchReadArg:
			return d.readArg(p)
		}
	}
	if int(id) >= len(d.v.dispatch) || d.v.dispatch[id].name == "" {
		return bad(ErrIllegal, HeaderSize, "", "dispatchers have no command %d in revision %s", id, d.v.Name)
	}
	f := &d.v.dispatch[id]
	d.r.Name = f.name
	if (relay == "EXEC_BUF_END") != (f.name == "EXEC_BUF_END") {
		return bad(ErrFormat, HeaderSize, relay, "it carries %s", f.name)
	}
	if to == 1 && !subordinateTakes(f.name) {
		return bad(ErrFormat, HeaderSize, f.name, "dispatch_s has no such command")
	}
	end, err := d.fields(f, p)
	if err == nil {
		err = d.wait(f)
	}
	if err != nil {
		return shift(err, HeaderSize)
	}
	if f.data != noData && f.list != nil {
		padded := SlotStride(end)
		if padded > len(p) {
			return bad(ErrTruncated, HeaderSize+len(p), f.name, "its list ends at %d of %d bytes", padded, len(p))
		}
		if err := zeros(p[:padded], end, f.name); err != nil {
			return shift(err, HeaderSize)
		}
		end = padded
	}
	n, err := d.dataBytes(f)
	if err != nil {
		return shift(err, HeaderSize)
	}
	want := uint64(end) + n
	if noFlush {
		d.missing, want, n = n, uint64(end), 0
	}
	if uint64(len(p)) != want {
		return bad(ErrFormat, HeaderSize, f.name, "%d bytes in the relay, its fields say %d", len(p), want)
	}
	d.r.Data = int(n)
	if relay == "EXEC_BUF_END" {
		d.r = whole // one command in two headers
	}
	return nil
}

func subordinateTakes(name string) bool {
	switch name {
	case "SEND_GO_SIGNAL", "SET_NUM_WORKER_SEMS", "SET_GO_SIGNAL_NOC_DATA", "WAIT", "TERMINATE", "SET_SUB_DEVICE_WORKER_COUNTS",
		"RT_PROFILER_FLUSH":
		return true
	}
	return false
}

// dataBytes is how many bytes of data a dispatcher's command has, wherever they come from.
func (d *revisionReader) dataBytes(f *form) (uint64, error) {
	v := func(name string) uint64 { n, _ := d.r.Value(name); return n }
	count := v("count")
	switch f.data {
	case dataLength:
		return v("length"), nil
	case dataHost:
		if v("length") < HeaderSize {
			return 0, bad(ErrFormat, 0, f.name, "length is %d, it counts a header of 16", v("length"))
		}
		return v("length") - HeaderSize, nil
	case dataPages:
		return v("pages") * v("page_size"), nil
	case dataSized:
		return v("size"), nil
	case dataSlots:
		if v("size") == 0 {
			return 0, bad(ErrFormat, 6, f.name, "size is 0")
		}
		if v("flags")&packedNoStride != 0 {
			count = 1
		}
		return count * uint64(SlotStride(int(v("size")))), nil
	case dataBlocks:
		align := v("alignment")
		if bits.OnesCount64(align) != 1 {
			return 0, bad(ErrFormat, 4, f.name, "alignment is %d, want a power of two", align)
		}
		n := uint64(0)
		less := uint64(0)
		if f.list.fields[2].as == asLess1 {
			less = 1
		}
		for i := range int(count) {
			length := v(index("length", i)) + less
			if length == 0 || length%4 != 0 { // tt-metal writes arguments, semaphores and kernels by the word
				return 0, bad(ErrFormat, f.head+i*f.list.size+8, f.name, "length of entry %d is %d, want a multiple of 4", i, length)
			}
			n += (length + align - 1) &^ (align - 1)
		}
		return n, nil
	}
	return 0, nil
}

// wait demands what no flag asks for to be zero, and streams to be those that exist: nothing else tells a revision's
// flags and go signals from another's.
func (d *revisionReader) wait(f *form) error {
	v := func(name string) uint64 { n, _ := d.r.Value(name); return n }
	w := d.v.wait
	stream, streams := "stream", true
	switch f.name {
	case "WAIT":
		flags := v("flags")
		streams = flags&(w.stream|w.clearStream) != 0
		memory := flags&(w.memory|w.clearMemory) != 0
		switch {
		case flags>>len(d.v.waitNames) != 0:
			return bad(ErrFormat, 1, f.name, "flags are %#x, there are %d", flags, len(d.v.waitNames))
		case flags&w.clearStream != 0 && flags&w.stream == 0, flags&w.clearMemory != 0 && flags&w.memory == 0:
			return bad(ErrFormat, 1, f.name, "flags are %#x: it clears what it doesn't wait for", flags)
		case !streams && v("stream") != 0:
			return bad(ErrFormat, 2, f.name, "stream is %d without a flag that uses it", v("stream"))
		case !memory && v("addr") != 0:
			return bad(ErrFormat, 4, f.name, "address is %#x without a flag that uses it", v("addr"))
		case !memory && !streams && v("count") != 0:
			return bad(ErrFormat, 8, f.name, "count is %d without a flag that uses it", v("count"))
		}
	case "SEND_GO_SIGNAL", "RT_PROFILER_FLUSH":
		stream = "wait_stream"
	default:
		return nil
	}
	if s := v(stream); streams && (s == 0 || s >= 64) {
		return bad(ErrFormat, 0, f.name, "stream is %d, want 1 to 63", s)
	}
	return nil
}

// fields reads the head and the list of a command and returns where they end.
func (d *revisionReader) fields(f *form, b []byte) (end int, err error) {
	if f.head > len(b) {
		return 0, bad(ErrTruncated, len(b), f.name, "%d bytes, it has at least %d", len(b), f.head)
	}
	if err := d.slots(f, f.fields, b[:f.head], 0, -1, 1); err != nil {
		return 0, err
	}
	if f.list == nil {
		return f.head, nil
	}
	entries := *f.list
	if flags, ok := d.r.Value("flags"); ok && f.data == dataSlots && flags&packedMulticast != 0 {
		entries.size, entries.most = 8, maxPackedRects
		entries.fields = []slot{{"noc", 0, 4, asRect}, {"dests", 4, 4, asDec}}
	}
	n, _ := d.r.Value("count")
	if n > uint64(entries.most) || n == 0 && !entries.empty {
		return 0, bad(ErrFormat, 0, f.name, "a list of %d, at most %d are possible", n, entries.most)
	}
	end = f.head + int(n)*entries.size
	if end > len(b) {
		return 0, bad(ErrTruncated, len(b), f.name, "its list of %d ends at %d of %d bytes", n, end, len(b))
	}
	for i := range int(n) {
		at := f.head + i*entries.size
		if err := d.slots(f, entries.fields, b[at:at+entries.size], at, i, 0); err != nil {
			return 0, err
		}
	}
	return end, nil
}

// slots reads the fields of a head or a list's entry b, which starts at offset at and of which the first owned bytes
// are read already. What no field owns must be zero.
func (d *revisionReader) slots(f *form, slots []slot, b []byte, at, entry, owned int) error {
	var own [LargeHeaderSize]bool
	for i := range owned {
		own[i] = true
	}
	for _, s := range slots {
		v := uint64(0)
		for i := s.size - 1; i >= 0; i-- {
			v = v<<8 | uint64(b[s.at+i])
			own[s.at+i] = true
		}
		name := s.name
		if entry >= 0 {
			name = index(name, entry)
		}
		t, ok := d.text(s.as, v)
		if !ok {
			return bad(ErrFormat, at+s.at, f.name, "%s is %#x", name, v)
		}
		d.r.Fields = append(d.r.Fields, Field{name, at + s.at, s.size, v, t})
	}
	for i, v := range b {
		if v != 0 && !own[i] {
			return bad(ErrPadding, at+i, f.name, "padding byte is 0x%02x, want 0", v)
		}
	}
	return nil
}

// text is a field's value for people; ok is false if the field can't have it.
func (d *revisionReader) text(as reading, v uint64) (text string, ok bool) {
	switch as {
	case asHex:
		return "0x" + strconv.FormatUint(v, 16), true
	case asTarget:
		if mcast, _ := d.r.Value("mcast"); mcast != 0 {
			return d.l.rect("", 0, uint32(v)).Text, true
		}
		return d.l.tile("", 0, uint32(v)).Text, true
	case asTile:
		return d.l.tile("", 0, uint32(v)).Text, true
	case asRect:
		return d.l.rect("", 0, uint32(v)).Text, true
	case asBool:
		return strconv.FormatBool(v != 0), v <= 1
	case asMemory:
		return memory(v != 0), v <= 1
	case asPaged:
		return fmt.Sprintf("%s less %d", memory(v>>15 != 0), v&maxLengthAdjust), true
	case asTo:
		return Dispatcher(v).String(), true
	case asLess1:
		return strconv.FormatUint(v+1, 10), true
	case asWait:
		return flagString(uint(v), d.v.waitNames...), true
	case asPacked:
		s := []string{PackedType(v >> 4).String()}
		if v&packedMulticast != 0 {
			s = append(s, "multicast")
		}
		if v&packedNoStride != 0 {
			s = append(s, "no stride")
		}
		return strings.Join(s, "|"), v>>2&3 == 0
	case asLarge:
		return LargeType(v).String(), v <= 2
	case asGo:
		return fmt.Sprintf("0x%08x (%v)", v, GoWord(v)), true
	case asMulticast:
		if v == NoMulticast {
			return "none", true
		}
	case asBranch:
		return flagString(uint(v), branchFlags[:]...), v>>len(branchFlags) == 0
	case asCompare:
		return Compare(v).String(), Compare(v).Valid()
	}
	return strconv.FormatUint(v, 10), true
}
