package causal

// Outbox collects the messages that a machine wants sent.
type Outbox struct{ out []Message }

// Send adds a message.
func (o *Outbox) Send(m Message) { o.out = append(o.out, m) }

// Take appends the messages to be sent to dst and empties the outbox.
func (o *Outbox) Take(dst []Message) []Message {
	dst = append(dst, o.out...)
	clear(o.out)
	o.out = o.out[:0]
	return dst
}
