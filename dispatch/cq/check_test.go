package cq

import (
	"errors"
	"strings"
	"testing"
)

func build(t testing.TB, l Layout, f func(b *Builder)) []byte {
	t.Helper()
	b := NewBuilder(l, nil)
	f(&b)
	s, err := b.Finish()
	must(t, err)
	return s
}

func exampleArg(b *Builder, n int) {
	for range n {
		b.ReadArg(ReadArg{OffsetIndex: 1, Addr: 64, Targets: []ArgTarget{{NOC: b.Layout().NOCXY(1, 2), Addr: 16}, {Addr: 20, Dests: 4}}})
	}
}

func exampleArgGo(b *Builder, args bool) {
	b.ForwardSubordinate(ForwardSubordinate{Wait: true, Args: args, Command: SendGoSignal{WaitStream: 48}})
}

func TestCheckOrder(t *testing.T) {
	wait := Wait{Flags: WaitStream, Stream: 48, Count: 1}
	notify := Wait{Flags: WaitBarrier | NotifyFetch}
	head := WriteLinear{Length: 100}
	for _, c := range []struct {
		name  string
		build func(b *Builder)
		text  string // part of the error, empty for no error
	}{
		{"nothing", func(*Builder) {}, "size is 0"},
		{"a replay", exampleReplay, ""},
		{"a stall", func(b *Builder) { b.WaitStall(wait) }, ""},
		{"two stalls", func(b *Builder) { b.WaitStall(wait); b.Wait(Master, wait); b.WaitStall(wait) }, ""},
		{"a stall without notification", func(b *Builder) { b.Wait(Master, wait); b.Stall() }, "STALL at +0x40: commands out of order: it is number 1 after 0 WAITs"},
		{"a notification without stall", func(b *Builder) { b.Wait(Master, notify) }, "1 WAITs notify the prefetcher for 0 STALLs"},
		{"two notifications for one stall", func(b *Builder) { b.Wait(Master, notify); b.WaitStall(wait) }, "it is number 1 after 2 WAITs"},
		{"header and data", func(b *Builder) { b.WriteLinearHeader(head); b.RelayLinear(RelayLinear{Length: 100}) }, ""},
		{"header and padded data in the same page", func(b *Builder) { b.WriteLinearHeader(head); b.RelayLinear(RelayLinear{Length: 128}) }, ""},
		{"header and too few data", func(b *Builder) { b.WriteLinearHeader(head); b.RelayLinear(RelayLinear{Length: 99}) }, "it brings 99 bytes for a WRITE_LINEAR of 100"},
		{"header and a page too many", func(b *Builder) { b.WriteLinearHeader(head); b.RelayLinear(RelayLinear{Length: 4065}) }, "it brings 4065 bytes"},
		{"header and no data", func(b *Builder) { b.WriteLinearHeader(head) }, "the data for its NOFLUSH never come"},
		{"header and something else", func(b *Builder) { b.WriteLinearHeader(head); b.Wait(Master, wait) }, "RELAY_INLINE at +0x40: commands out of order: the relay with the data of the WRITE_LINEAR before it is missing"},
		{"two headers", func(b *Builder) { b.WriteLinearHeader(head); b.WriteLinearHeader(head) }, "is missing"},
		{"data without header", func(b *Builder) { b.RelayLinear(RelayLinear{Length: 100}) }, "there is no NOFLUSH"},
		{"pages", func(b *Builder) {
			b.WritePagedHeader(WritePaged{PageSize: 2048, Pages: 3})
			b.RelayPaged(RelayPaged{DRAM: true, PageSize: 2048, Pages: 4, LengthAdjust: 2048})
		}, ""},
		{"binaries", func(b *Builder) {
			b.WritePackedLargeHeader(WritePackedLarge{Alignment: 64, Subs: []LargeSub{{Length: 80, Dests: 1, Unlink: true},
				{Length: 64, Dests: 1, Unlink: true}}})
			b.RelayPagedPacked(RelayPagedPacked{Subs: []PagedSub{{Length: 128}, {Length: 64}}})
		}, ""},
		{"cached binaries", func(b *Builder) {
			b.PagedToRingbuffer(PagedToRingbuffer{Reset: true, Advance: 192, LogPageSize: 11, Length: 192})
			b.WritePackedLargeHeader(WritePackedLarge{Alignment: 64, Subs: []LargeSub{{Length: 192, Dests: 1, Unlink: true}}})
			b.RelayRingbuffer(RelayRingbuffer{Subs: []RingSub{{Start: 0, Length: 192}}})
		}, ""},
		{"a host record", func(b *Builder) {
			b.WriteHostHeader(WriteHost{Length: 16 + 4096})
			b.RelayPaged(RelayPaged{PageSize: 1024, Pages: 4})
		}, ""},
		{"RELAY_LINEAR_H in company", func(b *Builder) { b.WriteLinearHeader(head); b.RelayLinearH(RelayLinearH{Length: 100}) }, "alone in its fetch entry"},
		{"end of a trace in an entry", func(b *Builder) { b.ExecBufEnd() }, "not in a buffer"},
		{"two EXEC_BUFs", func(b *Builder) { exampleExec(b); exampleExec(b) }, "one EXEC_BUF in a fetch entry"},
		{"a field beyond its limit", func(b *Builder) { b.Wait(Master, wait); b.Wait(Master, Wait{Flags: 0x80}) }, "cq: WAIT at +0x50: flags is 128"},
		{"an argument and its program", func(b *Builder) { exampleArg(b, 1); exampleArgGo(b, true) }, ""},
		{"arguments and their program", func(b *Builder) { exampleArg(b, MaxReadArgs); exampleArgGo(b, true); exampleArgGo(b, false) }, ""},
		{"an argument without a program", func(b *Builder) { exampleArg(b, 1) }, "no FORWARD_WITH_ARGS after it"},
		{"an argument and a program that takes none", func(b *Builder) { exampleArg(b, 1); exampleArgGo(b, false) }, "1 READ_ARGs before it"},
		{"a program that takes an argument which isn't there", func(b *Builder) { exampleArgGo(b, true) }, "0 READ_ARGs before it"},
		{"too many arguments", func(b *Builder) { exampleArg(b, MaxReadArgs+1); exampleArgGo(b, true) }, "33 of them with"},
		{"beyond the largest entry", func(b *Builder) {
			b.WriteLinear(WriteLinear{Length: 64 << 10})
			b.WriteLinear(WriteLinear{Length: 64 << 10})
		}, "fetch entry: size is 131200"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Check(Blackhole, DefaultLimits(118), build(t, Blackhole, c.build))
			if (err == nil) != (c.text == "") || (err != nil && !strings.Contains(err.Error(), c.text)) {
				t.Errorf("got %v, want %q", err, c.text)
			}
		})
	}
}

