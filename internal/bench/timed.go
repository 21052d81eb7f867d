package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
)

const TimedFamily = "ttnn"

type TimedChip struct {
	Name     string
	Open     Timed
	Programs []Timed
	Skipped  []string // programs without a time: no single operations
}

type Timed struct {
	Name           string
	Reprise, TTSim Times
}

const OpenDevice = "open"

func (t *Timed) what() string {
	if t.Name == OpenDevice {
		return "open the device"
	}
	return t.Name
}

// Times are nanoseconds, one for each round, or why there are none.
type Times struct {
	Ns      []float64
	Refused string
}

// ReportTimed has the least time of each program, and the median of opening the device.
func ReportTimed(device string, rounds int, chips []TimedChip) *report.Report {
	r := &report.Report{Schema: report.Schema, When: time.Now(), Device: device, Host: report.NewHost(), Rounds: rounds,
		Baselines: []*report.Figure{}}
	for _, c := range chips {
		addTimedChip(r, &c)
	}
	return r
}

func addTimedChip(r *report.Report, c *TimedChip) {
	addTimed(r, c.Name, &c.Open, func(f *report.Figure) float64 { return f.P50 })
	names, ratios := []string{}, []float64{}
	refused := map[string][]string{}
	for _, p := range c.Programs {
		reprise, ttsim := addTimed(r, c.Name, &p, func(f *report.Figure) float64 { return f.Min })
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
		addCount(r, c.Name+": programs that "+who+" refuses", refused[who])
	}
	addCount(r, c.Name+": programs without a time, no single operation", c.Skipped)
}

func addTimed(r *report.Report, chipName string, t *Timed, value func(*report.Figure) float64) (reprise, ttsim *report.Figure) {
	row := &report.SummaryRow{What: chipName + ": " + t.what()}
	if reprise = addTimes(r, t.Name, t.Reprise, report.NewParam("chip", chipName)); reprise != nil {
		row.Figure, row.Now = reprise.ID(), new(report.InNs("", value(reprise)))
	} else {
		row.Missing = "reprise refuses it: " + t.Reprise.Refused
	}
	if ttsim = addTimes(r, t.Name, t.TTSim, report.NewParam("chip", chipName), report.NewParam("device", quotedSimulator)); ttsim != nil {
		row.Others = []report.Other{{Quantity: report.InNs(quotedSimulator, value(ttsim))}}
	} else if t.TTSim.Refused != "" {
		row.Note = quotedSimulator + " refuses it: " + t.TTSim.Refused
	}
	r.Summary = append(r.Summary, row)
	return reprise, ttsim
}

func addTimes(r *report.Report, name string, t Times, params ...report.Param) *report.Figure {
	if len(t.Ns) == 0 {
		return nil
	}
	s := measure.NewSeries()
	for _, ns := range t.Ns {
		s.Add(ns)
		s.End()
	}
	f := &report.Figure{Family: TimedFamily, Name: name, Params: params, PerSample: 1}
	s.Fill(f)
	r.Figures = append(r.Figures, f)
	return f
}

func ratioRow(chipName string, names []string, ratios []float64) *report.SummaryRow {
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
	return &report.SummaryRow{
		What: fmt.Sprintf("%s: %s / reprise, geometric mean of %d", chipName, quotedSimulator, len(ratios)),
		Now:  new(report.InTimes("", math.Exp(logs/float64(len(ratios))))),
		More: []report.Quantity{
			report.InTimes(names[lowest]+", the lowest,", ratios[lowest]),
			report.InTimes(names[highest]+", the highest,", ratios[highest]),
		},
	}
}

func addCount(r *report.Report, what string, names []string) {
	if len(names) > 0 {
		note := strings.Join(slices.Sorted(slices.Values(names)), ", ")
		r.Summary = append(r.Summary, &report.SummaryRow{What: what, Now: &report.Quantity{Value: float64(len(names))}, Note: note})
	}
}
