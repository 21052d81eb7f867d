package topology

import "errors"

// ErrMixed is returned for devices of different architectures, which no link joins.
var ErrMixed = errors.New("devices of different architectures")
