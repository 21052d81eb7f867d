package reprise

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Pipeline runs a model on one input after another. It keeps the host ahead of the device, and with a second queue it
// moves inputs and outputs while the model runs: the four patterns of tt-metal's advanced performance notes, with the
// configurations of tt_cnn's pipeline.
//
// [Pipeline.Compile] comes first, [Pipeline.Cleanup] last. In between, inputs go through [Pipeline.Run], or through
// [Pipeline.Enqueue] and [Pipeline.PopAll]. A pipeline belongs to one goroutine at a time; it has none of its own.
type Pipeline struct {
	d     *Device
	c     PipelineConfig
	model Model

	ops, transfers *Queue // transfers is ops unless there are two queues

	mu    sync.Mutex // held while the pipeline is used
	state pipelineState
	bufs  ModelBuffers
	owned []*Buffer // of bufs, to be freed
	st    *Stages
	trace *Trace

	written, consumed, finished, read *Event
	primed                            uint64 // start of the queues (Starts) since which consumed and read are recorded behind everything; 0 for none

	flying []*flight  // in order
	pre    [][][]byte // preallocated outputs
	next   int        // of pre
	broken error      // the device could not be brought to rest
}

type pipelineState uint8

const (
	pipelineNew pipelineState = iota
	pipelineCompiled
	pipelineClean
)

// PipelineConfig says how a pipeline runs its model.
type PipelineConfig struct {
	Name  string // of the trace, for errors
	Trace bool   // record the model's body once and replay it
	// Queues is 1 or 2; 0 means 1. With 2, inputs are written by queue 1 while queue 0 runs the model.
	Queues int
	// TransferQueue makes queue 1 read the outputs too, so that queue 0 does nothing but run programs.
	TransferQueue bool

	// Input is the buffer that the host writes inputs to. It lies in DRAM and stays where it is. Without it inputs are
	// written to L1Input, which needs a single queue.
	Input *BufferConfig
	// L1Input is the buffer in L1 that the model's body reads. It may be left out if the body reads Input.
	L1Input *BufferConfig
	// Scratch is how many bytes of L1 the L1Input and the model's intermediate buffers share, over all banks: see
	// ModelBuffers.FreeL1Input. 0 means that L1Input has memory of its own.
	Scratch int
	// Outputs are the buffers that the model leaves its outputs in. Without them the model names buffers of its own.
	Outputs []BufferConfig
	// Depth is how many inputs may be under way in Run; 0 means 4. It bounds the memory for outputs, and how far inputs are
	// taken ahead of the outputs that are given out.
	Depth int
}

// defaultDepth is enough for a device that is never idle: one input on its way in, one that is run, one on its way out.
const defaultDepth = 4

// Model sets a model up, for buffers that the pipeline has allocated: it loads the programs. Compile calls it once.
type Model func(ctx context.Context, b *ModelBuffers) (*Stages, error)

// ModelBuffers are what a pipeline allocates by its configuration; what was not asked for is nil.
type ModelBuffers struct {
	Device  *Device
	Input   *Buffer
	L1Input *Buffer
	Outputs []*Buffer
	Scratch *Pool // of L1, for intermediate buffers
	freed   bool
}

// FreeL1Input lets buffers that are taken from Scratch from now on have the place of L1Input. That is right for buffers
// that are written only when the programs behind the first ones have read the input. All that take its place have to be
// freed before the Model returns; programs keep the memory. Compile then allocates L1Input again and makes sure that it has
// got its old address, which the programs know.
func (b *ModelBuffers) FreeL1Input() error {
	if b.Scratch == nil || b.L1Input == nil || b.freed {
		return errors.New("reprise: pipeline: there is no L1 input to free in a scratch area: give L1Input and Scratch, and free it once")
	}
	b.freed = true
	return b.L1Input.Free()
}

// Stages are the programs of a model, in the order in which they run.
type Stages struct {
	// First reads what the host has written. Behind it the next input may be written, while Body runs. If there is none,
	// that has to wait for all of Body.
	First []*Executable
	// Body is the model; what a trace records.
	Body []*Executable
	// Last writes the outputs. Only Last has to wait until the outputs before have been read. If there is none, Body waits.
	Last []*Executable
	// Outputs are what is read for each input; nil stands for those of the configuration.
	Outputs []*Buffer
	// Close gives up what the model holds, in Cleanup; nil if there is nothing.
	Close func(context.Context) error
}

// PipelineError says why there can't be a pipeline of a configuration.
type PipelineError struct {
	Config PipelineConfig
	Why    string // and what to do
}

// Error implements error.
func (e *PipelineError) Error() string {
	return fmt.Sprintf("reprise: pipeline %q (%s): %s", e.Config.Name, e.Config.what(), e.Why)
}

// what describes a configuration.
func (c *PipelineConfig) what() string {
	parts := []string{"no trace", "1 queue"}
	if c.Trace {
		parts[0] = "trace"
	}
	if c.Queues != 0 && c.Queues != 1 {
		parts[1] = fmt.Sprintf("%d queues", c.Queues)
	}
	if c.TransferQueue {
		parts = append(parts, "transfers on their own queue")
	}
	return strings.Join(parts, ", ")
}

