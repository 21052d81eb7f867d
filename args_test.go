package reprise_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf"
)

// from is an argument that the device computes.
func from(a reprise.Arg, b *reprise.Buffer, offset int) reprise.Arg {
	a.From, a.Offset = b, offset
	return a
}

// A trace holds the buffers of words that only its conditions and arguments read, until it is
// released.
func TestWordsAreHeld(t *testing.T) {
	onEmulators(t, func(b *bench) {
		n := b.pages("n", 2)
		one, add := b.load(b.adder("one", chip.Core{X: 1}, n, n, 1)), b.load(b.adder("add", chip.Core{X: 2}, n, n, 0))
		words := func(name string) (all []*reprise.Buffer) {
			for _, kind := range []allocator.Kind{allocator.DRAM, allocator.L1} {
				for i := range 2 {
					all = append(all, b.buffer(reprise.BufferConfig{Kind: kind, Size: 128, PageSize: 64, Name: fmt.Sprint(name, i)}))
				}
			}
			return all
		}
		read := words("read")
		trace := b.captureFlow(func(r *reprise.Recorder) error {
			var errs []error
			for i := 0; i < len(read); i += 2 {
				errs = append(errs, r.If(reprise.Cond{Buffer: read[i], Offset: 68, Is: cq.Equal, Value: 5 + 17}, runs(r, one), nil),
					r.Run(add, from(addend, read[i+1], 4)))
			}
			return errors.Join(errs...)
		})
		addrs := map[uint32]bool{}
		for _, u := range read {
			b.write(u, 5)
			addrs[u.Addr()] = true
			b.must(u.Release())
		}
		for _, u := range words("other") {
			if addrs[u.Addr()] {
				b.Errorf("memory at %#x was given away", u.Addr())
			}
			b.write(u, 1000)
		}
		b.write(n, 0)
		b.must(trace.Replay(b.ctx))
		b.holds(n, 2*(1+6))
		b.must(trace.Release(b.ctx))
		for _, u := range words("again") {
			if !addrs[u.Addr()] {
				b.Errorf("a buffer lies at %#x: what the trace held isn't free", u.Addr())
			}
		}
	})
}

// Arguments that the device can't read are refused with the place and the reason.
func TestComputedArgsRefusals(t *testing.T) {
	b, elsewhere := open(t, sim.Blackhole()), open(t, sim.Blackhole())
	n := b.pages("n", 2)
	one := b.load(b.adder("one", chip.Core{X: 1, Y: 2}, n, n, 1))
	for _, tc := range []struct {
		name string
		arg  reprise.Arg
		says []string
	}{
		{"no buffer", addend, []string{`run program "one"`, "From names no buffer"}},
		{"another device's buffer", from(addend, elsewhere.pages("x", 1), 0), []string{"another device"}},
		{"a word outside", from(addend, n, 128), []string{"offset 128", "128 B"}},
		{"half a word", from(addend, n, 2), []string{"offset 2", "multiple of 4"}},
		{"no such argument", from(reprise.Arg{Kernel: "add", Index: 4}, n, 0), []string{"unique argument 4", "has 4"}},
		{"no such kernel", from(reprise.Arg{Kernel: "x", Common: true}, n, 0), []string{"no such kernel"}},
	} {
		trace, err := b.queue.Capture(b.ctx, tc.name, func(_ context.Context, r *reprise.Recorder) error { return r.Run(one, tc.arg) })
		if trace != nil || err == nil {
			t.Errorf("%s: it was recorded", tc.name)
			continue
		}
		b.says(err, tc.says...)
		if arg := (*dispatch.ArgError)(nil); strings.HasPrefix(tc.name, "no such") && !errors.As(err, &arg) {
			t.Errorf("%s: %v is no ArgError", tc.name, err)
		}
	}
	many := make([]reprise.Arg, cq.MaxReadArgs+1)
	for i := range many {
		many[i] = from(addend, b.pages("word", 1), 0)
	}
	_, err := b.queue.Capture(b.ctx, "many", func(_ context.Context, r *reprise.Recorder) error { return r.Run(one, many...) })
	b.says(err, "33 words", "at most 32")
	trace := b.captureFlow(func(r *reprise.Recorder) error { return errors.Join(r.Run(one), r.Run(one, from(addend, n, 0))) })
	b.says(trace.Debug().Split(b.ctx, 2, nil), "arguments that the device computes", "use Follow")
	b.must(trace.Release(b.ctx))
	if err := one.SetArg(from(addend, n, 0), 1); err == nil {
		t.Error("an argument of an executable is one that the device computes")
	} else {
		b.says(err, "give it to Recorder.Run")
	}
}

