package mpi

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/mesh/hosts"
)

func child(t *testing.T, job, rank string) *exec.Cmd {
	t.Helper()
	c := exec.Command("sleep", "1000")
	c.Env = append(os.Environ(), "PMIX_NAMESPACE="+job, "PMIX_RANK="+rank)
	if err := c.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return c
}

func TestNeighbours(t *testing.T) {
	n := neighbours{launcher: os.Getpid(), job: "a job", own: 0}
	defer func() {
		if err := n.close(); err != nil {
			t.Error(err)
		}
	}()
	var children []*exec.Cmd
	for _, c := range []struct{ job, rank string }{{"a job", "3"}, {"a job", "1"}, {"a job", "0"}, {"another job", "2"},
		{"a job", "none"}} {
		children = append(children, child(t, c.job, c.rank))
	}
	for range 2 { // the second time there is nothing new
		n.find()
		if diff := cmp.Diff([]int{3, 1}, n.ranks); diff != "" {
			t.Fatalf("ranks (-want +got):\n%s", diff)
		}
		if ranks := n.ended(); ranks != nil {
			t.Fatalf("%v have ended", ranks)
		}
	}
	for i, want := range [][]int{{3}, {1, 3}} {
		if err := children[i].Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for limit := time.Now().Add(patience); !slices.Equal(n.ended(), want); time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("%v have ended, want %v", n.ended(), want)
			}
		}
	}
}

func TestNeighbourEnds(t *testing.T) {
	for _, watch := range []bool{false, true} {
		e := inMemory(t, 2)[0]
		e.c.(*member).ft = false
		e.near = neighbours{launcher: os.Getpid(), job: "a job", own: 0}
		c := child(t, "a job", "1")
		e.near.find()
		ctx, stop := t.Context(), func() {}
		if watch {
			ctx, stop = e.Watch(ctx)
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if watch {
			<-ctx.Done()
		}
		_, err := e.Exchange(t.Context(), "step", nil)
		var lost *hosts.LostError
		if !errors.As(err, &lost) || !errors.Is(err, hosts.ErrGone) || !slices.Equal(lost.Ranks, []int{1}) {
			t.Errorf("watched %v: %v", watch, err)
		}
		if watch && !errors.Is(err, hosts.ErrBroken) {
			t.Error(err)
		}
		stop()
	}
}
