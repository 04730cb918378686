package redis

import "strings"

// A key is stored in the server under its own name, so that any Redis client can show the data. Names that begin with a
// zero byte are reserved: a key that begins with one is stored under "\x00k" followed by the key. So no key collides
// with the store's own data, which has two names:
const (
	fenceKey = "\x00fence" // a string: the token of the writer, see writer
	metaKey  = "\x00meta"  // a hash: the metadata by name

	escape = "\x00k"
)

// nameOf returns the name under which a key is stored in the server.
func nameOf(key string) string {
	if key != "" && key[0] == 0 {
		return escape + key
	}
	return key
}

// keyOf is the inverse of nameOf. It returns false for a name under which no key is stored.
func keyOf(name string) (string, bool) {
	if name == "" || name[0] != 0 {
		return name, true
	}
	if key, ok := strings.CutPrefix(name, escape); ok && key != "" && key[0] == 0 {
		return key, true
	}
	return "", false
}