// sameTrace checks that two files are of one trace, whose memory lies elsewhere in the second.
func sameTrace(t *testing.T, file, moved []byte) {
	t.Helper()
	var both [2]*tracebuf.File
	var contents [2]*tracebuf.Contents
	for i, b := range [][]byte{file, moved} {
		f, err := tracebuf.Decode(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		both[i] = f
		if contents[i], err = tracebuf.Inspect(&f.Image); err != nil {
			t.Fatal(err)
		}
	}
	if bytes.Equal(both[0].Image.Bytes, both[1].Image.Bytes) {
		t.Error("no memory of the trace has moved")
	}
	if diff := tracebuf.Diff(contents[0], contents[1]); len(diff) > 0 {
		t.Errorf("a trace and the same one elsewhere differ: %+v", diff)
	}
}

// A file whose commands for computed arguments were changed is refused.
func TestComputedArgsFileRefusals(t *testing.T) {
	b := open(t, sim.Blackhole())
	k, n := b.pages("k", 2), b.pages("n", 2)
	add := b.load(b.adder("add", chip.Core{X: 2, Y: 1}, n, n, 0))
	trace := b.captureFlow(func(r *reprise.Recorder) error { return r.Run(add, from(addend, k, 64)) })
	var file bytes.Buffer
	b.must(trace.Save(b.ctx, &file))
	for want, change := range map[string]func(f *tracebuf.File, args, run *tracebuf.Step){
		"no worker": func(f *tracebuf.File, args, _ *tracebuf.Step) {
			cq.Put32(f.Image.Bytes, args.Offset+cq.AtRelayed+cq.HeaderSize, 0xFFF)
		},
		"kernel memory ends": func(f *tracebuf.File, args, run *tracebuf.Step) {
			cq.Put16(f.Image.Bytes, args.Offset+cq.AtRelayed+cq.HeaderSize+4, 0xFFF0)
			// The program lies higher, according to its write offsets and its launch message. Its
			// kernels stay.
			cmds := f.Image.Bytes[run.Offset:][:run.Size]
			own := abi.Own(f.Target.Arch)
			last := 0
			for i := 0; i < len(cmds); i += 4 {
				if cq.Get32(cmds, i) == own.L1.KernelConfig {
					cq.Put32(cmds, i, own.L1.KernelConfig+0x2000)
					last = i
				}
			}
			for p := range chip.NumProcessors {
				text := last - int(own.Launch.ConfigBase) + int(own.Launch.Text) + 4*p
				cq.Put32(cmds, text, cq.Get32(cmds, text)-0x2000)
			}
		},
		"FORWARD": func(f *tracebuf.File, _, run *tracebuf.Step) { // the program takes no arguments
			cmds := f.Image.Bytes[run.Offset:][:run.Size]
			cmds[bytes.LastIndexByte(cmds, byte(cq.DispatchForwardWithArgs))] = byte(cq.DispatchForwardSubordinate)
		},
	} {
		f, err := tracebuf.Decode(bytes.NewReader(file.Bytes()))
		b.must(err)
		change(f, &f.Image.Steps[0], &f.Image.Steps[1])
		if err := f.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
