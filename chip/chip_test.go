package chip

import (
	"errors"
	"testing"
)

func mustNew(t testing.TB, a Arch, h Harvesting) *Chip {
	t.Helper()
	c, err := New(a, h)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTranslateFull(t *testing.T) {
	for _, tc := range []struct {
		a    Arch
		n    NOC
		v    XY
		want XY
	}{
		{Wormhole, NOC0, XY{18, 18}, XY{1, 1}},
		{Wormhole, NOC1, XY{18, 18}, XY{1, 1}},
		{Wormhole, NOC0, XY{25, 27}, XY{9, 11}},
		{Wormhole, NOC1, XY{25, 27}, XY{9, 11}},
		{Wormhole, NOC0, XY{22, 23}, XY{6, 7}},
		{Wormhole, NOC0, XY{16, 16}, XY{0, 0}},
		{Wormhole, NOC0, XY{17, 17}, XY{5, 6}},
		{Wormhole, NOC0, XY{18, 17}, XY{1, 6}},
		{Wormhole, NOC0, XY{0, 3}, XY{0, 3}},
		{Wormhole, NOC1, XY{9, 8}, XY{0, 3}},
		{Wormhole, NOC1, XY{0, 0}, XY{9, 11}},
		{Wormhole, NOC1, XY{18, 0}, XY{1, 11}},
		{Blackhole, NOC0, XY{1, 2}, XY{1, 2}},
		{Blackhole, NOC1, XY{16, 11}, XY{16, 11}},
		{Blackhole, NOC0, XY{8, 0}, XY{8, 0}},
		{Blackhole, NOC1, XY{8, 0}, XY{8, 0}},
		{Blackhole, NOC0, XY{15, 0}, XY{15, 0}},
		{Blackhole, NOC1, XY{15, 0}, XY{1, 0}},
		{Blackhole, NOC1, XY{0, 1}, XY{16, 1}},
		{Blackhole, NOC1, XY{8, 10}, XY{8, 10}},
		{Blackhole, NOC0, XY{19, 24}, XY{2, 0}},
		{Blackhole, NOC0, XY{20, 25}, XY{1, 1}},
		{Blackhole, NOC0, XY{21, 25}, XY{16, 1}},
		{Blackhole, NOC0, XY{17, 12}, XY{0, 0}},
		{Blackhole, NOC0, XY{17, 14}, XY{0, 11}},
		{Blackhole, NOC0, XY{17, 16}, XY{0, 10}},
		{Blackhole, NOC0, XY{17, 18}, XY{0, 9}},
		{Blackhole, NOC0, XY{18, 23}, XY{9, 6}},
	} {
		got, err := mustNew(t, tc.a, Harvesting{}).Translate(tc.n, tc.v)
		if err != nil || got != tc.want {
			t.Errorf("%s %s %s: got %s, %v, want %s", tc.a, tc.n, tc.v, got, err, tc.want)
		}
	}
}

func TestTranslateRefuses(t *testing.T) {
	for _, tc := range []struct {
		a Arch
		n NOC
		v XY
	}{
		{Wormhole, NOC0, XY{10, 0}}, {Wormhole, NOC0, XY{26, 18}}, {Wormhole, NOC0, XY{18, 28}},
		{Wormhole, NOC0, XY{63, 63}}, {Wormhole, 2, XY{1, 1}}, {Wormhole, NOC1, XY{0, 12}},
		{Blackhole, NOC0, XY{0, 2}}, {Blackhole, NOC0, XY{9, 11}}, {Blackhole, NOC0, XY{17, 1}},
		{Blackhole, NOC0, XY{17, 24}}, {Blackhole, NOC0, XY{19, 12}}, {Blackhole, NOC0, XY{19, 25}},
	} {
		got, err := mustNew(t, tc.a, Harvesting{}).Translate(tc.n, tc.v)
		var ce *CoordinateError
		if !errors.As(err, &ce) || !errors.Is(err, ErrCoordinate) {
			t.Errorf("%s %s %s: got %s, %v, want a *CoordinateError", tc.a, tc.n, tc.v, got, err)
		}
	}
}

// equal fails the test unless got is want, and formats what it is.
func equal[V comparable](t testing.TB, got, want V, what string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf(what+": %#v, want %#v", append(args, got, want)...)
	}
}
