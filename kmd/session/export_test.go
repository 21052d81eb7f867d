package session

import "time"

// Patience makes a player give up a host that waits after a time.
func Patience(d time.Duration) PlayOption { return func(p *Player) { p.patience = d } }
