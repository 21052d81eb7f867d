package vm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Config describes a machine whose only program is package guest's.
type Config struct {
	Hardware
	// Init is package guest's command, built without cgo.
	Init string
	// Module is the vendor's driver. If empty, the guest only reads the cards' configuration and
	// BARs.
	Module string
	// Commands run with the driver loaded; their programs have to be in Files.
	Commands []string
	// Files are from paths in the machine to paths outside.
	Files   map[string]string
	Console io.Writer
}

// Result is what the guest reported.
type Result struct {
	Pass, Fail, Skip []string // the guest's lines, without the first word
	Cards            []string // one for each card
	Load             []string // how long a load from a card takes
}

// Run waits until the machine is off. The error wraps ErrBoot if that was before the end, or
// ctx's.
func (c *Config) Run(ctx context.Context) (r Result, err error) {
	dir, err := os.MkdirTemp("", "reprise-vm")
	if err != nil {
		return r, fmt.Errorf("vm: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	initial := filepath.Join(dir, "initial")
	if err := c.pack(initial); err != nil {
		return r, fmt.Errorf("vm: initial file system: %w", err)
	}
	m, err := c.command(ctx, c.arguments(initial, "console=ttyS0 panic=-1 loglevel=6", "-serial", "stdio"))
	if err != nil {
		return r, err
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return r, fmt.Errorf("vm: %w", err)
	}
	if err := m.start(); err != nil {
		return r, err
	}
	done := r.collect(out, c.Console)
	switch err = m.wait(); {
	case err != nil:
		return r, err
	case !done:
		return r, fmt.Errorf("vm: %w: see what it printed on its console", ErrBoot)
	}
	return r, nil
}

func (c *Config) pack(name string) error {
	return writeArchive(name, func(w *archive) error {
		files := maps.Clone(c.Files)
		if files == nil {
			files = map[string]string{}
		}
		files["/init"] = c.Init
		if c.Module != "" {
			files["/tenstorrent.ko"] = c.Module
		}
		for _, to := range slices.Sorted(maps.Keys(files)) {
			if err := w.copy(to, files[to]); err != nil {
				return err
			}
		}
		if len(c.Commands) > 0 {
			return w.text("/commands", strings.Join(c.Commands, "\n")+"\n")
		}
		return nil
	})
}

// collect reads the console, and reports whether the guest's program ended.
func (r *Result) collect(in io.Reader, copy io.Writer) (done bool) {
	b := bufio.NewReader(in)
	lists := map[string]*[]string{"PASS": &r.Pass, "FAIL": &r.Fail, "SKIP": &r.Skip, "CARD": &r.Cards, "LOAD": &r.Load}
	for {
		line, err := b.ReadString('\n')
		if copy != nil {
			_, _ = io.WriteString(copy, line) // what is missing there is the writer's matter
		}
		kind, rest, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		if l := lists[kind]; l != nil {
			*l = append(*l, rest)
		}
		done = done || kind == "DONE"
		if err != nil {
			return done
		}
	}
}
