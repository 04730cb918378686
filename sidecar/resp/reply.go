package resp

import "fmt"

// Reply is an answer as a value, where speed does not matter: nil, string and []byte (bulk strings), Simple, int, int64,
// float64, bool, Array, Map, Set, Verbatim, or *Error, also nested.
type Reply any

// Simple is a status such as OK. It must not hold line breaks.
type Simple string

// Verbatim is a text for people; a plain bulk string in RESP2.
type Verbatim string

// Array is a list of Reply values.
type Array []Reply

// Set is an unordered list of Reply values; an array in RESP2.
type Set []Reply

// Map is keys and values in turn; an array in RESP2.
type Map []Reply

// value writes any Reply.
func (w *writer) value(v Reply) {
	switch v := v.(type) {
	case nil:
		w.null()
	case string:
		w.bulkString(v)
	case []byte:
		w.bulk(v)
	case Simple:
		w.simple(string(v))
	case Verbatim:
		w.verbatim(string(v))
	case int:
		w.integer(int64(v))
	case int64:
		w.integer(v)
	case float64:
		w.double(v)
	case bool:
		w.boolean(v)
	case *Error:
		w.fail(v)
	case Array:
		w.array(len(v))
		w.values(v)
	case Set:
		w.set(len(v))
		w.values(v)
	case Map:
		w.mapping(len(v) / 2)
		w.values(v[:len(v)&^1])
	default:
		// A reply must take its place in the stream, or all that follow would be answers to the wrong command.
		w.fail(plainError(fmt.Sprintf("internal error: a reply of type %T cannot be sent", v)))
	}
}

func (w *writer) values(vs []Reply) {
	for _, v := range vs {
		w.value(v)
	}
}
