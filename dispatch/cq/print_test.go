package cq

import (
	"errors"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/internal/writertest"
)

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
		b, err := appendCommand(nil, l, c)
		must(t, err)
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
