package resp

import "fmt"

// Reply is a reply as a Go value, for commands where speed does not matter. It is a string or []byte (both sent as bulk
// strings), SimpleString, int, int64, nil for null, or an Array, Map or Set of Replies.
type Reply any

// SimpleString is a status such as OK. It must not contain line breaks.
type SimpleString string

// Array is a list of Replies.
type Array []Reply

// Set is an unordered list of Replies. RESP2 sends it as an array.
type Set []Reply

// Map is a list of alternating keys and values. RESP2 sends it as an array.
type Map []Reply

// writeReply writes a Reply of any type.
func (w *writer) writeReply(v Reply) {
	switch v := v.(type) {
	case nil:
		w.writeNull()
	case string:
		w.writeBulkString(v)
	case []byte:
		w.writeBulk(v)
	case SimpleString:
		w.writeSimple(string(v))
	case int:
		w.writeInteger(int64(v))
	case int64:
		w.writeInteger(v)
	case Array:
		w.writeArrayHeader(len(v))
		w.writeReplies(v)
	case Set:
		w.writeSetHeader(len(v))
		w.writeReplies(v)
	case Map:
		w.writeMapHeader(len(v) / 2)
		w.writeReplies(v[:len(v)&^1])
	default:
		// Something must be written, or every following reply would answer the wrong command.
		w.writeError(genericError(fmt.Sprintf("internal error: cannot encode a reply of type %T", v)))
	}
}

func (w *writer) writeReplies(vs []Reply) {
	for _, v := range vs {
		w.writeReply(v)
	}
}
