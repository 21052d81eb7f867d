//go:build !purego

package arith

import (
	"reflect"
	"testing"

	"github.com/reprise-tt/reprise/internal/expect"
)

func offsets(t reflect.Type, at uintptr, m map[string]uintptr) map[string]uintptr {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			offsets(f.Type, at+f.Offset, m)
		} else if f.Name != "_" {
			m[f.Name] = at + f.Offset
		}
	}
	return m
}

func TestTheAssemblyKnowsTheLayoutOfItsOperands(t *testing.T) {
	for _, c := range []struct {
		v    any
		want map[string]uintptr
	}{
		{MatrixA{}, map[string]uintptr{"exponent": 0, "factor": 512}},
		{RowB{}, map[string]uintptr{"exponent": 0, "factor": 64}},
		{pairKernel{}, map[string]uintptr{
			"bias": 76, "least": 4, "exponentMask": 8, "mantissaMask": 12, "roundAdd": 16, "roundMask": 20, "drop": 24, "limit": 32,
			"quirk": 36, "point": 40, "c152": 44, "c253": 48,
			"maskA": 56, "maskB": 60, "flip": 64, "keep": 68, "zero": 72, "shift": 80, "bits": 96, "lead": 104, "rebias": 112,
		}},
		{factorKernel{}, map[string]uintptr{
			"mask": 0, "upperShift": 8, "lowerShift": 16, "upperBits": 24, "lowerBits": 28, "lead": 32, "zero": 36,
		}},
		{fmaKernel{}, map[string]uintptr{"flipX": 0, "flipZ": 4, "signed": 8, "sticky": 12}},
	} {
		typ := reflect.TypeOf(c.v)
		expect.NoDiff(t, offsets(typ, 0, map[string]uintptr{}), c.want, "%v", typ)
	}
	if got := reflect.TypeFor[RowB]().Size(); got != 192 {
		t.Errorf("a RowB has %d bytes, the assembly steps by 192", got)
	}
}