func TestCheckerFollowsEntries(t *testing.T) {
	c := checker{Layout: Wormhole, Limits: DefaultLimits(64)}
	for i, f := range []func(b *Builder){
		func(b *Builder) {
			b.WaitStall(Wait{Flags: WaitStream})
			b.WritePagedHeader(WritePaged{PageSize: 2048, Pages: 3})
		},
		func(b *Builder) { b.RelayLinearH(RelayLinearH{Length: 3 * 2048}) },
		func(b *Builder) { b.WaitStall(Wait{Flags: WaitStream}) },
	} {
		if err := c.Entry(build(t, Wormhole, f)); err != nil {
			t.Fatalf("entry %d: %v", i, err)
		}
		if err := c.Idle(); (err == nil) != (i != 0) {
			t.Fatalf("after entry %d: %v", i, err)
		}
	}
}

func TestCheckTrace(t *testing.T) {
	l, m := Blackhole, DefaultLimits(118)
	body := func(b *Builder) { b.Wait(Master, Wait{Flags: WaitStream}) }
	good := build(t, l, func(b *Builder) { body(b); b.ExecBufEnd() })
	must(t, CheckTrace(l, m, good))
	if err := CheckTrace(l, m, append(good[:len(good):len(good)], make([]byte, 4096-len(good))...)); err != nil {
		t.Errorf("padded to a page: %v", err)
	}
	if err := CheckTrace(l, m, append(good[:len(good):len(good)], 1)); !errors.Is(err, ErrPadding) {
		t.Errorf("bytes after the end: %v", err)
	}
	if err := CheckTrace(l, m, build(t, l, body)); !errors.Is(err, ErrOrder) {
		t.Errorf("no end: %v", err)
	}
	if err := CheckTrace(l, m, build(t, l, func(b *Builder) { exampleExec(b); b.ExecBufEnd() })); !errors.Is(err, ErrOrder) {
		t.Errorf("nested: %v", err)
	}
	if err := CheckTrace(l, m, good[:len(good)-8]); !errors.Is(err, ErrTruncated) {
		t.Errorf("cut: %v", err)
	}
}
