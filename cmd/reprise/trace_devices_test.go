package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf"
)

func TestTraceOverSeveralDevices(t *testing.T) {
	decode := func(kind string) *tracebuf.File {
		b, err := recordTrace(t.Context(), sim.Blackhole(), kind)
		must(t, err)
		f, err := tracebuf.Decode(bytes.NewReader(b))
		must(t, err)
		f.Name = "several"
		return f
	}
	sharded, span := decode("sharded"), decode("span")
	write := func(name string, files ...*tracebuf.File) string {
		var b bytes.Buffer
		must(t, tracebuf.EncodeAll(&b, files))
		path := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(path, b.Bytes(), 0o666))
		return path
	}
	three, moved := write("three", sharded, nil, span), write("moved", sharded, span, nil)
	one, other := write("one", sharded), write("other", span, nil, sharded)
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"dump", three}, cli.ExitOK, []string{"\ndevice 0, queue 0\n", "\ndevice 2, queue 0\n", "\ndevice 2, queue 1\n"}},
		{[]string{"dump", three, "--json"}, cli.ExitOK, []string{`"device": 2`, `"queue": 1`}},
		{[]string{"stat", three}, cli.ExitOK, []string{"device 2, queue 1, ", "file of trace several on device 0", "file of trace several on device 2"}},
		{[]string{"stat", three, "--json"}, cli.ExitOK, []string{`"devices"`, `"device": 2`}},
		{[]string{"diff", three, three}, cli.ExitOK, []string{"the traces are the same"}},
		{[]string{"diff", three, moved}, cli.ExitFailed, []string{"part 1 of", "on device 2", "on device 1"}},
		{[]string{"diff", three, one}, cli.ExitFailed, []string{"nothing in common"}},
		{[]string{"diff", three, other}, cli.ExitFailed, []string{"nothing in common"}},
		{[]string{"run", three}, cli.ExitFailed, []string{"over several devices: there are 3"}},
		{[]string{"verify", three}, cli.ExitFailed, []string{"over several devices: there are 3"}},
	} {
		code, out, errs := runs(t.Context(), append([]string{"trace"}, c.args...)...)
		if code != c.code {
			t.Errorf("trace %s: exit code %d, want %d: %s", c.args, code, c.code, errs)
		}
		for _, w := range c.want {
			if !strings.Contains(out+errs, w) {
				t.Errorf("trace %s doesn't say %q: %s", c.args, w, errs)
			}
		}
	}
}
