package cli

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/reprise-tt/reprise/kmd"
)

// Check is a check of what programs need, for scripts.
type Check struct {
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

// PrintChecks prints checks as a table or as one JSON object. It returns an error if some failed.
func PrintChecks(out io.Writer, asJSON bool, checks []Check) error {
	failed := 0
	for _, c := range checks {
		if c.Status == kmd.StatusFailed {
			failed++
		}
	}
	var err error
	if asJSON {
		err = PrintJSON(out, struct {
			OK     bool    `json:"ok"` // no check failed
			Checks []Check `json:"checks"`
		}{failed == 0, append([]Check{}, checks...)})
	} else {
		err = printTable(out, checks)
	}
	if err == nil && failed > 0 {
		err = &checksError{failed}
	}
	return err
}

// printTable prints checks for people.
func printTable(out io.Writer, checks []Check) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	device := ""
	for _, c := range checks {
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
