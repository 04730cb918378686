package history

// clock counts, for each lane, the operations in a past. Lanes beyond its end are zero. Lane p is process p; later
// lanes are for writes of unknown outcome.
type clock []int32

func (k clock) at(lane int32) int32 {
	if int(lane) < len(k) {
		return k[lane]
	}
	return 0
}

// clockPool provides clocks for nodes.
type clockPool struct {
	lanes int32
	bufs  []clock
	free  []int32
	of    []int32 // node -> bufs, -1 if it has none
}

func (p *clockPool) reset(nodes, lanes int) {
	p.of = sized(p.of, nodes)
	for i := range p.of {
		p.of[i] = -1
	}
	p.lanes = int32(lanes)
	p.free = p.free[:0]
	for i := range p.bufs {
		p.free = append(p.free, int32(i))
	}
}

func (p *clockPool) clockOf(v int32) clock {
	if i := p.of[v]; i >= 0 {
		return p.bufs[i]
	}
	return nil
}

// give allocates a clock for node v that equals from.
func (p *clockPool) give(v int32, from clock) {
	var i int32
	if n := len(p.free); n > 0 {
		i = p.free[n-1]
		p.free = p.free[:n-1]
	} else {
		i = int32(len(p.bufs))
		p.bufs = append(p.bufs, nil)
	}
	if cap(p.bufs[i]) < int(p.lanes) {
		p.bufs[i] = make(clock, p.lanes, p.lanes+p.lanes/8+2)
	}
	k := p.bufs[i][:p.lanes]
	clear(k[copy(k, from):])
	p.bufs[i] = k
	p.of[v] = i
}

// move transfers the clock of u to v.
func (p *clockPool) move(u, v int32) { p.of[v], p.of[u] = p.of[u], -1 }

func (p *clockPool) drop(v int32) {
	if i := p.of[v]; i >= 0 {
		p.free = append(p.free, i)
		p.of[v] = -1
	}
}

// widen extends v's clock to include lane.
func (p *clockPool) widen(v, lane int32) clock {
	k := p.bufs[p.of[v]]
	for int32(len(k)) <= lane {
		k = append(k, 0)
	}
	p.bufs[p.of[v]] = k
	return k
}

// join adds a past to v's.
func (p *clockPool) join(v int32, past clock) {
	k := p.bufs[p.of[v]]
	if len(past) > len(k) {
		k = p.widen(v, int32(len(past)-1))
	}
	k = k[:len(past)]
	for i, n := range past {
		if n > k[i] {
			k[i] = n
		}
	}
}
