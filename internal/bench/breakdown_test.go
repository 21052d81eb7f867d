package bench

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/internal/bench/probe"
	"github.com/reprise-tt/reprise/internal/bench/report"
)

// blind is a kernel that offers nothing.
type blind struct{}

func (blind) Missing(f probe.Feature) error {
	return fmt.Errorf("%w: no %s in this test", probe.ErrMissing, f)
}

func runReplay(t *testing.T, m probe.Machine, asked bool) *report.Report {
	t.Helper()
	return runFamily(t, "replay", Config{Programs: []int{1}, EBPF: asked, Machine: m})
}

// Where the kernel tells nothing, the system calls of a replay are unknown, not 0.
func TestBreakdownWithoutBPF(t *testing.T) {
	if !testing.Short() {
		if r := runReplay(t, blind{}, false); r.SyscallsPerReplay != nil || r.Breakdown != nil {
			t.Errorf("without eBPF: %v system calls, breakdown %+v", r.SyscallsPerReplay, r.Breakdown)
		}
	}
	r := runReplay(t, blind{}, true)
	if r.SyscallsPerReplay != nil || r.Breakdown == nil {
		t.Fatalf("without eBPF: %v system calls, breakdown %+v", r.SyscallsPerReplay, r.Breakdown)
	}
	if b := r.Breakdown; len(b.LeftOut) != 5 || b.Stages[0].Ns <= 0 || b.Stages[0].Faults != nil || b.Stages[1].OffNs != nil {
		t.Errorf("breakdown %+v", b)
	}
	var out bytes.Buffer
	if err := r.WriteTable(&out); err != nil || !strings.Contains(out.String(), "no eBPF in this test") {
		t.Errorf("error %v; the table doesn't say what is missing:\n%s", err, out.String())
	}
}

func TestBreakdown(t *testing.T) {
	m := probe.Detect()
	for _, f := range []probe.Feature{probe.BPF, probe.RawTracepoints, probe.BTF} {
		if err := m.Missing(f); err != nil {
			t.Skip(err)
		}
	}
	r := runReplay(t, m, true)
	b := r.Breakdown
	if b == nil || r.SyscallsPerReplay == nil {
		t.Fatalf("breakdown %+v, system calls %v", b, r.SyscallsPerReplay)
	}
	if b.Replays != probeBurst*probeBursts || b.Lost.Any() || len(b.Costs) < 2 {
		t.Errorf("breakdown %+v", b)
	}
	for i, name := range []string{"submit", "wait"} {
		s := b.Stages[i]
		if s.Name != name || s.Ns <= 0 || s.Syscalls == nil || s.Switches == nil || s.OffNs == nil || *s.OffNs < *s.ReadyNs {
			t.Errorf("stage %s: %+v", name, s)
		}
	}
	// The thread that submits sleeps while another one waits.
	if wait := b.Stages[1]; *wait.Syscalls == 0 || *wait.Switches == 0 || *wait.OffNs == 0 {
		t.Errorf("a wait without a system call or a switch: %+v", wait)
	}
}
