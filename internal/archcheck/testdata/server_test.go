package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ask sends one request, which no later request helps along.
func ask(t *testing.T, url string, first float32) (status int, body string) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(fmt.Sprintf("[%v, 2, 3]", first)))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer r.Body.Close()
	p, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	return r.StatusCode, strings.TrimSpace(string(p))
}

func answers(t *testing.T, url string) {
	t.Helper()
	var g sync.WaitGroup
	for i := range 12 {
		g.Go(func() {
			if _, got := ask(t, url, float32(i)); got != fmt.Sprintf("[%v,0]", 8.25+float32(i)/2) {
				t.Errorf("input %d: %s", i, got)
			}
		})
	}
	g.Wait()
	if _, got := ask(t, url, 1); got != "[8.75,0]" {
		t.Errorf("alone: %s", got)
	}
}

func TestServesAgainAfterAFailure(t *testing.T) {
	ctx := t.Context()
	dev, err := reprise.Open(ctx, sim.Blackhole())
	must(t, err)
	h, err := newServer(ctx, dev)
	must(t, err)
	s := httptest.NewServer(h)
	answers(t, s.URL)
	im, err := kernels.Prebuilt(dev.Arch(), kernels.Store)
	must(t, err)
	wild, err := dev.Load(ctx, &reprise.Program{Name: "wild", Kernels: []reprise.Kernel{{
		Name: "store", Image: im, Cores: []chip.Range{chip.Single(0, 0)}, Args: func(chip.Core) []uint32 { return []uint32{0x7FFF0000, 1, 1} },
	}}})
	must(t, err)
	must(t, dev.Queue(0).Run(ctx, wild)) // it stops the chip, whose memory the reset clears
	if status, text := ask(t, s.URL, 1); status != http.StatusServiceUnavailable {
		t.Errorf("of a chip that stopped: %d %s", status, text)
	}
	answers(t, s.URL)
	s.Close()
	must(t, dev.Close(ctx))
}
