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
	"time"

	"github.com/alecthomas/kong"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cards"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/code"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/debugger"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/demo"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/graphs"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/measures"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/sims"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/traces"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/internal/usage"
	"github.com/reprise-tt/reprise/sim/libttsim"
)

// reader is a command that may only read and print, so that interrupting it needs no cleanup.
type reader interface{ OnlyReads() bool }

type commands struct {
	Demo     demo.Cmd            `cmd:"" help:"Classify handwritten digits on a device: eagerly, then by replaying a recorded trace."`
	Generate demo.GenerateCmd    `cmd:"" help:"Invent English words by a small transformer on a device, token by token."`
	Inspect  debugger.InspectCmd `cmd:"" help:"Print a dump of a hang or a recorded session."`
	Ls       cards.LsCmd         `cmd:"" help:"List the cards of this machine."`
	Topology cards.TopologyCmd   `cmd:"" help:"Show how the chips of a machine are linked."`
	Info     cards.InfoCmd       `cmd:"" help:"Show the details of a card."`
	Doctor   cards.DoctorCmd     `cmd:"" help:"Check whether programs can run here, and say how to fix what fails."`
	Reset    cards.ResetCmd      `cmd:"" help:"Reset a card and check that it answers."`
	Monitor  cards.MonitorCmd    `cmd:"" help:"Show which processes use how much device memory."`
	Hwtest   measures.HwtestCmd  `cmd:"" help:"Run the conformance suite on a device."`
	Bench    measures.BenchCmd   `cmd:"" help:"Measure the costs of replays, enqueues, captures and transfers on a device, or time TT-NN programs."`
	Probe    measures.ProbeCmd   `cmd:"" help:"Watch a running process by eBPF."`
	Trace    traces.Cmd          `cmd:"" help:"Inspect, compare and run recorded traces."`
	Graph    graphs.Cmd          `cmd:"" help:"Inspect reports of operations and allocations, and import them for the visualizer."`
	Stacks   debugger.StacksCmd  `cmd:"" help:"Print the call stacks of the processors of a running device."`
	GDB      debugger.GdbCmd     `cmd:"" name:"gdb" help:"Serve the processors of a running device to gdb."`
	Kernel   code.KernelCmd      `cmd:"" help:"Compile kernels."`
	Metal    code.MetalCmd       `cmd:"" help:"Inspect kernels and base firmware that tt-metal built."`
	Sim      sims.SimCmd         `cmd:"" help:"Serve emulated cards to other processes."`
	VM       sims.VmCmd          `cmd:"" name:"vm" help:"Run a program in a virtual machine with emulated cards and the vendor's driver."`
	TTNN     sims.TtnnCmd        `cmd:"" name:"ttnn" help:"Run TT-NN, unmodified, on emulated chips."`
	Version  versionCmd          `cmd:"" help:"Print the version, and the firmware, trace files and drivers that it works with."`

	VersionFlag versionFlag `help:"Print the version." name:"version"`

	// Hidden processes: the server of the vendor's simulator, the one that the suite kills, and the
	// first one of virtual machines.
	Serve  sims.ServeCmd      `cmd:"" name:"ttsim-serve" hidden:""`
	Victim measures.VictimCmd `cmd:"" name:"hwtest-victim" hidden:""`
	Inside sims.InsideCmd     `cmd:"" name:"vm-inside" hidden:""`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), cli.Endings()...)
	var ended atomic.Bool
	who := new(cli.Process)
	context.AfterFunc(ctx, func() {
		stop() // the second signal ends the process at once
		time.AfterFunc(patience, func() {
			if !ended.Load() {
				fmt.Fprint(os.Stderr, who.Label(endingLine+"\n"))
			}
		})
	})
	s := cli.Streams{Out: os.Stdout, Err: os.Stderr, Who: who}
	who.Quit = func(err error) { os.Exit(conclude(ctx, s, err)) }
	code := run(ctx, os.Args[1:], s)
	ended.Store(true)
	stop()
	os.Exit(code)
}

// patience is the time after which a silent ending is announced.
const patience = 500 * time.Millisecond

const endingLine = "reprise: ending: waiting for what was begun; another signal ends the process at once"

// run is the program without its process.
func run(ctx context.Context, args []string, s cli.Streams) int {
	var c commands
	exit := -1
	parser, err := kong.New(
		&c,
		kong.Name("reprise"),
		kong.Description("Record a Tenstorrent command stream once and play it again for almost nothing."),
		kong.Writers(s.Out, s.Err),
		kong.Vars{
			"device_help":  cli.DeviceHelp,
			"source_help":  traces.SourceHelp,
			"revisions":    traces.RevisionNames(),
			"card_help":    cards.CardHelp,
			"machine_help": target.MachineHelp,
			"ttnn_checks":  strings.Join(libttsim.Checks(), ", "),
			"temp_dir":     os.TempDir(),
			"usage_dir":    usage.Dir,
		},
		kong.Exit(func(code int) { exit = code }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s),
	)
	if err != nil {
		fmt.Fprintln(s.Err, "reprise:", err)
		return cli.ExitFailed
	}
	for _, n := range parser.Model.Leaves(true) {
		if !strings.Contains(n.Detail, "xit code") {
			n.Detail = strings.TrimSpace(n.Detail + " " + cli.ExitHelp)
		}
	}
	k, err := parser.Parse(args)
	if exit >= 0 {
		return exit
	}
	if err == nil {
		err = named(k)
	}
	if err != nil {
		var wrong *cli.FlagError
		if errors.As(err, &wrong) {
			err = wrong // without the name of the command that kong puts in front
		} else {
			err = fmt.Errorf("%w; see reprise --help", err)
		}
		fmt.Fprintln(s.Err, "reprise:", err)
		return cli.ExitUsage
	}
	do := func() (struct{}, error) { return struct{}{}, k.Run() }
	if r, ok := k.Selected().Target.Addr().Interface().(reader); ok && r.OnlyReads() {
		_, err = cli.Until(ctx, do)
	} else {
		_, err = do()
	}
	return conclude(ctx, s, err)
}

// named refuses an empty --device, such as an unset shell variable: a default could be the wrong
// device to reset.
func named(k *kong.Context) error {
	for _, p := range k.Path {
		if f := p.Flag; f != nil && f.Name == "device" && f.Target.Kind() == reflect.String && f.Target.Len() == 0 {
			return cli.Wrong("--device", "", "it is empty", "name a device, or leave the flag out")
		}
	}
	return nil
}

// conclude reports the error, if any, and returns the exit code. It writes once, so that lines of
// several processes don't mix.
func conclude(ctx context.Context, s cli.Streams, err error) int {
	var b strings.Builder
	defer s.Who.Last(func() { _, _ = io.WriteString(s.Err, s.Who.Label(b.String())) })
	var status cli.ExitStatus
	switch {
	case err == nil:
		return cli.ExitOK
	case errors.As(err, &status):
		return int(status)
	case ctx.Err() != nil:
		fmt.Fprintln(&b, "reprise: ended:", context.Cause(ctx))
		return cli.ExitInterrupted
	}
	// Errors of package reprise have its name.
	fmt.Fprintln(&b, "reprise:", strings.TrimPrefix(err.Error(), "reprise: "))
	var h *dispatch.HangError
	switch {
	case !errors.As(err, &h):
	case h.File != "":
		fmt.Fprintln(&b, "reprise: to see what every core does: reprise inspect", h.File)
	default:
		b.WriteString(h.Detail())
	}
	return cli.ExitFailed
}
