package cq

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/writertest"
	"pgregory.net/rapid"
)

func TestAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBuilder(genLayout(t), nil)
		want := map[int]PrefetchCommand{}
		for range num(t, "commands", 0, 8) {
			c := genPrefetch(t)
			want[b.Append(c)] = c
			if (c == PrefetchCommand(ExecBufEnd{})) {
				break
			}
		}
		stream, err := b.Finish()
		must(t, err)
		got, end := map[int]PrefetchCommand{}, 0
		for e, err := range All(b.Layout(), stream) {
			must(t, err)
			got[e.Offset] = e.Command
			end = e.Offset + len(e.Raw)
		}
		if d := cmp.Diff(want, got); d != "" || end != len(stream) {
			t.Fatalf("ends at %d of %d: %s", end, len(stream), d)
		}
	})
}

func TestAppendKeepsPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, c := genLayout(t), genPrefetch(t)
		prefix := genBytes(l.PCIeAlign()*num(t, "slots", 0, 3)).Draw(t, "prefix")
		dirty := bytes.Repeat([]byte{0xA5}, len(prefix)+num(t, "room", 0, 8192))
		got := value(appendCommand(append(dirty[:0], prefix...), l, c))(t)
		want := value(appendCommand(nil, l, c))(t)
		if !bytes.Equal(got, append(append([]byte(nil), prefix...), want...)) {
			t.Fatal("what was in the slice before shows in the command")
		}
	})
}

func goldenFiles(t testing.TB) map[string][]byte {
	files, err := filepath.Glob("testdata/golden/*.bin")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files (%v)", err)
	}
	m := map[string][]byte{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		must(t, err)
		m[filepath.Base(f)] = b
	}
	return m
}

func strict(t testing.TB, l Layout, b []byte) int {
	c, n, err := Decode(l, b)
	if n < 0 || n > len(b) || n%l.PCIeAlign() != 0 {
		t.Fatalf("size %d of %d bytes", n, len(b))
	}
	if err == nil && (n == 0 || c == nil) {
		t.Fatalf("no error, no command: %v, %d bytes", c, n)
	}
	if n == 0 && c != nil {
		t.Fatal("a command of unknown size")
	}
	if err == nil {
		again, err := appendCommand(nil, l, c)
		if err != nil || !bytes.Equal(again, b[:n]) {
			t.Fatalf("encodes to other bytes: %v\n% x\n% x", err, again, b[:n])
		}
	}
	if errors.Is(err, ErrPadding) {
		if c == nil {
			t.Fatalf("a command with odd padding only is not delivered: %v", err)
		}
		if again, err := appendCommand(nil, l, c); err == nil && bytes.Equal(again, b[:n]) {
			t.Fatal("refused for padding, but it is canonical")
		}
	}
	return n
}

func TestEveryByteCounts(t *testing.T) {
	for name, b := range goldenFiles(t) {
		t.Run(name, func(t *testing.T) {
			for i := range min(len(b), 640) {
				for _, v := range []byte{0x00, 0x01, 0x80, 0xFF, b[i] ^ 1, b[i] + 1} {
					m := bytes.Clone(b)
					m[i] = v
					for at := 0; at < len(m); {
						n := strict(t, Blackhole, m[at:])
						if n == 0 {
							break
						}
						at += n
					}
				}
			}
		})
	}
}

