package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/debugger"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/postmortem"
	"github.com/reprise-tt/reprise/internal/writertest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/kmd/session"
	"github.com/reprise-tt/reprise/sim"
)

// hangFile makes a device hang and returns the file that it left.
func hangFile(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	// Long enough for the kernel to have begun on a busy machine.
	dev, err := reprise.Open(ctx, sim.Blackhole(), reprise.WithHangTimeout(2*time.Second), reprise.WithDumpDir(t.TempDir()))
	must(t, err)
	defer func() {
		if err := dev.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	image, err := kernels.Prebuilt(dev.Arch(), kernels.Spin)
	must(t, err)
	word, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64})
	must(t, err)
	queue := dev.Queue(0)
	must(t, queue.Write(ctx, word, 0, make([]byte, 64)))
	x, err := dev.Load(ctx, &reprise.Program{Name: "forever", Kernels: []reprise.Kernel{{
		Name: "wait", Image: image, Cores: []chip.Range{chip.Single(2, 1)},
		Args: func(chip.Core) []uint32 { return []uint32{word.Addr(), 1} },
	}}})
	must(t, err)
	must(t, queue.Run(ctx, x))
	var h *dispatch.HangError
	if err := queue.Wait(ctx); !errors.As(err, &h) || h.File == "" {
		t.Fatalf("%v, want a *HangError with a file", err)
	}
	return h.File
}

func inspect(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), append([]string{"inspect"}, args...), cli.Streams{Out: &o, Err: &e})
	return code, o.String(), e.String()
}

// What a hang left can be read as text, as JSON, and piece by piece.
func TestInspectDump(t *testing.T) {
	file := hangFile(t)
	code, text, _ := inspect(t, file)
	if code != cli.ExitOK || !strings.Contains(text, "core (2,1) (worker)") ||
		!strings.Contains(text, "waits for a word to have a value") ||
		!strings.Contains(text, "dispatch ring    524288 B") {
		t.Errorf("exit code %d, text:\n%s", code, text)
	}
	code, text, _ = inspect(t, file, "--json")
	var d dispatch.Dump
	if err := json.Unmarshal([]byte(text), &d); err != nil || code != cli.ExitOK || len(d.Cores) != 140 || d.Last != "forever" {
		t.Errorf("exit code %d, %v: %d cores, last %q", code, err, len(d.Cores), d.Last)
	}
	if code, text, _ = inspect(t, file, "--region", postmortem.RegionDispatchRing); code != cli.ExitOK || len(text) != 524288 {
		t.Errorf("exit code %d, %d B of the dispatch ring", code, len(text))
	}
}

// A recorded session is told from a dump, and printed.
func TestInspectSession(t *testing.T) {
	file := filepath.Join(t.TempDir(), "session")
	f, err := os.Create(file)
	must(t, err)
	r := session.Record(sim.Wormhole(sim.Synchronous()), f)
	d, err := kmd.Open(t.Context(), r)
	must(t, err)
	must(t, errors.Join(d.Write32(chip.XY{X: 18, Y: 18}, 0x100, 0x12345678), d.Close(), r.Close(), f.Close()))
	code, text, _ := inspect(t, file)
	if code != cli.ExitOK || !strings.HasPrefix(text, "emulated wormhole 0: ") ||
		!strings.Contains(text, "store 32 bits at 0x100 of mapping 0: 0x12345678") {
		t.Errorf("exit code %d, text:\n%s", code, text)
	}
	code, text, _ = inspect(t, file, "--json")
	var s struct {
		Events []struct {
			Kind  string `json:"kind"`
			Value uint64 `json:"value"`
		} `json:"events"`
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil || code != cli.ExitOK || len(s.Events) == 0 || s.Events[0].Kind != "open" {
		t.Errorf("exit code %d, %v, %d events", code, err, len(s.Events))
	}
	if code, _, errs := inspect(t, file, "--region", "x"); code != cli.ExitFailed ||
		!strings.Contains(errs, "has no regions and call stacks") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

// What can't be read is one line.
func TestInspectErrors(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	must(t, os.WriteFile(other, []byte("hello"), 0o600))
	cut := filepath.Join(dir, "cut")
	must(t, os.WriteFile(cut, []byte(postmortem.DumpMagic+"\x01"), 0o600))
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{filepath.Join(dir, "none")}, "no such file"},
		{[]string{other}, `it is no file that reprise writes: it begins with "hello"`},
		{[]string{cut}, "the dump is damaged"},
		{[]string{dir}, "is a directory"},
	} {
		code, out, errs := inspect(t, tt.args...)
		if code != cli.ExitFailed || out != "" || !strings.Contains(errs, tt.says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("inspect %q: exit code %d, %q, %q, want one line that says %q", tt.args, code, out, errs, tt.says)
		}
	}
}

// What can't be written is an error, wherever in a table and in what stands around it that happens.
func TestInspectWritten(t *testing.T) {
	dump := hangFile(t)
	writertest.EveryWrite(t, func(w io.Writer) error { return (&debugger.InspectCmd{File: dump}).Run(cli.Streams{Out: w}) })
}
