package demo

import (
	"fmt"
	"io"
	"strings"
)

// progress draws a bar on a terminal, and nothing elsewhere.
type progress struct {
	w         io.Writer
	on        bool
	what      string
	done, all int
	drawn     int
}

const barWidth = 40

func newProgress(w io.Writer, on bool) *progress { return &progress{w: w, on: on} }

// begin starts a stage of n steps.
func (p *progress) begin(what string, n int) {
	p.what, p.done, p.all = what, 0, n
	p.draw()
}

// step finishes one step of the stage.
func (p *progress) step() {
	p.done++
	p.draw()
}

// end removes the bar.
func (p *progress) end() {
	if p.on && p.drawn > 0 {
		fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", p.drawn))
		p.drawn = 0
	}
}

func (p *progress) draw() {
	if !p.on || p.all == 0 {
		return
	}
	pos := barWidth * p.done / p.all
	line := fmt.Sprintf("%-7s %s%s %d/%d batches", p.what, strings.Repeat("█", pos), strings.Repeat("░", barWidth-pos), p.done, p.all)
	fmt.Fprintf(p.w, "\r%s", line)
	p.drawn = max(p.drawn, len([]rune(line)))
}
