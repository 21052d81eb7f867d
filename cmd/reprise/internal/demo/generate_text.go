package demo

import (
	"bytes"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/examples/words"
)

// lineWidth is the most columns of a line of words.
const lineWidth = 100

// wordWriter writes words as they come, several on a line.
type wordWriter struct {
	w      io.Writer
	word   []byte
	column int
}

// add adds a token, and writes the word that it ends.
func (s *wordWriter) add(token uint8) error {
	if token != words.End {
		s.word = append(s.word, words.Letter(token))
		return nil
	}
	before := " "
	switch {
	case s.column == 0:
		before = ""
	case s.column+1+len(s.word) > lineWidth:
		before, s.column = "\n", 0
	}
	n, err := fmt.Fprintf(s.w, "%s%s", before, s.word)
	s.column += n
	s.word = s.word[:0]
	return err
}

// end ends the line.
func (s *wordWriter) end() error {
	if s.column == 0 {
		return nil
	}
	_, err := fmt.Fprintln(s.w)
	return err
}

// print writes what is said after the words.
func (r *Generated) print(w io.Writer) error {
	var b bytes.Buffer
	n := len(r.Words)
	fmt.Fprintf(&b, "\n%s: %d words of %d tokens, seed %d, by a transformer of %s parameters, %d programs a token\n",
		r.Device, n, r.Tokens, r.Seed, humanize.Comma(int64(r.Parameters)), r.Programs)
	fmt.Fprintf(&b, "known     %d of them are in the list the network learned from, %d (%.1f %%) in the part that was held back\n",
		r.Trained, r.HeldBack, 100*r.HeldBackShare)
	fmt.Fprintf(&b, "checked   all tokens against the arithmetic of the engines on the host: %d mismatches\n\n", r.Mismatches)
	fmt.Fprintf(&b, "%-10s %12s %14s %14s\n", "", "submissions", "commands", "tokens/s")
	for _, g := range r.Runs {
		fmt.Fprintf(&b, "%-10s %12s %14s %14.1f\n", g.Mode, humanize.Comma(int64(g.Submissions)), humanize.Comma(int64(g.HostBytes))+" B",
			g.PerSecond)
	}
	fmt.Fprintf(&b, "\ntook %.1f s\n", r.Seconds)
	_, err := w.Write(b.Bytes())
	return err
}

// printTogether writes the words of several processes, and what all of them took.
func printTogether(w io.Writer, processes []Generated) error {
	var b bytes.Buffer
	tokens, mismatches, perSecond := 0, 0, 0.0
	for i := range processes {
		r := &processes[i]
		fmt.Fprintf(&b, "process %d, %s, seed %d:\n", i, r.Device, r.Seed)
		show := wordWriter{w: &b}
		for _, word := range r.Words {
			show.word = append(show.word[:0], word...)
			if err := show.add(words.End); err != nil {
				return err
			}
		}
		if err := show.end(); err != nil {
			return err
		}
		tokens, mismatches, perSecond = tokens+r.Tokens, mismatches+r.Mismatches, perSecond+r.PerSecond
	}
	fmt.Fprintf(&b, "\n%d processes: %d tokens, %.1f a second; %d mismatches against the arithmetic of the engines on the host\n",
		len(processes), tokens, perSecond, mismatches)
	_, err := w.Write(b.Bytes())
	return err
}
