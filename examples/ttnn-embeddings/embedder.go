package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/safetensors"
)

// embedder turns sentences into vectors of length 1.
type embedder struct {
	vocabulary vocabulary
	dev        *ops.Device
	model      *ops.Model

	mu    sync.Mutex // held for an input, its replay and its output
	times []time.Duration
}

func newEmbedder(ctx context.Context, dev *reprise.Device, trace, folder string) (*embedder, error) {
	vocabulary, err := readVocabulary(filepath.Join(folder, "vocab.txt"))
	weights, err2 := safetensors.Open(filepath.Join(folder, "model.safetensors"))
	file, err3 := os.Open(trace)
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, err
	}
	defer weights.Close()
	defer file.Close()
	e := &embedder{dev: ops.New(dev), vocabulary: vocabulary}
	t, err := dev.LoadTrace(ctx, file)
	if err != nil {
		return nil, err
	}
	if e.model, err = e.dev.LoadedModel(t); err != nil {
		return nil, err
	}
	return e, e.model.LoadWeights(ctx, weights.Tensor)
}

// states returns the hidden state of each word piece, and the number of pieces.
func (e *embedder) states(ctx context.Context, sentence string) (*ops.Host, int, error) {
	ids, err := e.model.Tensor("ids")
	if err != nil {
		return nil, 0, err
	}
	tokens := ids.Shape()[1]
	pieces := e.vocabulary.pieces(sentence, tokens)
	numbers, mask := make([]uint32, tokens), make([]float32, tokens)
	copy(numbers, pieces)
	for i := len(pieces); i < tokens; i++ {
		mask[i] = -1e4
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	begin := time.Now()
	err = errors.Join(ops.Set(ctx, e.model, "ids", numbers), ops.Set(ctx, e.model, "mask", mask))
	if err == nil {
		err = e.model.Replay(ctx)
	}
	if err != nil {
		return nil, 0, err
	}
	out, err := e.dev.ToHost(ctx, e.model.Outputs()[0])
	e.times = append(e.times, time.Since(begin))
	return out, len(pieces), err
}

// embed returns the mean of the states, with length 1.
func (e *embedder) embed(ctx context.Context, sentence string) ([]float32, error) {
	states, n, err := e.states(ctx, sentence)
	if err != nil {
		return nil, err
	}
	values, width := ops.Values[float32](states), states.Shape[3]
	mean, square := make([]float32, width), 0.
	for i := range mean {
		for row := range n {
			mean[i] += values[row*width+i] / float32(n)
		}
		square += float64(mean[i] * mean[i])
	}
	for i := range mean {
		mean[i] /= float32(math.Sqrt(square))
	}
	return mean, nil
}

// latencies describes the time from an input to its output.
func (e *embedder) latencies() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := slices.Sorted(slices.Values(e.times))
	if len(t) == 0 {
		return "no requests"
	}
	at := func(p int) time.Duration { return t[min(len(t)-1, len(t)*p/100)].Round(10 * time.Microsecond) }
	return fmt.Sprintf("%d requests: p50 %v, p90 %v, p99 %v", len(t), at(50), at(90), at(99))
}
