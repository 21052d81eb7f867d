package cq

import (
	"bytes"
	"errors"
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
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", l, diff)
		}
		if err := Check(l, DefaultLimits(140), packed); err != nil {
			t.Errorf("%v: packed commands aren't in order: %v", l, err)
		}
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
		if diff := cmp.Diff(read(stream), read(packed)); diff != "" {
			t.Errorf("%v (-before +packed):\n%s", l, diff)
		}
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
		"something after a header":  func(b *Builder) { b.WritePagedHeader(WritePaged{PageSize: 16, Pages: 1}); b.Sink() },
	} {
		b := NewBuilder(Blackhole, nil)
		b.BeginSequence()
		b.Sink()
		add(&b)
		b.EndSequence()
		if b.err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	b := NewBuilder(Blackhole, nil)
	b.BeginSequence()
	b.EndSequence()
	if b.err == nil {
		t.Error("an empty sequence: no error")
	}
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
		if diff := cmp.Diff(PrefetchCommand(c), got); diff != "" {
			t.Errorf("with %d B of data (-want +got):\n%s", len(data), diff)
		}
	}
}

var must = expect.Must

func value[V any](v V, err error) func(expect.TB) V { return expect.Value(v, err) }

func equal[V comparable](t expect.TB, got, want V, what string, args ...any) {
	t.Helper()
	expect.Equal(t, got, want, what, args...)
}
