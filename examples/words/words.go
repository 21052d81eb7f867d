package words

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed" // the list is part of the package
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/examples/internal/rng"
)

//go:embed data/words.txt.gz
var listFile []byte

// Tokens is the number of tokens: End and the letters a to z, which are 1 to 26.
const Tokens = 27

// End is the token after the last letter of a word, and the one before the first letter.
const End = 0

// MaxLetters is the length of the longest word of a model, which has 32 positions with the End
// before.
const MaxLetters = 31

// ErrWord is in errors about words without letters, with other characters than a to z, or longer
// than MaxLetters.
var ErrWord = errors.New("not a word")

// All returns the 63,849 words of the embedded list, in alphabetical order (credit:
// data/README.md).
func All() ([]string, error) {
	z, err := gzip.NewReader(bytes.NewReader(listFile))
	if err != nil {
		return nil, fmt.Errorf("words: read list: %w", err)
	}
	var all []string
	s := bufio.NewScanner(z)
	for s.Scan() {
		if _, err := Encode(s.Text()); err != nil {
			return nil, err
		}
		all = append(all, s.Text())
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("words: read list: %w", err)
	}
	return all, nil
}

// Split divides words into those a model is trained on and those held back: one in ten, the same on
// every machine.
func Split(words []string) (training, heldBack []string) {
	order := make([]int, len(words))
	for i := range order {
		order[i] = i
	}
	src := rng.Source(0x5EED_0D19)
	src.Shuffle(order)
	return rng.Split(words, order[:len(order)/10])
}

// Encode returns the tokens of a word's letters. The error wraps [ErrWord].
func Encode(word string) ([]uint8, error) {
	if len(word) < 1 || len(word) > MaxLetters {
		return nil, fmt.Errorf("words: encode %q: %w: %d letters, want 1 to %d", word, ErrWord, len(word), MaxLetters)
	}
	tokens := []uint8(word)
	for i, c := range tokens {
		if c < 'a' || c > 'z' {
			return nil, fmt.Errorf("words: encode %q: %w: character %q, want a to z", word, ErrWord, c)
		}
		tokens[i] = c - 'a' + 1
	}
	return tokens, nil
}

// Letter returns the letter of a token from 1 to 26.
func Letter(token uint8) byte { return 'a' - 1 + token }

// Decode returns the words in a sequence of tokens, each ended by End.
func Decode(tokens []uint8) []string {
	var words []string
	var word []byte
	for _, t := range tokens {
		if t == End {
			words, word = append(words, string(word)), word[:0]
			continue
		}
		word = append(word, Letter(t))
	}
	return words
}
