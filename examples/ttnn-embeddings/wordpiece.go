package main

import (
	"os"
	"strings"
	"unicode"
)

// vocabulary has the number of each word piece; pieces inside of a word begin with ##.
type vocabulary map[string]uint32

func readVocabulary(path string) (vocabulary, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	v := vocabulary{}
	for line := range strings.Lines(string(b)) {
		v[strings.TrimRight(line, "\r\n")] = uint32(len(v))
	}
	return v, nil
}

// pieces returns the numbers of a sentence's pieces, at most n, as the script does: each word is
// the longest piece that it begins with, and then the same of its rest.
func (v vocabulary) pieces(sentence string, n int) []uint32 {
	var spaced strings.Builder
	for _, r := range strings.ToLower(sentence) {
		if unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsSpace(r) {
			spaced.WriteRune(r)
		} else {
			spaced.WriteString(" " + string(r) + " ")
		}
	}
	out := []uint32{v["[CLS]"]}
	for word := range strings.FieldsSeq(spaced.String()) {
		out = append(out, v.word([]rune(word))...)
	}
	return append(out[:min(len(out), n-1)], v["[SEP]"])
}

func (v vocabulary) word(w []rune) (out []uint32) {
	prefix := ""
next:
	for len(w) > 0 {
		for end := len(w); end > 0; end-- {
			if id, ok := v[prefix+string(w[:end])]; ok {
				out, w, prefix = append(out, id), w[end:], "##"
				continue next
			}
		}
		return []uint32{v["[UNK]"]}
	}
	return out
}
