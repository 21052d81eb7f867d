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
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/sims"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/internal/tables"
	"github.com/reprise-tt/reprise/internal/ttnn"
	"github.com/reprise-tt/reprise/internal/ttnn/recording"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/libttsim"
)

// hostScript is a trace of hostOperations additions in TT-NN, and what the calls of its host take.
// For a recording it ends with hostCounted replays, one after the other.
//
//go:embed ttnn_host.py
var hostScript []byte

const (
	hostOperations = 16
	hostCalls      = 50
	hostCaptures   = 5
	hostCounted    = 192
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

// queueCores are those of emu.Chip.QueueExecuted.
var queueCores = [3]string{"prefetcher's instructions in a replay", "dispatcher's instructions in a replay",
	"subordinate's instructions in a replay"}

// hostCosts are nanoseconds, bytes of memory, or instructions.
type hostCosts map[string]float64

// count notes the fewest instructions of a replay, from the counts after each. The others have more
// first rounds of waits, which depend on when the host's threads poll.
func (costs hostCosts) count(after [][3]uint64) error {
	if after = after[max(0, len(after)-hostCounted):]; len(after) < hostCounted {
		return fmt.Errorf("%d replays are counted, want %d", len(after), hostCounted)
	}
	for i, core := range queueCores {
		costs[core] = math.Inf(1)
		for k := range after[1:] {
			costs[core] = min(costs[core], float64(after[k+1][i]-after[k][i]))
		}
	}
	return nil
}

type hostJSON struct {
	TTNN    hostCosts `json:"ttnn"`
	Reprise hostCosts `json:"reprise"`
	// Optimized are the instructions of queueCores in the trace after Trace.Optimize.
	Optimized hostCosts `json:"optimized"`
}

func (j *hostJSON) print(w cli.Text) {
	t := w.Table()
	t.Head("cost", "TT-NN", "Reprise", "TT-NN / Reprise", "optimized")
	for i, what := range append([]string{hostReplay, hostDone, hostCapture, hostEager, hostStart, hostMemory}, queueCores[:]...) {
		text := tables.Duration[float64]
		switch {
		case what == hostMemory:
			text = func(n float64) string { return tables.Count(n) + "B" }
		case i > 5:
			text = func(n float64) string { return humanize.CommafWithDigits(n, 0) }
		}
		optimized := "-"
		if n, ok := j.Optimized[what]; ok {
			optimized = text(n)
		}
		t.Row(what, text(j.TTNN[what]), text(j.Reprise[what]), fmt.Sprintf("%.1f", j.TTNN[what]/j.Reprise[what]), optimized)
	}
	t.Flush()
}

// host measures what TT-NN and Reprise cost the host and the queue's processors for the same trace
// on the same emulated chip.
func (c *benchTTNNCmd) host(ctx context.Context, s cli.Streams, run *ttnn.Run) error {
	dir, err := os.MkdirTemp("", "reprise-bench-ttnn")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	script, trace, steps := filepath.Join(dir, "host.py"), filepath.Join(dir, "host.reprise"), filepath.Join(dir, "steps")
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
	firmware, err := recordHost(ctx, s, self, run, arch, script, trace, steps)
	if err != nil {
		return err
	}
	out := &hostJSON{Optimized: hostCosts{}}
	t := timer{run: *run, script: script}
	t.run.Settings = libttsim.Settings{Machine: ttnn.MachineOf(arch), KernelCache: ttnn.KernelCache(os.Getenv),
		Awake: true} // a store to a waiting chip takes no system call on silicon
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
	if err := errors.Join(out.Reprise.calls(ctx, arch), out.TTNN.recorded(steps),
		out.Reprise.replayed(ctx, arch, trace, firmware, false), out.Optimized.replayed(ctx, arch, trace, firmware, true)); err != nil {
		return err
	}
	return s.Print(c.JSON, out, out.print)
}

func recordHost(ctx context.Context, s cli.Streams, self string, run *ttnn.Run, arch chip.Arch, script, trace, steps string) (
	firmware string, err error,
) {
	record := exec.CommandContext(ctx, self, "ttnn", "record", "-o", trace, "--steps", steps, "--chip", arch.String(),
		"--python", run.Installation.Python, "--library", run.Library, script, "1")
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

// recorded counts what the wheel's own firmware executed in the last replays of hostScript, which
// the recording made one after the other.
func (costs hostCosts) recorded(steps string) error {
	f, err := os.Open(steps)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := recording.Read(f, nil)
	if err != nil {
		return err
	}
	return costs.count(r.Traces[0][0].Executed)
}

// replayed counts what this project's firmware executes in the same trace, on a chip that ends a
// replay before Replay returns, as the recorded one.
func (costs hostCosts) replayed(ctx context.Context, arch chip.Arch, trace, firmware string, optimize bool) (err error) {
	file, err := os.Open(trace)
	if err != nil {
		return err
	}
	defer file.Close()
	card := emulated(arch, sim.Synchronous(), sim.Seed(1))
	dev, err := reprise.Open(ctx, card, reprise.WithFirmware(firmware))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close(ctx)) }()
	t, err := dev.LoadTrace(ctx, file)
	if err == nil && optimize {
		t, err = t.Optimize(ctx)
	}
	if err != nil {
		return err
	}
	var after [][3]uint64
	for range hostCounted {
		if err := t.Replay(ctx); err != nil {
			return err
		}
		after = append(after, card.Chip().QueueExecuted())
	}
	return errors.Join(costs.count(after), dev.Queue(0).Wait(ctx))
}

func emulated(arch chip.Arch, opts ...sim.Option) *sim.Card {
	d := &target.Device{Kind: target.Emulator, Arch: arch}
	return d.Emulated("", opts...).Open().(*sim.Card)
}

// calls measures in this process what hostScript measures in Python's.
func (costs hostCosts) calls(ctx context.Context, arch chip.Arch) (err error) {
	dev, err := reprise.Open(ctx, emulated(arch, sim.Awake()))
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
	var m *ops.Model
	var captures []float64
	for range hostCaptures {
		if m != nil {
			err = m.Release(ctx)
		}
		recording := false
		model := func(ctx context.Context) (_ []*ops.Tensor, err error) {
			begin, y := time.Now(), in[0]
			for range hostOperations {
				if y, err = d.Add(ctx, y, in[1]); err != nil {
					return nil, err
				}
			}
			if recording {
				captures = append(captures, float64(time.Since(begin))/hostOperations)
			} else {
				err = d.Wait(ctx) // as hostScript does before it captures
			}
			recording = true
			return []*ops.Tensor{y}, err
		}
		if err == nil {
			m, err = d.CaptureModel(ctx, "additions", model)
		}
		if err != nil {
			return err
		}
	}
	costs[hostCapture] = report.Median(captures)
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
	times := make([]float64, hostCalls)
	for i := range times {
		begin := time.Now()
		err := f()
		times[i] = float64(time.Since(begin))
		if err := errors.Join(err, d.Wait(ctx)); err != nil {
			return 0, err
		}
	}
	return report.Median(times), nil
}
