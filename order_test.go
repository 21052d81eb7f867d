package reprise_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/sim"
)

// order is a plain model of what is ordered before what: a graph of everything that was submitted,
// with an edge from each command to what it comes after.
type order struct {
	after [][]int // by command
	tail  [2]int  // newest command of each queue, -1 for none
	seen  []int   // what the host has waited for
	work  [2]int  // newest program or replay of each queue, -1 for none
	owner int
}

func (o *order) add(q int, also ...int) int {
	n := len(o.after)
	also = append(also, o.seen...)
	if o.tail[q] >= 0 {
		also = append(also, o.tail[q])
	}
	o.after = append(o.after, also)
	o.tail[q] = n
	return n
}

// reaches reports whether the next command of a queue comes after another command.
func (o *order) reaches(q, to int) bool {
	next := append([]int{}, o.seen...)
	if o.tail[q] >= 0 {
		next = append(next, o.tail[q])
	}
	been := map[int]bool{}
	for len(next) > 0 {
		n := next[len(next)-1]
		next = next[:len(next)-1]
		if n == to {
			return true
		}
		if !been[n] {
			been[n] = true
			next = append(next, o.after[n]...)
		}
	}
	return false
}

// Programs are refused exactly where nothing orders them after the other queue's last one, whatever
// is recorded, waited for, finished and run in whatever order. And every schedule that is taken
// ends: waits can't go round in a circle.
func TestOverlapIsRefusedExactly(t *testing.T) {
	b := open(t, sim.Blackhole(), reprise.WithQueues(2), reprise.WithFirstEvent(0xFFFFFF00))
	x := b.load(b.blank("x", chip.Single(3, 3)))
	q := [2]*reprise.Queue{b.dev.Queue(0), b.dev.Queue(1)}
	var traces [2]*reprise.Trace
	for i := range traces {
		var err error
		traces[i], err = q[i].Capture(b.ctx, "x", record(x, x))
		b.must(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		must := func(err error) { t.Helper(); devtest.Must(t, err) }
		must(q[0].Wait(b.ctx))
		must(q[1].Wait(b.ctx))
		o := &order{tail: [2]int{-1, -1}, work: [2]int{-1, -1}}
		events := [3]*reprise.Event{}
		recorded := [3]int{-1, -1, -1}
		for i := range events {
			events[i] = b.dev.NewEvent("e")
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i, e := rapid.IntRange(0, 1).Draw(t, "queue"), rapid.IntRange(0, 2).Draw(t, "event")
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); op {
			case 0, 1, 2, 3:
				other := 1 - i
				allowed := o.owner == i || o.work[other] < 0 || o.reaches(i, o.work[other])
				var err error
				if op == 0 {
					err = traces[i].Replay(b.ctx)
				} else {
					err = q[i].Run(b.ctx, x)
				}
				var overlap *dispatch.OverlapError
				if allowed != (err == nil) || err != nil && !errors.As(err, &overlap) {
					t.Fatalf("queue %d: allowed %v, error %v", i, allowed, err)
				}
				if err == nil {
					o.work[i], o.owner = o.add(i), i
				}
			case 4, 5:
				must(q[i].Record(b.ctx, events[e]))
				recorded[e] = o.add(i)
			case 6, 7:
				err := q[i].WaitEvent(b.ctx, events[e])
				if recorded[e] < 0 {
					if !errors.Is(err, dispatch.ErrNotRecorded) {
						t.Fatalf("wait for what was never recorded: %v", err)
					}
					continue
				}
				must(err)
				o.add(i, recorded[e])
			case 8:
				n := o.add(i)
				must(q[i].Wait(b.ctx))
				o.seen = append(o.seen, n)
			case 9:
				if recorded[e] >= 0 {
					must(events[e].Wait(b.ctx))
					o.seen = append(o.seen, recorded[e])
				}
			}
		}
		must(q[0].Wait(b.ctx))
		must(q[1].Wait(b.ctx))
	})
}
