package front

import (
	"crypto/subtle"

	"github.com/causalstore/causalstore/contract"
)

// Users are those whom clients may authenticate as. They do not change.
type Users struct {
	all    []contract.User
	byName map[string]*contract.User
}

// newUsers returns users. Without any (nil), every client is the default user.
func newUsers(users []contract.User) *Users {
	if users == nil {
		users = []contract.User{{Name: contract.DefaultUser, NoPass: true}}
	}
	t := &Users{all: users, byName: make(map[string]*contract.User, len(users))}
	for i := range users {
		t.byName[users[i].Name] = &users[i]
	}
	return t
}

// All returns the users in the order of their file.
func (t *Users) All() []contract.User { return t.all }

// AtStart returns the user that clients are before they authenticate, or nil.
func (t *Users) AtStart() *contract.User {
	if u := t.usable(contract.DefaultUser); u != nil && u.NoPass {
		return u
	}
	return nil
}

// usable returns a user that may connect, or nil.
func (t *Users) usable(name string) *contract.User {
	if u := t.byName[name]; u != nil && !u.Off {
		return u
	}
	return nil
}

// match returns the user with a name and password, or nil. It compares digests in constant time, so that timing reveals
// nothing about passwords.
func (t *Users) match(name, password []byte) *contract.User {
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

// Users returns the present users.
func (s *Server) Users() *Users { return s.users.Load() }

// SetUsers replaces the users, while clients are connected. It closes the connections of users that do not exist any
// more or are off. As in Redis, those of a user whose password has changed stay. Without users (nil), every client is
// accepted.
func (s *Server) SetUsers(users []contract.User) {
	t := newUsers(users)
	s.users.Store(t) // before the look at the connections: see login
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.connections {
		if u := c.user.Load(); u != nil && t.usable(u.Name) == nil {
			s.options.Logger.Info("closing the connection of a user that may not connect any more", "client",
				c.Socket.RemoteAddr(), "user", u.Name)
			c.Abort()
		}
	}
}

// User returns the user that the client is, or nil if it has to authenticate first.
func (c *Client) User() *contract.User { return c.user.Load() }

// login makes the client a user. It returns false if the user has gone meanwhile: SetUsers may have looked at the
// connection before it had this user.
func (c *Client) login(u *contract.User) bool {
	c.user.Store(u)
	if u != nil && c.server.Users().usable(u.Name) == nil {
		u = nil
		c.user.Store(nil)
	}
	return u != nil
}

// Logout makes the client who it was when it connected.
func (c *Client) Logout() { c.login(c.server.Users().AtStart()) }
