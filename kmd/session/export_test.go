package session

import "time"

func Patience(d time.Duration) PlayOption { return func(p *Player) { p.patience = d } }
