package cq

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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

// Bytes that two independent encoders agreed on. What is left out is zero.
var examples = []struct {
	name  string
	l     Layout
	build func(b *Builder)
	size  int
	rows  map[int]string
	entry FetchEntry
}{
	{"a host event", Blackhole, exampleEvent, 64, map[int]string{
		0x00: "05 00 00 00 20 00 00 00 40 00 00 00 00 00 00",
		0x10: "03 01 00 00 00 00 00 00 20 00 00 00 00 00 00",
		0x20: "2a 00 00 00 00 00 00 00 00 00 00 00 00 00 00"}, 0x0004},
	{"b' stall", Blackhole, exampleStall, 128, map[int]string{
		0x00: "05 00 00 00 10 00 00 00 40 00 00 00 00 00 00",
		0x10: "07 0b 30 00 00 00 00 00 76 00 00 00 00 00 00",
		0x40: "09 00 00 00 00 00 00 00 00 00 00 00 00 00 00"}, 0x0008},
	{"b' stall", Wormhole, exampleStall, 64, map[int]string{
		0x00: "05 00 00 00 10 00 00 00 20 00 00 00 00 00 00",
		0x10: "07 0b 30 00 00 00 00 00 76 00 00 00 00 00 00",
		0x20: "09 00 00 00 00 00 00 00 00 00 00 00 00 00 00"}, 0x0004},
	{"c packed", Blackhole, examplePacked([2]uint8{1, 2}, [2]uint8{2, 2}, 0x82B0, 0, 0), 128, map[int]string{
		0x00: "05 00 00 00 40 00 00 00 80 00 00 00 00 00 00",
		0x10: "05 00 02 00 00 00 08 00 b0 82 00 00 00 00 00",
		0x20: "81 00 00 00 82 00 00 00 00 00 00 00 00 00 00",
		0x30: "11 11 11 11 22 22 22 22 00 00 00 00 00 00 00",
		0x40: "33 33 33 33 44 44 44 44 00 00 00 00 00 00 00"}, 0x0008},
	{"c packed", Wormhole, examplePacked([2]uint8{18, 18}, [2]uint8{19, 18}, 0x7D80, 0, 0), 96, map[int]string{
		0x00: "05 00 00 00 40 00 00 00 60 00 00 00 00 00 00",
		0x10: "05 00 02 00 00 00 08 00 80 7d 00 00 00 00 00",
		0x20: "20 49 00 00 30 49 00 00 00 00 00 00 00 00 00",
		0x30: "11 11 11 11 22 22 22 22 00 00 00 00 00 00 00",
		0x40: "33 33 33 33 44 44 44 44 00 00 00 00 00 00 00"}, 0x0006},
	{"c packed, relative runtime args", Blackhole, examplePacked([2]uint8{1, 2}, [2]uint8{2, 2}, 0, PackedRuntimeArgs, 1), 128, map[int]string{
		0x00: "05 00 00 00 40 00 00 00 80 00 00 00 00 00 00",
		0x10: "05 10 02 00 01 00 08 00 00 00 00 00 00 00 00",
		0x20: "81 00 00 00 82 00 00 00 00 00 00 00 00 00 00",
		0x30: "11 11 11 11 22 22 22 22 00 00 00 00 00 00 00",
		0x40: "33 33 33 33 44 44 44 44 00 00 00 00 00 00 00"}, 0x0008},
	{"e replay", Blackhole, exampleReplay, 256, map[int]string{
		0x00: "05 00 00 00 10 00 00 00 40 00 00 00 00 00 00",
		0x10: "0f 00 01 00 00 00 00 00 00 00 00 00 00 00 00",
		0x40: "05 01 00 00 10 00 00 00 40 00 00 00 00 00 00",
		0x50: "0e 00 0e 03 f0 00 00 00 ec 00 00 00 30 00 00",
		0x80: "05 00 00 00 10 00 00 00 40 00 00 00 00 00 00",
		0x90: "07 18 30 00 00 00 00 00 62 01 00 00 00 00 00",
		0xC0: "07 00 00 00 00 00 40 00 0c 00 00 00 03 00 00"}, 0x8010},
	{"e replay", Wormhole, exampleReplay, 128, map[int]string{
		0x00: "05 00 00 00 10 00 00 00 20 00 00 00 00 00 00",
		0x10: "0f 00 01 00 00 00 00 00 00 00 00 00 00 00 00",
		0x20: "05 01 00 00 10 00 00 00 20 00 00 00 00 00 00",
		0x30: "0e 00 0e 03 f0 00 00 00 ec 00 00 00 30 00 00",
		0x40: "05 00 00 00 10 00 00 00 20 00 00 00 00 00 00",
		0x50: "07 18 30 00 00 00 00 00 62 01 00 00 00 00 00",
		0x60: "07 00 00 00 00 00 40 00 0c 00 00 00 03 00 00"}, 0x8008},
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
	for _, c := range examples {
		t.Run(c.name+" "+c.l.String(), func(t *testing.T) {
			want := make([]byte, c.size)
			for at, row := range c.rows {
				if _, err := hex.Decode(want[at:], []byte(strings.ReplaceAll(row, " ", ""))); err != nil {
					t.Fatal(err)
				}
			}
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
