package transformer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/examples/internal/bf16"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/stream"
)

// Model is a network on a device that makes one token per step. Every step is the same programs
// with the same arguments; its state is in DRAM, so that a trace of one step makes any number of
// tokens.
type Model struct {
	dev    *ops.Device
	tokens int // that the list has room for
	stream *stream.Stream

	buffers []*reprise.Buffer
	tensors []*ops.Tensor
	begin   *reprise.Executable
	sample  *reprise.Executable
	state   *reprise.Buffer
	list    *reprise.Buffer

	input, mask       *ops.Tensor
	embedding, logits *ops.Tensor
	residual          [2]*ops.Tensor // what a layer takes, and what attention leaves
	normal            *ops.Tensor    // it normalised
	heads             *ops.Tensor    // queries, keys and values
	queries           *ops.Tensor
	attended, joined  *ops.Tensor // the same memory
	hidden            *ops.Tensor
	scores            *ops.Tensor
	layers            [Layers]layer
}

// layer is a layer's weights and caches, and the program that deals its heads.
type layer struct {
	heads, project, up, down *ops.Tensor
	keys, values             *ops.Tensor
	deal                     *reprise.Executable
}

// headTile is the width of a head in tensors: a tile, with zeros from column HeadWidth on.
const headTile = 32

// masked is the lowest bfloat16.
const masked = -0x1.FEp127

func tiles(shape ...int) ops.Spec {
	return ops.Spec{Shape: shape, DType: ops.BFloat16, Layout: ops.Tile, Memory: ops.Interleaved(allocator.DRAM)}
}

// Option configures a Model.
type Option func(*Model)

// WithStream sends tokens to the host as they are made, each as a message of four bytes, instead of
// keeping them for [Model.Tokens]. The stream, which stays the caller's, ends after the last token.
func WithStream(s *stream.Stream) Option { return func(m *Model) { m.stream = s } }

// Load allocates the tensors and writes the weights, for up to so many tokens between two calls of
// [Model.Start]. After an error nothing stays allocated.
func Load(ctx context.Context, d *ops.Device, n *Network, tokens int, opts ...Option) (*Model, error) {
	m := &Model{dev: d, tokens: tokens}
	for _, o := range opts {
		o(m)
	}
	if err := m.load(ctx, n); err != nil {
		return nil, errors.Join(fmt.Errorf("transformer: load: %w", err), m.Close(context.WithoutCancel(ctx)))
	}
	return m, nil
}

func (m *Model) load(ctx context.Context, n *Network) error {
	if m.tokens < 1 {
		return fmt.Errorf("%w: a list of %d tokens, want at least 1", ErrSampling, m.tokens)
	}
	l := &loader{ctx: ctx, m: m}
	m.state = l.allocate(reprise.BufferConfig{Kind: allocator.DRAM, Size: StateBytes, PageSize: StateBytes, Name: "state"})
	l.clear(m.state)
	m.list = l.allocate(reprise.BufferConfig{Kind: allocator.DRAM, Size: (4*m.tokens + listPage - 1) / listPage * listPage,
		PageSize: listPage, Name: "tokens"})
	if m.stream == nil { // otherwise the list isn't read
		l.clear(m.list)
	}
	m.input, m.mask = l.zeros(1, 1, 1, Slots+Positions), l.zeros(1, 1, 1, Positions)
	m.residual = [2]*ops.Tensor{l.zeros(1, 1, 1, Width), l.zeros(1, 1, 1, Width)}
	m.normal, m.hidden = l.zeros(1, 1, 1, Width), l.zeros(1, 1, 1, Hidden)
	m.heads, m.queries = l.zeros(1, 1, 1, 3*Heads*headTile), l.zeros(1, Heads, 1, headTile)
	m.attended = l.zeros(1, Heads, 1, headTile)
	m.joined = l.add(func() (*ops.Tensor, error) {
		return l.m.dev.FromBuffer(m.attended.Buffer(), tiles(1, 1, 1, Heads*headTile))
	})
	m.scores = l.zeros(1, 1, 1, Slots)
	m.embedding, m.logits = l.weights(n.Embedding), l.weights(n.Logits)
	for i := range m.layers {
		from, to := &n.Layers[i], &m.layers[i]
		to.heads, to.project = l.weights(wide(from.Query, from.Key, from.Value)), l.weights(high(from.Project))
		to.up, to.down = l.weights(from.Up), l.weights(from.Down)
		to.keys, to.values = l.zeros(1, Heads, Positions, headTile), l.zeros(1, Heads, Positions, headTile)
		if l.err != nil {
			return l.err
		}
		to.deal = l.program("heads", nil, m.state, m.heads.Buffer(), m.queries.Buffer(), to.keys.Buffer(), to.values.Buffer())
	}
	if l.err != nil {
		return l.err
	}
	m.begin = l.program("begin", nil, m.state)
	if l.err != nil {
		return l.err
	}
	m.sample = l.program("sample", m.stream, m.state, m.scores.Buffer(), m.list, m.input.Buffer(), m.mask.Buffer())
	return l.err
}

