package main

import (
	"os"
	"testing"

	"github.com/reprise-tt/reprise/internal/expect"
)

func TestCommittedTablesAreWhatTheirTextsSay(t *testing.T) {
	t.Chdir("../..")
	for _, o := range outputs {
		want, err := o.generated()
		expect.Must(t, err)
		got := expect.Value(os.ReadFile(o.file))(t)
		expect.NoDiff(t, string(got), string(want), "%s is out of date: run go generate in sim/emu/tensix", o.file)
	}
}
