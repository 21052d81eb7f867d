package measures

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/sims"
	"github.com/reprise-tt/reprise/internal/bench"
	"github.com/reprise-tt/reprise/internal/ttnn"
	"github.com/reprise-tt/reprise/sim/libttsim"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

const (
	both          = "both"          // the value of --chip for both chips
	timedCalls    = 10              // of an operation in a round; the fastest counts
	timedPatience = 5 * time.Minute // for a program, including the compilation of its kernels
)

type benchTTNNCmd struct {
	sims.TtnnTools
	Against []string `placeholder:"LIBTTSIM" xor:"other"`
	Check   []string `placeholder:"NAME" xor:"other"`
	Chip    string   `placeholder:"ARCH"`
	Rounds  int      `default:"3"`
	Host    bool
	cli.AsJSON

	Patterns []string `arg:"" optional:"" placeholder:"PATTERN"`
}

func (c *benchTTNNCmd) Validate() error {
	if c.Rounds < 1 {
		return cli.Wrong("--rounds", c.Rounds, "there are too few", "give at least 1")
	}
	if !slices.Contains([]string{"", chip.Wormhole.String(), chip.Blackhole.String(), both}, c.Chip) {
		return cli.Wrong("--chip", c.Chip, "there is no such chip", "use wormhole, blackhole or both")
	}
	if c.Host && (len(c.Against)+len(c.Check)+len(c.Patterns) > 0 || c.Chip == both) {
		return cli.Wrong("--host", "", "it is of one trace on one emulated chip", "leave --against, --check and programs out")
	}
	return nil
}

func (c *benchTTNNCmd) Run(ctx context.Context, s cli.Streams) error {
	simulators, err := c.simulators()
	if err != nil {
		return err
	}
	run, err := c.Find(ctx, s)
	if err != nil {
		return err
	}
	if c.Host {
		return c.host(ctx, s, run)
	}
	dir, err := os.MkdirTemp("", "reprise-bench-ttnn")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	script, err := ttnn.WritePrograms(dir)
	if err != nil {
		return err
	}
	sims.AdoptOrphans()
	defer sims.KillOrphans() // compilers, if a process was ended
	defer s.Status()("")
	var chips []bench.TimedChip
	for _, arch := range c.chips(simulators) {
		emulator := &timer{run: *run, script: script}
		emulator.run.Settings = libttsim.Settings{Machine: ttnn.MachineOf(arch), KernelCache: ttnn.KernelCache(os.Getenv)}
		timers := []*timer{emulator}
		if library := simulators[arch]; library != "" {
			other := *emulator
			other.run.Library = library
			timers = append(timers, &other)
		} else if len(c.Check) > 0 {
			other := *emulator
			other.run.Settings.Checks, other.run.Settings.Findings = libttsim.Expand(c.Check), filepath.Join(dir, "findings.json")
			timers = append(timers, &other)
		}
		one, err := c.timeChip(ctx, s, arch, timers)
		if err != nil {
			return err
		}
		chips = append(chips, *one)
	}
	r := bench.ReportTimed("TT-NN "+run.Installation.Text, c.Rounds, chips)
	if c.JSON {
		return r.WriteJSON(s.Out)
	}
	return r.WriteTable(s.Out)
}

func (c *benchTTNNCmd) simulators() (map[chip.Arch]string, error) {
	server, err := cli.Server()
	if err != nil {
		return nil, err
	}
	all := map[chip.Arch]string{}
	for _, path := range c.Against {
		sim, err := ttsim.Start(path, server)
		if lib := (*ttsim.LibraryError)(nil); errors.As(err, &lib) {
			return nil, cli.Wrong("--against", path, lib.Err.Error(), lib.Hint).By(err)
		} else if err != nil {
			return nil, err
		}
		arch := sim.Functions()[0].Arch()
		if err := sim.Close(); err != nil {
			return nil, err
		}
		simulates := "it simulates a " + arch.String()
		switch {
		case c.Chip != "" && c.Chip != both && c.Chip != arch.String():
			return nil, cli.Wrong("--against", path, simulates, "give one of a "+c.Chip)
		case all[arch] != "":
			return nil, cli.Wrong("--against", path, simulates+", as "+all[arch]+" does", "give one for each chip")
		}
		all[arch] = path
	}
	return all, nil
}

func (c *benchTTNNCmd) chips(simulators map[chip.Arch]string) []chip.Arch {
	return slices.DeleteFunc([]chip.Arch{chip.Wormhole, chip.Blackhole}, func(a chip.Arch) bool {
		if c.Chip == "" {
			return len(simulators) > 0 && simulators[a] == ""
		}
		return c.Chip != both && c.Chip != a.String()
	})
}

