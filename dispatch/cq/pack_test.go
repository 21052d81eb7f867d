package cq

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/internal/expect"
)

const testPage = 4096

var layouts = []Layout{Wormhole, Blackhole}

func program(t *testing.T, l Layout) (stream []byte, launch Packed, goAt int) {
	t.Helper()
	b := NewBuilder(l, nil)
	b.SetWriteOffset(SetWriteOffset{Count: 3, Offsets: [4]uint32{0, 0x8000, 0x8100}})
	b.Wait(Master, Wait{Flags: WaitStream, Stream: 48, Count: 130})
	b.WritePackedLargeHeader(WritePackedLarge{Type: LargeBinaries, Alignment: 64, OffsetIndex: 2,
		Subs: []LargeSub{{NOC: 1, Length: 512, Dests: 4, Unlink: true}}})
	b.RelayPagedPacked(RelayPagedPacked{Subs: []PagedSub{{LogPageSize: 11, Base: 0x1000, Length: 512}}})
	launch = b.WritePacked(WritePacked{Type: PackedLaunch, Size: 96, Addr: 0x40, Rects: []Rect{{NOC: 7, Dests: 4}}, Data: make([]byte, 96)})
	b.NotifySubordinate(NotifySubordinate{Wait: true, Mask: 1})
	goAt = b.SendGoSignal(Subordinate, SendGoSignal{Go: 0x80000000, WaitCount: 9, WaitStream: 48})
	stream, err := b.Finish()
	must(t, err)
	return stream, launch, goAt
}

func TestPackOfProgram(t *testing.T) {
	for _, l := range layouts {
		stream, launch, goAt := program(t, l)
		packed, moves, err := Pack(l, testPage, stream)
		must(t, err)
		var got []string
		for e, err := range All(l, packed) {
			must(t, err)
			got = append(got, e.Command.ID().String())
			for r := range e.Relayed {
				got = append(got, "  "+r.Command.ID().String())
			}
		}
		want := []string{
			"RELAY_INLINE_NOFLUSH", "  SET_WRITE_OFFSET", "  WAIT", "  WRITE_PACKED_LARGE", "RELAY_PAGED_PACKED",
			"RELAY_INLINE", "  WRITE_PACKED", "  FORWARD_SUBORDINATE",
		}
		expect.NoDiff(t, got, want, "%v", l)
		expect.Fails(t, Check(l, DefaultLimits(140), packed), nil, "%v: packed commands aren't in order", l)
		for _, at := range []int{launch.At + AtPackedAddr, launch.Slot(0), goAt + AtGoWaitCount} {
			now, ok := moves.At(at)
			if !ok || Get32(packed, now) != Get32(stream, at) {
				t.Errorf("%v: the word at %#x is said to be at %#x (%v), which holds another", l, at, now, ok)
			}
		}
		if _, ok := moves.At(0); ok {
			t.Errorf("%v: the first relay's own header has a place", l)
		}
		if _, _, err := Pack(l, testPage, packed); !errors.Is(err, ErrFormat) {
			t.Errorf("%v: packing twice: %v, want ErrFormat", l, err)
		}
	}
}

func TestPackKeepsCommands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := genLayout(t)
		b := NewBuilder(l, nil)
		for range num(t, "commands", 1, 12) {
			switch num(t, "kind", 0, 5) {
			case 0:
				b.Append(Stall{})
			case 1:
				n := uint32(num(t, "length", 1, 100)) * 16
				b.WritePackedLargeHeader(WritePackedLarge{Alignment: 16, OffsetIndex: 1,
					Subs: []LargeSub{{Length: n, Dests: 1, Unlink: true}}})
				b.RelayPagedPacked(RelayPagedPacked{Subs: []PagedSub{{LogPageSize: 11, Length: (n + 63) &^ 63}}})
			case 2:
				b.NotifySubordinate(NotifySubordinate{Wait: yes(t, "wait"), Mask: 1})
			case 3:
				b.SendGoSignal(Subordinate, SendGoSignal{WaitCount: u32(t, "count")})
			default:
				d := genDispatch(t, false, false)
				for d[0] >= uint8(DispatchSequence) {
					d = genDispatch(t, false, false)
				}
				b.Append(RelayInline{Master, Opaque{d}})
			}
		}
		stream, err := b.Finish()
		must(t, err)
		packed, moves, err := Pack(l, testPage, stream)
		must(t, err)
		if len(packed) > len(stream) {
			t.Fatalf("%d bytes became %d", len(stream), len(packed))
		}
		before, after := flat(t, l, stream), flat(t, l, packed)
		if diff := cmp.Diff(before, after); diff != "" {
			t.Fatalf("(-before +after):\n%s", diff)
		}
		for e := range All(l, stream) {
			for r := range e.Relayed {
				now, ok := moves.At(r.At)
				if r.Command.ID() == DispatchNotifySubordinate && !ok {
					continue
				}
				if n := sizeOf(t, l, r.Command, r.Header); !ok || string(packed[now:now+n]) != string(stream[r.At:r.At+n]) {
					t.Fatalf("%s at %#x is said to be at %#x (%v), where something else is", r.Command.ID().String(), r.At, now, ok)
				}
			}
		}
		for e := range All(l, packed) {
			if c, _, ok := e.Dispatch(); ok && c.ID() == DispatchSequence {
				_, header := e.Command.(RelayInlineNoFlush)
				if n := sizeOf(t, l, c, header); n > testPage {
					t.Fatalf("a sequence of %d B, a page has %d", n, testPage)
				}
			}
		}
	})
}

