package words_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/examples/words"
	"github.com/reprise-tt/reprise/internal/expect"
)

func TestListIsSplitOnce(t *testing.T) {
	all := expect.Value(words.All())(t)
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
		tokens := expect.Value(words.Encode(w))(t)
		expect.NoDiff(t, words.Decode(append(append(tokens, words.End), 3, 4)), []string{w}, "%q becomes", w)
	}
	for _, w := range []string{"", "Word", "don't", strings.Repeat("x", words.MaxLetters+1)} {
		expect.Fails(t, expect.ErrOf(words.Encode(w)), words.ErrWord, "%q: error", w)
	}
	expect.NoDiff(t, words.Decode([]uint8{0, 1, 0}), []string{"", "a"}, "an empty word and another one")
}
