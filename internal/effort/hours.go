//go:build hours

package effort

const built = forHours
