package streams

import (
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/reprise-tt/reprise/hwtest/internal/rig"
	"github.com/reprise-tt/reprise/sim"
)

// The soak is the hardest pattern over and over: everything moves on queue 1, the model is a trace, the L1 input shares its
// place, and all four events are in use, with random delays of the host and of the chip's networks. A run is told by its
// seed.
const (
	soakShort = 200
	soakLong  = 100_000
	soakSeed  = 20
	soakDelay = 8 // clocks at most, from step to step of a request
)

// Soak are the cases of layer soak.
func Soak() rig.Table {
	var cs rig.Table
	short := cs.Add("200 inputs", "queues, events and traces hold out with random delays, and memory doesn't grow",
		func(t *rig.T) { soak(t, soakShort) })
	short.Needs, short.Alone = rig.NeedEmulator, true
	long := cs.Add("100,000 inputs", "queues, events and traces hold out for long with random delays, and memory doesn't grow",
		func(t *rig.T) { soak(t, soakLong) })
	long.Needs, long.Alone, long.Long, long.Hours = rig.NeedEmulator, true, true, 6
	return cs
}

func soak(t *rig.T, n int) {
	rng := rand.New(rand.NewPCG(soakSeed, uint64(n)))
	dev := t.Device.Emulated("", sim.Seed(soakSeed), sim.Delay(soakDelay))
	x := *t
	x.Device = dev
	u := x.Full(dev.Open(), rig.QueueOptions(false)...)
	w := Way{Reads: true, Trace: true, Again: true}
	s := w.buildOf(u, 1, 4)
	const round = 500
	var first, last uint64
	device := u.Allocated()
	start := time.Now()
	for done := 0; done < n; {
		k := min(round, n-done)
		w.Run(u, s, k, func() {
			// Most of the time the host is far ahead; now and then it is late.
			switch r := rng.IntN(1000); {
			case r < 3:
				time.Sleep(time.Duration(rng.IntN(300)) * time.Microsecond)
			case r < 100:
				runtime.Gosched()
			}
		})
		done += k
		if u.Failed() {
			t.Fatalf("seed %d: failed in inputs %d to %d", soakSeed, done-k, done)
		}
		last = heap()
		if first == 0 {
			first = last // after a round, when everything is allocated
		}
		if done%10_000 == 0 {
			t.Logf("%d inputs in %v, %d KiB of heap, %d goroutines", done, time.Since(start).Round(time.Second), last>>10, runtime.NumGoroutine())
		}
	}
	t.Logf("%d inputs in %v, %d KiB of heap after the first round, %d KiB at the end", n, time.Since(start).Round(time.Millisecond),
		first>>10, last>>10)
	// The emulator's own pages of memory are there from the first round on.
	if last > first+4<<20 {
		t.Errorf("the heap grew from %d to %d bytes in %d inputs", first, last, n)
	}
	if after := u.Allocated(); after != device {
		t.Errorf("%+v of the device is taken, was %+v", after, device)
	}
}

// heap is what is in use after a garbage collection, in bytes.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
