// Package inside is what the first program of a virtual machine does before and after its real
// work: it mounts the file systems, loads the driver and turns the machine off. Main runs a Job,
// for programs that package hwtest/vm starts in a machine.
package inside

// JobFile is the path of the machine's Job, as JSON.
const JobFile = "/job.json"

// Job is one program, run with the driver loaded.
type Job struct {
	// Module is the driver's path in the machine.
	Module string
	// Args are the program's path in the machine and its arguments.
	Args []string
	// Env is the program's environment.
	Env []string
	// Dir is the program's working directory.
	Dir string
	// Share is a folder of which new and changed files are returned; empty for none.
	Share string
	// Busybox is the path of busybox, whose commands are installed in its folder; empty if the
	// machine has none.
	Busybox string
	// Terminal makes the console the program's terminal. Otherwise its standard output is the port
	// Output, its standard error the console, and its input is empty.
	Terminal bool
	// Rows and Columns are the size of the terminal, zero if it isn't known.
	Rows, Columns uint16
}

// Serial ports of the machine.
const (
	Console = "/dev/ttyS0" // the kernel's messages, the program's errors or its terminal
	Output  = "/dev/ttyS1" // the program's standard output
	Results = "/dev/ttyS2" // a tar archive: files below ResultShare, and ResultStatus at last
)

// Names in the archive of results.
const (
	ResultShare  = "share/"
	ResultStatus = "status" // the program's exit status in decimal
	ResultError  = "error"  // instead of ResultStatus: why the program could not be run
)
