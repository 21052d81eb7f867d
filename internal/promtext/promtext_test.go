package promtext

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/promtext/promtest"
)

func TestWriter(t *testing.T) {
	var w Writer
	w.Family("a_total", Counter, "Lines\nand \\ of \"a\".")
	w.Uint(math.MaxUint64)
	w.Uint(1, "x", "back\\slash \"quoted\"\nline", "y", "\xff,}")
	w.Family("b", Gauge, "Numbers.")
	w.Float(0.1, "n", "0.1")
	w.Float(math.Inf(1), "n", "inf")
	w.Float(math.NaN(), "n", "nan")
	w.Float(1772366400.25, "n", "time")
	w.Family("c_seconds", Histogram, "Times.")
	w.Histogram([]float64{1e-6, 0.5}, []uint64{3, 0, 2}, 7.25, "x", "y")
	w.Histogram([]float64{1}, []uint64{0, 0}, 0, "x", "z")
	want := `# HELP a_total Lines\nand \\ of "a".
# TYPE a_total counter
a_total 18446744073709551615
a_total{x="back\\slash \"quoted\"\nline",y="` + "\uFFFD" + `,}"} 1
# HELP b Numbers.
# TYPE b gauge
b{n="0.1"} 0.1
b{n="inf"} +Inf
b{n="nan"} NaN
b{n="time"} 1.77236640025e+09
# HELP c_seconds Times.
# TYPE c_seconds histogram
c_seconds_bucket{x="y",le="1e-06"} 3
c_seconds_bucket{x="y",le="0.5"} 3
c_seconds_bucket{x="y",le="+Inf"} 5
c_seconds_sum{x="y"} 7.25
c_seconds_count{x="y"} 5
c_seconds_bucket{x="z",le="1"} 0
c_seconds_bucket{x="z",le="+Inf"} 0
c_seconds_sum{x="z"} 0
c_seconds_count{x="z"} 0
`
	var got strings.Builder
	n, err := w.WriteTo(&got)
	if err != nil || n != int64(len(want)) {
		t.Errorf("wrote %d B: %v", n, err)
	}
	expect.NoDiff(t, got.String(), want, "text")
	series := expect.Value(promtest.Parse(got.String()))(t)
	if v := series[`c_seconds_bucket{x="y",le="+Inf"}`]; len(series) != 15 || v != 5 {
		t.Errorf("%d series, %v", len(series), v)
	}
	got.Reset()
	if n, err := w.WriteTo(&got); n != 0 || err != nil || got.Len() != 0 {
		t.Errorf("a Writer that was written: %d, %v, %q", n, err, got.String())
	}
	expect.Fails(t, expect.ErrOf(w.WriteTo(broken{})), errBroken, "the writer's error")
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestParseIsStrict(t *testing.T) {
	const gauge = "# HELP x X.\n# TYPE x gauge\n"
	for _, text := range []string{
		"x 1\n",
		gauge + "x 1",
		gauge + "x 1\nx 2\n",
		gauge + "y 1\n",
		gauge + "x{a=\"b\",} 1\n",
		gauge + "x{a=\"b\"c\"} 1\n",
		gauge + "x{a=\"\\t\"} 1\n",
		gauge + "x one\n",
		gauge + "\nx 1\n",
		"# HELP x X.\n# TYPE x counter\nx 1\n",
	} {
		if _, err := promtest.Parse(text); err == nil {
			t.Errorf("no error for:\n%s", text)
		}
	}
}
