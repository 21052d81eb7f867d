package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// TimedFamily is the family of figures of TT-NN programs, which other processes time.
const TimedFamily = "ttnn"

// TimedChip is what TT-NN programs take on one chip: emulated, and simulated by the vendor if that was timed in turn.
type TimedChip struct {
	Name     string
	Open     Timed // opening the device
	Programs []Timed
	Skipped  []string // programs that have no time, because they are no single operation
}

// Timed is one program on both simulators.
type Timed struct {
	Name           string
	Reprise, TTSim Times
}

// OpenDevice is the name of opening the device.
const OpenDevice = "open"

func (t *Timed) what() string {
	if t.Name == OpenDevice {
		return "open the device"
	}
	return t.Name
}

// Times are what a program takes in each round, in nanoseconds, or the reason why there is no time.
type Times struct {
	Ns      []float64
	Refused string
}

// ReportTimed makes a report of programs on chips. Of a program's times the least counts, of those of opening the device the median.
func ReportTimed(device string, rounds int, chips []TimedChip) *Report {
	r := &Report{Schema: schema, When: time.Now(), Device: device, Host: host(), Rounds: rounds, Baselines: []*Figure{}}
	for _, c := range chips {
		r.addTimedChip(&c)
	}
	return r
}

func (r *Report) addTimedChip(c *TimedChip) {
	r.addTimed(c.Name, &c.Open, func(f *Figure) float64 { return f.P50 })
	names, ratios := []string{}, []float64{}
	refused := map[string][]string{}
	for _, p := range c.Programs {
		reprise, ttsim := r.addTimed(c.Name, &p, func(f *Figure) float64 { return f.Min })
		if reprise != nil && ttsim != nil {
			names, ratios = append(names, p.Name), append(ratios, ttsim.Min/reprise.Min)
		}
		for who, t := range map[string]Times{"reprise": p.Reprise, quotedSimulator: p.TTSim} {
			if t.Refused != "" {
				refused[who] = append(refused[who], p.Name)
			}
		}
	}
	if len(ratios) > 0 {
		r.Summary = append(r.Summary, ratioRow(c.Name, names, ratios))
	}
	for _, who := range []string{"reprise", quotedSimulator} {
		r.addCount(c.Name+": programs that "+who+" refuses", refused[who])
	}
	r.addCount(c.Name+": programs without a time, no single operation", c.Skipped)
}

// addTimed adds a program's figures and its row, which has one value of each figure.
func (r *Report) addTimed(chipName string, t *Timed, value func(*Figure) float64) (reprise, ttsim *Figure) {
	row := &SummaryRow{What: chipName + ": " + t.what()}
	if reprise = r.addTimes(t.Name, t.Reprise, param("chip", chipName)); reprise != nil {
		row.Figure, row.Now = reprise.ID(), &Quantity{Value: value(reprise), Unit: unitNs}
	} else {
		row.Missing = "reprise refuses it: " + t.Reprise.Refused
	}
	if ttsim = r.addTimes(t.Name, t.TTSim, param("chip", chipName), param("device", quotedSimulator)); ttsim != nil {
		row.Others = []Other{{Quantity: Quantity{quotedSimulator, value(ttsim), unitNs}}}
	} else if t.TTSim.Refused != "" {
		row.Note = quotedSimulator + " refuses it: " + t.TTSim.Refused
	}
	r.Summary = append(r.Summary, row)
	return reprise, ttsim
}

// addTimes adds a figure of a program's times; nil if there are none.
func (r *Report) addTimes(name string, t Times, params ...Param) *Figure {
	if len(t.Ns) == 0 {
		return nil
	}
	s := newSeries()
	for _, ns := range t.Ns {
		s.add(ns)
		s.end()
	}
	f := &Figure{Family: TimedFamily, Name: name, Params: params, PerSample: 1}
	s.figure(f)
	r.Figures = append(r.Figures, f)
	return f
}

// ratioRow is how many times as long the vendor's simulator takes for the programs that both simulators run.
func ratioRow(chipName string, names []string, ratios []float64) *SummaryRow {
	logs, lowest, highest := 0.0, 0, 0
	for i, v := range ratios {
		logs += math.Log(v)
		if v < ratios[lowest] {
			lowest = i
		}
		if v > ratios[highest] {
			highest = i
		}
	}
	return &SummaryRow{
		What: fmt.Sprintf("%s: %s / reprise, geometric mean of %d", chipName, quotedSimulator, len(ratios)),
		Now:  &Quantity{Value: math.Exp(logs / float64(len(ratios))), Unit: unitTimes},
		More: []Quantity{
			{names[lowest] + ", the lowest,", ratios[lowest], unitTimes},
			{names[highest] + ", the highest,", ratios[highest], unitTimes},
		},
	}
}

// addCount adds a row that counts programs and names them below the table; none if there are no programs.
func (r *Report) addCount(what string, names []string) {
	if len(names) > 0 {
		note := strings.Join(slices.Sorted(slices.Values(names)), ", ")
		r.Summary = append(r.Summary, &SummaryRow{What: what, Now: &Quantity{Value: float64(len(names))}, Note: note})
	}
}
