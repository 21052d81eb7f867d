package hwtest

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
	"github.com/reprise-tt/reprise/hwtest/internal/streams"
	"github.com/reprise-tt/reprise/hwtest/internal/tensix"
	"github.com/reprise-tt/reprise/hwtest/internal/traces"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kmd"
)

// ErrNoCases is returned when a pattern selects no case.
var ErrNoCases = errors.New("no case is called so")

// ErrStuck is returned when a case doesn't end. It still holds the device, so the rest was not
// run.
var ErrStuck = errors.New("the case doesn't end")

// OpenError is returned when a device can't be opened.
type OpenError struct {
	Device string // as the user called it
	Err    error
}

func (e *OpenError) Error() string { return fmt.Sprintf("hwtest: open %s: %v", e.Device, e.Err) }

func (e *OpenError) Unwrap() error { return e.Err }

// Config selects what [Run] runs.
type Config struct {
	Devices  []*target.Device // one after the other
	Select   *Pattern         // which cases; nil for all
	Compare  *target.Device   // second device of the differential cases; nil compares an emulator with slow networks
	Short    bool             // fewer repetitions
	Long     bool             // also the cases that take minutes, and more seeds
	Unsafe   bool             // run the unsafe cases on device nodes too, which may leave a card in need of a reset
	Victim   []string         // command that runs Victim on its argument; "--once" may follow. nil skips the case that needs it
	Firmware Firmware         // that devices run, in place of this runtime's own
	Done     func(Result)     // called with each result; may be nil
}

// Firmware names folders of firmware that tt-metal built. Cases that need this runtime's own are
// skipped. Emulators let it rely on what package sim/waivers names.
type Firmware struct {
	Workers string // base firmware of the workers: reprise.WithFirmware
	Queues  string // the command queues': reprise.WithQueueFirmware
}

// Case describes a case.
type Case struct {
	Layer    string `json:"layer"`
	Name     string `json:"name"`
	Protects string `json:"protects"`
	Unsafe   string `json:"unsafe,omitempty"`
	Long     bool   `json:"long,omitempty"`
	Needs    string `json:"needs,omitempty"` // "emulator", or "simulator" for a device that may be thrown away
}

// Cases returns all cases in the order in which they run.
func Cases() []Case {
	var out []Case
	for _, c := range cases() {
		out = append(out, public(&c))
	}
	return out
}

func public(c *rig.Case) Case {
	needs := map[rig.Need]string{rig.NeedEmulator: "emulator", rig.NeedSimulator: "simulator"}[c.Needs]
	return Case{Layer: c.Layer, Name: c.Name, Protects: c.Protects, Unsafe: c.Unsafe, Long: c.Long, Needs: needs}
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
	rep := Report{Started: time.Now().UTC(), Results: []Result{}}
	var selected []rig.Case
	for _, c := range cases() {
		if cfg.Select.Match(public(&c)) {
			selected = append(selected, c)
		}
	}
	if len(selected) == 0 {
		return rep, fmt.Errorf("hwtest: %w", ErrNoCases)
	}
	var err error
	for _, d := range cfg.Devices {
		if err = cfg.device(ctx, d, selected, &rep); err != nil {
			break
		}
	}
	rep.Seconds = time.Since(rep.Started).Seconds()
	return rep, err
}

func (cfg *Config) device(ctx context.Context, d *target.Device, selected []rig.Case, rep *Report) (err error) {
	ran := 0
	cut := func() error {
		err := fmt.Errorf("ended after %d of %d cases of %s: %w", ran, len(selected), d.Given, context.Cause(ctx))
		rep.Ended = err.Error()
		return fmt.Errorf("hwtest: %w", err)
	}
	if err := probe(ctx, d); err != nil {
		if ctx.Err() != nil {
			return cut()
		}
		return &OpenError{Device: d.Given, Err: err}
	}
	if d, err = d.WithMetal(ctx, cfg.Firmware.Workers, cfg.Firmware.Queues); err != nil {
		return fmt.Errorf("hwtest: %w", err)
	}
	b := &rig.Shared{Device: d, Config: &rig.Settings{
		Short: cfg.Short, Long: cfg.Long, Unsafe: cfg.Unsafe, Victim: cfg.Victim,
		Firmware: rig.Firmware(cfg.Firmware), Property: rig.SeededProperty,
		Compare: func(*target.Device) *target.Device { return cfg.Compare },
	}}
	for i := range selected {
		if ctx.Err() != nil {
			return errors.Join(cut(), b.Close(ctx))
		}
		c := &selected[i]
		res, ended := trying(ctx, d, c, c.Time(d)+2*rig.Patience(d), rig.Patience(d), func(t rig.TB) { rig.RunCase(t, b, c) })
		rep.Add(res)
		if cfg.Done != nil {
			cfg.Done(res)
		}
		if !ended {
			return fmt.Errorf("hwtest: %s: %s/%s: %w: %d cases after it were not run", d.Given, c.Layer, c.Name, ErrStuck, len(selected)-i-1)
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

// probe opens a device and reads a register: one that reads as all ones can be opened too.
func probe(ctx context.Context, d *target.Device) error {
	ctx, cancel := context.WithTimeout(ctx, rig.Patience(d))
	defer cancel()
	kd, err := kmd.Open(ctx, d.Open())
	if err != nil {
		return err
	}
	return errors.Join(kd.Alive(), kd.Close())
}

// trying waits for a case until the limit, and for the grace only once the context has ended.
func trying(ctx context.Context, d *target.Device, c *rig.Case, limit, grace time.Duration, fn func(rig.TB)) (res Result, ended bool) {
	start := time.Now()
	t := newTrial(ctx)
	done := t.start(fn)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	over := ctx.Done()
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting, ended = false, true
		case <-over:
			over = nil
			timer.Reset(grace)
		case <-timer.C:
			t.overdue(time.Since(start))
			waiting = false
		}
	}
	res = Result{Device: d.Name, Layer: c.Layer, Name: c.Name, Protects: c.Protects, Seconds: time.Since(start).Seconds()}
	res.Outcome, res.Reason, res.Log = t.outcome()
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

func cases() []rig.Case {
	var all []rig.Case
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
