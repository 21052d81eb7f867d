// Serve answers HTTP requests with a small network on a Tenstorrent device. It imports nothing
// internal: copy the file into a module of your own and replace the network.
//
//	go run . & # the emulator; with -device /dev/tenstorrent/0 a card
//	curl -d '[1, 2, 3]' localhost:8080
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

// Some requests are under way on the device at a time: while it works on one, the host prepares the
// next one.
const depth = 4

type request struct {
	input  []float32
	answer chan<- answer // with room for one
}

type answer struct {
	output []float32
	err    error
}

// network is a linear layer as a trace. One goroutine uses it.
type network struct {
	dev     *reprise.Device
	ops     *ops.Device
	weights []*ops.Host // which Recover doesn't keep on the device
	params  []*ops.Tensor
	x, y    *ops.Tensor
	trace   *reprise.Trace
}

const inputs, outputs = 3, 2

func newNetwork(ctx context.Context, dev *reprise.Device) (*network, error) {
	n := &network{dev: dev, ops: ops.New(dev)}
	for _, p := range []struct {
		rows, columns int
		values        []float32
	}{{inputs, outputs, []float32{0.5, -1, 1, 0, 2, -1}}, {1, outputs, []float32{0.25, 1}}, {1, inputs, make([]float32, inputs)}} {
		h, err := ops.NewHost([]int{p.rows, p.columns}, ops.BFloat16, p.values)
		if err != nil {
			return nil, err
		}
		t, err := n.ops.ToDevice(ctx, h, ops.Tile, ops.Interleaved(allocator.DRAM))
		if err != nil {
			return nil, err
		}
		n.weights, n.params = append(n.weights, h), append(n.params, t)
	}
	n.x = n.params[2]
	var err error
	if n.y, err = n.ops.Linear(ctx, n.x, n.params[0], n.params[1], ops.WithActivation(ops.ReLU)); err != nil {
		return nil, err
	}
	n.trace, err = n.ops.Capture(ctx, "network", func(ctx context.Context) error {
		_, err := n.ops.Linear(ctx, n.x, n.params[0], n.params[1], ops.WithActivation(ops.ReLU), ops.Into(n.y))
		return err
	})
	return n, err
}

// start submits a request's commands. The queue works in order, so the next input doesn't overtake.
func (n *network) start(ctx context.Context, input []float32, output *ops.Host) (*ops.Read, error) {
	h, err := ops.NewHost([]int{1, inputs}, ops.BFloat16, input)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(n.ops.CopyHostToDevice(ctx, h, n.x), n.trace.Replay(ctx)); err != nil {
		return nil, err
	}
	return n.ops.StartToHost(ctx, n.y, output)
}

// recover makes the device work again after a hang, or once a lost card is back. Addresses stay, so
// the trace does too.
func (n *network) recover(ctx context.Context) error {
	if err := n.dev.Recover(ctx); err != nil {
		return err
	}
	for i, h := range n.weights {
		if err := n.ops.CopyHostToDevice(ctx, h, n.params[i]); err != nil {
			return err
		}
	}
	return nil
}

type underWay struct {
	request
	output ops.Host
	read   *ops.Read
}

// serve starts requests that wait, and answers the oldest one when no other can be started: no
// output waits for a later input.
func (n *network) serve(ctx context.Context, requests <-chan request) error {
	var all []*underWay // oldest first
	for {
		var next request
		switch {
		case len(all) == 0:
			select {
			case next = <-requests:
			case <-ctx.Done():
				return nil
			}
		case len(all) < depth:
			select {
			case next = <-requests:
			default:
			}
		}
		var err error
		if next.answer != nil {
			u := &underWay{request: next}
			all = append(all, u)
			u.read, err = n.start(ctx, next.input, &u.output)
		} else {
			u := all[0]
			if err = u.read.Wait(ctx); err == nil {
				u.answer <- answer{output: ops.Values[float32](&u.output)}
				all = all[1:]
			}
		}
		if err == nil {
			continue
		}
		for _, u := range all {
			u.answer <- answer{err: err}
		}
		all = nil
		var hang *dispatch.HangError
		if !errors.As(err, &hang) && !errors.Is(err, reprise.ErrDeviceLost) {
			return err
		}
		log.Print("recovering: ", err)
		if err := n.recover(ctx); err != nil {
			return err
		}
	}
}

func handler(requests chan<- request) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var input []float32
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&input); err != nil || len(input) != inputs {
			http.Error(w, fmt.Sprintf("want a JSON array of %d numbers", inputs), http.StatusBadRequest)
			return
		}
		c := make(chan answer, 1)
		select {
		case requests <- request{input, c}:
		case <-r.Context().Done():
			return
		}
		select {
		case a := <-c:
			if a.err != nil {
				http.Error(w, a.err.Error(), http.StatusServiceUnavailable)
				return
			}
			_ = json.NewEncoder(w).Encode(a.output) // fails if the client has gone
		case <-r.Context().Done():
		}
	}
}

func run(ctx context.Context, addr, device string) (err error) {
	var target kmd.Target = sim.Blackhole()
	if device != "" {
		target = kmd.Path(device)
	}
	dev, err := reprise.Open(ctx, target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close(context.WithoutCancel(ctx))) }()
	n, err := newNetwork(ctx, dev)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	requests := make(chan request)
	server := &http.Server{Handler: handler(requests)}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	fmt.Println("serving on", l.Addr())
	err = n.serve(ctx, requests)
	return errors.Join(err, server.Close())
}

func main() {
	addr := flag.String("addr", "localhost:8080", "address to listen on")
	device := flag.String("device", "", "node of a card, such as /dev/tenstorrent/0; the emulator if absent")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr, *device); err != nil {
		log.Fatal(err)
	}
}