func sizeOf(t *rapid.T, l Layout, c DispatchCommand, header bool) int {
	one := PrefetchCommand(RelayInline{Master, c})
	if header {
		one = RelayInlineNoFlush{c}
	}
	b := value(appendCommand(nil, l, one))(t)
	return int(Get32(b, 4))
}

func flat(t *rapid.T, l Layout, stream []byte) []string {
	var out []string
	for e, err := range All(l, stream) {
		must(t, err)
		any := false
		for r := range e.Relayed {
			any = true
			if h, ok := r.Command.(ForwardSubordinate); ok {
				out = append(out, Line(l, RelayInline{Master, NotifySubordinate{h.Wait, 1}}), Line(l, RelayInline{Subordinate, h.Command}))
				continue
			}
			one := PrefetchCommand(RelayInline{r.To, r.Command})
			if r.Header {
				one = RelayInlineNoFlush{r.Command}
			}
			out = append(out, Line(l, one))
		}
		if !any {
			out = append(out, Line(l, e.Command))
		}
	}
	return out
}

func TestSequenceLimits(t *testing.T) {
	m := DefaultLimits(140)
	big := WriteLinear{NOC: 1, Length: 4096, Data: make([]byte, 4096)}
	for _, c := range []struct {
		name string
		cmd  DispatchCommand
		err  error
	}{
		{"two commands", Sequence{[]DispatchCommand{Wait{}, Sink{}}}, nil},
		{"none", Sequence{}, ErrLimit},
		{"more than a page", Sequence{[]DispatchCommand{Wait{}, big}}, ErrLimit},
		{"one in another", Sequence{[]DispatchCommand{Sequence{[]DispatchCommand{Wait{}}}}}, ErrFormat},
		{"a command that is wrong", Sequence{[]DispatchCommand{Wait{Flags: 0x80}}}, ErrLimit},
		{"a forwarded go signal", ForwardSubordinate{Command: SendGoSignal{Multicast: NoMulticast}}, nil},
		{"a forwarded write", ForwardSubordinate{Command: Wait{}}, ErrFormat},
		{"nothing forwarded", ForwardSubordinate{}, ErrFormat},
		{"a go signal with arguments", ForwardSubordinate{Args: true, Command: SendGoSignal{}}, nil},
		{"an end with arguments", ForwardSubordinate{Args: true, Command: TerminateDispatch{}}, ErrFormat},
		{"an argument", ReadArg{OffsetIndex: 1, Addr: 4, Targets: []ArgTarget{{Addr: 8}}}, nil},
		{"an argument for none", ReadArg{}, ErrLimit},
		{"an argument from an odd address", ReadArg{Addr: 2, Targets: []ArgTarget{{}}}, ErrLimit},
		{"an argument to an odd address", ReadArg{Targets: []ArgTarget{{Addr: 2}}}, ErrLimit},
		{"an argument to an unknown offset", ReadArg{OffsetIndex: 4, Targets: []ArgTarget{{}}}, ErrLimit},
	} {
		err := validate(Blackhole, m, c.cmd)
		if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
	}
}

func TestRevisionReadsPacked(t *testing.T) {
	for _, l := range layouts {
		stream, _, _ := program(t, l)
		packed, _, err := Pack(l, testPage, stream)
		must(t, err)
		read := func(b []byte) (lines []string) {
			rs := value(RevisionByName(Pinned).Read(l, b))(t)
			at := 0
			for i := range rs {
				equal(t, rs[i].Offset, at, "%v: %s", l, rs[i].Name)
				at += rs[i].Size
				if rs[i].Name != DispatchNotifySubordinate.String() {
					lines = append(lines, rs[i].String())
				}
			}
			equal(t, at, len(b), "%v: where the readings end", l)
			return lines
		}
		expect.NoDiff(t, read(packed), read(stream), "%v", l)
		for _, v := range Revisions() {
			if _, err := v.Read(l, packed); v.Name != Pinned && err == nil {
				t.Errorf("%v: revision %s reads a packed stream", l, v.Name)
			}
		}
	}
}