func TestTruncated(t *testing.T) {
	for name, b := range goldenFiles(t) {
		_, n, err := Decode(Blackhole, b)
		if err != nil {
			t.Fatal(name, err)
		}
		for cut := range n {
			c, m, err := Decode(Blackhole, b[:cut:cut])
			if c != nil || m != 0 || !errors.Is(err, ErrTruncated) {
				t.Fatalf("%s cut to %d bytes: %v, %d, %v", name, cut, c, m, err)
			}
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	inline := func(payload ...byte) []byte {
		p := make([]byte, 64)
		copy(p, []byte{5, 0, 0, 0, byte(len(payload)), 0, 0, 0, 64})
		copy(p[16:], payload)
		return p
	}
	bare := func(b ...byte) []byte { return append(b, make([]byte, 64-len(b))...) }
	pad := func(id byte) []byte { return append([]byte{id}, make([]byte, 15)...) }
	for _, c := range []struct {
		name string
		in   []byte
		want error
		n    int
		text string
	}{
		{"zeros", bare(), ErrIllegal, 0, "cq: command at +0x0: illegal command id: id is 0: is this the start of a command, and the right layout?"},
		{"unknown", bare(17), ErrIllegal, 0, ""},
		{"newer prefetcher command", bare(15), ErrNewer, 0,
			"cq: RELAY_LINEAR_PACKED at +0x0: command of a newer tt-metal revision: id 15 is not in the revision read here: the stream needs other firmware and another decoder"},
		{"newer prefetcher command", bare(16), ErrNewer, 0, ""},
		{"newer dispatcher command", inline(pad(18)...), ErrNewer, 64,
			"cq: WRITE_PACKED_LARGE_UNICAST at +0x10: command of a newer tt-metal revision: id 18 is not in the revision read here: the stream needs other firmware and another decoder"},
		{"newer dispatcher command", inline(pad(19)...), ErrNewer, 64, ""},
		{"newer dispatcher command", inline(pad(20)...), ErrNewer, 64, ""},
		{"unknown dispatcher command", inline(pad(21)...), ErrIllegal, 64, ""},
		{"empty relay", inline(), ErrTruncated, 64, ""},
		{"half a dispatcher command", inline(7, 0, 0, 0), ErrTruncated, 64, ""},
		{"odd padding", bare(9, 1), ErrPadding, 64, "cq: STALL at +0x1: bytes that no encoder writes: padding byte is 0x01, want 0"},
		{"stride too small", bare(5, 0, 0, 0, 64, 0, 0, 0, 64), ErrFormat, 0, "cq: RELAY_INLINE at +0x8: inconsistent command: stride is 64 for 80 bytes"},
		{"stride of the other layout", bare(5, 0, 0, 0, 16, 0, 0, 0, 32), ErrFormat, 0, ""},
		{"stride beyond the end", bare(5, 0, 0, 0, 16, 0, 0, 0, 128), ErrTruncated, 0, ""},
		{"length and stride near 4 GiB", bare(5, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xC0, 0xFF, 0xFF, 0xFF), ErrFormat, 0, ""},
		{"no sub-commands", bare(14, 0, 0, 0, 64), ErrLimit, 64, "cq: RELAY_RINGBUFFER: count is 0 (0x0), want 1 to 52: use several commands: the firmware keeps no more"},
		{"third dispatcher", func() []byte { b := inline(pad(13)...); b[1] = 2; return b }(), ErrFormat, 64, ""},
		{"no flush to dispatch_s", func() []byte { b := inline(pad(13)...); b[0], b[1] = 6, 1; return b }(), ErrFormat, 64, ""},
		{"end of the buffer with another payload", func() []byte { b := inline(pad(13)...); b[0] = 8; return b }(), ErrFormat, 64, ""},
		{"wait that is too long", inline(append(pad(7), 0, 0, 0, 0)...), ErrFormat, 64, ""},
		{"five write offsets", inline(append([]byte{12, 5}, make([]byte, 34)...)...), ErrLimit, 64, ""},
		{"linear write without its data", inline(append([]byte{1}, append(make([]byte, 15), append([]byte{1}, make([]byte, 15)...)...)...)...), ErrFormat, 64, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd, n, err := Decode(Blackhole, c.in)
			if !errors.Is(err, c.want) || n != c.n {
				t.Fatalf("got %v, %d bytes, %v; want %v, %d bytes", cmd, n, err, c.want, c.n)
			}
			if c.text != "" && err.Error() != c.text {
				t.Errorf("got  %s\nwant %s", err, c.text)
			}
		})
	}
}

func TestPaddingDoesNotHideTheCommand(t *testing.T) {
	b := NewBuilder(Blackhole, nil)
	b.Wait(Master, Wait{Flags: WaitStream, Stream: 48, Count: 7})
	b.Stall()
	stream := b.Bytes()
	stream[40] = 0x55
	var got []PrefetchCommand
	var errs []error
	for e, err := range All(Blackhole, stream) {
		got, errs = append(got, e.Command), append(errs, err)
	}
	want := []PrefetchCommand{RelayInline{Master, Wait{Flags: WaitStream, Stream: 48, Count: 7}}, Stall{}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	var f *FormatError
	if !errors.As(errs[0], &f) || f.Offset != 40 || !errors.Is(errs[0], ErrPadding) || errs[1] != nil {
		t.Errorf("errors are %v", errs)
	}
}

func TestUnknownLayout(t *testing.T) {
	if _, _, err := Decode(0, make([]byte, 64)); !errors.Is(err, ErrLimit) {
		t.Errorf("decoder: %v", err)
	}
	b := NewBuilder(3, nil)
	if b.Stall(); !errors.Is(b.err, ErrLimit) || b.Len() != 0 {
		t.Errorf("builder: %v, %d bytes", b.err, b.Len())
	}
}

func TestPrintDamaged(t *testing.T) {
	stream := build(t, Blackhole, func(b *Builder) {
		b.WritePacked(WritePacked{Type: PackedLaunch, Size: 4, Cores: goldenCores(9)})
		b.Dispatch(Master, Delay{Loops: 3})
		b.Stall()
		b.ExecBufEnd()
	})
	// the launch message: 16+16+48+9*16 = 224 bytes, so 256
	stream[256+AtRelayed] = 20 // the delay's id
	stream[320+5] = 1
	stream = append(stream, make([]byte, 64)...)
	var s strings.Builder
	err := Print(&s, Blackhole, stream)
	want := string(value(os.ReadFile("testdata/damaged.txt"))(t))
	expect.NoDiff(t, s.String(), want, "decoded")
	if !errors.Is(err, ErrPadding) || !errors.Is(err, ErrNewer) {
		t.Errorf("error is %v", err)
	}
}

func TestPrintReportsItsWriter(t *testing.T) {
	b := build(t, Blackhole, exampleReplay)
	writertest.EveryWrite(t, func(w io.Writer) error { return Print(w, Blackhole, b) })
}

func TestPrintAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, c := genLayout(t), genPrefetch(t)
		b := value(appendCommand(nil, l, c))(t)
		var s strings.Builder
		must(t, Print(&s, l, b))
		lines := 1
		if d, _, _ := (Entry{Command: c}).Dispatch(); d != nil {
			if q, ok := d.(Sequence); ok {
				lines += len(q.Commands)
			}
		}
		if n := strings.Count(s.String(), "\n"); n != lines {
			t.Fatalf("%d lines, want %d", n, lines)
		}
		p := parser{v: own(), l: l}
		must(t, p.prefetch(b))
		inner := p.items[min(len(p.items)-1, 1):]
		if !strings.Contains(s.String(), inner[0].form.name) {
			t.Fatal(s.String())
		}
		for _, f := range own().fields(l, inner) {
			_, index, _ := strings.Cut(f.Name, "[")
			want := f.Name
			if want == "id" { // of a sequence's command
				want = f.Text
			}
			if n, _ := strconv.Atoi(strings.TrimSuffix(index, "]")); n < listShown && !strings.Contains(s.String(), want) {
				t.Fatalf("%s is missing in\n%s", want, s.String())
			}
		}
	})
}

