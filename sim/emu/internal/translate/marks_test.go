package translate

import "testing"

// Marks are of single instructions.
func TestMarks(t *testing.T) {
	var m Marks
	for _, i := range []int{0, 63, 64, pageOps - 1} {
		m.Set(i)
	}
	m.Clear(48, 16)
	for i := range pageOps {
		if want := i == 0 || i == 64 || i == pageOps-1; m.Has(i) != want {
			t.Errorf("instruction %d is among them: %v", i, m.Has(i))
		}
	}
}
