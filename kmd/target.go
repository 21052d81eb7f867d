package kmd

import "github.com/reprise-tt/reprise/internal/seam"

// Target is what Open opens: a device node, an emulated card, or the vendor's simulator. Only this
// module can implement it.
type Target interface {
	Node() seam.Node
	String() string // for errors and reports
}

// Path is the target of a device node such as /dev/tenstorrent/0. Except on Linux opening it fails
// with ErrUnsupportedSystem.
func Path(p string) Target { return pathTarget(p) }

type pathTarget string

func (p pathTarget) Node() seam.Node { return systemNode(p) }

func (p pathTarget) String() string { return string(p) }