// pattern is the payload of testdata/golden/README.md: byte j of packed datum i.
func packedPattern(cores, size int) []byte {
	d := make([]byte, cores*size)
	for i := range cores {
		for j := range size {
			d[i*size+j] = byte(i*31 + j*7 + 1)
		}
	}
	return d
}

func linearPattern(n int) []byte {
	d := make([]byte, n)
	for j := range d {
		d[j] = byte(j*13 + 5)
	}
	return d
}

func goldenCores(n int) []uint32 {
	xy := make([]uint32, n)
	for i := range xy {
		xy[i] = Blackhole.NOCXY(uint8(1+i%8), uint8(2+i/8))
	}
	return xy
}

var goldenExec = ExecBuf{Base: 0x100000, LogPageSize: 12, Pages: 16}

func goldenPacked(n int, t PackedType) WritePacked {
	return WritePacked{Type: t, Size: 64, Addr: 0x18000, Cores: goldenCores(n), Data: packedPattern(n, 64)}
}

var goldenCases = []struct {
	file  string
	build func(b *Builder)
}{
	{"wait", func(b *Builder) {
		b.Wait(Master, Wait{Flags: WaitStream | ClearStream, Stream: 48, Count: 64})
	}},
	{"write_packed_8x64", func(b *Builder) { b.WritePacked(goldenPacked(8, PackedRuntimeArgs)) }},
	{"write_packed_64x64", func(b *Builder) { b.WritePacked(goldenPacked(64, PackedRuntimeArgs)) }},
	{"write_packed_8x64_type0", func(b *Builder) { b.WritePacked(goldenPacked(8, 0)) }},
	{"write_packed_64x64_type0", func(b *Builder) { b.WritePacked(goldenPacked(64, 0)) }},
	{"write_linear_4k", func(b *Builder) {
		b.WriteLinear(WriteLinear{NOC: Blackhole.NOCXY(1, 2), Addr: 0x20000, Data: linearPattern(4096)})
	}},
	{"exec_buf", func(b *Builder) { b.ExecBuf(goldenExec) }},
	{"exec_buf_end", func(b *Builder) { b.ExecBufEnd() }},
	{"exec_trace", func(b *Builder) {
		b.NotifySubordinate(NotifySubordinate{Mask: 1})
		goldenGo(b, Subordinate)
	}},
	{"exec_trace_no_dispatch_s", func(b *Builder) { goldenGo(b, Master) }},
}

