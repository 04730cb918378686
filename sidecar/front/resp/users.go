package resp

import (
	"crypto/subtle"

	"github.com/causalstore/causalstore/contract"
)

// userTable is the users that clients may authenticate as. It does not change.
type userTable struct {
	all    []contract.User
	byName map[string]*contract.User
}

// newUserTable returns a table. Without users, every client is the default user.
func newUserTable(users []contract.User) *userTable {
	if users == nil {
		users = []contract.User{{Name: contract.DefaultUser, NoPass: true}}
	}
	t := &userTable{all: users, byName: make(map[string]*contract.User, len(users))}
	for i := range users {
		t.byName[users[i].Name] = &users[i]
	}
	return t
}

// usable returns a user that may connect, or nil.
func (t *userTable) usable(name string) *contract.User {
	if u := t.byName[name]; u != nil && !u.Off {
		return u
	}
	return nil
}

// atStart returns the user that clients are before they authenticate, or nil.
func (t *userTable) atStart() *contract.User {
	if u := t.usable(contract.DefaultUser); u != nil && u.NoPass {
		return u
	}
	return nil
}

// match returns the user with a name and password, or nil. It compares digests in constant time, so that timing reveals
// nothing about passwords.
func (t *userTable) match(name, password []byte) *contract.User {
	got := contract.HashPassword(password)
	u := t.usable(string(name))
	if u == nil {
		return nil
	}
	if u.NoPass {
		return u
	}
	matches := 0
	for i := range u.Passwords {
		matches |= subtle.ConstantTimeCompare(got[:], u.Passwords[i][:])
	}
	if matches == 0 {
		return nil
	}
	return u
}

// SetUsers replaces the users, while clients are connected. It closes the connections of users that do not exist any
// more or are off. As in Redis, those of a user whose password has changed stay. Without users (nil), every client is
// accepted.
func (s *Server) SetUsers(users []contract.User) {
	t := newUserTable(users)
	s.users.Store(t) // before the look at the connections: see login
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.connections {
		if u := c.user.Load(); u != nil && t.usable(u.Name) == nil {
			s.options.Logger.Info("closing the connection of a user that may not connect any more", "client",
				c.socket.RemoteAddr(), "user", u.Name)
			c.abort()
		}
	}
}

// login makes the client a user. It returns false if the user has gone meanwhile: SetUsers may have looked at the
// connection before it had this user.
func (c *connection) login(u *contract.User) bool {
	c.user.Store(u)
	if u != nil && c.server.users.Load().usable(u.Name) == nil {
		u = nil
		c.user.Store(nil)
	}
	c.in.authenticated = u != nil
	return u != nil
}

// userName returns the name of the user that the client is.
func (c *connection) userName() string {
	if u := c.user.Load(); u != nil {
		return u.Name
	}
	return contract.DefaultUser
}

// ACL WHOAMI
func aclWhoAmI(c *connection, _ [][]byte) error {
	c.out.writeBulkString(c.userName())
	return nil
}

// ACL USERS
func aclUsers(c *connection, _ [][]byte) error {
	names := Array{}
	for _, u := range c.server.users.Load().all {
		names = append(names, u.Name)
	}
	c.out.writeReply(names)
	return nil
}

// ACL LIST: without digests of passwords. In Redis only administrators may see those; here all users are equal, and one
// who has the digest of another can try passwords without this server.
func aclList(c *connection, _ [][]byte) error {
	lines := Array{}
	for _, u := range c.server.users.Load().all {
		lines = append(lines, u.String())
	}
	c.out.writeReply(lines)
	return nil
}

// ACL HELP
func aclHelp(c *connection, _ [][]byte) error {
	c.writeHelp("ACL",
		"LIST", "    Show the users as in the file of users, without passwords.",
		"USERS", "    List all the users.",
		"WHOAMI", "    Return the current connection's user.")
	return nil
}
