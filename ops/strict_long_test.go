//go:build long

package ops_test

// strictSeeds is the number of seeds that TestStrict runs on each architecture. long says that this is a long run, in which tests go on
// after a failure and leave nothing out.
const (
	strictSeeds = 1000
	long        = true
)
