// Package promtext writes Prometheus's text format 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/#text-format-details).
package promtext

import (
	"io"
	"strconv"
	"strings"
)

// ContentType is the Content-Type of the format.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Kinds of families.
const (
	Counter   = "counter"
	Gauge     = "gauge"
	Histogram = "histogram"
)

// Writer collects families of samples. The zero Writer is empty.
type Writer struct {
	text   []byte
	family string
}

// Family begins a family of samples. Counters' names end in _total.
func (w *Writer) Family(name, kind, help string) {
	w.family = name
	w.put("# HELP ", name, " ", helpEscapes.Replace(valid(help)), "\n# TYPE ", name, " ", kind, "\n")
}

// Uint adds a sample with a whole number. Labels are pairs of a name and its value.
func (w *Writer) Uint(v uint64, labels ...string) { w.uint("", v, labels) }

// Float adds a sample with any number. Labels are pairs of a name and its value.
func (w *Writer) Float(v float64, labels ...string) { w.float("", v, labels) }

// Histogram adds one histogram. counts has an element for each bound and one above all.
func (w *Writer) Histogram(bounds []float64, counts []uint64, sum float64, labels ...string) {
	total := uint64(0)
	for i, n := range counts {
		total += n
		le := "+Inf"
		if i < len(bounds) {
			le = strconv.FormatFloat(bounds[i], 'g', -1, 64)
		}
		w.uint("_bucket", total, append(labels[:len(labels):len(labels)], "le", le))
	}
	w.float("_sum", sum, labels)
	w.uint("_count", total, labels)
}

// WriteTo writes the text by one Write and empties the Writer.
func (w *Writer) WriteTo(to io.Writer) (int64, error) {
	text := w.text
	w.text = nil
	n, err := to.Write(text)
	return int64(n), err
}

func (w *Writer) put(parts ...string) {
	for _, p := range parts {
		w.text = append(w.text, p...)
	}
}

func (w *Writer) series(suffix string, labels []string) {
	w.put(w.family, suffix)
	for i := 0; i+1 < len(labels); i += 2 {
		before := ","
		if i == 0 {
			before = "{"
		}
		w.put(before, labels[i], `="`, valueEscapes.Replace(valid(labels[i+1])), `"`)
	}
	if len(labels) > 0 {
		w.put("}")
	}
}

func (w *Writer) uint(suffix string, v uint64, labels []string) {
	w.series(suffix, labels)
	w.text = append(strconv.AppendUint(append(w.text, ' '), v, 10), '\n')
}

// float relies on Go's forms of +Inf and NaN, which are the format's.
func (w *Writer) float(suffix string, v float64, labels []string) {
	w.series(suffix, labels)
	w.text = append(strconv.AppendFloat(append(w.text, ' '), v, 'g', -1, 64), '\n')
}

var (
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	valueEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
)

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
