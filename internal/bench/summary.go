package bench

import (
	"context"
	"fmt"
	"runtime"
)

// summaryParts measure the rows of the summary, in the order of the table.
var summaryParts = [...]struct {
	name string
	run  func(context.Context, *session) error
}{
	{"submit", summarizeSubmit},
	{"instructions", summarizeInstructions},
	{"capture", summarizeCapture},
	{"waits", summarizeWaits},
	{"emulator", summarizeEmulator},
	{"programs", summarizePrograms},
	{"demo", summarizeDemo},
	{"processors", summarizeProcessors},
	{"chips", summarizeChips},
}

// measureSummary measures what users feel, by figures of other families, and makes a table of them.
func measureSummary(ctx context.Context, s *session) error {
	s.config.Programs = []int{1}
	for _, p := range summaryParts {
		runtime.GC()
		if err := p.run(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}
