package causal

// outbox collects the messages that a machine wants sent.
type outbox struct{ out []Message }

func (o *outbox) send(m Message) { o.out = append(o.out, m) }

// Take appends the messages to be sent to dst and empties the outbox.
func (o *outbox) Take(dst []Message) []Message {
	dst = append(dst, o.out...)
	clear(o.out)
	o.out = o.out[:0]
	return dst
}
