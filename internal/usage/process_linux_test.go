package usage

import (
	"testing"

	"github.com/reprise-tt/reprise/internal/expect"
)

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
		expect.Equal(t, parseStart([]byte(c.stat)), c.want, "%q", c.stat)
	}
}
