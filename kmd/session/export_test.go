package session

import "time"

func (p *Player) SetPatience(d time.Duration) { p.patience = d }
