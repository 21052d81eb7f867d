package dispatch

import (
	"github.com/reprise-tt/reprise/dispatch/postmortem"
	"github.com/reprise-tt/reprise/dispatch/program"
)

// Names of package program, for users of queues.
type (
	Image          = program.Image
	Program        = program.Program
	Kernel         = program.Kernel
	CoreArgs       = program.CoreArgs
	CircularBuffer = program.CircularBuffer
	Semaphore      = program.Semaphore
	State          = program.State
	Detached       = program.Detached
	Dispatcher     = program.Dispatcher
	Variant        = program.Variant
	CommandSize    = program.CommandSize
	ProgramError   = program.ProgramError
	ArgError       = program.ArgError
)

// Names of package postmortem, which errors and reports of queues have.
type (
	HangError   = postmortem.HangError
	LostError   = postmortem.LostError
	CoreState   = postmortem.CoreState
	KernelError = postmortem.KernelError
	Dump        = postmortem.Dump
)
