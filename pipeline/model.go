package pipeline

import (
	"context"
	"errors"

	"github.com/reprise-tt/reprise"
)

// Model loads the programs of a model for a pipeline's buffers. Compile calls it once.
type Model func(ctx context.Context, b *Buffers) (*Stages, error)

// Buffers are the buffers of a pipeline's configuration; nil where it has none.
type Buffers struct {
	Device  *reprise.Device
	Input   *reprise.Buffer
	L1Input *reprise.Buffer
	Outputs []*reprise.Buffer
	Scratch *reprise.Pool // of L1, for intermediate buffers
	freed   bool
}

// FreeL1Input lets later buffers of Scratch use the memory of L1Input, if they are written only
// after the first programs have read the input. The model must release them before it returns.
// Compile then allocates L1Input again, at its old address.
func (b *Buffers) FreeL1Input() error {
	if b.Scratch == nil || b.L1Input == nil || b.freed {
		return errors.New("pipeline: free L1 input: it is not in a scratch area: give L1Input and Scratch, and free it once")
	}
	b.freed = true
	return b.L1Input.Release()
}

// Stages are the programs of a model, in the order in which they run.
type Stages struct {
	// First reads what the host has written. After it the next input may be written, while Body
	// runs; if it is empty, after Body.
	First []*reprise.Executable
	// Body is the model; what a trace records.
	Body []*reprise.Executable
	// Run submits the model to queue 0, instead of Body, if its operations load their programs
	// themselves, as those of package ops do. Capture records that as a trace.
	Run     func(ctx context.Context) error
	Capture func(ctx context.Context, name string) (*reprise.Trace, error)
	// Last writes the outputs. It alone waits until the previous outputs have been read; if empty,
	// Body waits.
	Last []*reprise.Executable
	// Outputs are read for each input; nil stands for those of the configuration.
	Outputs []*reprise.Buffer
	// Close, if not nil, releases what the model holds; Pipeline.Release calls it.
	Close func(context.Context) error
}
