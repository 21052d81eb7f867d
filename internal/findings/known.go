package findings

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"strings"
)

// Known is a finding that has been understood, in code that its user doesn't write.
type Known struct {
	Check        string
	Later, Other string // patterns of kernels' names, as of path.Match; "-" where there is none
	Text         string // a part of Finding.Text
	Reason       string
}

// ReadKnown reads a line for each: check, kernels, text and reason, between semicolons. Lines that
// begin with # are comments. The error names a line.
func ReadKnown(r io.Reader) (list []Known, err error) {
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		if line := strings.TrimSpace(lines.Text()); line != "" && line[0] != '#' {
			part := strings.Split(line, ";")
			for i := range part {
				part[i] = strings.TrimSpace(part[i])
			}
			if len(part) != 5 || part[3] == "" || part[4] == "" {
				return nil, fmt.Errorf("findings: line %d: %q: want check; kernel; earlier kernel or -; text; reason", n, line)
			}
			list = append(list, Known{part[0], part[1], part[2], part[3], part[4]})
		}
	}
	return list, lines.Err()
}

func matches(pattern string, a *Access) bool {
	if a == nil || len(a.Frames) == 0 {
		return pattern == "-"
	}
	ok, err := path.Match(pattern, a.Frames[0].Module)
	return ok && err == nil
}

// FilterKnown returns the findings that aren't known, and the number of known ones.
func FilterKnown(list []Finding, known []Known) (left []Finding, n int) {
next:
	for i := range list {
		f := &list[i]
		for _, k := range known {
			if k.Check == f.Check && matches(k.Later, &f.At) && matches(k.Other, f.Other) && strings.Contains(f.Text, k.Text) {
				n++
				continue next
			}
		}
		left = append(left, *f)
	}
	return left, n
}
