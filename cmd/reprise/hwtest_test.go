package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/hwtest"
)

// A failure is told where it happens, with the fact and what was found, and again behind the table.
func TestSuiteText(t *testing.T) {
	bad := hwtest.Result{Device: "dev", Layer: "cq", Name: "a write", Protects: "bytes arrive", Outcome: hwtest.Fail, Seconds: 1.5, Log: []string{"x.go:1: wrong\nvery"}}
	var b bytes.Buffer
	printResult(&b, bad)
	if want := "fail     1.500s  dev  cq/a write\n      protects: bytes arrive\n      x.go:1: wrong\n        very\n"; b.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", &b, want)
	}
	rep := hwtest.Report{Seconds: 4}
	rep.Add(hwtest.Result{Device: "dev", Layer: "kmd", Name: "identity", Outcome: hwtest.Pass, Seconds: 1})
	rep.Add(bad)
	rep.Add(hwtest.Result{Device: "dev", Layer: "cq", Name: "other", Outcome: hwtest.Skip, Reason: "needs more"})
	b.Reset()
	if err := printSuite(&b, &rep); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"dev     kmd    1       0       0        1.0 s\n",
		"dev     cq     0       1       1        1.5 s\n",
		"        all    1       1       1        4.0 s\n",
		"\nfailed: dev cq/a write\n  protects: bytes arrive\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, &b)
		}
	}
}
