package report

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"
)

// SummaryRow is a line of the summary: a cost beside those of peers or limits, and its goal.
type SummaryRow struct {
	What    string     `json:"what"`
	Figure  string     `json:"figure,omitempty"` // ID of the figure whose median is Now, if of one
	Now     *Quantity  `json:"now"`              // nil if Missing
	Missing string     `json:"missing,omitempty"`
	More    []Quantity `json:"more,omitempty"`  // details of Now, such as percentiles and parts
	Ratio   *Ratio     `json:"ratio,omitempty"` // to the figure's baseline, or else to [MemcpyHot]; nil for counts
	// Others are costs of other runtimes and simulators, and physical limits. They and the goals
	// compare with the quantity of their name among More, or else with Now.
	Others []Other    `json:"others,omitempty"`
	Goals  []Quantity `json:"goals,omitempty"`
	Note   string     `json:"note,omitempty"` // how the figure was measured
}

// Quantity is a number with a unit: ns, B, instructions, share (of 1) or times.
type Quantity struct {
	Name  string  `json:"name,omitempty"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Other is a peer's cost, measured in the same run or quoted.
type Other struct {
	Quantity
	Source *Source `json:"source,omitempty"` // nil if it was measured
}

// Source is the origin of a quotation.
type Source struct {
	From string `json:"from"`
	Date string `json:"date"` // of the measurement, or when it was read
}

func (s *Source) String() string { return fmt.Sprintf("quoted: %s, %s", s.From, s.Date) }

// String returns the value with its unit, after the name if there is one.
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
