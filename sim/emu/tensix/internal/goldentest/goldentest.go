// Package goldentest is shared by the engines' golden tests: pseudorandom operands by case number,
// and files of results.
package goldentest

import (
	"os"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/internal/expect"
)

// Bits is splitmix64, seeded with a case's number.
type Bits uint64

func (s *Bits) Next() uint64 {
	*s += 0x9E3779B97F4A7C15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// Below returns an integer from 0 to n-1.
func (s *Bits) Below(n uint64) uint64 { return s.Next() >> 16 % n }

// Number returns 32 bits of a class: fp32 about 1, of a wide range, tiny, huge, one of specials,
// integers of sign and magnitude (7), or any.
func (s *Bits) Number(class uint64, specials []uint32) uint32 {
	v := uint32(s.Next())
	switch class {
	case 1, 2, 3, 4:
		c := [...][2]uint64{{124, 6}, {100, 56}, {0, 24}, {232, 24}}[class-1]
		return v&0x807FFFFF | uint32(c[0]+s.Below(c[1]))<<23
	case 5:
		return specials[s.Below(uint64(len(specials)))]
	case 7:
		return v&0x80000000 | v>>1>>s.Below(31)
	}
	return v
}

// Compare compares lines with those of a file, or writes the file if it is to be updated.
func Compare(t *testing.T, path string, update bool, got []string) {
	t.Helper()
	if update {
		expect.Must(t, os.WriteFile(path, []byte(strings.Join(got, "\n")+"\n"), 0o644))
		return
	}
	want := expect.Value(os.ReadFile(path))(t)
	expect.NoDiff(t, got, strings.Split(strings.TrimSuffix(string(want), "\n"), "\n"), "differs from ttsim")
}
