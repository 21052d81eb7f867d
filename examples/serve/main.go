// Serve answers HTTP requests with a small network on a Tenstorrent device. It imports nothing
// internal: copy the file into a module of your own and replace the network.
//
//	go run . & # on the emulator, or with an argument such as /dev/tenstorrent/0 on a card
//	curl -d '[1, 2, 3]' localhost:8080
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

type server struct {
	dev *reprise.Device
	ops *ops.Device

	mu         sync.Mutex // held while a request enters the queue, which keeps their order
	host       []*ops.Host
	weights    []*ops.Tensor
	input      *ops.Tensor
	model      *ops.Model
	recoveries int
}

func newServer(ctx context.Context, dev *reprise.Device) (*server, error) {
	s := &server{dev: dev, ops: ops.New(dev)}
	for _, p := range []struct {
		rows, columns int
		values        []float32
	}{{3, 2, []float32{0.5, -1, 1, 0, 2, -1}}, {1, 2, []float32{0.25, 1}}, {1, 3, make([]float32, 3)}} {
		h, err := ops.NewHost([]int{p.rows, p.columns}, ops.BFloat16, p.values)
		if err != nil {
			return nil, err
		}
		t, err := s.ops.ToDevice(ctx, h, ops.Tile, ops.Interleaved(allocator.DRAM))
		if err != nil {
			return nil, err
		}
		s.host, s.weights = append(s.host, h), append(s.weights, t)
	}
	s.input = s.weights[2]
	var err error
	s.model, err = s.ops.CaptureModel(ctx, "network", func(ctx context.Context) ([]*ops.Tensor, error) {
		y, err := s.ops.Linear(ctx, s.input, s.weights[0], s.weights[1], ops.WithActivation(ops.ReLU))
		return []*ops.Tensor{y}, err
	})
	return s, err
}

// infer waits for nothing but its own output: later requests enter the queue meanwhile.
func (s *server) infer(ctx context.Context, input []float32) ([]float32, error) {
	in, err := ops.NewHost([]int{1, 3}, ops.BFloat16, input)
	if err != nil {
		return nil, err
	}
	var out ops.Host
	s.mu.Lock()
	before := s.recoveries
	var read *ops.Read
	if err = s.ops.CopyHostToDevice(ctx, in, s.input); err == nil {
		if err = s.model.Replay(ctx); err == nil {
			read, err = s.ops.StartToHost(ctx, s.model.Outputs()[0], &out)
		}
	}
	s.mu.Unlock()
	if err == nil {
		err = read.Wait(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.recover(ctx, before, err))
	}
	return ops.Values[float32](&out), nil
}

// recover makes the device work again, once for all requests that a failure ends. Addresses stay,
// and so does the trace; weights are written again.
func (s *server) recover(ctx context.Context, before int, err error) error {
	var hang *dispatch.HangError
	if !errors.As(err, &hang) && !errors.Is(err, reprise.ErrDeviceLost) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recoveries != before {
		return nil
	}
	log.Print("recovering: ", err)
	ctx = context.WithoutCancel(ctx)
	err = s.dev.Recover(ctx)
	for i, h := range s.host {
		if err == nil {
			err = s.ops.CopyHostToDevice(ctx, h, s.weights[i])
		}
	}
	if err == nil {
		s.recoveries++
	}
	return err
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var input []float32
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&input); err != nil || len(input) != 3 {
		http.Error(w, "want a JSON array of 3 numbers", http.StatusBadRequest)
		return
	}
	output, err := s.infer(r.Context(), input)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_ = json.NewEncoder(w).Encode(output) // fails if the client has gone
}

func run(ctx context.Context, addr string, target kmd.Target) (err error) {
	dev, err := reprise.Open(ctx, target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close(context.WithoutCancel(ctx))) }()
	s, err := newServer(ctx, dev)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	h := &http.Server{Handler: s}
	context.AfterFunc(ctx, func() { _ = h.Close() })
	fmt.Println("serving on", l.Addr())
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var target kmd.Target = sim.Blackhole()
	if len(os.Args) > 1 {
		target = kmd.Path(os.Args[1])
	}
	addr := os.Getenv("ADDR")
	if addr == "" {
		addr = "localhost:8080"
	}
	if err := run(ctx, addr, target); err != nil {
		log.Fatal(err)
	}
}
