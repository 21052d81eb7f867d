//go:build hours

package effort

const level = forHours
