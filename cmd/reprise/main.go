// Command reprise shows what package reprise does: see README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/internal/usage"
	"github.com/reprise-tt/reprise/sim/libttsim"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1   // something went wrong: one line on standard error says what
	exitUsage       = 2   // wrong flags or arguments
	exitInterrupted = 130 // ended by SIGINT, SIGTERM or SIGHUP
)

type cli struct {
	Demo     demoCmd     `cmd:"" help:"Classify handwritten digits on a device: eagerly, then by replaying a recorded trace."`
	Generate generateCmd `cmd:"" help:"Invent English words by a small transformer on a device, token by token."`
	Inspect  inspectCmd  `cmd:"" help:"Print a dump of a hang or a recorded session."`
	Ls       lsCmd       `cmd:"" help:"List the cards of this machine."`
	Topology topologyCmd `cmd:"" help:"Show how the chips of a machine are linked."`
	Info     infoCmd     `cmd:"" help:"Show all about a card."`
	Doctor   doctorCmd   `cmd:"" help:"Check what keeps programs from running, and say what to do."`
	Reset    resetCmd    `cmd:"" help:"Reset a card and check that it answers."`
	Monitor  monitorCmd  `cmd:"" help:"Show which processes use how much device memory."`
	Hwtest   hwtestCmd   `cmd:"" help:"Run the conformance suite on a device."`
	Bench    benchCmds   `cmd:"" help:"Measure what replays, enqueues, captures and transfers cost on a device, or TT-NN programs."`
	Probe    probeCmd    `cmd:"" help:"Watch a running process by eBPF."`
	Trace    traceCmd    `cmd:"" help:"Inspect, compare and run recorded traces."`
	Graph    graphCmd    `cmd:"" help:"Inspect reports of what ran and what it allocated, and import them for the visualizer."`
	Stacks   stacksCmd   `cmd:"" help:"Print the call stacks of the processors of a running device."`
	GDB      gdbCmd      `cmd:"" name:"gdb" help:"Serve the processors of a running device to gdb."`
	Kernel   kernelCmd   `cmd:"" help:"Compile kernels."`
	Metal    metalCmd    `cmd:"" help:"Inspect kernels and base firmware that tt-metal built."`
	Sim      simCmd      `cmd:"" help:"Serve emulated cards to other processes."`
	VM       vmCmd       `cmd:"" name:"vm" help:"Run a program in a virtual machine with emulated cards and the vendor's driver."`
	TTNN     ttnnCmd     `cmd:"" name:"ttnn" help:"Run TT-NN, unmodified, on emulated chips."`
	Version  versionCmd  `cmd:"" help:"Print the version, and which firmware, trace files and drivers it is for."`

	VersionFlag versionFlag `help:"Print the version." name:"version"`
	// The server process of the vendor's simulator is this program itself.
	Serve serveCmd `cmd:"" name:"ttsim-serve" hidden:""`
	// So is the process that the suite kills.
	Victim victimCmd `cmd:"" name:"hwtest-victim" hidden:""`
	// And the first one of virtual machines.
	Inside insideCmd `cmd:"" name:"vm-inside" hidden:""`
}

// streams are where a command reads and writes.
type streams struct {
	out, err io.Writer
	who      *process
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), endings()...)
	var ended atomic.Bool
	who := new(process)
	context.AfterFunc(ctx, func() {
		stop() // the second signal ends the process, whatever it waits for
		time.AfterFunc(patience, func() {
			if !ended.Load() {
				fmt.Fprint(os.Stderr, who.label(endingLine+"\n"))
			}
		})
	})
	s := streams{out: os.Stdout, err: os.Stderr, who: who}
	who.quit = func(err error) { os.Exit(conclude(ctx, s, err)) }
	code := run(ctx, os.Args[1:], s)
	ended.Store(true)
	stop()
	os.Exit(code)
}

// patience is how long an ending may take without a word.
const patience = 500 * time.Millisecond

// endingLine is what is said then.
const endingLine = "reprise: ending: waiting for what was begun; another signal ends the process at once"

// endings are the signals that end a command in order. One that whoever started the process ignores, as nohup does, stays so.
func endings() []os.Signal {
	s := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		s = append(s, syscall.SIGHUP)
	}
	return s
}

// run is the whole program but for the process around it.
func run(ctx context.Context, args []string, s streams) int {
	var c cli
	exit := -1
	parser, err := kong.New(&c,
		kong.Name("reprise"),
		kong.Description("Record a Tenstorrent command stream once and play it again for almost nothing."),
		kong.Writers(s.out, s.err),
		kong.Vars{"device_help": deviceHelp, "source_help": sourceHelp, "revisions": revisionNames(), "card_help": cardHelp,
			"machine_help": target.MachineHelp, "ttnn_checks": strings.Join(libttsim.Checks(), ", "), "temp_dir": os.TempDir(),
			"usage_dir": usage.Dir},
		kong.Exit(func(code int) { exit = code }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s),
	)
	if err != nil {
		fmt.Fprintln(s.err, "reprise:", err)
		return exitFailed
	}
	k, err := parser.Parse(args)
	if exit >= 0 {
		return exit
	}
	if err == nil {
		err = named(k)
	}
	if err != nil {
		var wrong *flagError
		if errors.As(err, &wrong) {
			err = wrong // without the name of the command that kong puts in front
		} else {
			err = fmt.Errorf("%w; see reprise --help", err)
		}
		fmt.Fprintln(s.err, "reprise:", err)
		return exitUsage
	}
	do := func() (struct{}, error) { return struct{}{}, k.Run() }
	if r, ok := k.Selected().Target.Addr().Interface().(reader); ok && r.onlyReads() {
		_, err = until(ctx, do)
	} else {
		_, err = do()
	}
	return conclude(ctx, s, err)
}

// named refuses a device that is given without a name, such as a variable of a shell that isn't set: left out, the flag stands for
// a device as well, and it may be the wrong one to reset.
func named(k *kong.Context) error {
	for _, p := range k.Path {
		if f := p.Flag; f != nil && f.Name == "device" && f.Target.Kind() == reflect.String && f.Target.Len() == 0 {
			return &flagError{flag: "--device", why: "it is empty", hint: "name a device, or leave the flag out"}
		}
	}
	return nil
}

// conclude says what went wrong, if anything did, and returns the exit code. It writes once, so that lines of several processes don't mix.
func conclude(ctx context.Context, s streams, err error) int {
	var b strings.Builder
	defer s.who.last(func() { _, _ = io.WriteString(s.err, s.who.label(b.String())) }) // there is nowhere to say that it failed
	var status exitStatus
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		return int(status)
	case ctx.Err() != nil:
		fmt.Fprintln(&b, "reprise: ended:", context.Cause(ctx))
		return exitInterrupted
	}
	// Errors of package reprise bring the name along.
	fmt.Fprintln(&b, "reprise:", strings.TrimPrefix(err.Error(), "reprise: "))
	var h *dispatch.HangError
	switch {
	case !errors.As(err, &h):
	case h.File != "":
		fmt.Fprintln(&b, "reprise: to see what every core does: reprise inspect", h.File)
	default:
		b.WriteString(h.Detail())
	}
	return exitFailed
}
