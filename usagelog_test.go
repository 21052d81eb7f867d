package reprise_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/usage"
	"github.com/reprise-tt/reprise/sim"
)

// memoryIn is what the logs of a directory say: of each device what is taken of each kind.
func (b *bench) memoryIn(dir string) map[string]map[usage.Kind]usage.Value {
	b.Helper()
	s, err := usage.Read(dir)
	b.must(err)
	if len(s.Problems) != 0 {
		b.Fatal(s.Problems)
	}
	out := map[string]map[usage.Kind]usage.Value{}
	for _, e := range s.Entries {
		m := map[usage.Kind]usage.Value{}
		for _, r := range e.Memory {
			m[r.Kind] = r.Value
		}
		out[e.Device.Name] = m
	}
	return out
}

// Other processes see each change of a device's memory at once, of buffers, kernels and traces,
// until it is closed.
func TestUsageLogFollowsMemory(t *testing.T) {
	dir := t.TempDir()
	b := open(t, sim.Blackhole(), reprise.WithUsageLog(dir), reprise.WithL1Small(1024))
	checked := func(what string) map[usage.Kind]usage.Value {
		t.Helper()
		got := b.memoryIn(dir)[b.dev.Name()]
		want := map[usage.Kind]usage.Value{}
		for _, k := range usage.Kinds() {
			m := b.dev.Memory(allocator.Kind(k))
			n := uint64(m.Banks)
			want[k] = usage.Value{Capacity: m.Total * n, Allocated: m.Allocated * n, Peak: m.Peak * n, Extents: uint64(m.Extents)}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: the log differs from Device.Memory (-want +got):\n%s", what, diff)
		}
		return got
	}
	empty := checked("after Open")
	in, out := b.pages("in", 4), b.pages("out", 4)
	x := b.load(b.adder("add", chip.Core{}, in, out, 1))
	tr := b.capture("t", x)
	full := checked("with a trace")
	for _, k := range []usage.Kind{usage.DRAM, usage.L1, usage.Trace} {
		if full[k].Allocated <= empty[k].Allocated || full[k].Extents <= empty[k].Extents {
			t.Errorf("buffers, kernels and a trace take no %v: %+v, before %+v", k, full[k], empty[k])
		}
	}
	b.must(tr.Release(b.ctx))
	b.must(x.Release(b.ctx))
	b.must(in.Release())
	b.must(out.Release())
	for k, v := range checked("after all is freed") {
		if v.Allocated != empty[k].Allocated || v.Peak != full[k].Peak {
			t.Errorf("%v is %+v, want %d B allocated and a peak of %d", k, v, empty[k].Allocated, full[k].Peak)
		}
	}
	other := open(t, sim.Wormhole(), reprise.WithUsageLog(dir))
	if got := b.memoryIn(dir); len(got) != 2 || got[other.dev.Name()] == nil {
		t.Errorf("two devices have logs %v", got)
	}
	late := b.pages("late", 1)
	b.must(other.dev.Close(t.Context()))
	b.must(b.dev.Close(t.Context()))
	_ = late.Release() // whatever it says, the log is gone
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("after Close the directory has %v (%v)", files, err)
	}
}

// What a log says of its device tells a card from an emulator, which processes don't share.
func TestUsageLogNamesTheDevice(t *testing.T) {
	dir := t.TempDir()
	b := open(t, sim.Wormhole(), reprise.WithUsageLog(dir))
	s, err := usage.Read(dir)
	if err != nil || len(s.Entries) != 1 {
		t.Fatalf("%d logs, %v", len(s.Entries), err)
	}
	want := usage.Entry{PID: os.Getpid(), UID: os.Geteuid(), Device: usage.Device{Name: b.dev.Name(), Arch: "wormhole", NUMANode: -1,
		Emulated: true}}
	if diff := cmp.Diff(want, s.Entries[0], cmpopts.IgnoreFields(usage.Entry{}, "Start", "Namespace", "Opened", "Command", "Memory",
		"Path")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A device can be used without a log, because it was turned off or because the file can't be made.
func TestOpenWithoutUsageLog(t *testing.T) {
	for _, tt := range []struct {
		name string
		opt  reprise.Option
		err  error
	}{
		{"unwanted", reprise.WithUsageLog(""), nil},
		{"impossible", reprise.WithUsageLog(filepath.Join(t.TempDir(), "none")), fs.ErrNotExist},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := open(t, sim.Wormhole(), tt.opt)
			b.pages("buffer", 4)
			path, err := b.dev.UsageLog()
			if path != "" || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Errorf("log %q, error %v; want none and %v", path, err, tt.err)
			}
		})
	}
}
