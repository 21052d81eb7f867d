package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/reprise-tt/reprise/hwtest"
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
		"hwtest": suite, "victim": victim, hwtest.VictimCommand: victim, "life": life, "keep": keep, "differ": differ,
	}[name]
}

const self = "/proc/self/exe"

// patience is the limit of a case, as the machine may be a slow emulation.
const patience = 10 * time.Minute

// suite runs the conformance suite: hwtest and the flags of reprise hwtest.
func suite(ctx context.Context, args []string) error {
	if code := hwtest.Main(ctx, append([]string{"-timeout", patience.String()}, args...), os.Stdout, os.Stderr); code != 0 {
		return fmt.Errorf("exit code %d", code)
	}
	return nil
}

// victim uses a card until it is killed: victim DEVICE [--once].
func victim(ctx context.Context, args []string) error {
	return suite(ctx, append([]string{hwtest.VictimCommand}, args...))
}
