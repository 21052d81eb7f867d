// Package inside is what a virtual machine's first program does: it mounts file systems, loads
// the driver, runs a Job and turns the machine off.
package inside

// JobFile is the machine's Job, as JSON.
const JobFile = "/job.json"

// Job is one program, run with the driver loaded.
type Job struct {
	Module string
	Args   []string
	Env    []string
	Dir    string
	// Share is a folder whose new and changed files are returned; empty for none.
	Share string
	// Busybox is the path of busybox, whose commands are installed beside it; empty for none.
	Busybox string
	// Terminal makes the console the program's terminal. Otherwise its output is the port Output,
	// its errors the console.
	Terminal bool
	// Rows and Columns are the terminal's size, or zero.
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
	ResultError  = "error"  // why the program could not be run
)
