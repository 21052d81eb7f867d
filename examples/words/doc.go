// Package words is a list of English words, divided into words to learn from and words held back,
// and the tokens that a language model of letters reads and writes.
package words
