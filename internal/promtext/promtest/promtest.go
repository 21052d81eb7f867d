// Package promtest reads Prometheus's text format 0.0.4, for tests.
package promtest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	head   = regexp.MustCompile(`^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)\n$`)
	label  = `[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"`
	sample = regexp.MustCompile(`^(([a-zA-Z_:][a-zA-Z0-9_:]*?)(?:_bucket|_sum|_count)?(?:\{` + label + `(?:,` + label + `)*\})?) (\S+)\n$`)
)

// Parse returns the value of each series, such as `x_total{a="b"}`. The error is the first line
// that isn't of the format, is of no family, or is there twice.
func Parse(text string) (map[string]float64, error) {
	series := map[string]float64{}
	family := ""
	for line := range strings.Lines(text) {
		if m := head.FindStringSubmatch(line); m != nil {
			if m[1] == "TYPE" && (m[3] == "counter") != strings.HasSuffix(m[2], "_total") {
				return nil, fmt.Errorf("counters, and no others, end in _total: %q", line)
			}
			family = m[2]
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil || m[2] != family {
			return nil, fmt.Errorf("it isn't of family %q: %q", family, line)
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if _, twice := series[m[1]]; twice || err != nil {
			return nil, fmt.Errorf("no number, or the same series again: %q", line)
		}
		series[m[1]] = v
	}
	return series, nil
}
