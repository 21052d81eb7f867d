package report

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"
)

// SummaryRow is a line of the summary: what something takes, beside what it takes others, or what
// limits it, and what it should take.
type SummaryRow struct {
	What string `json:"what"`
	// Figure is the ID of the figure whose median Now is; empty for what is counted and for what
	// was made of several figures.
	Figure string `json:"figure,omitempty"`
	// Now is nil if it isn't measured here, and Missing says why.
	Now     *Quantity `json:"now"`
	Missing string    `json:"missing,omitempty"`
	// More says more of Now, such as percentiles and parts.
	More []Quantity `json:"more,omitempty"`
	// Ratio is to the baseline beside the figure, or else to [MemcpyHot], which was measured before
	// all figures; nil for what is counted.
	Ratio *Ratio `json:"ratio,omitempty"`
	// Others are what it takes other runtimes and simulators, and what nothing can be faster than.
	// One compares with Now, or with what has its name among More.
	Others []Other `json:"others,omitempty"`
	// Goals are what Now, and of More what has the same name, should be.
	Goals []Quantity `json:"goals,omitempty"`
	// Note is what there is to know of how it was measured.
	Note string `json:"note,omitempty"`
}

// Quantity is a number with a unit: ns, B, instructions, share (of 1) or times.
type Quantity struct {
	Name  string  `json:"name,omitempty"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Other is what something else takes: measured in the same run, or quoted.
type Other struct {
	Quantity
	Source *Source `json:"source,omitempty"` // nil if it was measured
}

// Source is where a quoted figure is from.
type Source struct {
	From string `json:"from"`
	Date string `json:"date"` // of the measurement, or when it was read
}

func (s *Source) String() string { return fmt.Sprintf("quoted: %s, %s", s.From, s.Date) }

// String prints the value with its unit, after the name if there is one.
func (q Quantity) String() string {
	text := ""
	switch q.Unit {
	case unitNs:
		text = duration(q.Value)
	case unitShare:
		text = fmt.Sprintf("%.3g %%", 100*q.Value)
	case unitTimes:
		text = fmt.Sprintf("%.3g ×", q.Value)
	case unitInstructions:
		text = humanize.Commaf(float64(int64(q.Value + 0.5)))
	default:
		text = humanize.Commaf(q.Value) + " " + q.Unit
	}
	return strings.TrimSpace(q.Name + " " + text)
}

// InNs is a quantity in nanoseconds.
func InNs(name string, v float64) Quantity { return Quantity{name, v, unitNs} }

// InBytes is a quantity in bytes.
func InBytes(name string, v float64) Quantity { return Quantity{name, v, unitBytes} }

// InInstructions is a quantity in instructions.
func InInstructions(name string, v float64) Quantity { return Quantity{name, v, unitInstructions} }

// InShare is a quantity in parts of 1, printed as per cent.
func InShare(name string, v float64) Quantity { return Quantity{name, v, unitShare} }

// InTimes is a quantity in a factor.
func InTimes(name string, v float64) Quantity { return Quantity{name, v, unitTimes} }

const (
	unitNs           = "ns"
	unitBytes        = "B"
	unitInstructions = "instructions"
	unitShare        = "share"
	unitTimes        = "times"
)
