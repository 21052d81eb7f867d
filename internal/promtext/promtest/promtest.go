// Package promtest reads Prometheus's text format 0.0.4 strictly, for tests.
package promtest

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	headLine = regexp.MustCompile(`^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)$`)
	sample   = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$`)
	label    = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)`)
	badHelp  = regexp.MustCompile(`(^|[^\\])(\\\\)*\\([^n\\]|$)`)
)

type family struct {
	name, kind string
	histograms map[string]*histogram // by labels without le
	labels     string                // of the latest histogram
}

type histogram struct {
	le, below  float64 // of the latest bucket
	sum, count *float64
}

// Parse returns the value of each series, such as `x_total{a="b"}`. The error is the first break of
// the format or its conventions.
func Parse(text string) (map[string]float64, error) {
	series := map[string]float64{}
	seen := map[string]bool{}
	if text != "" && !strings.HasSuffix(text, "\n") {
		return nil, fmt.Errorf("the last line has no end")
	}
	var f *family
	help := ""
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		fail := func(why string) (map[string]float64, error) {
			return nil, fmt.Errorf("line %d: %s: %s", n+1, why, line)
		}
		if m := headLine.FindStringSubmatch(line); m != nil {
			switch {
			case m[1] == "HELP" && (seen[m[2]] || help != ""):
				return fail("a second HELP, or one without a TYPE")
			case m[1] == "HELP" && badHelp.MatchString(m[3]):
				return fail("escapes")
			case m[1] == "HELP":
				if err := f.end(); err != nil {
					return nil, err
				}
				help, f = m[2], nil
				seen[help] = true
				continue
			case m[2] != help:
				return fail("a TYPE without its HELP directly before it")
			case !slices.Contains([]string{"counter", "gauge", "histogram"}, m[3]):
				return fail("no such type")
			case (m[3] == "counter") != strings.HasSuffix(m[2], "_total"):
				return fail("counters, and no others, end in _total")
			}
			f, help = &family{name: m[2], kind: m[3], histograms: map[string]*histogram{}}, ""
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil {
			return fail("no sample")
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return fail("no number")
		}
		labels, le, err := parseLabels(m[2])
		if err != nil {
			return fail(err.Error())
		}
		key := strings.TrimSuffix(line, " "+m[3])
		if _, ok := series[key]; ok {
			return fail("the series is there twice")
		}
		series[key] = v
		if f == nil {
			return fail("no TYPE before it")
		}
		if err := f.add(m[1], labels, le, v); err != nil {
			return fail(err.Error())
		}
	}
	if help != "" {
		return nil, fmt.Errorf("%s has no TYPE", help)
	}
	return series, f.end()
}

// parseLabels returns labels without le, and le.
func parseLabels(s string) (rest, le string, err error) {
	names := map[string]bool{}
	for s != "" {
		m := label.FindStringSubmatch(s)
		if m == nil || m[3] == "," && len(m[0]) == len(s) {
			return "", "", fmt.Errorf("labels")
		}
		if names[m[1]] {
			return "", "", fmt.Errorf("label %s twice", m[1])
		}
		names[m[1]] = true
		if m[1] == "le" {
			le = m[2]
		} else {
			rest += m[1] + "=" + m[2] + ","
		}
		s = s[len(m[0]):]
	}
	return rest, le, nil
}

func (f *family) add(name, labels, le string, v float64) error {
	if f.kind != "histogram" {
		if name != f.name || le != "" {
			return fmt.Errorf("it is not of %s", f.name)
		}
		if f.kind == "counter" && !(v >= 0) {
			return fmt.Errorf("a counter below 0")
		}
		return nil
	}
	h := f.histograms[labels]
	if h == nil {
		h = &histogram{le: math.Inf(-1)}
		f.histograms[labels], f.labels = h, labels
	}
	if labels != f.labels {
		return fmt.Errorf("a histogram in two pieces")
	}
	switch suffix, _ := strings.CutPrefix(name, f.name); {
	case suffix == "_bucket" && le != "":
		bound, err := strconv.ParseFloat(le, 64)
		if err != nil {
			return err
		}
		if bound <= h.le || v < h.below {
			return fmt.Errorf("it isn't above the bucket before it, or has less")
		}
		h.le, h.below = bound, v
	case suffix == "_sum" && le == "":
		h.sum = &v
	case suffix == "_count" && le == "":
		h.count = &v
	default:
		return fmt.Errorf("it is not of histogram %s", f.name)
	}
	return nil
}

// end checks the histograms of a family.
func (f *family) end() error {
	if f == nil {
		return nil
	}
	for labels, h := range f.histograms {
		switch {
		case h.sum == nil || h.count == nil:
			return fmt.Errorf("%s{%s} has no sum or no count", f.name, labels)
		case !math.IsInf(h.le, 1):
			return fmt.Errorf("%s{%s} doesn't end in +Inf", f.name, labels)
		case h.below != *h.count:
			return fmt.Errorf("%s{%s}: %v up to +Inf, but the count is %v", f.name, labels, h.below, *h.count)
		}
	}
	return nil
}
