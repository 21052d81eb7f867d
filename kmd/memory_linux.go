package kmd

import "golang.org/x/sys/unix"

// keepFromChildren excludes pinned pages from fork, whose copy-on-write would give this process new pages while the
// device keeps the old ones. Go itself never forks without exec, and the advice costs nothing; without it all works.
func keepFromChildren(mem []byte) { _ = unix.Madvise(mem, unix.MADV_DONTFORK) }
