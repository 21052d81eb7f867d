package cards

import (
	"context"
	"strings"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/kmd"
)

// DoctorCmd finds out why programs can't run.
type DoctorCmd struct{ cardFlags }

func (DoctorCmd) Help() string {
	return "Checks that the driver is loaded and the cards are there, and of each card whether it can be opened, answers, has free windows, working firmware, memory that can be pinned, power requests and free locks. Each check that fails names one thing to do."
}

func (c *DoctorCmd) Run(ctx context.Context, s cli.Streams) error {
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
	var checks []cli.Check
	for _, k := range l {
		checks = append(checks, cli.Check{Name: k.Name, Device: k.Device, Status: k.Status, Found: k.Found, Fix: k.Fix})
	}
	return s.PrintChecks(c.JSON, checks)
}
