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

// neighbours are the other processes of the job on this machine: children of the same launcher,
// whose PMIx variables name their job and rank. The kernel reports their end at once, where mpirun
// takes a second. Behind a script none are found.
type neighbours struct {
	launcher int
	job      string
	own      int
	pids     []int
	ranks    []int
	fds      []unix.PollFd // pidfds (pidfd_open(2)), likewise
}

func newNeighbours() neighbours {
	own, err := strconv.Atoi(os.Getenv("PMIX_RANK"))
	if err != nil {
		return neighbours{}
	}
	return neighbours{launcher: os.Getppid(), job: os.Getenv("PMIX_NAMESPACE"), own: own}
}

func (n *neighbours) find() {
	if n.job == "" {
		return
	}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", n.launcher))
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
			// Read after the process was opened: its number can't have been reused.
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

// Before a process executes its program it has the launcher's environment, and no rank.
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

func (n *neighbours) ended() (ranks []int) {
	if len(n.fds) == 0 {
		return nil
	}
	if k, err := unix.Poll(n.fds, 0); err != nil || k == 0 {
		return nil
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
