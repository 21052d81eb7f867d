package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/digits/deploy"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf"
)

// A trace is read from the DRAM of a device that somebody else has open, and names the programs that were recorded. With
// another size of pages, its pages are in another order: that is refused.
func TestReadTraceFromLiveDevice(t *testing.T) {
	for _, card := range []*sim.Card{sim.Blackhole(), sim.Wormhole()} {
		t.Run(card.String(), func(t *testing.T) {
			ctx := context.Background()
			dev, err := reprise.Open(ctx, card)
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			net, err := digits.Trained()
			if err != nil {
				t.Fatal(err)
			}
			dep, err := deploy.New(ctx, dev, net, 16, dev.Grid())
			if err != nil {
				t.Fatal(err)
			}
			trace, err := dev.Queue(0).Capture(ctx, "digits", dep.Record)
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for _, size := range []int{1024, 2048, 4096} {
				b, ch, err := readDRAM(ctx, card, trace.Extents()[0].Start, size, trace.Size()/size)
				if err != nil {
					continue // it would end beyond a bank
				}
				f := sourceFlags{Revision: cq.Pinned}
				c, err := f.inspect(cq.Layout(ch.Arch()), b)
				if err != nil {
					continue
				}
				found++
				if got, want := len(c.Steps), len(trace.Steps()); got != want {
					t.Errorf("%d programs, want %d", got, want)
				}
				for i, s := range trace.Steps() {
					if c.Steps[i].Offset != s.Offset || c.Steps[i].Size != s.Size {
						t.Errorf("program %d: %+v, recorded as %+v", i, c.Steps[i], s)
					}
				}
				var own, read strings.Builder
				if err := trace.Print(&own); err != nil {
					t.Fatal(err)
				}
				c.Steps = nil // their names are lines of their own
				if err := c.Print(&read); err != nil {
					t.Fatal(err)
				}
				if own.String() != read.String() {
					t.Error("the commands in DRAM aren't those that were recorded")
				}
			}
			if found != 1 {
				t.Errorf("%d sizes of pages give a trace, want 1", found)
			}
		})
	}
}

// tracedDigits is a trace file of the digits network on an emulator, changed by edit, in a file.
func tracedDigits(t *testing.T, edit func(*tracebuf.File)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "digits.trace")
	var out, errs strings.Builder
	if code := run(t.Context(), []string{"demo", "--batch", "512", "--save-trace", path, "--json"}, streams{&out, &errs}); code != exitOK {
		t.Fatal(errs.String())
	}
	f, err := readTraceFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edit(f)
	var b bytes.Buffer
	if err := tracebuf.Encode(&b, f); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// A program that hangs is named, run one by one or in pieces, and whoever bisects learns it on the way.
func TestTraceRunNamesWhatHangs(t *testing.T) {
	path := tracedDigits(t, func(f *tracebuf.File) {
		// jal x0, 0: the first kernel of the second program never ends.
		copy(f.Image.Programs[1].Binary, []byte{0x6f, 0, 0, 0})
	})
	for _, mode := range [][]string{{"--step"}, {"--split", "3"}, {"--bisect"}} {
		var out, errs strings.Builder
		args := append([]string{"trace", "run", path, "--hang-timeout", "400ms", "--dump-dir", t.TempDir()}, mode...)
		if code := run(t.Context(), args, streams{&out, &errs}); code != exitFailed {
			t.Errorf("%v: exit code %d: %s", mode, code, out.String())
		}
		if !strings.Contains(errs.String(), `step 1, program "layer 1"`) || !strings.Contains(errs.String(), "reprise inspect") {
			t.Errorf("%v: %s", mode, errs.String())
		}
	}
}

// What a trace verifies in place is its commands, but for where kernels lie.
func TestVerifyInPlace(t *testing.T) {
	path := tracedDigits(t, func(*tracebuf.File) {})
	ctx := context.Background()
	card := sim.Blackhole()
	dev, err := reprise.Open(ctx, card)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	// Kernels that lie elsewhere than where they were recorded.
	other, err := dev.NewBuffer(reprise.BufferConfig{Kind: reprise.DRAM, Size: 1 << 20, PageSize: 4096, Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	file, err := readTraceFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range file.Image.Buffers {
		file.Image.Buffers[i].Addr += uint64(other.Size()) // behind it, as far as the allocator is concerned
	}
	var b bytes.Buffer
	if err := tracebuf.Encode(&b, file); err != nil {
		t.Fatal(err)
	}
	trace, err := dev.LoadTrace(ctx, &b)
	if err != nil {
		t.Fatal(err)
	}
	im := &file.Image
	addr := trace.Extents()[0].Start
	got, _, err := readDRAM(ctx, card, addr, im.PageSize, im.Pages())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, im.Bytes) {
		t.Error("the kernels lie where they lay: this shows nothing")
	}
	v := verifyJSON{Bytes: len(im.Bytes)}
	if err := v.compare(im, got); err != nil || v.Differ != 0 {
		t.Errorf("%d bytes differ: %s, %v", v.Differ, v.where(), err)
	}
	at := im.Steps[1].Offset + 0x4c
	got[at]++
	if err := v.compare(im, got); err != nil || v.Differ != 1 || v.Offset != at || *v.Program != 1 || !strings.Contains(v.where(), "in program 1 layer 1: dispatch") {
		t.Errorf("%d bytes differ: %s, %v", v.Differ, v.where(), err)
	}
}
