package redis

import "strings"

// In the server, a key is stored under its own name, so that the data can be looked at with any Redis client. Names that
// begin with a zero byte are reserved; a key that does so itself is stored as "\x00k" and the key. So no key can be mistaken
// for the store's own data, which is in two names:
const (
	fenceKey = "\x00fence" // a string: who may write, see writer
	metaKey  = "\x00meta"  // a hash: the metadata by name

	escape = "\x00k"
)

// nameOf returns the name under which a key is stored.
func nameOf(key string) string {
	if key != "" && key[0] == 0 {
		return escape + key
	}
	return key
}

// keyOf is the inverse of nameOf, and false for names that no key has.
func keyOf(name string) (string, bool) {
	if name == "" || name[0] != 0 {
		return name, true
	}
	if key, ok := strings.CutPrefix(name, escape); ok && key != "" && key[0] == 0 {
		return key, true
	}
	return "", false
}