// timeChip lets the simulators take turns.
func (c *benchTTNNCmd) timeChip(ctx context.Context, s cli.Streams, arch chip.Arch, timers []*timer) (*bench.TimedChip, error) {
	names, err := timers[0].list(ctx, c.Patterns)
	if err != nil {
		return nil, err
	}
	status := s.Status()
	with := "ttsim"
	if len(c.Check) > 0 {
		with = "with " + strings.Join(c.Check, ", ")
	}
	for round := range c.Rounds {
		for i, t := range timers {
			t.progress = func(name string) {
				status(fmt.Sprintf("%v, round %d of %d, %s: %s", arch, round+1, c.Rounds, []string{"reprise", with}[i], name))
			}
			if err := t.round(ctx, names); err != nil {
				return nil, err
			}
		}
	}
	out := &bench.TimedChip{Name: arch.String(), Programs: names, Reprise: timers[0].times}
	if len(timers) > 1 {
		out.Other, out.With = timers[1].times, with
	}
	return out, nil
}

type timer struct {
	run      ttnn.Run
	script   string
	progress func(name string)

	times map[string]bench.Times // by program, and of opening the device
}

func (t *timer) command(ctx context.Context, args ...string) (*exec.Cmd, *strings.Builder, error) {
	env, err := t.run.Prepare(os.Environ())
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, t.run.Installation.Python, append([]string{t.script}, args...)...)
	said := new(strings.Builder)
	cmd.Env, cmd.Stderr = env, said
	cmd.Dir = filepath.Dir(filepath.Dir(t.script)) // TT-NN leaves a folder where it runs
	cmd.SysProcAttr = sims.ChildAttributes()
	cmd.WaitDelay = time.Second // compilers outlive a process that was ended
	return cmd, said, nil
}

// list returns programs by patterns, or the representatives.
func (t *timer) list(ctx context.Context, patterns []string) ([]string, error) {
	args := append([]string{"--list"}, patterns...)
	if len(patterns) == 0 {
		args = []string{"--list", "--short"}
	}
	cmd, said, err := t.command(ctx, args...)
	if err != nil {
		return nil, err
	}
	out, err := cmd.Output()
	if err == nil {
		return strings.Fields(string(out)), nil
	}
	why := lastWords(said.String())
	if _, pattern, ok := strings.Cut(why, "no case named "); ok {
		return nil, cli.Wrong("PATTERN", pattern, "it matches no program", "give one such as 'binary/*'").By(err)
	}
	return nil, fmt.Errorf("list the programs: %w: %s", err, why)
}

// round counts a program that ends its process as refused; later rounds skip it.
func (t *timer) round(ctx context.Context, names []string) error {
	if t.times == nil {
		t.times = map[string]bench.Times{}
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return t.times[name].Skipped || t.times[name].Refused != "" })
	for len(names) > 0 {
		done, err := t.process(ctx, names)
		if err != nil {
			return err
		}
		names = names[done:]
	}
	return ctx.Err()
}

// process returns how many programs are done.
func (t *timer) process(ctx context.Context, names []string) (done int, err error) {
	// Linux ends a process with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	within, end := context.WithCancel(ctx)
	defer end()
	cmd, said, err := t.command(within, append([]string{"--time", strconv.Itoa(timedCalls)}, names...)...)
	if err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, &ttnn.Error{Kind: ttnn.ErrNoPython, Found: t.run.Installation.Python, Fix: "name a Python with --python", Err: err}
	}
	late := time.AfterFunc(timedPatience, end)
	for lines := bufio.NewScanner(out); lines.Scan(); late.Reset(timedPatience) {
		var line timedLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			end()
			return 0, errors.Join(fmt.Errorf("main.py printed %q: %w", lines.Text(), err), cmd.Wait())
		}
		t.note(line)
		if line.Name != bench.OpenDevice {
			done++
		}
	}
	inTime := late.Stop()
	ended := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case done == len(names) || done > 0 && t.times[names[done-1]].Refused != "":
	case !inTime:
		t.note(timedLine{Name: names[done], Error: "it doesn't end in " + timedPatience.String()})
		done++
	case done == 0 && len(t.times) == 0:
		return 0, fmt.Errorf("TT-NN opens no device: %w: %s", ended, lastWords(said.String()))
	default:
		t.note(timedLine{Name: names[done], Error: lastWords(said.String())})
		done++
	}
	return done, nil
}

type timedLine struct {
	Name, Error, Skipped string
	Seconds              float64
}

func (t *timer) note(line timedLine) {
	if t.progress != nil {
		t.progress(line.Name)
	}
	x := t.times[line.Name]
	switch {
	case line.Skipped != "":
		x.Skipped = true
	case line.Error != "":
		x.Refused, _, _ = strings.Cut(line.Error, "\n")
	default:
		x.Ns = append(x.Ns, line.Seconds*1e9)
	}
	t.times[line.Name] = x
}

// telling matches why a process ends.
var telling = regexp.MustCompile(`ERROR|Error|fatal|no case named`)

// lastWords says why a process ended.
func lastWords(text string) string {
	last := ""
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" && (telling.MatchString(line) || !telling.MatchString(last)) {
			last = line
		}
	}
	last = last[max(0, strings.Index(last, "ERROR")):] // ttsim puts its clock in front
	return cmp.Or(strings.TrimSpace(last), "it says nothing")
}
