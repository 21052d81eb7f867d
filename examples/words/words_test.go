package words_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/examples/words"
	"github.com/reprise-tt/reprise/internal/devtest"
)

func TestListIsSplitOnce(t *testing.T) {
	all, err := words.All()
	devtest.Must(t, err)
	training, heldBack := words.Split(all)
	if len(all) != 63849 || len(training) != 57465 || len(heldBack) != 6384 {
		t.Errorf("%d words, %d for training and %d held back", len(all), len(training), len(heldBack))
	}
	if !slices.IsSorted(all) || !slices.IsSorted(heldBack) {
		t.Error("words out of order")
	}
	both := slices.Concat(training, heldBack)
	if slices.Sort(both); !slices.Equal(both, all) {
		t.Error("the parts aren't the list")
	}
}

func TestTokens(t *testing.T) {
	for _, w := range []string{"a", "zebra", strings.Repeat("x", words.MaxLetters)} {
		tokens, err := words.Encode(w)
		devtest.Must(t, err)
		if got := words.Decode(append(append(tokens, words.End), 3, 4)); !slices.Equal(got, []string{w}) {
			t.Errorf("%q becomes %q", w, got)
		}
	}
	for _, w := range []string{"", "Word", "don't", strings.Repeat("x", words.MaxLetters+1)} {
		if _, err := words.Encode(w); !errors.Is(err, words.ErrWord) {
			t.Errorf("%q: error %v", w, err)
		}
	}
	if got := words.Decode([]uint8{0, 1, 0}); !slices.Equal(got, []string{"", "a"}) {
		t.Errorf("an empty word and another one: %q", got)
	}
}
