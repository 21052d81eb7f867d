package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/demo"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/words"
	"github.com/reprise-tt/reprise/examples/words/transformer"
	"github.com/reprise-tt/reprise/examples/words/transformer/reference"
)

const jobVariable = "REPRISE_TEST_JOB"

type mpirunJob struct {
	*exec.Cmd
	out  bytes.Buffer
	mark string
}

func startMPIRun(t *testing.T, n int, args ...string) *mpirunJob {
	t.Helper()
	return startJobOf(t, []string{"mpirun", "--oversubscribe", "-n", strconv.Itoa(n)}, args...)
}

func startJobOf(t *testing.T, mpirun []string, args ...string) *mpirunJob {
	t.Helper()
	if _, err := exec.LookPath("mpirun"); err != nil {
		t.Skip("no mpirun: install Open MPI (Debian: openmpi-bin)")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	j := &mpirunJob{Cmd: exec.CommandContext(ctx, mpirun[0], slices.Concat(mpirun[1:], []string{"reprise"}, args)...)}
	j.mark = jobVariable + "=" + t.TempDir()
	j.Env = append(os.Environ(), j.mark, "TMPDIR=/tmp", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	j.Stdout, j.Stderr = &j.out, &j.out
	must(t, j.Start())
	return j
}

func (j *mpirunJob) processes(t *testing.T) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	for _, dir := range all { // any of them may end meanwhile
		exe, _ := os.Readlink(filepath.Join(dir, "exe"))
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if filepath.Base(exe) == "reprise" && bytes.Contains(env, []byte(j.mark+"\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			pids = append(pids, pid)
		}
	}
	return pids
}

func (j *mpirunJob) waitFor(t *testing.T, n int) {
	t.Helper()
	end := time.Now().Add(30 * time.Second)
	for len(j.processes(t)) != n {
		if time.Now().After(end) {
			t.Fatalf("processes %v, want %d of them\n%s", j.processes(t), n, &j.out)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Ctrl-C in mpirun's terminal ends every process of the job.
func TestInterruptEndsAllProcesses(t *testing.T) {
	images, err := digits.Images()
	must(t, err)
	var b []byte
	for _, m := range images {
		b = m.AppendCSV(b)
	}
	input := filepath.Join(t.TempDir(), "digits.csv")
	must(t, os.WriteFile(input, bytes.Repeat(b, 50), 0o666)) // for far longer than the signal takes
	j := startMPIRun(t, 4, "demo", "--device", "emu:quietbox", "--input", input, "--hosts", "mpi")
	j.waitFor(t, 4)
	time.Sleep(time.Second) // the trace may have started by then
	must(t, j.Process.Signal(syscall.SIGINT))
	var exit *exec.ExitError
	if err := j.Wait(); !errors.As(err, &exit) || strings.Contains(j.out.String(), "accuracy") {
		t.Errorf("%v, want the job interrupted\n%s", err, &j.out)
	}
	j.waitFor(t, 0)
}

func TestGenerateInProcesses(t *testing.T) { startMPIRun(t, 4, generateArgs...).wantWords(t, 4) }

var generateArgs = []string{"generate", "--tokens", "10", "--seed", "7", "--hosts", "mpi", "--json"}

func (j *mpirunJob) wantWords(t *testing.T, processes int) {
	t.Helper()
	if err := j.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &j.out)
	}
	var got struct{ Processes []demo.Generated }
	out := j.out.Bytes()
	if err := json.Unmarshal(out[max(bytes.IndexByte(out, '{'), 0):], &got); err != nil || len(got.Processes) != processes {
		t.Fatalf("%v\n%s", err, out)
	}
	const tokens, first = 10, 7
	net, err := transformer.Trained()
	must(t, err)
	for rank := range got.Processes {
		p := &got.Processes[rank]
		m, err := reference.New(chip.Blackhole, net, transformer.Sampling{Seed: first + uint64(rank), Tokens: tokens, Temperature: 1})
		must(t, err)
		var want []uint8
		for m.Step() {
			want = append(want, uint8(m.State().Token))
		}
		if diff := cmp.Diff(words.Decode(want), p.Words); diff != "" || len(p.Words) == 0 || p.Mismatches != 0 || p.Tokens != tokens {
			t.Errorf("process %d: %d tokens, %d mismatches: %s", rank, p.Tokens, p.Mismatches, diff)
		}
	}
}
