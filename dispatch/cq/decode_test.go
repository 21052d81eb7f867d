package cq

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/internal/writertest"
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
		b.Delay(Delay{Loops: 3})
		b.Stall()
		b.ExecBufEnd()
	})
	// the launch message: 16+16+48+9*16 = 224 bytes, so 256
	stream[256+AtRelayed] = 20 // the delay's id
	stream[320+5] = 1
	stream = append(stream, make([]byte, 64)...)
	var s strings.Builder
	err := Print(&s, Blackhole, stream)
	want := `00000000    256  dispatch    WRITE_PACKED flags=launch count=9 offset_index=0 size=4 addr=0x0 noc[0]=(1,2) noc[1]=(2,2) noc[2]=(3,2) noc[3]=(4,2) ... data=144
00000100     64  dispatch    RT_PROFILER_FLUSH data=16
                 ! cq: RT_PROFILER_FLUSH at +0x110: command of a newer tt-metal revision: id 20 is not in the revision read here: the stream needs other firmware and another decoder
00000140     64  prefetch    STALL
                 ! cq: STALL at +0x145: bytes that no encoder writes: padding byte is 0x01, want 0
00000180     64  prefetch    EXEC_BUF_END to=dispatch length=16 stride=64
000001c0     64  after the end
`
	if s.String() != want {
		t.Errorf("got\n%s\nwant\n%s", s.String(), want)
	}
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
		var s, d strings.Builder
		must(t, errors.Join(Print(&s, l, b), Dump(&d, l, b)))
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
		if !strings.HasPrefix(d.String(), s.String()) || !strings.Contains(s.String(), inner[0].form.name) {
			t.Fatalf("%s\n%s", s.String(), d.String())
		}
		for _, f := range own().fields(l, inner) {
			if !strings.Contains(d.String(), f.Name) {
				t.Fatalf("%s is missing in\n%s", f.Name, d.String())
			}
		}
	})
}
