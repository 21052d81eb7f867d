package tracebuf

import "fmt"

// Change says what package optimize changed in a step, and why the trace still does the same.
type Change struct {
	Step int        `json:"step"`
	Kind ChangeKind `json:"kind"`
	What string     `json:"what"` // at most 4096 bytes
}

func (c Change) String() string { return fmt.Sprintf("%v: %s: %s", c.Kind, c.What, c.Kind.Why()) }

// ChangeKind is a kind of change that leaves the effect of a trace as it was.
type ChangeKind uint8

const (
	Joined  ChangeKind = 1 + iota // writes of the same bytes to several cores
	Packed                        // commands that share pages of the dispatcher
	Dropped                       // a command without effect
	Inlined                       // kernels among the commands
)

var kinds = [...]struct{ name, why string }{
	Joined:  {"joined", "every core still gets the same bytes at the same addresses before the same wait or go signal"},
	Packed:  {"packed", "the dispatcher executes the same commands in the same order"},
	Dropped: {"dropped", "it changes neither memory nor what the dispatcher waits for"},
	Inlined: {"inlined", "the bytes are those that the relay would bring"},
}

func (k ChangeKind) String() string { return kinds[k].name }

// MarshalText returns the kind's name.
func (k ChangeKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Why says why such a change is allowed.
func (k ChangeKind) Why() string { return kinds[k].why }
