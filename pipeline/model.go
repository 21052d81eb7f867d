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
	freed   bool          // L1Input
}

// FreeL1Input lets later buffers of Scratch use the memory of L1Input: buffers that are written
// only after the first programs have read the input. The model has to release all buffers in that
// memory before it returns; programs hold the memory. Compile then allocates L1Input again and
// checks that it has its old address.
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
	// runs. If it is empty, the next input has to wait for all of Body.
	First []*reprise.Executable
	// Body is the model; what a trace records.
	Body []*reprise.Executable
	// Run submits the model to queue 0, for a model whose operations load their programs
	// themselves, as those of package ops do. Body is empty then. Capture records what Run submits
	// as a trace of a name; it is needed for a trace only.
	Run     func(ctx context.Context) error
	Capture func(ctx context.Context, name string) (*reprise.Trace, error)
	// Last writes the outputs. Only Last has to wait until the previous outputs have been read. If
	// it is empty, Body waits.
	Last []*reprise.Executable
	// Outputs are what is read for each input; nil stands for those of the configuration.
	Outputs []*reprise.Buffer
	// Close releases what the model holds; Pipeline.Release calls it. It may be nil.
	Close func(context.Context) error
}
