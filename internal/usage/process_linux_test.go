package usage

import "testing"

// A program's name may look like the rest of the line.
func TestParseStart(t *testing.T) {
	const rest = " S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 99 88"
	for _, c := range []struct {
		stat string
		want uint64
	}{
		{"7 (sleep)" + rest, 12345},
		{"7 (a) S 1 2) b)" + rest, 12345},
		{"7 (sleep) S 1 2", 0},
		{"7 sleep", 0},
		{"7 (sleep) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 x 99", 0},
		{"", 0},
	} {
		if got := parseStart([]byte(c.stat)); got != c.want {
			t.Errorf("%q: %d, want %d", c.stat, got, c.want)
		}
	}
}
