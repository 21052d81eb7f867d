package tracebuf

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

func TestFollow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alone, leader, follower := NewRecording(cq.Blackhole), NewRecording(cq.Blackhole), NewRecording(cq.Blackhole)
		follower.Follow(leader)
		encode := func(value byte) Encoder {
			return func(dst []byte) ([]byte, uint8) { return append(dst, bytes.Repeat([]byte{value}, 64)...), value }
		}
		equal := true
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			v := rapid.Byte().Draw(t, "value")
			leader.Add("p", 0, encode(v))
			if rapid.IntRange(0, 9).Draw(t, "differs") == 0 {
				v, equal = v+1, false
			}
			follower.Add("p", 0, encode(v))
			alone.Add("p", 0, encode(v))
			for _, r := range [][]*Recording{{leader}, {follower, alone}} { // change the last step
				if rapid.IntRange(0, 9).Draw(t, "changes") == 0 {
					equal = false
					w := rapid.Byte().Draw(t, "change")
					for _, r := range r {
						r.Own()
						r.Replace(encode(w))
					}
				}
			}
			if follower.Len() != alone.Len() {
				t.Fatalf("%d steps, want %d", follower.Len(), alone.Len())
			}
		}
		first, err := leader.Finish(8)
		must(t, err)
		got, err := follower.Finish(8)
		must(t, err)
		want, err := alone.Finish(8)
		must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the image differs (-alone +following):\n%s", diff)
		}
		if (got == first) != equal {
			t.Errorf("the image is the leader's: %v, the commands are equal: %v", got == first, equal)
		}
	})
}
