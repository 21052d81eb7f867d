// Ttnn-embeddings serves sentence embeddings and a small search page from a trace that TT-NN
// recorded: no Python, no TT-NN. docs/ttnn.md records the trace.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/hwtest/target"
)

//go:embed page.html
var page []byte

type sentence struct {
	Text   string  `json:"text"`
	Score  float32 `json:"score"`
	vector []float32
}

func (e *embedder) handler(corpus []sentence) http.Handler {
	mux := http.NewServeMux()
	answer := func(path string, f func(ctx context.Context, q string) (any, error)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			out, err := f(r.Context(), r.FormValue("q"))
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			_ = json.NewEncoder(w).Encode(out) // an error is the client's end
		})
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) })
	answer("/embed", func(ctx context.Context, q string) (any, error) { return e.embed(ctx, q) })
	answer("/times", func(context.Context, string) (any, error) { return e.latencies(), nil })
	answer("/search", func(ctx context.Context, q string) (any, error) {
		v, err := e.embed(ctx, q)
		found := slices.Clone(corpus)
		for i := range found {
			for k, x := range v {
				found[i].Score += x * found[i].vector[k]
			}
		}
		slices.SortFunc(found, func(a, b sentence) int { return cmp.Compare(b.Score, a.Score) })
		return found[:min(5, len(found))], err
	})
	return mux
}

func run(ctx context.Context) error {
	device := flag.String("device", "emu:wormhole", "device, such as emu:wormhole or /dev/tenstorrent/0")
	firmware := flag.String("firmware", "", "folder of TT-NN's base firmware, as reprise ttnn record prints it")
	folder := flag.String("model", "", "folder with model.safetensors and vocab.txt")
	texts := flag.String("sentences", "A man is eating food.|Someone has a meal.|The chip replays a recorded trace.", "what is searched")
	listen := flag.String("listen", "localhost:8080", "address of the server")
	flag.Parse()
	at, err := target.Parse(*device, nil)
	if err != nil {
		return err
	}
	dev, err := reprise.Open(ctx, at.Open(), reprise.WithFirmware(*firmware))
	if err != nil {
		return err
	}
	defer dev.Close(context.WithoutCancel(ctx))
	e, err := newEmbedder(ctx, dev, flag.Arg(0), *folder)
	if err != nil {
		return err
	}
	var corpus []sentence
	for text := range strings.SplitSeq(*texts, "|") {
		v, err := e.embed(ctx, text)
		if err != nil {
			return err
		}
		corpus = append(corpus, sentence{Text: text, vector: v})
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	log.Printf("http://%v, %s", l.Addr(), e.latencies())
	s := &http.Server{Handler: e.handler(corpus), BaseContext: func(net.Listener) context.Context { return ctx }}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	return s.Serve(l)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != http.ErrServerClosed {
		log.Fatal(err)
	}
}
