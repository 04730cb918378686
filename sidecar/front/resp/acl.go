package resp

import (
	"errors"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/front"
)

// authenticate checks the credentials of AUTH or HELLO.
func (c *connection) authenticate(user, password []byte) error {
	end, err := c.client.Authenticate(user, password, c.out.flush)
	c.in.authenticated = c.client.User() != nil
	c.quitting = c.quitting || end
	if errors.Is(err, front.ErrWrongPassword) {
		return errWrongPass
	}
	return err
}

// userName returns the name of the user that the client is.
func (c *connection) userName() string {
	if u := c.client.User(); u != nil {
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
	for _, u := range c.server.Users().All() {
		names = append(names, u.Name)
	}
	c.out.writeReply(names)
	return nil
}

// ACL LIST: without digests of passwords. In Redis only administrators may see those; here all users are equal, and one
// who has the digest of another can try passwords without this server.
func aclList(c *connection, _ [][]byte) error {
	lines := Array{}
	for _, u := range c.server.Users().All() {
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