// PlaceError says that the L1 input of a pipeline didn't get its address again, which the model's programs read.
type PlaceError struct {
	Buffer    string
	Want, Got uint32 // Got is 0 if there is no room at all
	Err       error  // why, in that case
}

// Error implements error.
func (e *PlaceError) Error() string {
	why := fmt.Sprintf("it would lie at %#x now", e.Got)
	if e.Err != nil {
		why = e.Err.Error()
	}
	return fmt.Sprintf("L1 input %q was at %#x when the programs were loaded: %s: free everything that was taken from the scratch area behind it before the model returns", e.Buffer, e.Want, why)
}

// Unwrap returns why there is no room.
func (e *PlaceError) Unwrap() error { return e.Err }

// NewPipeline returns a pipeline that isn't compiled yet. The error is a *PipelineError.
func (d *Device) NewPipeline(c PipelineConfig, model Model) (*Pipeline, error) {
	if why := c.unsupported(d, model); why != "" {
		return nil, &PipelineError{Config: c, Why: why}
	}
	p := &Pipeline{d: d, c: c, model: model, ops: d.queues[0], transfers: d.queues[0]}
	if c.Queues == 2 {
		p.transfers = d.queues[1]
	}
	if p.c.Depth == 0 {
		p.c.Depth = defaultDepth
	}
	for _, e := range []struct {
		to   **Event
		name string
	}{{&p.written, "input written"}, {&p.consumed, "input consumed"}, {&p.finished, "outputs finished"}, {&p.read, "outputs read"}} {
		*e.to = d.NewEvent(c.Name + ": " + e.name)
	}
	return p, nil
}

// unsupported says why there can't be a pipeline; it is empty if there can.
func (c *PipelineConfig) unsupported(d *Device, model Model) string {
	switch {
	case model == nil:
		return "there is no model: it is nil"
	case c.Queues < 0 || c.Queues > 2:
		return "a pipeline uses 1 or 2 queues"
	case c.Queues > d.Queues():
		return fmt.Sprintf("the device has %d queue: open it with reprise.WithQueues(2)", d.Queues())
	case c.TransferQueue && c.Queues < 2:
		return "transfers can have a queue of their own only if there are 2"
	case c.TransferQueue && !c.Trace:
		return "transfers have a queue of their own only together with a trace: without one it is the host that programs wait for"
	case c.Input == nil && c.L1Input == nil:
		return "there is nothing to write inputs to: give Input, L1Input, or both"
	case c.Input == nil && c.Queues == 2:
		return "queue 1 writes an input while queue 0 still runs on the one before, so inputs need a buffer that stays: give Input"
	case c.Input != nil && c.Input.Kind != DRAM:
		return fmt.Sprintf("the input that stays is in DRAM, this one in %v: give it as L1Input", c.Input.Kind)
	case c.L1Input != nil && c.L1Input.Kind == DRAM:
		return "the L1 input is in DRAM: set its Kind"
	case c.TransferQueue && len(c.Outputs) == 0:
		return "queue 1 reads outputs while queue 0 already runs on the next input, so outputs need buffers that stay: give Outputs"
	case c.Scratch < 0 || c.Scratch > 0 && (c.L1Input == nil || c.L1Input.Kind != L1):
		return "a scratch area is L1 that an L1 input shares with others: give L1Input"
	case c.Depth < 0:
		return fmt.Sprintf("a depth of %d: at least one input is under way", c.Depth)
	}
	return ""
}

var (
	// ErrNotCompiled is returned when a pipeline is used before Compile, or after a Compile that failed.
	ErrNotCompiled = errors.New("the pipeline is not compiled: call Compile first")
	// ErrCompiled is returned when a pipeline is compiled again.
	ErrCompiled = errors.New("the pipeline is compiled already")
	// ErrPipelineBusy is returned when a pipeline is used from inside its own Run, or by two goroutines at once.
	ErrPipelineBusy = errors.New("the pipeline is in use: let Run end first")
	// ErrOutputsTaken is returned when more inputs are enqueued than outputs were preallocated.
	ErrOutputsTaken = errors.New("more inputs than preallocated outputs: call PopAll in between, or preallocate more")
)

// use takes the pipeline for a call. The caller unlocks mu.
func (p *Pipeline) use(ctx context.Context, op string, want pipelineState) error {
	err := p.d.usable("pipeline " + op)
	if err != nil {
		return err
	}
	if !p.mu.TryLock() {
		return p.fail(op, ErrPipelineBusy)
	}
	switch {
	case p.state == pipelineClean:
		err = ErrReleased
	case p.state == want:
		if p.broken != nil { // maybe the device was recovered
			err = p.rest(ctx)
		}
	case want == pipelineNew:
		err = ErrCompiled
	default:
		err = ErrNotCompiled
	}
	if err != nil {
		p.mu.Unlock()
		return p.fail(op, err)
	}
	return nil
}

func (p *Pipeline) fail(op string, err error) error {
	return fmt.Errorf("reprise: pipeline %q: %s: %w", p.c.Name, op, err)
}

// Trace returns the trace of the model's body; nil without one, or before Compile.
func (p *Pipeline) Trace() *Trace { return p.trace }

// Config returns the configuration.
func (p *Pipeline) Config() PipelineConfig { return p.c }