// wide puts matrices of heads side by side, with zeros after each head's columns.
func wide(ms ...Matrix) Matrix {
	out := Matrix{Rows: Width, Columns: len(ms) * Heads * headTile}
	for row := range out.Rows {
		for _, m := range ms {
			for head := range Heads {
				out.Data = append(out.Data, m.Data[row*m.Columns+head*HeadWidth:][:HeadWidth]...)
				out.Data = append(out.Data, make([]bf16.Number, headTile-HeadWidth)...)
			}
		}
	}
	return out
}

// high returns a matrix with zeros after the rows of each head.
func high(m Matrix) Matrix {
	out := Matrix{Rows: Heads * headTile, Columns: m.Columns}
	for head := range Heads {
		out.Data = append(out.Data, m.Data[head*HeadWidth*m.Columns:][:HeadWidth*m.Columns]...)
		out.Data = append(out.Data, make([]bf16.Number, (headTile-HeadWidth)*m.Columns)...)
	}
	return out
}

// loader fills a model. After an error its methods do nothing.
type loader struct {
	ctx context.Context
	m   *Model
	err error
}

func (l *loader) allocate(c reprise.BufferConfig) *reprise.Buffer {
	if l.err != nil {
		return nil
	}
	b, err := l.m.dev.Device().NewBuffer(c)
	if l.err = err; err != nil {
		return nil
	}
	l.m.buffers = append(l.m.buffers, b)
	return b
}

func (l *loader) clear(b *reprise.Buffer) {
	if l.err == nil {
		l.err = l.m.dev.Device().Queue(0).Write(l.ctx, b, 0, make([]byte, b.Size()))
	}
}

func (l *loader) add(make func() (*ops.Tensor, error)) (t *ops.Tensor) {
	if l.err == nil {
		if t, l.err = make(); l.err == nil {
			l.m.tensors = append(l.m.tensors, t)
		}
	}
	return t
}

func (l *loader) zeros(shape ...int) *ops.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return l.tensor(make([]bf16.Number, n), shape...)
}

func (l *loader) weights(m Matrix) *ops.Tensor { return l.tensor(m.Data, 1, 1, m.Rows, m.Columns) }

func (l *loader) tensor(v []bf16.Number, shape ...int) *ops.Tensor {
	return l.add(func() (*ops.Tensor, error) {
		return l.m.dev.ToDevice(l.ctx, bf16.Host(v, shape...), ops.Tile, ops.Interleaved(allocator.DRAM))
	})
}

// Start sets the state before the first token. The error wraps [ErrSampling].
func (m *Model) Start(ctx context.Context, s Sampling) error {
	start, err := s.Start()
	if err != nil {
		return err
	}
	if s.Tokens > m.tokens {
		return fmt.Errorf("transformer: start: %w: %d tokens, and a list of %d", ErrSampling, s.Tokens, m.tokens)
	}
	input, mask := make([]float32, Slots+Positions), make([]float32, Positions)
	input[0], input[Slots] = 1, 1
	for i := range mask[1:] {
		mask[1+i] = masked
	}
	for _, w := range []struct {
		to *ops.Tensor
		v  []float32
	}{{m.input, input}, {m.mask, mask}} {
		h, err := ops.NewHost(w.to.Shape(), ops.BFloat16, w.v)
		if err != nil {
			return err
		}
		if err := m.dev.CopyHostToDevice(ctx, h, w.to); err != nil {
			return err
		}
	}
	return m.dev.Device().Queue(0).Write(ctx, m.state, 0, start.Encode())
}

// Step makes a token.
func (m *Model) Step(ctx context.Context) error {
	q := m.dev.Device().Queue(0)
	return m.step(ctx, func(x *reprise.Executable) error { return q.Run(ctx, x) })
}

