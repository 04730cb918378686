package causal

import (
	"time"

	"github.com/causalstore/causalstore/topology"
)

// WaitRenewal is how often a sidecar says that a client still waits.
const WaitRenewal = 2 * time.Second

// HomeWait tells the home of a key that a client waits until there is something in it (PROTOCOL HOW). It is sent when
// the client begins to wait, when it has looked, again and again while it waits, and when it waits no more. The home
// answers each but the last with a HomeWake.
type HomeWait struct {
	// ID is that of the wait, unique at the sidecar. A client may wait for several keys, at several homes.
	ID  uint64
	Key string
	// AgeMs is for how long the client has waited, in ms.
	AgeMs uint64
	// Looked is the News of a HomeWake after which the client has found nothing; 0: it has not looked.
	Looked HLC
	// Ended says that the client waits no more.
	Ended bool
}

// Message returns w as a message.
func (w HomeWait) Message(from, to topology.Node) Message {
	return bodyMessage(KindHomeWait, from, to, &w)
}

// HomeWait returns the content of a message of KindHomeWait.
func (m *Message) HomeWait() HomeWait { return bodyOf[HomeWait](m) }

func (w *HomeWait) key() string { return w.Key }

// Visit implements Body.
func (w *HomeWait) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything}, &w.ID)
	v.Text(BodyField{Number: 2, Name: "key", rule: anything}, &w.Key)
	visitNumber(v, BodyField{Number: 3, Name: "age_ms", rule: anything}, &w.AgeMs)
	v.Time(BodyField{Number: 4, Name: "looked", rule: anything}, &w.Looked)
	v.Flag(BodyField{Number: 5, Name: "ended", rule: anything}, &w.Ended)
}

// HomeWake answers a HomeWait, or tells a sidecar later that it is a client's turn to look at a key.
type HomeWake struct {
	ID  uint64
	Key string
	// News, if it is not 0, says that it is the client's turn, and stands for all that was published of the key so far.
	// It is greater the more that is, also after the home has started again.
	News HLC
	Err  ErrCode
}

// Message returns w as a message.
func (w HomeWake) Message(from, to topology.Node) Message {
	return bodyMessage(KindHomeWake, from, to, &w)
}

// HomeWake returns the content of a message of KindHomeWake.
func (m *Message) HomeWake() HomeWake { return bodyOf[HomeWake](m) }

func (w *HomeWake) key() string { return w.Key }

// Visit implements Body.
func (w *HomeWake) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything}, &w.ID)
	v.Text(BodyField{Number: 2, Name: "key", rule: anything}, &w.Key)
	v.Time(BodyField{Number: 3, Name: "news", rule: anything}, &w.News)
	visitNumber(v, BodyField{Number: 4, Name: "err", rule: knownErr}, &w.Err)
}
