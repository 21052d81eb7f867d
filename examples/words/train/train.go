package main

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/reprise-tt/reprise/examples/internal/rng"
)

// options are the choices of a training run.
type options struct {
	seed   uint64
	epochs int
	batch  int     // words a step
	rate   float64 // the greatest learning rate, after a rise in the first steps; falls linearly to a hundredth
	rise   int     // steps
	decay  float64 // of weights
	limit  int     // steps after which to stop, or 0
}

func defaults() options {
	return options{seed: 2011, epochs: 4, batch: 96, rate: 4e-3, rise: 100, decay: 0.02}
}

// shares is the number of parts of a batch that may run in parallel. Their gradients are added in
// order, so shares affects the result; the number of goroutines doesn't.
const shares = 8

// parallel calls f for each number below n.
func parallel(n int, f func(i int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	group.Wait()
}

// train fits a model to words. Its result depends only on words and options, on every architecture.
// progress is called after each epoch with the mean loss of its tokens.
func train(list []string, o options, progress func(epoch int, loss float64)) (*model, error) {
	samples, err := newSamples(list)
	if err != nil {
		return nil, err
	}
	src := rng.Source(o.seed)
	m := newModel(&src)
	var passes [shares]*pass
	for i := range passes {
		passes[i] = newPass(m)
	}
	order := make([]int, len(samples))
	for i := range order {
		order[i] = i
	}
	steps := len(samples) / o.batch * o.epochs
	count := 0
	for epoch := range o.epochs {
		src.Shuffle(order)
		loss, tokens := 0.0, 0
		for at := 0; at+o.batch <= len(order); at += o.batch {
			if o.limit != 0 && count == o.limit {
				return m, nil
			}
			count++
			l, n := batch(passes[:], samples, order[at:at+o.batch])
			loss, tokens = loss+l, tokens+n
			rate := o.rate * min(float64(count)/float64(o.rise), 1) * (1 - 0.99*float64(count)/float64(steps))
			m.step(passes[0].gradients, rate, o.decay, count)
		}
		progress(epoch, loss/float64(tokens))
	}
	return m, nil
}

// batch leaves the mean gradients of samples in the first pass, and returns the sum of losses and
// the number of tokens.
func batch(passes []*pass, samples []sample, numbers []int) (loss float64, tokens int) {
	parallel(len(passes), func(i int) {
		p := passes[i]
		for _, g := range p.gradients {
			clear(g)
		}
		p.loss = 0
		var mine []sample
		for _, k := range numbers[i*len(numbers)/len(passes) : (i+1)*len(numbers)/len(passes)] {
			mine = append(mine, samples[k])
		}
		p.learn(mine)
	})
	for _, p := range passes {
		loss, tokens = loss+p.loss, tokens+p.rows
	}
	share := 1 / float32(tokens)
	parallel(len(passes[0].gradients), func(i int) {
		sum := passes[0].gradients[i]
		for _, p := range passes[1:] {
			for k, v := range p.gradients[i] {
				sum[k] += v
			}
		}
		for k := range sum {
			sum[k] *= share
		}
	})
	return loss, tokens
}

func newSamples(list []string) ([]sample, error) {
	samples := make([]sample, len(list))
	for i, w := range list {
		var err error
		if samples[i], err = newSample(w); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

// measure returns the mean loss of the tokens of words, in nats.
func measure(m *model, list []string) (float64, error) {
	samples, err := newSamples(list)
	if err != nil {
		return 0, err
	}
	const size = 64
	parts := (len(samples) + size - 1) / size
	losses, tokens := make([]float64, parts), make([]int, parts)
	parallel(parts, func(i int) {
		p := newPass(m)
		p.forward(samples[i*size : min((i+1)*size, len(samples))])
		losses[i], tokens[i] = p.loss, p.rows
	})
	loss, count := 0.0, 0
	for i := range losses {
		loss, count = loss+losses[i], count+tokens[i]
	}
	return loss / float64(count), nil
}