// Record records a step, whose programs must have run before (see [Model.Step]), as a function for
// reprise.Queue.Capture.
func (m *Model) Record(ctx context.Context, r *reprise.Recorder) error {
	return m.dev.Record(ctx, r, func(ctx context.Context) error {
		return m.step(ctx, func(x *reprise.Executable) error { return r.Run(x) })
	})
}

// Begin begins a word: it marks the state as inside a word, for a loop over words around a loop
// over each word's tokens.
func (m *Model) Begin(ctx context.Context) error { return m.dev.Device().Queue(0).Run(ctx, m.begin) }

// RecordAll records all tokens, up to the list's room: a loop over words, and inside a loop over
// the tokens of a word. It is a function for reprise.Queue.Capture. The programs must have run
// before: see [Model.Step] and [Model.Begin].
func (m *Model) RecordAll(ctx context.Context, r *reprise.Recorder) error {
	left := reprise.Cond{Buffer: m.state, Offset: LeftOffset, Is: cq.NotEqual}
	more := reprise.Cond{Buffer: m.state, Offset: MoreOffset, Is: cq.NotEqual}
	return r.While(left, uint32(m.tokens), func() error {
		if err := r.Run(m.begin); err != nil {
			return err
		}
		return r.While(more, Positions, func() error { return m.Record(ctx, r) })
	})
}

func (m *Model) step(ctx context.Context, run func(*reprise.Executable) error) (err error) {
	do := func(f func() error) {
		if err == nil {
			err = f()
		}
	}
	linear := func(out, x, w, plus *ops.Tensor, opts ...ops.OpOption) {
		do(func() error { _, err := m.dev.Linear(ctx, x, w, plus, append(opts, ops.Into(out))...); return err })
	}
	normalise := func(x *ops.Tensor) {
		do(func() error { _, err := m.dev.RMSNorm(ctx, x, nil, Epsilon, ops.Into(m.normal)); return err })
	}
	x, y := m.residual[0], m.residual[1]
	linear(x, m.input, m.embedding, nil)
	for i := range m.layers {
		l := &m.layers[i]
		normalise(x)
		linear(m.heads, m.normal, l.heads, nil)
		do(func() error { return run(l.deal) })
		do(func() error {
			_, err := m.dev.ScaledDotProductAttention(ctx, m.queries, l.keys, l.values, ops.Attention{Mask: m.mask, Scale: 1. / 4},
				ops.Into(m.attended))
			return err
		})
		linear(y, m.joined, l.project, x)
		normalise(y)
		linear(m.hidden, m.normal, l.up, nil, ops.WithActivation(ops.ReLU))
		linear(x, m.hidden, l.down, y)
	}
	normalise(x)
	linear(m.scores, m.normal, m.logits, nil)
	do(func() error { return run(m.sample) })
	if err != nil {
		return fmt.Errorf("transformer: step: %w", err)
	}
	return nil
}

// State waits for the steps before and returns the state.
func (m *Model) State(ctx context.Context) (State, error) {
	page := make([]byte, StateBytes)
	if err := m.dev.Device().Queue(0).Read(ctx, m.state, 0, page); err != nil {
		return State{}, err
	}
	return decodeState(page), nil
}

// Scores waits for the steps before and returns the logits of the last one.
func (m *Model) Scores(ctx context.Context) ([Slots]bf16.Number, error) {
	var out [Slots]bf16.Number
	h, err := m.dev.ToHost(ctx, m.scores)
	if err != nil {
		return out, err
	}
	_, err = binary.Decode(h.Data, binary.LittleEndian, &out)
	return out, err
}

// Close deallocates the tensors and unloads this package's programs. A second Close has no effect.
func (m *Model) Close(ctx context.Context) error {
	var errs []error
	loaded := []*reprise.Executable{m.begin, m.sample}
	for i := range m.layers {
		loaded = append(loaded, m.layers[i].deal)
	}
	for _, x := range loaded {
		if x != nil {
			errs = append(errs, x.Release(ctx))
		}
	}
	for _, t := range m.tensors {
		errs = append(errs, m.dev.Deallocate(t))
	}
	for _, b := range m.buffers {
		errs = append(errs, b.Release())
	}
	m.begin, m.sample, m.layers, m.tensors, m.buffers = nil, nil, [Layers]layer{}, nil, nil
	return errors.Join(errs...)
}
