package mpi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// neighbours are the other processes of the job that the same launcher has started on this machine.
// The kernel tells of their end at once, also while MPI_Init waits for them, and without fault
// tolerance too, where mpirun takes a second to end the job. They are the launcher's children, and
// PMIx's variables say which one of which job each is; behind a script in between, nobody is found.
type neighbours struct {
	launcher int    // its process
	job      string // PMIX_NAMESPACE
	own      int    // this process's rank
	pids     []int
	ranks    []int         // by index of pids
	fds      []unix.PollFd // pidfds (pidfd_open(2)), likewise
}

func newNeighbours() neighbours {
	own, err := strconv.Atoi(os.Getenv("PMIX_RANK"))
	if err != nil {
		return neighbours{} // another launcher's
	}
	return neighbours{launcher: os.Getppid(), job: os.Getenv("PMIX_NAMESPACE"), own: own}
}

// find looks for neighbours that have started since. What it may not read is none.
func (n *neighbours) find() {
	if n.job == "" {
		return
	}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", n.launcher)) // the pattern is right
	for _, path := range lists {
		children, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for text := range strings.FieldsSeq(string(children)) {
			pid, err := strconv.Atoi(text)
			if err != nil || slices.Contains(n.pids, pid) {
				continue
			}
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue
			}
			// What is read after the process was opened is its own, not that of another one with
			// its number.
			rank, ok := n.rankOf(pid)
			if !ok || rank == n.own {
				_ = unix.Close(fd)
				continue
			}
			n.pids, n.ranks = append(n.pids, pid), append(n.ranks, rank)
			n.fds = append(n.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		}
	}
}

// rankOf returns which process of the job one is. Before it executes its program it has the
// launcher's environment, and is none.
func (n *neighbours) rankOf(pid int) (rank int, ok bool) {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return 0, false
	}
	job := ""
	for v := range strings.SplitSeq(string(environ), "\x00") {
		if s, found := strings.CutPrefix(v, "PMIX_NAMESPACE="); found {
			job = s
		}
		if s, found := strings.CutPrefix(v, "PMIX_RANK="); found {
			rank, err = strconv.Atoi(s)
			ok = err == nil
		}
	}
	return rank, ok && job == n.job
}

// ended returns the ranks of neighbours that have ended.
func (n *neighbours) ended() (ranks []int) {
	if len(n.fds) == 0 {
		return nil
	}
	if k, err := unix.Poll(n.fds, 0); err != nil || k == 0 {
		return nil // after EINTR it is asked again soon
	}
	for i, fd := range n.fds {
		if fd.Revents != 0 {
			ranks = append(ranks, n.ranks[i])
		}
	}
	slices.Sort(ranks)
	return ranks
}

func (n *neighbours) close() error {
	var err error
	for _, fd := range n.fds {
		err = errors.Join(err, unix.Close(int(fd.Fd)))
	}
	*n = neighbours{}
	return err
}
