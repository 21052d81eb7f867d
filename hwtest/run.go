package hwtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/hwtest/internal/bringup"
	"github.com/reprise-tt/reprise/hwtest/internal/commands"
	"github.com/reprise-tt/reprise/hwtest/internal/control"
	"github.com/reprise-tt/reprise/hwtest/internal/debug"
	"github.com/reprise-tt/reprise/hwtest/internal/faults"
	"github.com/reprise-tt/reprise/hwtest/internal/hard"
	"github.com/reprise-tt/reprise/hwtest/internal/machines"
	"github.com/reprise-tt/reprise/hwtest/internal/memory"
	"github.com/reprise-tt/reprise/hwtest/internal/model"
	"github.com/reprise-tt/reprise/hwtest/internal/operations"
	"github.com/reprise-tt/reprise/hwtest/internal/programs"
	"github.com/reprise-tt/reprise/hwtest/internal/queues"
	"github.com/reprise-tt/reprise/hwtest/internal/streams"
	"github.com/reprise-tt/reprise/hwtest/internal/tensix"
	"github.com/reprise-tt/reprise/hwtest/internal/traces"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/hwtest/target"
)

// ErrNoCases is returned when a pattern selects no case.
var ErrNoCases = errors.New("no case is called so")

// ErrStuck is returned when a case doesn't end and keeps the device from being opened anew, so that
// the rest was not run.
var ErrStuck = errors.New("the case doesn't end")

// OpenError is returned when a device can't be opened.
type OpenError struct {
	Device string // as the user called it
	Err    error
}

func (e *OpenError) Error() string { return fmt.Sprintf("hwtest: open %s: %v", e.Device, e.Err) }

func (e *OpenError) Unwrap() error { return e.Err }

// Case is a case of the suite, or of a program's own.
type Case = rig.Case

// Config selects what [Run] runs.
type Config struct {
	rig.Settings

	Devices   []*target.Device // one after the other
	Cases     []Case           // nil for those of [Cases]
	Select    *Pattern         // which of them; nil for all
	Artifacts string           // folder for dumps of hangs and traces of failed cases, in a folder for each case; "" for none
	Running   func(Running)    // called when a case begins, and each second until its end; may be nil
	Done      func(Result)     // called with each result; may be nil
}

// Running is a case that hasn't ended.
type Running struct {
	Device         string
	Case           Case
	Number, Of     int // of the cases on the device
	Elapsed, Limit time.Duration
}

// Pattern selects cases.
type Pattern struct{ layer, name *regexp.Regexp }

// ParsePattern parses LAYER or LAYER/NAME, two regular expressions that match anywhere. Spaces
// may be underscores.
func ParsePattern(s string) (*Pattern, error) {
	l, n, _ := strings.Cut(s, "/")
	layer, err := regexp.Compile(l)
	name, wrong := regexp.Compile(n)
	if err = errors.Join(err, wrong); err != nil {
		return nil, fmt.Errorf("hwtest: pattern %q: %w", s, err)
	}
	return &Pattern{layer, name}, nil
}

// Match reports whether the pattern selects a case.
func (p *Pattern) Match(c Case) bool {
	if p == nil {
		return true
	}
	return p.layer.MatchString(c.Layer) && (p.name.MatchString(c.Name) || p.name.MatchString(strings.ReplaceAll(c.Name, " ", "_")))
}

// Run runs the cases on one device after the other. Failing cases are no error: that is the
// context's, an [*OpenError], [ErrStuck] or [ErrNoCases], with the report of what was run before.
// A case that fails only after the context has ended counts as skipped.
func Run(ctx context.Context, cfg Config) (Report, error) {
	rep := newReport()
	if cfg.Cases == nil {
		cfg.Cases = Cases()
	}
	if cfg.Compare == nil {
		cfg.Compare = func(*target.Device) *target.Device { return nil }
	}
	if cfg.Property == nil {
		cfg.Property = rig.SeededProperty
	}
	var selected []Case
	seen := map[string]bool{}
	for _, c := range cfg.Cases {
		name := c.Layer + "/" + c.Name
		if c.Layer == "" || c.Name == "" || c.Run == nil || seen[name] {
			return rep, fmt.Errorf("hwtest: case %q: a case needs a layer, a name of its own in the layer, and a function Run", name)
		}
		if seen[name] = true; cfg.Select.Match(c) {
			selected = append(selected, c)
		}
	}
	if len(selected) == 0 {
		return rep, fmt.Errorf("hwtest: %w", ErrNoCases)
	}
	var err error
	if cfg.Artifacts != "" {
		if err = os.MkdirAll(cfg.Artifacts, 0o755); err != nil {
			return rep, fmt.Errorf("hwtest: folder for artifacts: %w", err)
		}
	}
	for _, d := range cfg.Devices {
		if err = cfg.device(ctx, d, selected, &rep); err != nil {
			break
		}
	}
	rep.Seconds = time.Since(rep.Started).Seconds()
	return rep, err
}

