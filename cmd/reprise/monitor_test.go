package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cards"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/internal/usage"
)

func use(t *testing.T, dir string) {
	t.Helper()
	l, err := usage.Create(dir, usage.Device{Name: "/dev/tenstorrent/0", PCI: "0000:01:00.0", Arch: "wormhole", NUMANode: -1})
	must(t, err)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	l.Set(usage.DRAM, usage.Value{Capacity: 12 << 30, Allocated: 9 << 30, Peak: 9 << 30, Extents: 1})
}

// The server answers from the logs of the moment.
func TestMonitorServes(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := t.TempDir()
	use(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"monitor", "--listen", "127.0.0.1:0", "--dir", dir}, cli.Streams{Out: io.Discard, Err: w})
	}()
	buf := make([]byte, 200)
	n, err := r.Read(buf)
	must(t, err)
	go func() { _, _ = io.Copy(io.Discard, r) }()
	url := strings.TrimPrefix(strings.TrimSpace(string(buf[:n])), "serving ")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	must(t, err)
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || !strings.Contains(string(body), `reprise_memory_allocated_bytes{device="0000:01:00.0",kind="DRAM"`) {
		t.Errorf("%s says %q (%v)", url, body, err)
	}
	cancel()
	if c := <-code; c != cli.ExitInterrupted {
		t.Errorf("exit code %d, want %d", c, cli.ExitInterrupted)
	}
	_ = w.Close()
}

func TestMonitorFollows(t *testing.T) {
	dir := t.TempDir()
	use(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &stopAfter{text: "DEVICE", times: 3, stop: cancel}
	if code := run(ctx, []string{"monitor", "--interval", "50ms", "--dir", dir}, cli.Streams{Out: out, Err: io.Discard}); code != cli.ExitInterrupted {
		t.Errorf("exit code %d, want %d", code, cli.ExitInterrupted)
	}
	if n := strings.Count(out.String(), "75.0 %"); n < 3 {
		t.Errorf("%d tables, want 3:\n%s", n, out.String())
	}
}

type stopAfter struct {
	bytes.Buffer
	text  string
	times int
	stop  func()
}

func (s *stopAfter) Write(p []byte) (int, error) {
	n, err := s.Buffer.Write(p)
	if strings.Count(s.String(), s.text) >= s.times {
		s.stop()
	}
	return n, err
}

func TestMonitorJSON(t *testing.T) {
	dir := t.TempDir()
	use(t, dir)
	code, out, errs := runs(t.Context(), "monitor", "--once", "--json", "--dir", dir)
	if code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	var r cards.MonitorReport
	must(t, json.Unmarshal([]byte(out), &r))
	if len(r.Devices) != 1 || len(r.Devices[0].Processes) != 1 || r.Devices[0].Processes[0].PID != os.Getpid() ||
		r.Devices[0].Memory[0].Allocated != 9<<30 {
		t.Error(out)
	}
}
