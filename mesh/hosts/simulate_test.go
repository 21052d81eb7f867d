package hosts_test

import (
	"errors"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/mesh/hosts"
)

// The figures of docs/scale.md. The times of messages were measured over the loopback interface; the latency is an estimate.
func ExampleSimulate() {
	costs := hosts.Costs{
		Send: 10 * time.Microsecond, Receive: 10 * time.Microsecond, Part: 150 * time.Nanosecond, Wire: 15 * time.Microsecond,
		Late: time.Millisecond, Chip: 200 * time.Nanosecond, Seed: 1,
	}
	fmt.Println("hosts  fan  exchange     skew  host 0  each host  replay of 32 chips")
	for _, size := range []int{8, 64, 512} {
		for _, fan := range []int{2, 8, 32, size - 1} {
			if fan >= size {
				continue
			}
			e, err := hosts.Simulate(costs, size, fan, 32)
			if err != nil {
				log.Fatal(err)
			}
			us := func(d time.Duration) int64 { return d.Round(time.Microsecond).Microseconds() }
			fmt.Printf("%5d  %3d  %5d us %5d us %4d us %7d us  %.1f us\n", size, fan, us(e.Exchange), us(e.Skew), us(e.Top), us(e.Each), float64(e.Replay)/1000)
		}
	}
	// Output:
	// hosts  fan  exchange     skew  host 0  each host  replay of 32 chips
	//     8    2    183 us    90 us   43 us      38 us  6.4 us
	//     8    7    140 us    67 us  149 us      37 us  6.4 us
	//    64    2    569 us   330 us   69 us      60 us  6.4 us
	//    64    8    443 us   235 us  246 us      59 us  6.4 us
	//    64   32    777 us   623 us  957 us      59 us  6.4 us
	//    64   63   1326 us  1215 us 1874 us      59 us  6.4 us
	//   512    2   2676 us  2030 us  270 us     195 us  6.4 us
	//   512    8   2440 us  1649 us  851 us     194 us  6.4 us
	//   512   32   4414 us  3819 us 3174 us     194 us  6.4 us
	//   512  511  48670 us 44268 us 49541 us     194 us  6.4 us
}

// A model small enough to be worked out by hand: no host is late, a message takes 1 at each end and 10 on its way, and a part
// takes nothing.
func TestSimulateByHand(t *testing.T) {
	c := hosts.Costs{Send: 1, Receive: 1, Wire: 10, Chip: 5}
	for _, w := range []struct {
		size, fan int
		want      hosts.Estimate
	}{
		{1, 1, hosts.Estimate{Replay: 20}},
		// Up: sent at 1, arrives at 11, received by 12. Down: sent by 13, arrives at 23, received by 24. Host 0 continues at 13.
		{2, 1, hosts.Estimate{Exchange: 24, Skew: 11, Top: 2, Each: 2, Replay: 20, Messages: 2}},
		// All call host 0: it has received the third by 14, sends until 17 and continues, and host 3 has received it by 28.
		{4, 3, hosts.Estimate{Exchange: 28, Skew: 11, Top: 6, Each: 3, Replay: 20, Messages: 6}},
		// A chain of three: 24 to host 0 and 24 back. Host 0 continues at 25.
		{3, 1, hosts.Estimate{Exchange: 48, Skew: 23, Top: 2, Each: 2, Replay: 20, Messages: 4}},
	} {
		got, err := hosts.Simulate(c, w.size, w.fan, 4)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&w.want, got); diff != "" {
			t.Errorf("%d hosts, fan %d: %s", w.size, w.fan, diff)
		}
	}
}

func TestSimulateRefuses(t *testing.T) {
	for _, c := range []struct {
		costs            hosts.Costs
		size, fan, chips int
	}{
		{hosts.Costs{}, 0, 1, 1}, {hosts.Costs{}, 1 << 21, 1, 1}, {hosts.Costs{}, 1, 0, 1}, {hosts.Costs{}, 1, 1, -1},
		{hosts.Costs{Late: -1}, 1, 1, 1}, {hosts.Costs{Wire: time.Hour}, 1, 1, 1},
	} {
		if _, err := hosts.Simulate(c.costs, c.size, c.fan, c.chips); !errors.Is(err, hosts.ErrConfig) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
