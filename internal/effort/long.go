//go:build long && !hours

package effort

const level = long
