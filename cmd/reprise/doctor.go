package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/reprise-tt/reprise/kmd"
)

// doctorCmd finds out why programs can't run.
type doctorCmd struct {
	Device string `help:"Only this one: ${card_help}." placeholder:"DEVICE"`
	JSON   bool   `help:"Print one JSON object instead of a table." name:"json"`
}

// Help is shown by --help.
func (doctorCmd) Help() string {
	return "Checks that the driver is loaded and the cards are there, and of each card whether it can be opened, answers, has free windows, working firmware, memory that can be pinned, power requests and free locks. Each check that fails names one thing to do. " + exitHelp
}

// doctorJSON is the outcome for scripts.
type doctorJSON struct {
	OK     bool        `json:"ok"` // no check failed
	Checks []checkJSON `json:"checks"`
}

type checkJSON struct {
	Name   string     `json:"name"`
	Device string     `json:"device,omitempty"`
	Status kmd.Status `json:"status"`
	Found  string     `json:"found"`
	Fix    string     `json:"fix"`
}

// checksError says that checks failed; their list has been printed.
type checksError struct{ failed int }

func (e *checksError) Error() string {
	if e.failed == 1 {
		return "doctor: 1 check failed"
	}
	return fmt.Sprintf("doctor: %d checks failed", e.failed)
}

// Validate checks the flags.
func (c *doctorCmd) Validate() error { return checkName(c.Device) }

// Run makes the checks.
func (c *doctorCmd) Run(ctx context.Context, s streams) error {
	var l []kmd.Check
	if c.Device == "" {
		l = kmd.Host().Diagnose(ctx)
	} else {
		t, err := findCard(ctx, c.Device)
		if err != nil {
			return err
		}
		l = kmd.DiagnoseTarget(ctx, t)
		for i := range l { // as the user calls it
			l[i].Fix = strings.ReplaceAll(l[i].Fix, "--device "+t.String(), "--device "+c.Device)
		}
	}
	out := doctorJSON{Checks: []checkJSON{}}
	failed := 0
	for _, k := range l {
		out.Checks = append(out.Checks, checkJSON{k.Name, k.Device, k.Status, k.Found, k.Fix})
		if k.Status == kmd.StatusFailed {
			failed++
		}
	}
	out.OK = failed == 0
	var err error
	if c.JSON {
		err = printJSON(s.out, out)
	} else {
		err = out.print(s.out)
	}
	if err == nil && failed > 0 {
		err = &checksError{failed}
	}
	return err
}

func (d *doctorJSON) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	device := ""
	for _, c := range d.Checks {
		if c.Device != device {
			device = c.Device
			if err := w.Flush(); err != nil {
				return err
			}
			if _, err := fmt.Fprintf(out, "\n%s\n", device); err != nil {
				return err
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", c.Status, c.Name, c.Found)
		if c.Fix != "" {
			fmt.Fprintf(w, "\t\tfix: %s\n", c.Fix)
		}
	}
	return w.Flush()
}
