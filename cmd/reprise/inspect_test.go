package main

import (
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

func hangFile(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	// Long enough for the kernel to have begun.
	dev, err := reprise.Open(ctx, sim.Blackhole(), reprise.WithHangTimeout(2*time.Second), reprise.WithDumpDir(t.TempDir()))
	must(t, err)
	defer func() { must(t, dev.Close(ctx)) }()
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

func TestInspectDump(t *testing.T) {
	file := hangFile(t)
	code, text, _ := runs(t.Context(), "inspect", file)
	if code != cli.ExitOK || !strings.Contains(text, "core (2,1) (worker)") ||
		!strings.Contains(text, "waits for a word to have a value") || !strings.Contains(text, "dispatch ring    524288 B") {
		t.Errorf("exit code %d, text:\n%s", code, text)
	}
	code, text, _ = runs(t.Context(), "inspect", file, "--json")
	var d dispatch.Dump
	if err := json.Unmarshal([]byte(text), &d); err != nil || code != cli.ExitOK || len(d.Cores) != 140 || d.Last != "forever" {
		t.Errorf("exit code %d, %v: %d cores, last %q", code, err, len(d.Cores), d.Last)
	}
	code, text, _ = runs(t.Context(), "inspect", file, "--region", postmortem.RegionDispatchRing)
	if code != cli.ExitOK || len(text) != 524288 {
		t.Errorf("exit code %d, %d B of the dispatch ring", code, len(text))
	}
	writertest.EveryWrite(t, func(w io.Writer) error { return (&debugger.InspectCmd{File: file}).Run(cli.Streams{Out: w}) })
}

func TestInspectSession(t *testing.T) {
	file := filepath.Join(t.TempDir(), "session")
	f, err := os.Create(file)
	must(t, err)
	r := session.Record(sim.Wormhole(sim.Synchronous()), f)
	d, err := kmd.Open(t.Context(), r)
	must(t, err)
	must(t, errors.Join(d.Write32(chip.XY{X: 18, Y: 18}, 0x100, 0x12345678), d.Close(), r.Close(), f.Close()))
	code, text, _ := runs(t.Context(), "inspect", file)
	if code != cli.ExitOK || !strings.HasPrefix(text, "emulated wormhole 0: ") ||
		!strings.Contains(text, "store 32 bits at 0x100 of mapping 0: 0x12345678") {
		t.Errorf("exit code %d, text:\n%s", code, text)
	}
	code, text, _ = runs(t.Context(), "inspect", file, "--json")
	var s struct {
		Events []struct {
			Kind  string `json:"kind"`
			Value uint64 `json:"value"`
		} `json:"events"`
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil || code != cli.ExitOK || len(s.Events) == 0 || s.Events[0].Kind != "open" {
		t.Errorf("exit code %d, %v, %d events", code, err, len(s.Events))
	}
	if code, _, errs := runs(t.Context(), "inspect", file, "--region", "x"); code != cli.ExitFailed ||
		!strings.Contains(errs, "has no regions and call stacks") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

func TestInspectErrors(t *testing.T) {
	dir := t.TempDir()
	other, cut := filepath.Join(dir, "other"), filepath.Join(dir, "cut")
	must(t, errors.Join(os.WriteFile(other, []byte("hello"), 0o600), os.WriteFile(cut, []byte(postmortem.DumpMagic+"\x01"), 0o600)))
	for _, tt := range [][2]string{
		{filepath.Join(dir, "none"), "no such file"},
		{other, `it is no file that reprise writes: it begins with "hello"`},
		{cut, "the dump is damaged"},
		{dir, "is a directory"},
	} {
		code, out, errs := runs(t.Context(), "inspect", tt[0])
		if code != cli.ExitFailed || out != "" || !strings.Contains(errs, tt[1]) || strings.Count(errs, "\n") != 1 {
			t.Errorf("inspect %q: exit code %d, %q, %q, want one line that says %q", tt[0], code, out, errs, tt[1])
		}
	}
}
