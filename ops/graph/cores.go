package graph

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// CoreRange is a rectangle of cores, both corners included.
type CoreRange struct{ X0, Y0, X1, Y1 int }

func coresText(f Format, cores []CoreRange) string {
	s := make([]string, len(cores))
	for i, c := range cores {
		if f == Format2025 {
			s[i] = fmt.Sprintf("[(x=%d,y=%d) - (x=%d,y=%d)]", c.X0, c.Y0, c.X1, c.Y1)
		} else {
			s[i] = fmt.Sprintf("[%d-%d - %d-%d]", c.X0, c.Y0, c.X1, c.Y1)
		}
	}
	return "{" + strings.Join(s, ", ") + "}"
}

// FormatCores returns a set of cores in the form of [Format2026v1] and [Format2026v2], such as
// {[0-0 - 7-7]}. [ParseCores] reads it.
func FormatCores(cores []CoreRange) string { return coresText(Format2026v2, cores) }

const maxRanges = 1024

// ParseCores reads a set of cores in the form of any [Format]: {[(x=0,y=0) - (x=0,y=7)]}, {[0-0 -
// 7-7]} or a JSON array of rectangles with start and end; nil for invalid text.
func ParseCores(s string) []CoreRange {
	type corner struct{ X, Y int }
	var js []struct{ Start, End corner }
	var out []CoreRange
	if len(s) > 0 && s[0] == '[' {
		if json.Unmarshal([]byte(s), &js) != nil {
			return nil
		}
		for _, r := range js[:min(len(js), maxRanges)] {
			out = append(out, CoreRange{r.Start.X, r.Start.Y, r.End.X, r.End.Y})
		}
		return out
	}
	for _, m := range regexp.MustCompile(`\[\(?(?:x=)?(\d+)(?:,y=|-)(\d+)\)? - \(?(?:x=)?(\d+)(?:,y=|-)(\d+)\)?\]`).FindAllStringSubmatch(s,
		maxRanges) {
		var v [4]int
		for i := range v {
			n, err := strconv.Atoi(m[i+1])
			if err != nil {
				return nil
			}
			v[i] = n
		}
		out = append(out, CoreRange{v[0], v[1], v[2], v[3]})
	}
	return out
}
