package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommittedTablesAreWhatTheirTextsSay(t *testing.T) {
	t.Chdir("../..")
	for _, o := range outputs {
		want, err := o.generated()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(o.file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is out of date: run go generate in sim/emu/tensix (-want +got):\n%s", o.file, diff)
		}
	}
}
