package cq

import (
	"testing"
)

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
			if s.err != nil {
				b.Fatal(s.err)
			}
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
	cases := append(benchCases(), benchCase{"the rest", func(b *Builder) {
		b.WaitStall(Wait{Flags: WaitStream})
		b.SetWriteOffset(SetWriteOffset{Count: 4})
		b.SetGoSignalNOCData(Master, SetGoSignalNOCData{Words: goldenCores(0)})
		b.WritePackedLargeHeader(WritePackedLarge{Alignment: 64, Subs: benchSubs})
		b.RelayPagedPacked(RelayPagedPacked{Subs: benchPaged})
		b.WriteHost(WriteHost{Event: true, Length: 32})
		b.WritePaged(WritePaged{PageSize: 64, Pages: 2})
		b.RelayRingbuffer(RelayRingbuffer{Subs: benchRing})
		b.RelayLinear(RelayLinear{})
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
		if _, err := b.Finish(); err != nil {
			t.Fatal(err)
		}
	}), 0, "a local builder: allocations")
}

var (
	benchCores = goldenCores(1)
	benchSubs  = []LargeSub{{Length: 64, Dests: 1}, {Length: 2048, Dests: 1, Unlink: true}}
	benchPaged = []PagedSub{{Length: 2112}}
	benchRing  = []RingSub{{Length: 2112}}
)
