//go:build !long && !hours

package effort

const built = quick
