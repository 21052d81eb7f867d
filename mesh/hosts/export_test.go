package hosts

// Begun says whether the host has given its own part of an exchange that isn't over.
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

// given returns how many parts have come of the exchange that isn't over.
func (n *Node) given() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.rounds[n.round]; r != nil {
		return len(r.parts)
	}
	return 0
}