func goldenGo(b *Builder, to Dispatcher) {
	b.SendGoSignal(to, SendGoSignal{Go: 0xF0030100, WaitCount: 0x140, WaitStream: 48})
	b.Wait(Master, Wait{Flags: WaitStream | ClearStream, Stream: 48, Count: 0x180})
	b.ExecBuf(goldenExec)
}

func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*.bin")
	if err != nil || len(files) != len(goldenCases) {
		t.Fatalf("%d golden files for %d cases (%v)", len(files), len(goldenCases), err)
	}
	for _, c := range goldenCases {
		t.Run(c.file, func(t *testing.T) {
			want := value(os.ReadFile(filepath.Join("testdata", "golden", c.file+".bin")))(t)
			b := NewBuilder(Blackhole, nil)
			c.build(&b)
			got := value(b.Finish())(t)
			equalBytes(t, got, want)
		})
	}
}

func equalBytes(t *testing.T, got, want []byte) {
	t.Helper()
	if string(got) == string(want) {
		return
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			from := i &^ 15
			t.Fatalf("differs at 0x%x:\n got % x\nwant % x", i, got[from:min(from+32, len(got))], want[from:min(from+32, len(want))])
		}
	}
	t.Fatalf("length is %d, want %d", len(got), len(want))
}

// The bytes of testdata/examples.json are what two independent encoders agreed on.
var examples = []struct {
	name  string
	l     Layout
	build func(b *Builder)
	entry FetchEntry
}{
	{"a host event", Blackhole, exampleEvent, 0x0004},
	{"b' stall", Blackhole, exampleStall, 0x0008},
	{"b' stall", Wormhole, exampleStall, 0x0004},
	{"c packed", Blackhole, examplePacked([2]uint8{1, 2}, [2]uint8{2, 2}, 0x82B0, 0, 0), 0x0008},
	{"c packed", Wormhole, examplePacked([2]uint8{18, 18}, [2]uint8{19, 18}, 0x7D80, 0, 0), 0x0006},
	{"c packed, relative runtime args", Blackhole, examplePacked([2]uint8{1, 2}, [2]uint8{2, 2}, 0, PackedRuntimeArgs, 1), 0x0008},
	{"e replay", Blackhole, exampleReplay, 0x8010},
	{"e replay", Wormhole, exampleReplay, 0x8008},
}

