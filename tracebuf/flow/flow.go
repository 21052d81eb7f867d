// Package flow is the control flow of traces. It has the tree that a recorder builds ([Node]), its
// commands ([Encode]), and their one reader ([Read]), which file checks, listings, debuggers,
// timelines and hang reports use.
//
// The commands of a loop's body are the same in every iteration, so a body begins in a state that
// is the same each time: all programs are done, no completion is counted, and the workers have the
// kernels that they had when the loop began.
package flow

import "fmt"

type Kind uint8

const (
	None Kind = iota
	// Reset waits for all programs, resets the workers' launch pointers and clears the completion
	// count, as a replay does before the trace.
	Reset
	// Kernels brings the kernels of a loop's body to the workers.
	Kernels
	// Loop begins a loop: Target is the step after it.
	Loop
	// End ends an iteration: Target is the first step of the body.
	End
	// Branch goes to the step Target unless a condition holds.
	Branch
	Call
	// Args names words of memory as arguments of the program in the next step.
	Args
)

var kindNames = [...]string{"none", "reset", "kernels", "loop", "end of loop", "branch", "call", "arguments"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("control(%d)", uint8(k))
}

// Control is what a step does to the control flow; zero for steps that run programs.
type Control struct {
	Kind    Kind
	Loop    int    // of a Loop, its End and its conditions
	Target  int    // step that a Loop, an End or a Branch goes to; the number of steps for the end
	Count   uint32 // of a Loop, as recorded
	Program int    // in Image.Programs
	Callee  int    // in the Callees
}

func (c *Control) Jumps() bool { return c.Kind == Loop || c.Kind == End || c.Kind == Branch }
