package resp

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/front"
	"github.com/causalstore/causalstore/sidecar/value"
)

// databases is the number of databases that SELECT offers, as in Redis by default.
const databases = 16

// The store has one key space. A key of database 0 is stored under its own name; a key of database n under
// databaseMark, n, ":" and the key. A key of database 0 that begins with databaseMark is stored as if 0 were another
// database, so no two keys collide. The prefix has no brace, so the {tag} of a key, and with it what shares a slot, is
// the same in every database.
const databaseMark = '\x01'

var databasePrefixes = func() (prefixes [databases]string) {
	for n := range prefixes {
		prefixes[n] = string(databaseMark) + strconv.Itoa(n) + ":"
	}
	return prefixes
}()

// storageKey returns the name under which a key of a database is stored.
func storageKey(database int, key string) string {
	if database == 0 && (key == "" || key[0] != databaseMark) {
		return key
	}
	return databasePrefixes[database] + key
}

// appendStorageKey appends what storageKey returns.
func appendStorageKey(b []byte, database int, key []byte) []byte {
	if database != 0 || len(key) > 0 && key[0] == databaseMark {
		b = append(b, databasePrefixes[database]...)
	}
	return append(b, key...)
}

// storageKeys is storageKey for several keys. It returns keys itself if all are stored under their own names.
func storageKeys(database int, keys []string) []string {
	for i, key := range keys {
		if stored := storageKey(database, key); len(stored) != len(key) {
			keys = slices.Clone(keys)
			for j := range keys[i:] {
				keys[i+j] = storageKey(database, keys[i+j])
			}
			return keys
		}
	}
	return keys
}

// keyStoredAs is the inverse of storageKey. It returns false for a name under which no key is stored.
func keyStoredAs(name string) (database int, key string, ok bool) {
	if name == "" || name[0] != databaseMark {
		return 0, name, true
	}
	for n, prefix := range databasePrefixes {
		if key, ok := strings.CutPrefix(name, prefix); ok {
			return n, key, storageKey(n, key) == name
		}
	}
	return 0, "", false
}

// databaseSession is the session of a connection as its commands see it: keys are those of the selected database, and
// while EXEC holds all keys of the transaction, its commands lock none themselves.
type databaseSession struct {
	front.Session
	connection *connection
}

func (s databaseSession) stored(key string) string { return storageKey(s.connection.database, key) }

// Get implements front.Session. Strings to which numbers were added are strings, as with MGet.
func (s databaseSession) Get(ctx context.Context, key string) (causal.Value, error) {
	v, err := s.Session.Get(ctx, s.stored(key))
	return value.TextOf(v), err
}

func (s databaseSession) GetRecord(ctx context.Context, key string) (causal.Record, error) {
	return s.Session.GetRecord(ctx, s.stored(key))
}

func (s databaseSession) MGet(ctx context.Context, keys []string) ([]causal.Value, error) {
	values, err := s.Session.MGet(ctx, storageKeys(s.connection.database, keys))
	for i := range values {
		values[i] = value.TextOf(values[i])
	}
	return values, err
}

func (s databaseSession) Put(ctx context.Context, key string, v causal.Value) error {
	return s.Session.Put(ctx, s.stored(key), v)
}

func (s databaseSession) Lock(keys ...string) (unlock func()) {
	return s.connection.lockStored(storageKeys(s.connection.database, keys)...)
}

// lockStored is Lock for the names under which keys are stored.
func (c *connection) lockStored(names ...string) (unlock func()) {
	if c.executing {
		return func() {}
	}
	return c.session.Session.Lock(names...)
}

// SELECT index
func selectDB(c *connection, args [][]byte) error {
	n, err := parseDatabase(args[1])
	if err != nil {
		return err
	}
	c.database = n
	c.out.writeOK()
	return nil
}

// parseDatabase parses the index of a database.
func parseDatabase(arg []byte) (int, error) {
	n, ok := parseInt(arg)
	switch {
	case !ok:
		return 0, errNotInteger
	case n != int64(int32(n)):
		return 0, genericError("value is out of range, value must between -2147483648 and 2147483647")
	case n < 0 || n >= databases:
		return 0, genericError("DB index is out of range")
	}
	return int(n), nil
}
