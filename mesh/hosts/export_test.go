package hosts

// Begun reports whether the host has added its own part to the current exchange.
func (n *Node) Begun() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.rounds[n.round]
	if r == nil {
		return false
	}
	_, ok := r.parts[n.c.Rank]
	return ok
}

// given returns the number of parts in the current exchange.
func (n *Node) given() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.rounds[n.round]; r != nil {
		return len(r.parts)
	}
	return 0
}
