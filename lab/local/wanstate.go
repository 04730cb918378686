package local

// WANState counts what was sent over the emulated WAN since the start.
type WANState struct {
	Messages uint64 `json:"messages"`
	// Bytes is the approximate size of the encoded messages; PayloadBytes is its part for keys and values.
	Bytes        uint64    `json:"bytes"`
	PayloadBytes uint64    `json:"payloadBytes"`
	Kinds        []WANKind `json:"kinds,omitempty"`
	Pairs        []WANPair `json:"pairs,omitempty"`
}

// WANKind is the messages of one kind.
type WANKind struct {
	Kind         string `json:"kind"`
	Messages     uint64 `json:"messages"`
	Bytes        uint64 `json:"bytes"`
	PayloadBytes uint64 `json:"payloadBytes"`
}

// WANPair is the traffic from one data center to another. Pairs without traffic are omitted.
type WANPair struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
}

func (d *Deployment) wanState() WANState {
	var st WANState
	for _, k := range d.net.Stats().WAN {
		st.Messages += k.Messages
		st.Bytes += k.Bytes
		st.PayloadBytes += k.Payload
		st.Kinds = append(st.Kinds, WANKind{k.Kind.String(), k.Messages, k.Bytes, k.Payload})
	}
	if d.wan == nil {
		return st
	}
	for _, p := range d.wan.Stats() {
		if p.Messages > 0 {
			st.Pairs = append(st.Pairs, WANPair{d.topo.DCs[p.From].Name, d.topo.DCs[p.To].Name, p.Messages, p.Bytes})
		}
	}
	return st
}
