package cli

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/reprise-tt/reprise"
)

// Hangs are the flags of commands that wait for programs.
type Hangs struct {
	DumpDir     string  `help:"Directory for the dump of a hang, for reprise inspect." default:"${temp_dir}" placeholder:"DIR"`
	HangTimeout Seconds `help:"How long a queue may make no progress before it counts as hung; by default 10 seconds." env:"TT_METAL_OPERATION_TIMEOUT_SECONDS" placeholder:"SECONDS"`
}

// Options are those for opening a device.
func (h *Hangs) Options() []reprise.Option {
	return []reprise.Option{reprise.WithDumpDir(h.DumpDir), reprise.WithHangTimeout(time.Duration(h.HangTimeout))}
}

// Seconds is a time limit in seconds, as TT-NN's variable has it; 0 is the default.
type Seconds time.Duration

// UnmarshalText reads a number of seconds, which may have a fraction.
func (s *Seconds) UnmarshalText(text []byte) error {
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(n >= 0 && n <= math.MaxInt64/1e9) {
		return fmt.Errorf("%q is no number of seconds", text)
	}
	*s = Seconds(n * float64(time.Second))
	return nil
}
