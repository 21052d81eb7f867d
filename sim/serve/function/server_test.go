package function

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/sim/serve"
)

type calls struct {
	Library
	clocks, exits int
}

func (c *calls) Clock(uint32) { c.clocks++ }
func (c *calls) Exit()        { c.exits++ }

func TestEndWithoutWaiting(t *testing.T) {
	for name, manual := range map[string]bool{"manual clock": true, "clock": false} {
		shm, f, err := serve.NewMemory()
		if errors.Is(err, serve.ErrUnsupported) {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
		s, lib, sleeps := newServer(shm, nil), &calls{}, 0
		s.lib, s.manual = lib, manual
		s.sleep = func(time.Duration) { sleeps++ }
		shm.Requests.Slot(&serve.Head{Op: opExit})
		shm.Requests.Publish(0)
		must(t, s.run())
		expect.Equal(t, sleeps, 0, "%s", name)
		expect.Equal(t, lib.clocks, 0, "%s", name)
		expect.Equal(t, lib.exits, 1, "%s", name)
		must(t, errors.Join(shm.Unmap(), f.Close()))
	}
}

var must = expect.Must

func TestPace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p pace
		cost := time.Duration(rapid.IntRange(50, 10_000).Draw(t, "ns per clock"))
		dmas := uint64(0)
		for i := range rapid.IntRange(1, 2000).Draw(t, "chunks") {
			requests := rapid.SampledFrom([]int{0, 0, 0, 0, 3}).Draw(t, "requests")
			n, rest := p.next(requests, dmas)
			if n < minClocks || n > maxClocks {
				t.Fatalf("chunk of %d", n)
			}
			if d := time.Duration(n) * cost; i > 0 && n > minClocks && d > longChunk ||
				requests > 0 && i > 0 && n > minClocks && d > shortChunk {
				t.Fatalf("chunk of %d clocks takes %v with %d requests", n, d, requests)
			}
			if rest > 3*p.last {
				t.Fatalf("rest of %v after %v", rest, p.last)
			}
			p.took(time.Duration(n) * cost)
		}
	})
}

func TestPaceQuiet(t *testing.T) {
	var p pace
	run := func(d time.Duration) (rest time.Duration) {
		for spent := time.Duration(0); spent < d; spent += p.last {
			var n uint32
			n, rest = p.next(0, p.dmas)
			p.took(time.Duration(n) * 100)
		}
		return rest
	}
	expect.Equal(t, run(time.Second), 0, "rests")
	if p.last < longChunk/2 || p.last > 2*longChunk {
		t.Errorf("a chunk of a quiet device takes %v, want about %v", p.last, longChunk)
	}
	if rest := run(quietHalf); rest != p.last {
		t.Errorf("rests %v after %v, want %v", rest, quietHalf, p.last)
	}
	if rest := run(quietQuarter); rest != 3*p.last {
		t.Errorf("rests %v after %v, want %v", rest, quietQuarter, 3*p.last)
	}
	if _, rest := p.next(0, p.dmas+1); rest != 0 {
		t.Errorf("rests %v after DMA", rest)
	}
}
