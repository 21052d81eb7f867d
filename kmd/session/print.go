package session

import (
	"bufio"
	"fmt"
	"io"
)

// Print writes the recording as text, one line for each event.
func (s *Session) Print(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s: %d events\n", s.Target, len(s.Events))
	for i := range s.Events {
		fmt.Fprintf(out, "%6d  %v\n", i, &s.Events[i])
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("session: print: %w", err)
	}
	return nil
}
