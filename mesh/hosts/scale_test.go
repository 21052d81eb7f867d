package hosts_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// docs/scale.md's exchange with many hosts, simulated message by message: hosts start within 1 ms
// of each other, a message takes 10 µs of processor time at each end and 15 µs between hosts, at 10
// Gb/s.
func Example_scale() {
	const (
		cpu, wire = 10 * time.Microsecond, 15 * time.Microsecond
		frame     = 64
	)
	fmt.Println("hosts     to each other   by doubling")
	for _, n := range []int{8, 64, 512, 4096} {
		random := rand.New(rand.NewPCG(uint64(n), 23))
		start := make([]time.Duration, n)
		for i := range start {
			start[i] = time.Duration(random.Int64N(int64(time.Millisecond)))
		}
		linear := "-" // 17 million messages
		if n < 4096 {
			end := time.Duration(0)
			arrive := make([]time.Duration, n-1)
			for h := range n {
				for k := 1; k < n; k++ { // host h-k sends to it as its k-th
					arrive[k-1] = start[(h-k+n)%n] + time.Duration(k)*cpu + wire
				}
				slices.Sort(arrive)
				t := start[h] + time.Duration(n-1)*cpu
				for _, a := range arrive {
					t = max(t, a) + cpu
				}
				end = max(end, t)
			}
			linear = (end - slices.Max(start)).Round(10 * time.Microsecond).String()
		}
		at := slices.Clone(start)
		for bit := 1; bit < n; bit *= 2 {
			data := time.Duration(frame * bit * 8 / 10) // ns at 10 Gb/s
			next := make([]time.Duration, n)
			for h := range n {
				next[h] = max(at[h]+cpu, at[h^bit]+cpu+wire+data) + cpu
			}
			at = next
		}
		fmt.Printf("%5d %17s %13s\n", n, linear, (slices.Max(at) - slices.Max(start)).Round(10*time.Microsecond))
	}
	// Output:
	// hosts     to each other   by doubling
	//     8             140µs         110µs
	//    64            1.26ms         210µs
	//   512           10.22ms         340µs
	//  4096                 -         630µs
}
