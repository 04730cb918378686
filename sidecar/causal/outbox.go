package causal

// Outbox collects the messages that a machine wants sent.
type Outbox struct {
	out        []Message
	exclusions Exclusions
}

// Send adds a message.
func (o *Outbox) Send(m Message) {
	m.fields.Exclusions = o.exclusions
	o.out = append(o.out, m)
}

// SetExclusions sets what messages say from here on that the machine applies.
func (o *Outbox) SetExclusions(x Exclusions) { o.exclusions = x }

// Take appends the messages to be sent to dst and empties the outbox.
func (o *Outbox) Take(dst []Message) []Message {
	dst = append(dst, o.out...)
	o.out = Recycle(o.out)
	return dst
}

// maxRecycled is the length of the longest array that Recycle keeps.
const maxRecycled = 4096

// Recycle returns s empty and cleared, so that its array can be used again. An array that a peak has made long is given
// up.
func Recycle[T any](s []T) []T {
	if cap(s) > maxRecycled {
		return nil
	}
	clear(s)
	return s[:0]
}
