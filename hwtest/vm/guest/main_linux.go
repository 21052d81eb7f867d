package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/reprise-tt/reprise/hwtest"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/hwtest/vm/inside"
)

const (
	module   = "/tenstorrent.ko"
	commands = "/commands" // one a line; run with the driver loaded
)

func main() {
	if os.Getpid() != 1 {
		if err := other(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "guest:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(); err != nil {
		fmt.Println("FAIL", err)
	}
	fmt.Println("DONE")
	inside.PowerOff()
}

func other(args []string) error {
	if len(args) == 0 || builtin(args[0]) == nil {
		return errors.New("this is the first program of a virtual machine; run it nowhere else")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return builtin(args[0])(ctx, args[1:])
}

func run() error {
	if err := inside.Mount(); err != nil {
		return err
	}
	dirs, err := filepath.Glob("/sys/bus/pci/devices/*")
	if err != nil {
		return err
	}
	cards := 0
	for _, dir := range dirs {
		if v, err := os.ReadFile(dir + "/vendor"); err != nil || strings.TrimSpace(string(v)) != "0x1e52" {
			continue
		}
		cards++
		look(dir)
	}
	fmt.Printf("CARDS %d\n", cards)
	if cards == 0 {
		return errors.New("there is no card on the PCI bus")
	}
	return drive()
}

func drive() error {
	if err := inside.Load(module); errors.Is(err, os.ErrNotExist) {
		fmt.Println("SKIP driver: the machine was given no tenstorrent.ko")
		return nil
	} else if err != nil {
		return err
	}
	all := nodes()
	if len(all) == 0 {
		return fmt.Errorf("the driver has made no node: %w", os.ErrNotExist)
	}
	fmt.Println("PASS driver:", strings.Join(all, " "))
	c, err := os.Open(commands)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer c.Close()
	for s := bufio.NewScanner(c); s.Scan(); {
		words := strings.Fields(s.Text())
		if len(words) == 0 {
			continue
		}
		if builtin(words[0]) != nil {
			words = append([]string{self}, words...)
		}
		cmd := exec.Command(words[0], words[1:]...)
		// A pipe keeps the command from its interactive display.
		out := struct{ io.Writer }{os.Stdout}
		cmd.Stdout, cmd.Stderr = out, out
		cmd.Env = []string{"HOME=/tmp", "PATH=/"}
		passes(s.Text(), cmd.Run)
	}
	return nil
}

// builtin returns a command of this program, or nil.
func builtin(name string) func(context.Context, []string) error {
	return map[string]func(context.Context, []string) error{
		"hwtest": suite, "victim": victim, "life": life, "keep": keep, "differ": differ,
	}[name]
}

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