func exampleEvent(b *Builder) {
	b.WriteHost(WriteHost{Event: true, Data: append([]byte{0x2A}, make([]byte, 15)...)})
}

func exampleStall(b *Builder) { b.WaitStall(Wait{Flags: WaitStream, Stream: 48, Count: 118}) }

func examplePacked(a, c [2]uint8, addr uint32, t PackedType, index uint16) func(*Builder) {
	return func(b *Builder) {
		l := b.Layout()
		p := b.WritePacked(WritePacked{Type: t, OffsetIndex: index, Size: 8, Addr: addr,
			Cores: []uint32{l.NOCXY(a[0], a[1]), l.NOCXY(c[0], c[1])}})
		Put32(b.Bytes(), p.Slot(0), 0x11111111)
		Put32(b.Bytes(), p.Slot(0)+4, 0x22222222)
		le.PutUint64(b.Bytes()[p.Slot(1):], 0x4444444433333333)
	}
}

func exampleExec(b *Builder) { b.ExecBuf(ExecBuf{Base: 0x400000, LogPageSize: 12, Pages: 3}) }

func exampleReplay(b *Builder) {
	b.NotifySubordinate(NotifySubordinate{Mask: 1})
	b.SendGoSignal(Subordinate, SendGoSignal{Go: NewGoWord(0, 14, 3, SignalReplayTrace), WaitCount: 236, WaitStream: 48})
	b.Wait(Master, Wait{Flags: WaitStream | ClearStream, Stream: 48, Count: 236 + 118})
	exampleExec(b)
}

func TestWorkedExamples(t *testing.T) {
	var rows map[string][]string
	must(t, json.Unmarshal(value(os.ReadFile("testdata/examples.json"))(t), &rows))
	equal(t, len(rows), len(examples), "examples with bytes")
	for _, c := range examples {
		name := c.name + " " + c.l.String()
		t.Run(name, func(t *testing.T) {
			want := value(hex.DecodeString(strings.ReplaceAll(strings.Join(rows[name], ""), " ", "")))(t)
			b := NewBuilder(c.l, nil)
			c.build(&b)
			got, err := b.Finish()
			must(t, err)
			equalBytes(t, got, want)
			e, err := NewFetchEntry(len(got), c.entry.Stall())
			if err != nil || e != c.entry {
				t.Errorf("fetch entry is %#04x (%v), want %#04x", uint16(e), err, uint16(c.entry))
			}
		})
	}
}

func FuzzWalk(f *testing.F) {
	for _, b := range goldenFiles(f) {
		f.Add(uint8(Blackhole), b)
	}
	for _, c := range examples {
		b := NewBuilder(c.l, nil)
		c.build(&b)
		f.Add(uint8(c.l), b.Bytes())
	}
	for id := range 32 {
		f.Add(uint8(Wormhole), append([]byte{byte(id), 0, 1, 0, 16, 0, 0, 0, 32}, make([]byte, 23)...))
	}
	f.Fuzz(func(t *testing.T, layout uint8, b []byte) {
		l, at, clean := Layout(layout), 0, true
		for e, err := range All(l, b) {
			if e.Offset != at || len(e.Raw) == 0 {
				t.Fatalf("%d bytes at %d, the one before ends at %d", len(e.Raw), e.Offset, at)
			}
			if l.Valid() {
				strict(t, l, b[at:])
			}
			at += len(e.Raw)
			clean = clean && err == nil
		}
		if at > len(b) {
			t.Fatalf("read up to %d of %d bytes", at, len(b))
		}
		if err := Print(io.Discard, l, b); (err == nil) != clean {
			t.Fatalf("printer says %v, clean is %v", err, clean)
		}
		if err := Check(l, DefaultLimits(0), b); err == nil && !clean {
			t.Fatal("checked, but it does not decode")
		}
		_ = CheckTrace(l, DefaultLimits(64), b)
	})
}

