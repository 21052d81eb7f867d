package hwtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/postmortem"
	"github.com/reprise-tt/reprise/hwtest"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/tracebuf"
)

// spin starts a program that doesn't end, in a trace.
func spin(t *rig.T) {
	t.Replay(t.Capture("spin", t.Load(t.Spin(t.PerWorker(16), chip.BRISC, chip.Single(1, 1)))))
}

// Whatever a case waits for, it fails at its limit, and the next one has a device that works.
func TestStuckCases(t *testing.T) {
	t.Parallel()
	const limit = 3 * time.Second
	release := make(chan struct{})
	works := func(t *rig.T) { t.Wait() }
	cases := []hwtest.Case{
		{Name: "works 0", Run: works},
		{Name: "waits with its context", Run: func(t *rig.T) { spin(t); works(t) }},
		{Name: "works 1", Run: works},
		{Name: "ignores its context", Run: func(t *rig.T) { spin(t); _ = t.Queue.Wait(context.Background()); t.Error("late") }},
		{Name: "works 2", Run: works},
		{Name: "only polls its context", Run: func(t *rig.T) { spin(t); <-t.Ctx.Done(); t.Error("no news") }},
		{Name: "passes too late", Run: func(t *rig.T) { <-t.Ctx.Done() }},
		{Name: "never ends", Run: func(*rig.T) { <-release }},
		{Name: "works 3", Run: works},
	}
	for i := range cases {
		cases[i].Layer, cases[i].Level = "own", rig.LevelDevice
		if strings.HasPrefix(cases[i].Name, "works") { // it opens the device, which takes long on a busy machine
			cases[i].Limit = time.Minute
		}
	}
	d, err := target.Parse("emu:blackhole", nil)
	devtest.Must(t, err)
	dir := t.TempDir()
	rep, err := hwtest.Run(t.Context(), hwtest.Config{Settings: rig.Settings{Limit: limit}, Devices: []*target.Device{d}, Cases: cases,
		Artifacts: dir})
	close(release)
	if err != nil || len(rep.Results) != len(cases) {
		t.Fatalf("%d results, error %v", len(rep.Results), err)
	}
	for i, r := range rep.Results {
		text := strings.Join(r.Log, "\n")
		if want := strings.HasPrefix(r.Name, "works"); (r.Outcome == hwtest.Pass) != want {
			t.Errorf("%s: %s\n%s", r.Name, r.Outcome, text)
		}
		if r.Seconds > 20 {
			t.Errorf("%s took %.1f s", r.Name, r.Seconds)
		}
		if i > 5 || i%2 == 0 {
			continue
		}
		for _, want := range []string{"core (1,1)", "spin", "no progress"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the report lacks %q:\n%s", r.Name, want, text)
			}
		}
		kinds := map[string]int{}
		for _, name := range r.Artifacts {
			kinds[filepath.Ext(name)]++
			if !strings.HasPrefix(name, filepath.Join(dir, "emu_blackhole", "own", strings.ReplaceAll(r.Name, " ", "_"))) {
				t.Errorf("%s left %s", r.Name, name)
			}
			f, err := os.Open(name)
			devtest.Must(t, err)
			if filepath.Ext(name) == ".dump" {
				_, err = postmortem.ReadDump(f)
			} else {
				_, err = tracebuf.DecodeAll(f)
			}
			devtest.Must(t, errors.Join(err, f.Close()))
		}
		if kinds[".dump"] != 1 || kinds[".trace"] != 1 {
			t.Errorf("%s left %q", r.Name, r.Artifacts)
		}
	}
}

// A program with a case of its own, and the flags and reports of reprise hwtest. Its main function
// is
//
//	os.Exit(hwtest.Main(ctx, os.Args[1:], os.Stdout, os.Stderr, cases...))
func ExampleMain() {
	cases := []hwtest.Case{{
		Layer: "board", Name: "a page comes back", Protects: "DRAM keeps what a queue writes", Level: rig.LevelDevice,
		Run: func(t *rig.T) {
			page := t.DRAMBuffer(64, 64)
			want := []byte(strings.Repeat("reprise ", 8))
			t.Write(page, want)
			t.Holds(page, want, "the page")
		},
	}}
	dir, err := os.MkdirTemp("", "board")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "report.xml")
	hwtest.Main(context.Background(), []string{"-device", "emu:blackhole", "-list"}, os.Stdout, os.Stderr, cases...)
	code := hwtest.Main(context.Background(), []string{"-device", "emu:blackhole", "-report", file}, io.Discard, os.Stderr, cases...)
	fmt.Println("exit code", code)
	_ = hwtest.DiffFiles(file, file, 2, false, os.Stdout)
	// Output:
	// board/a page comes back  DRAM keeps what a queue writes
	// exit code 0
	// 0 changes, 0 for the worse
}
