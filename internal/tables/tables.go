// Package tables prints rows as columns that fit the reader's terminal, and numbers in one form.
package tables

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

const (
	gap       = 2  // spaces between columns
	narrowest = 20 // least width of a table
	leastText = 18 // width down to which a column of text is wrapped
)

// Width returns how many characters a line written to w may have: the environment's COLUMNS, or
// else the width of the terminal that w is. 0 means any number, as for files and pipes.
func Width(w io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n >= 0 {
		return n
	}
	if f, ok := w.(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil {
			return n
		}
	}
	return 0
}

// Table collects rows. Columns of numbers are aligned to the right.
type Table struct {
	out   io.Writer
	width int
	rows  [][]string
	rule  bool
}

// New returns a table with lines of at most width characters, or of any length for 0. Then each row
// is one line.
func New(out io.Writer, width int) *Table {
	if width > 0 {
		width = max(width, narrowest)
	}
	return &Table{out: out, width: width}
}

// Head adds the first row, with a line below it.
func (t *Table) Head(cells ...any) {
	t.Row(cells...)
	t.rule = true
}

// Row adds a row. A cell may have several lines.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = strings.TrimSpace(fmt.Sprint(c))
		if t.width == 0 {
			row[i] = strings.ReplaceAll(row[i], "\n", "; ")
		}
	}
	t.rows = append(t.rows, row)
}

// Text is output for people: lines, and tables that fit the reader's terminal.
type Text struct {
	*bufio.Writer
	width int
}

// Print writes a text. It returns the first error of writing.
func Print(w io.Writer, text func(Text)) error {
	t := Text{bufio.NewWriter(w), Width(w)}
	text(t)
	return t.Flush()
}

// F formats as [fmt.Printf] does.
func (t Text) F(format string, args ...any) { fmt.Fprintf(t, format, args...) }

// Table returns a table, without a head if no cells are given.
func (t Text) Table(head ...any) *Table {
	table := New(t, t.width)
	if len(head) > 0 {
		table.Head(head...)
	}
	return table
}

type column struct {
	width, least   int
	right, numbers bool
}

var number = regexp.MustCompile(`^[-+]?[\d.,]+( \S{1,4})?$`)

func (t *Table) columns() []column {
	var out []column
	for r, row := range t.rows {
		for i, cell := range row {
			if i == len(out) {
				out = append(out, column{right: true})
			}
			c := &out[i]
			for line := range strings.SplitSeq(cell, "\n") {
				c.width = max(c.width, utf8.RuneCountInString(line))
			}
			is := number.MatchString(cell)
			c.numbers = c.numbers || is
			c.right = c.right && (r == 0 || cell == "" || cell == "-" || is)
		}
	}
	for i := range out {
		c := &out[i]
		c.right = c.right && c.numbers
		switch c.least = c.width; {
		case t.width == 0 || c.right:
		case i == 0: // the row's name
			c.least = min(c.width, 2*t.width/5)
		default:
			c.least = min(c.width, leastText)
		}
	}
	return out
}

// fold divides columns into those of each line, and narrows columns of text to fit.
func (t *Table) fold(all []column) (groups [][]column) {
	for len(all) > 0 {
		room, n := t.width, 1
		if len(groups) > 0 {
			room -= gap
		}
		for used := all[0].least; n < len(all) && (t.width == 0 || used+gap+all[n].least <= room); n++ {
			used += gap + all[n].least
		}
		group := all[:n:n]
		for excess := sum(group) - room; excess > 0 && t.width > 0; excess-- {
			widest := &group[0]
			for i := range group {
				if c := &group[i]; c.width-c.least > widest.width-widest.least {
					widest = c
				}
			}
			widest.width--
		}
		groups, all = append(groups, group), all[n:]
	}
	return groups
}

func sum(group []column) int {
	n := gap * (len(group) - 1)
	for _, c := range group {
		n += c.width
	}
	return n
}

// Flush writes the rows, and begins another table.
func (t *Table) Flush() {
	groups := t.fold(t.columns())
	for r, row := range t.rows {
		if len(row) == 0 {
			fmt.Fprintln(t.out)
		}
		longest := 0
		for g, group := range groups {
			cells := row[:min(len(group), len(row))]
			row = row[len(cells):]
			indent := gap * min(g, 1)
			longest = max(longest, indent+sum(group))
			if g == 0 && len(cells) > 0 || slices.ContainsFunc(cells, func(c string) bool { return c != "" && c != "-" }) {
				t.print(indent, group, cells)
			}
		}
		if r == 0 && t.rule {
			fmt.Fprintln(t.out, strings.Repeat("─", longest))
		}
	}
	t.rows, t.rule = nil, false
}

func (t *Table) print(indent int, group []column, cells []string) {
	blocks, height := make([][]string, len(cells)), 1
	for i, cell := range cells {
		blocks[i] = wrap(cell, group[i].width)
		height = max(height, len(blocks[i]))
	}
	for k := range height {
		line := strings.Repeat(" ", indent)
		for i, b := range blocks {
			text := ""
			if k < len(b) {
				text = b[k]
			}
			pad := strings.Repeat(" ", max(0, group[i].width-utf8.RuneCountInString(text)))
			if group[i].right {
				text = pad + text
			} else {
				text += pad
			}
			line += text + strings.Repeat(" ", gap)
		}
		fmt.Fprintln(t.out, strings.TrimRight(line, " "))
	}
}

// wrap breaks lines at spaces, after slashes, or else anywhere.
func wrap(text string, width int) (lines []string) {
	for line := range strings.SplitSeq(text, "\n") {
		for r := []rune(line); len(r) > width; r = []rune(line) {
			cut := width
			for k := width; k > 0; k-- {
				if r[k] == ' ' || r[k-1] == '/' {
					cut = k
					break
				}
			}
			lines = append(lines, string(r[:cut]))
			line = strings.TrimLeft(string(r[cut:]), " ")
		}
		lines = append(lines, line)
	}
	return lines
}

// Duration prints nanoseconds with three digits: 0.254 ns, 41.2 ns, 1.50 ms, 198 s.
func Duration[T ~int64 | ~float64](ns T) string {
	n, unit := prefixed(float64(ns), [4]string{" s", " ms", " µs", " ns"})
	if n == 0 {
		return "0" + unit
	}
	digits := 3
	for limit := 0.9995; digits > 0 && n >= limit; limit *= 10 {
		digits--
	}
	return strconv.FormatFloat(n, 'f', digits, 64) + unit
}

// Count prints a number with three digits: 5.18 k.
func Count(n float64) string {
	n, unit := prefixed(n, [4]string{" G", " M", " k", ""})
	return fmt.Sprintf("%.3g%s", n, unit)
}

// prefixed rounds as three digits do: 999.5 of the smaller unit would be printed as 1000.
func prefixed(n float64, units [4]string) (float64, string) {
	for i, u := range []float64{1e9, 1e6, 1e3} {
		if n >= u*0.9995 {
			return n / u, units[i]
		}
	}
	return n, units[3]
}
