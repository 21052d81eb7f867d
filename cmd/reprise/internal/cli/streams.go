// Package cli is what all commands share: where they print, how they name devices, what their errors look like.
package cli

import (
	"io"
	"os"
	"os/signal"
	"syscall"
)

// ExitHelp goes with the help of those commands.
const ExitHelp = `Exit codes: 0 all is well, 1 something went wrong or a check failed, 2 wrong flags or arguments, 130 interrupted.`

// Streams are where a command reads and writes.
type Streams struct {
	Out, Err io.Writer
	Who      *Process
}

// Endings are the signals that end a command in order. One that whoever started the process ignores, as nohup does, stays so.
func Endings() []os.Signal {
	s := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		s = append(s, syscall.SIGHUP)
	}
	return s
}