func FuzzControlFlow(f *testing.F) {
	n := uint32(Blackhole.PCIeAlign())
	for _, commands := range [][]PrefetchCommand{
		{LoopBegin{Exit: 2 * n, Count: 4}, LoopEnd{Body: n}},
		{LoopBegin{Exit: 3 * n, Count: 4}, Branch{Compare: Less, Else: 3 * n, Leave: true, Limited: true}, LoopEnd{Body: n, Limited: true}},
		{Branch{Compare: Less, Else: 2 * n}, Branch{Compare: Never, Else: 3 * n}, Branch{Compare: Equal, Same: true, Else: 3 * n}},
		{LoopBegin{Loop: 1, Exit: 6 * n, Count: 4}, LoopBegin{Exit: 4 * n, Count: 2}, Branch{Compare: Less, Level: 2, Else: 3 * n},
			LoopEnd{Body: 2 * n}, CallTrace{Base: 64, LogPageSize: 10, Pages: 1}, LoopEnd{Loop: 1, Body: n}},
	} {
		b := NewBuilder(Blackhole, nil)
		for _, c := range commands {
			b.Append(c)
		}
		b.ExecBufEnd()
		f.Add(uint8(Blackhole), b.Bytes(), uint64(0x5A5A))
	}
	f.Fuzz(func(t *testing.T, l uint8, trace []byte, conditions uint64) {
		if !Layout(l).Valid() || len(trace) > 2048 || CheckTrace(Layout(l), DefaultLimits(64), trace) != nil {
			return
		}
		runControl(t, Layout(l), trace, conditions)
	})
}

func runControl(t *testing.T, l Layout, trace []byte, conditions uint64) {
	t.Helper()
	type loop struct{ left, count uint32 }
	const most = 2 // iterations of a loop
	var loops []loop
	innermost := func() *loop {
		if len(loops) == 0 {
			t.Fatal("a command needs a loop, and none is open")
		}
		return &loops[len(loops)-1]
	}
	commands := map[uint32]Entry{}
	for e, err := range All(l, trace) {
		if err != nil {
			break // what follows the end of the trace
		}
		commands[uint32(e.Offset)] = e
	}
	at := uint32(0)
	for steps := 0; ; steps++ {
		e, ok := commands[at]
		if !ok {
			t.Fatalf("no command at %#x", at)
		}
		if steps > len(commands)<<(2*MaxLoops) {
			t.Fatal("the trace doesn't end")
		}
		at += uint32(len(e.Raw))
		switch c := e.Command.(type) {
		case ExecBufEnd:
			if len(loops) != 0 {
				t.Fatalf("%d loops are open at the end of the trace", len(loops))
			}
			return
		case LoopBegin:
			if c.Count == 0 {
				at = c.Exit
				continue
			}
			if len(loops) == MaxLoops {
				t.Fatal("the stack of loops is full")
			}
			n := min(c.Count, most)
			loops = append(loops, loop{n, n})
		case LoopEnd:
			i := innermost()
			if i.left--; i.left == 0 && !c.Limited {
				loops = loops[:len(loops)-1]
			} else {
				at = c.Body
			}
		case Branch:
			if int(c.Level) > len(loops) {
				t.Fatal("a condition compares the iteration of a loop that isn't open")
			}
			holds := conditions&1 == 1 && c.Compare != Never
			conditions = conditions>>1 | conditions<<63
			if holds {
				if c.Limited && innermost().left == 0 {
					return // the prefetcher stops there
				}
				continue
			}
			if c.Leave {
				innermost()
				loops = loops[:len(loops)-1]
			}
			at = c.Else
		}
	}
}

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