func TestSequenceBuilder(t *testing.T) {
	for name, add := range map[string]func(b *Builder){
		"a prefetcher's command":    func(b *Builder) { b.Stall() },
		"a relay":                   func(b *Builder) { b.RelayPagedPacked(RelayPagedPacked{Subs: []PagedSub{{Length: 64}}}) },
		"the subordinate's command": func(b *Builder) { b.SendGoSignal(Subordinate, SendGoSignal{}) },
		"a sequence":                func(b *Builder) { b.BeginSequence() },
		"something after a header":  func(b *Builder) { b.WritePagedHeader(WritePaged{PageSize: 16, Pages: 1}); b.Dispatch(Master, Sink{}) },
	} {
		b := NewBuilder(Blackhole, nil)
		b.BeginSequence()
		b.Dispatch(Master, Sink{})
		add(&b)
		b.EndSequence()
		if b.err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	b := NewBuilder(Blackhole, nil)
	b.BeginSequence()
	b.EndSequence()
	expect.Error(t, b.err) // an empty sequence
}

func TestSequenceEndsInPackedWrite(t *testing.T) {
	for _, data := range [][]byte{nil, bytes.Repeat([]byte{7}, 16)} {
		c := RelayInlineNoFlush{Sequence{Commands: []DispatchCommand{Sink{}, WritePacked{NoStride: true, Size: 1, Cores: []uint32{0},
			Data: data}}}}
		b, err := appendCommand(nil, Blackhole, c)
		must(t, err)
		got, n, err := Decode(Blackhole, b)
		if err != nil || n != len(b) {
			t.Fatalf("with %d B of data: %d of %d bytes: %v", len(data), n, len(b), err)
		}
		expect.NoDiff(t, got, PrefetchCommand(c), "with %d B of data", len(data))
	}
}

var must = expect.Must

func value[V any](v V, err error) func(expect.TB) V { return expect.Value(v, err) }

func equal[V comparable](t expect.TB, got, want V, what string, args ...any) {
	t.Helper()
	expect.Equal(t, got, want, what, args...)
}

func TestSeqAfter(t *testing.T) {
	const top = 1<<32 - 1
	for _, c := range []struct {
		s, o  Seq
		after bool
	}{
		{0, 0, false}, {1, 0, true}, {0, 1, false}, {top, top, false}, {top, 0, false}, {0, top, true},
		{top - 1, 2, false}, {2, top - 1, true}, {1<<31 - 1, 0, true}, {1 << 31, 0, false},
	} {
		equal(t, c.s.After(c.o), c.after, "%#x after %#x", uint32(c.s), uint32(c.o))
	}
}

func TestFetchEntry(t *testing.T) {
	for _, c := range []struct {
		bytes int
		stall bool
		want  FetchEntry
		ok    bool
	}{
		{0, false, 0, false}, {-16, false, 0, false}, {8, false, 0, false}, {17, false, 0, false},
		{16, false, 1, true}, {256, true, 0x8010, true}, {128, true, 0x8008, true}, {128 << 10, false, 0x2000, true},
		{524272, false, 0x7FFF, true}, {524272, true, 0xFFFF, true}, {524288, false, 0, false},
	} {
		got, err := NewFetchEntry(c.bytes, c.stall)
		if got != c.want || (err == nil) != c.ok || (err != nil && !errors.Is(err, ErrLimit)) {
			t.Errorf("%d bytes, stall %v: %#04x, %v; want %#04x", c.bytes, c.stall, uint16(got), err, uint16(c.want))
		}
		if c.ok && (got.Bytes() != c.bytes || got.Stall() != c.stall) {
			t.Errorf("%#04x says %v", uint16(got), got)
		}
	}
	if s := FetchEntry(0x8010).String(); s != "256 bytes, stall" {
		t.Error(s)
	}
}

func TestGoWord(t *testing.T) {
	g := NewGoWord(1, 14, 3, SignalReplayTrace)
	equal(t, g, 0xF0030E01, "go word")
	if x, y := g.XY(); g.Offset() != 1 || x != 14 || y != 3 || g.Signal() != SignalReplayTrace {
		t.Errorf("%v", g)
	}
	equal(t, g.String(), "REPLAY_TRACE stream +1 of (14,3)", "g.String()")
}

func TestNOCWords(t *testing.T) {
	for _, c := range []struct {
		l    Layout
		x, y uint8
		want uint32
	}{{Blackhole, 1, 2, 0x81}, {Blackhole, 2, 2, 0x82}, {Wormhole, 18, 18, 0x4920}, {Wormhole, 19, 18, 0x4930}} {
		equal(t, c.l.NOCXY(c.x, c.y), c.want, "%v (%d,%d)", c.l, c.x, c.y)
	}
	equal(t, Blackhole.NOCRect(1, 2, 14, 11), 1<<12|2<<18|14|11<<6, "blackhole rectangle")
	equal(t, Wormhole.NOCRect(18, 18, 25, 27), 18<<16|18<<22|25<<4|27<<10, "wormhole rectangle")
	rapid.Check(t, func(t *rapid.T) {
		l := genLayout(t)
		x0, y0, x1, y1 := rapid.Uint8().Draw(t, "x0")&63, rapid.Uint8().Draw(t, "y0")&63, rapid.Uint8().Draw(t, "x1")&63,
			rapid.Uint8().Draw(t, "y1")&63
		if x, y, ok := l.SplitXY(l.NOCXY(x0, y0)); !ok || x != x0 || y != y0 {
			t.Fatalf("%v (%d,%d) comes back as (%d,%d) %v", l, x0, y0, x, y, ok)
		}
		if a, b, c, d, ok := l.SplitRect(l.NOCRect(x0, y0, x1, y1)); !ok || a != x0 || b != y0 || c != x1 || d != y1 {
			t.Fatalf("%v rectangle comes back as (%d,%d)-(%d,%d) %v", l, a, b, c, d, ok)
		}
	})
	if _, _, ok := Wormhole.SplitXY(0x4921); ok {
		t.Error("a Wormhole word with address bits passes for a plain tile")
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		v    fmt.Stringer
		want string
	}{
		{PrefetchID(0), "PREFETCH_0"}, {PrefetchRelayLinear, "RELAY_LINEAR"}, {PrefetchRelayLinearH, "RELAY_LINEAR_H"},
		{PrefetchExecBuf, "EXEC_BUF"}, {PrefetchRelayRingbuffer, "RELAY_RINGBUFFER"}, {PrefetchID(16), "RELAY_LINEAR_PACKED_H"},
		{PrefetchID(17), "PREFETCH_17"}, {PrefetchID(255), "PREFETCH_255"},
		{DispatchID(0), "DISPATCH_0"}, {DispatchWriteLinear, "WRITE_LINEAR"}, {DispatchWait, "WAIT"}, {DispatchSendGoSignal, "SEND_GO_SIGNAL"},
		{DispatchSetGoSignalNOCData, "SET_GO_SIGNAL_NOC_DATA"}, {DispatchID(20), "RT_PROFILER_FLUSH"}, {DispatchID(21), "DISPATCH_21"},
		{Master, "dispatch"}, {Subordinate, "dispatch_s"}, {Dispatcher(2), "dispatcher 2"},
		{WaitFlags(0), "none"}, {WaitBarrier | NotifyFetch | WaitMemory | WaitStream | ClearStream, "barrier|notify|memory|stream|clear"},
		{WaitStream | 0x60, "stream|0x60"},
		{PackedGoIndex, "go message index"}, {PackedType(9), "9"}, {LargeBinaries, "binaries"}, {LargeType(7), "7"},
		{SignalDone, "DONE"}, {SignalInit, "INIT"}, {SignalGo, "GO"}, {SignalResetReadPtr, "RESET_READ_PTR"},
		{SignalResetReadPtrHost, "RESET_READ_PTR_FROM_HOST"}, {SignalReplayTrace, "REPLAY_TRACE"}, {Signal(1), "0x01"},
		{Wormhole, "wormhole"}, {Blackhole, "blackhole"}, {Layout(9), "layout 9"},
		{FetchEntry(0), "empty"}, {FetchEntry(2), "32 bytes"},
	} {
		equal(t, c.v.String(), c.want, "%T", c.v)
	}
}

func TestPatch(t *testing.T) {
	for _, l := range layouts {
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
		must(t, err)
		patch(got)
		w, _ := build(0xA1B2C3D4)
		if want, err := w.Finish(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: patched stream differs (%v)", l, err)
		}
	}
}

// The peers' command assembly measurements: into a hot buffer of 256 KiB, as many of one command as
// fit, then from the start; each beside a plain copy.

const hotBuffer = 256 << 10

type benchCase struct {
	name  string
	build func(b *Builder)
}

func benchCases() []benchCase {
	w := Wait{Flags: WaitStream | ClearStream, Stream: 48, Count: 64}
	go8, go64 := goldenPacked(8, PackedRuntimeArgs), goldenPacked(64, PackedRuntimeArgs)
	one := go64
	one.NoStride, one.Data = true, packedPattern(1, 64)
	lin := WriteLinear{NOC: Blackhole.NOCXY(1, 2), Addr: 0x20000, Data: linearPattern(4096)}
	return []benchCase{
		{"wait", func(b *Builder) { b.Wait(Master, w) }},
		{"write_packed_8x64", func(b *Builder) { b.WritePacked(go8) }},
		{"write_packed_64x64", func(b *Builder) { b.WritePacked(go64) }},
		{"write_packed_64_nostride", func(b *Builder) { b.WritePacked(one) }},
		{"write_linear_4k", func(b *Builder) { b.WriteLinear(lin) }},
		{"exec_buf", func(b *Builder) { b.ExecBuf(goldenExec) }},
		{"exec_trace", func(b *Builder) {
			b.NotifySubordinate(NotifySubordinate{Mask: 1})
			goldenGo(b, Subordinate)
		}},
	}
}

func BenchmarkAssemble(b *testing.B) {
	for _, c := range benchCases() {
		s := NewBuilder(Blackhole, nil)
		c.build(&s)
		bytes := s.Bytes()
		hot := make([]byte, 0, hotBuffer)
		b.Run(c.name+"/builder", func(b *testing.B) {
			b.SetBytes(int64(len(bytes)))
			b.ReportAllocs()
			s := NewBuilder(Blackhole, hot)
			for range b.N {
				if s.Len()+len(bytes) > hotBuffer {
					s.Reset(hot)
				}
				c.build(&s)
			}
			expect.Must(b, s.err)
		})
		b.Run(c.name+"/memcpy", func(b *testing.B) {
			b.SetBytes(int64(len(bytes)))
			b.ReportAllocs()
			at := 0
			for range b.N {
				if at+len(bytes) > hotBuffer {
					at = 0
				}
				at += copy(hot[at:hotBuffer], bytes)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range benchCases() {
		s := NewBuilder(Blackhole, nil)
		c.build(&s)
		bytes := s.Bytes()
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(bytes)))
			b.ReportAllocs()
			for range b.N {
				for _, err := range All(Blackhole, bytes) {
					must(b, err)
				}
			}
		})
	}
}

func TestNoAllocations(t *testing.T) {
	relays := []PrefetchCommand{RelayRingbuffer{Subs: benchRing}, RelayLinear{}}
	var table DispatchCommand = SetGoSignalNOCData{Words: goldenCores(0)}
	cases := append(benchCases(), benchCase{"the rest", func(b *Builder) {
		b.WaitStall(Wait{Flags: WaitStream})
		b.SetWriteOffset(SetWriteOffset{Count: 4})
		b.Dispatch(Master, table)
		b.WritePackedLargeHeader(WritePackedLarge{Alignment: 64, Subs: benchSubs})
		b.RelayPagedPacked(RelayPagedPacked{Subs: benchPaged})
		b.WriteHost(WriteHost{Event: true, Length: 32})
		b.WritePaged(WritePaged{PageSize: 64, Pages: 2})
		for _, c := range relays {
			b.Append(c)
		}
		b.ExecBufEnd()
	}})
	buf := make([]byte, 0, hotBuffer)
	b := NewBuilder(Blackhole, buf)
	for _, c := range cases {
		equal(t, testing.AllocsPerRun(20, func() {
			b.Reset(buf)
			c.build(&b)
			if b.err != nil || b.Len() == 0 {
				t.Fatal(b.err)
			}
		}), 0, "%s: allocations", c.name)
	}
	equal(t, testing.AllocsPerRun(20, func() {
		b := NewBuilder(Wormhole, buf)
		p := b.WritePacked(WritePacked{Size: 96, Cores: benchCores})
		Put32(b.Bytes(), p.Slot(0), 1)
		b.SendGoSignal(Subordinate, SendGoSignal{WaitCount: 8})
		b.ExecBuf(goldenExec)
		expect.Value(b.Finish())(t)
	}), 0, "a local builder: allocations")
}

var (
	benchCores = goldenCores(1)
	benchSubs  = []LargeSub{{Length: 64, Dests: 1}, {Length: 2048, Dests: 1, Unlink: true}}
	benchPaged = []PagedSub{{Length: 2112}}
	benchRing  = []RingSub{{Length: 2112}}
)
