package measures

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/sims"
	"github.com/reprise-tt/reprise/internal/tables"
	"github.com/reprise-tt/reprise/internal/ttnn"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/libttsim"
)

// hostScript is a trace of hostOperations additions in TT-NN, and what the calls of its host take.
//
//go:embed ttnn_host.py
var hostScript []byte

const (
	hostOperations = 16
	hostCalls      = 50
)

// What is measured; the first four are those of hostScript.
const (
	hostReplay  = "replay"
	hostDone    = "replay until it is done"
	hostCapture = "capture of an operation"
	hostEager   = "an operation"
	hostStart   = "start of the process to the first replay"
	hostMemory  = "memory of the process"
)

// hostCosts are nanoseconds, or bytes of memory.
type hostCosts map[string]float64

type hostJSON struct {
	TTNN    hostCosts `json:"ttnn"`
	Reprise hostCosts `json:"reprise"`
}

func (j *hostJSON) print(w cli.Text) {
	t := w.Table()
	t.Head("host's cost", "TT-NN", "Reprise", "TT-NN / Reprise")
	for _, what := range []string{hostReplay, hostDone, hostCapture, hostEager, hostStart, hostMemory} {
		text := tables.Duration[float64]
		if what == hostMemory {
			text = func(n float64) string { return tables.Count(n) + "B" }
		}
		t.Row(what, text(j.TTNN[what]), text(j.Reprise[what]), fmt.Sprintf("%.1f", j.TTNN[what]/j.Reprise[what]))
	}
	t.Flush()
}

// host measures what TT-NN and Reprise cost the host for the same trace on the same emulated chip.
func (c *benchTTNNCmd) host(ctx context.Context, s cli.Streams, run *ttnn.Run) error {
	dir, err := os.MkdirTemp("", "reprise-bench-ttnn")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	script, trace := filepath.Join(dir, "host.py"), filepath.Join(dir, "host.reprise")
	if err := os.WriteFile(script, hostScript, 0o644); err != nil {
		return err
	}
	arch, err := chip.ParseArch(cmp.Or(c.Chip, chip.Blackhole.String()))
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// The recording also compiles the kernels.
	firmware, err := recordHost(ctx, s, self, run, arch, script, trace)
	if err != nil {
		return err
	}
	out := &hostJSON{}
	t := timer{run: *run, script: script}
	t.run.Settings = libttsim.Settings{Machine: ttnn.MachineOf(arch), KernelCache: ttnn.KernelCache(os.Getenv)}
	python, said, err := t.command(ctx, fmt.Sprint(hostCalls))
	if err != nil {
		return err
	}
	if out.TTNN, err = processCosts(python, "first"); err != nil {
		return fmt.Errorf("TT-NN: %w: %s", err, lastWords(said.String()))
	}
	replay := exec.CommandContext(ctx, self, "trace", "run", trace, "--firmware", firmware)
	replay.Stderr = s.Err
	if out.Reprise, err = processCosts(replay, "replayed"); err != nil {
		return fmt.Errorf("reprise trace run: %w", err)
	}
	if err := out.Reprise.calls(ctx, arch); err != nil {
		return err
	}
	return s.Print(c.JSON, out, out.print)
}

func recordHost(ctx context.Context, s cli.Streams, self string, run *ttnn.Run, arch chip.Arch, script, trace string) (
	firmware string, err error,
) {
	record := exec.CommandContext(ctx, self, "ttnn", "record", "-o", trace, "--chip", arch.String(), "--python", run.Installation.Python,
		"--library", run.Library, script, "1")
	record.Stderr = s.Err
	record.Dir = filepath.Dir(script)
	text, err := record.Output()
	if err != nil {
		return "", fmt.Errorf("record the trace: %w: %s", err, lastWords(string(text)))
	}
	_, firmware, _ = strings.Cut(string(text), "base firmware of ")
	_, firmware, _ = strings.Cut(firmware, ": ")
	firmware, _, _ = strings.Cut(firmware, "\n")
	return firmware, nil
}

// processCosts runs a process, which prints a line that contains first after its first replay, and
// perhaps its costs as JSON.
func processCosts(cmd *exec.Cmd, first string) (hostCosts, error) {
	costs := hostCosts{}
	cmd.SysProcAttr = sims.ChildAttributes()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), first) {
			costs[hostStart] = float64(time.Since(begin))
		} else if strings.HasPrefix(lines.Text(), "{") {
			err = errors.Join(err, json.Unmarshal(lines.Bytes(), &costs))
		}
	}
	_, _ = io.Copy(io.Discard, out)
	if err := errors.Join(err, lines.Err(), cmd.Wait()); err != nil {
		return nil, err
	}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		costs[hostMemory] = float64(usage.Maxrss) * 1024
	}
	return costs, nil
}

// calls measures in this process what hostScript measures in Python's.
func (costs hostCosts) calls(ctx context.Context, arch chip.Arch) (err error) {
	target := sim.Blackhole()
	if arch == chip.Wormhole {
		target = sim.Wormhole()
	}
	dev, err := reprise.Open(ctx, target)
	if err != nil {
		return err
	}
	d := ops.New(dev)
	defer func() { err = errors.Join(err, d.Release(ctx), dev.Close(ctx)) }()
	var in [2]*ops.Tensor
	for i := range in {
		h, err := ops.NewHost([]int{1, 1, 32, 32}, ops.BFloat16, make([]float32, 1024))
		if err != nil {
			return err
		}
		if in[i], err = d.ToDevice(ctx, h, ops.Tile, ops.Interleaved(allocator.DRAM)); err != nil {
			return err
		}
	}
	begin := time.Now()
	model := func(ctx context.Context) ([]*ops.Tensor, error) {
		begin = time.Now()
		y := in[0]
		for range hostOperations {
			if y, err = d.Add(ctx, y, in[1]); err != nil {
				return nil, err
			}
		}
		costs[hostCapture] = float64(time.Since(begin)) / hostOperations
		return []*ops.Tensor{y}, nil
	}
	m, err := d.CaptureModel(ctx, "additions", model)
	if err != nil {
		return err
	}
	if costs[hostReplay], err = median(ctx, d, func() error { return m.Replay(ctx) }); err != nil {
		return err
	}
	if costs[hostDone], err = median(ctx, d, func() error { return errors.Join(m.Replay(ctx), d.Wait(ctx)) }); err != nil {
		return err
	}
	y := m.Outputs()[0]
	costs[hostEager], err = median(ctx, d, func() error {
		for range hostOperations {
			if _, err := d.Add(ctx, in[0], in[1], ops.Into(y)); err != nil {
				return err
			}
		}
		return nil
	})
	costs[hostEager] /= hostOperations
	return errors.Join(err, m.Release(ctx))
}

// median returns the median of a call's times, each when the device has nothing to do.
func median(ctx context.Context, d *ops.Device, f func() error) (float64, error) {
	times := make([]time.Duration, hostCalls)
	for i := range times {
		begin := time.Now()
		err := f()
		times[i] = time.Since(begin)
		if err := errors.Join(err, d.Wait(ctx)); err != nil {
			return 0, err
		}
	}
	slices.Sort(times)
	return float64(times[len(times)/2]), nil
}
