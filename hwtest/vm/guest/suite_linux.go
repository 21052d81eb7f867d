package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/reprise-tt/reprise/hwtest"
	"github.com/reprise-tt/reprise/hwtest/target"
)

// builtin returns a command that is part of this program, so that a machine needs no other files;
// nil if the name is unknown.
func builtin(name string) func(context.Context, []string) error {
	switch name {
	case "hwtest":
		return suite
	case "victim":
		return victim
	case "life":
		return life
	case "keep":
		return keep
	case "differ":
		return differ
	}
	return nil
}

// self is the path of this program, the only one of the machine.
const self = "/proc/self/exe"

// suite runs the conformance suite: hwtest [-short] [-unsafe] [-run PATTERN] [DEVICE]...
func suite(ctx context.Context, args []string) error {
	cfg := hwtest.Config{Victim: []string{self, "victim"}}
	fs := flag.NewFlagSet("hwtest", flag.ContinueOnError)
	fs.BoolVar(&cfg.Short, "short", false, "fewer repetitions")
	fs.BoolVar(&cfg.Unsafe, "unsafe", false, "also what leaves a card in need of a reset")
	run := fs.String("run", "", "only these cases: LAYER or LAYER/NAME")
	if err := fs.Parse(args); err != nil {
		return err
	}
	names := fs.Args()
	if len(names) == 0 {
		names = nodes()
	}
	var err error
	if cfg.Select, err = hwtest.ParsePattern(*run); err != nil {
		return err
	}
	for _, n := range names {
		d, err := target.Parse(n, nil)
		if err != nil {
			return err
		}
		cfg.Devices = append(cfg.Devices, d)
	}
	layers := map[string]*hwtest.Report{}
	var order []string
	cfg.Done = func(r hwtest.Result) {
		fmt.Printf("%s %8.3fs %s %s/%s", r.Outcome, r.Seconds, r.Device, r.Layer, r.Name)
		if r.Reason != "" {
			fmt.Printf(" (%s)", r.Reason)
		}
		fmt.Println()
		for _, l := range r.Log {
			fmt.Printf("    %s\n", strings.ReplaceAll(strings.TrimRight(l, "\n"), "\n", "\n    "))
		}
		k := r.Device + " " + r.Layer
		if layers[k] == nil {
			layers[k] = &hwtest.Report{}
			order = append(order, k)
		}
		layers[k].Add(r)
		layers[k].Seconds += r.Seconds
	}
	rep, err := hwtest.Run(ctx, cfg)
	for _, k := range order {
		l := layers[k]
		fmt.Printf("LAYER %s: %d passed, %d failed, %d skipped in %.1f s\n", k, l.Passed, l.Failed, l.Skipped, l.Seconds)
	}
	fmt.Printf("SUITE %d passed, %d failed, %d skipped in %.1f s\n", rep.Passed, rep.Failed, rep.Skipped, rep.Seconds)
	if err == nil && rep.Failed > 0 {
		err = fmt.Errorf("%d of %d cases failed", rep.Failed, len(rep.Results))
	}
	return err
}

// victim uses a card until it is killed: victim DEVICE [--once].
func victim(ctx context.Context, args []string) error {
	if len(args) == 0 || len(args) > 2 || len(args) == 2 && args[1] != "--once" {
		return errors.New("want a device, and --once or nothing")
	}
	d, err := target.Parse(args[0], nil)
	if err != nil {
		return err
	}
	return hwtest.Victim(ctx, d.Open(), len(args) == 2, os.Stdout)
}