func (cfg *Config) device(ctx context.Context, d *target.Device, selected []Case, rep *Report) (err error) {
	ran := 0
	cut := func() error {
		err := fmt.Errorf("ended after %d of %d cases of %s: %w", ran, len(selected), d.Given, context.Cause(ctx))
		rep.Ended = err.Error()
		return fmt.Errorf("hwtest: %w", err)
	}
	arch, err := rig.Probe(ctx, d)
	if err != nil {
		if ctx.Err() != nil {
			return cut()
		}
		return &OpenError{Device: d.Given, Err: err}
	}
	if d, err = d.WithMetal(ctx, cfg.Firmware.Workers, cfg.Firmware.Queues); err != nil {
		return fmt.Errorf("hwtest: %w", err)
	}
	rep.Devices = append(rep.Devices, Device{d.Name, d.Given, arch.String(), cfg.Firmware.Describe(arch)})
	b := &rig.Shared{Device: d, Config: &cfg.Settings}
	for i := range selected {
		if ctx.Err() != nil {
			return errors.Join(cut(), b.Close(ctx))
		}
		c, shared, patience := &selected[i], b, rig.Patience(d)
		limit := cfg.Time(d, c)
		a := attempt{Running: Running{Device: d.Name, Case: *c, Number: i + 1, Of: len(selected), Limit: limit},
			grace: max(min(patience, limit), patience/10), running: cfg.Running, artifacts: cfg.Artifacts, abandon: shared.Abandon}
		res, ended := a.run(ctx, func(t rig.TB) { rig.RunCase(t, shared, c) })
		rep.Add(res)
		if cfg.Done != nil {
			cfg.Done(res)
		}
		if !ended {
			b = &rig.Shared{Device: d, Config: &cfg.Settings} // the case keeps the other one
			_, err := rig.Probe(ctx, d)
			if err == nil {
				ran++
				continue
			}
			return fmt.Errorf("hwtest: %s: %s/%s: %w, and the device can't be opened anew: %w: %d cases after it were not run",
				d.Given, c.Layer, c.Name, ErrStuck, err, len(selected)-i-1)
		}
		if res.interrupted {
			return errors.Join(cut(), b.Close(ctx))
		}
		ran++
	}
	if err := b.Close(ctx); err != nil {
		return fmt.Errorf("hwtest: close %s after the last case: %w", d.Given, err)
	}
	return nil
}

// attempt runs a case.
type attempt struct {
	Running
	grace     time.Duration // for the case's end after its limit, and after that of the context
	running   func(Running)
	artifacts string
	abandon   func(t rig.TB, limit error) // reports and closes the devices of a stuck case
}

func (a *attempt) run(ctx context.Context, fn func(rig.TB)) (res Result, ended bool) {
	start, c := time.Now(), &a.Case
	t := newTrial(ctx)
	if a.artifacts != "" {
		t.folder = filepath.Join(a.artifacts, fileName(a.Device), fileName(c.Layer), fileName(c.Name))
	}
	show := func() {
		if a.Elapsed = time.Since(start); a.running != nil {
			a.running(a.Running)
		}
	}
	show()
	done := t.start(fn)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	timer := time.NewTimer(a.Limit + a.grace)
	defer timer.Stop()
	over := ctx.Done()
	for stuck := false; !ended && !stuck; {
		select {
		case <-done:
			ended = true
		case <-tick.C:
			show()
		case <-over:
			over = nil
			timer.Reset(a.grace)
		case <-timer.C:
			ended, stuck = t.overdue(a, done, time.Since(start)), true
		}
	}
	res = Result{Device: a.Device, Layer: c.Layer, Name: c.Name, Protects: c.Protects, Started: start.UTC()}
	res.Seconds = time.Since(start).Seconds()
	res.Outcome, res.Reason, res.Log = t.outcome()
	res.Artifacts = t.files(start)
	if t.interrupted() {
		res.Outcome, res.Reason, res.Log = Skip, fmt.Sprintf("interrupted: %v", context.Cause(ctx)), nil
		res.interrupted = true
	}
	return res, ended
}

type layer struct {
	name  string
	level rig.Level
	cases rig.Table
}

// layers run from the bottom up, so that the first failure is the deepest one.
func layers() []layer {
	return []layer{
		{"kmd", rig.LevelKMD, bringup.KMD()},
		{"bringup", rig.LevelNone, bringup.Cases()},
		{"cq", rig.LevelQueues, commands.Cases()},
		{"rings", rig.LevelNone, commands.Rings()},
		{"programs", rig.LevelDevice, programs.Cases()},
		{"tensix", rig.LevelDevice, tensix.Cases()},
		{"buffers", rig.LevelDevice, memory.Cases()},
		{"memory", rig.LevelNone, memory.Opened()},
		{"traces", rig.LevelDevice, traces.Cases()},
		{"control", rig.LevelDevice, control.Cases()},
		{"debug", rig.LevelDevice, debug.Cases()},
		{"ops", rig.LevelDevice, operations.Cases()},
		{"queues", rig.LevelTwo, queues.Cases()},
		{"events", rig.LevelTwo, slices.Concat(queues.Events(), memory.PinnedBetweenQueues())},
		{"streams", rig.LevelTwo, streams.Cases()},
		{"patterns", rig.LevelTwo, streams.Patterns()},
		{"pipeline", rig.LevelTwo, streams.Pipelines()},
		{"soak", rig.LevelNone, streams.Soak()},
		{"split", rig.LevelSplit, queues.Split()},
		{"model", rig.LevelNone, model.Cases()},
		{"mesh", rig.LevelMesh, machines.Cases()},
		{"faults", rig.LevelNone, faults.Cases()},
		{"hard", rig.LevelNone, hard.Cases()},
		{"differential", rig.LevelNone, model.Differential()},
	}
}

// Cases returns all cases of the suite in the order in which they run.
func Cases() []Case {
	var all []Case
	for _, l := range layers() {
		for _, c := range l.cases {
			c.Layer = l.name
			switch c.Level {
			case rig.LevelNone:
				c.Level = l.level
			case rig.LevelOwn:
				c.Level = rig.LevelNone
			}
			all = append(all, c)
		}
	}
	return all
}
