package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/internal/bench/report"
)

// The command leaves no process and no file when it is interrupted.
func TestBenchTTNN(t *testing.T) {
	r := newTTNN(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	args := []string{"bench", "ttnn", "--python", r.python, "--library", r.library, "--chip", "blackhole", "--json"}
	var out bytes.Buffer
	c := start(t, &out, append(args, "--rounds", "1", "binary/add_bf16")...)
	if err := c.Wait(); err != nil {
		t.Fatal(err, c.err.String())
	}
	var report report.Report
	must(t, json.Unmarshal(out.Bytes(), &report))
	for _, id := range []string{"ttnn/open/chip=blackhole", "ttnn/binary/add_bf16/chip=blackhole"} {
		if f, ok := report.Figure(id); !ok || f.Min <= 0 {
			t.Errorf("%s: %+v", id, f)
		}
	}

	var none bytes.Buffer
	c = start(t, &none, append(args, "--rounds", "1000", "binary/add_bf16")...)
	for len(processesOf(t, temp, "--time")) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	must(t, c.Process.Signal(syscall.SIGINT))
	c.wantInterrupted(t, "interrupt")
	if left := processesOf(t, temp, ""); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if files, _ := filepath.Glob(filepath.Join(temp, "reprise-bench-ttnn*")); len(files) > 0 {
		t.Errorf("left behind: %q", files)
	}
}

func processesOf(t *testing.T, a, b string) (lines []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, file := range all {
		line, _ := os.ReadFile(file) // it may have ended
		if text := strings.ReplaceAll(string(line), "\x00", " "); strings.Contains(text, a) && strings.Contains(text, b) {
			lines = append(lines, text)
		}
	}
	return lines
}
