package transformer

import (
	"context"
	"errors"
)

// Tokens waits for earlier steps and returns n tokens since the start, from one on. A model with a
// stream keeps none.
func (m *Model) Tokens(ctx context.Context, from, n int) ([]uint8, error) {
	if m.stream != nil {
		return nil, errors.New("transformer: tokens: they went to the model's stream: read them there")
	}
	b := make([]byte, 4*n)
	if err := m.dev.Device().Queue(0).Read(ctx, m.list, 4*from, b); err != nil {
		return nil, err
	}
	tokens := make([]uint8, n)
	for i := range tokens {
		tokens[i] = b[4*i]
	}
	return tokens, nil
}
